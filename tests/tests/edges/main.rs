//! The same verdict on every edge: the vectors of conformance, on everything that can run an edge.

mod native;
