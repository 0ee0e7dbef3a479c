//! The adaptive limit that follows the shop's measured health.
