//! The queue of a sale as a pure state machine: arrivals, draw, calling, pacing, ETA.
