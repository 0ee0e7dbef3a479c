#![no_std]
//! Ropeline's signed tokens: JWS profile, claims, key sets and their verification, without std.
