//! The draw: the shuffle of the arrivals that came before its closing time.
