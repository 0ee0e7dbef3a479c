//! Whole-system tests: real processes, real sockets, a real browser.
