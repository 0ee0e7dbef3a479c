//! Measured flow, and what it says about waiting times.
