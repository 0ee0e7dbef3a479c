#![no_std]
//! Whether a request goes forward, waits or is refused: pure, the same in the gateway and on every edge.
