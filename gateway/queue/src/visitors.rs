//! Which visitor holds which arrival, in at most 32 bytes each.
