//! How records are written, wherever they are kept.

use ropeline_queue::{Arrival, JoinRecord, VisitorKey};

/// Visitor key (16), Unix seconds of the join as u32 little-endian (4).
pub(crate) const JOIN_BYTES: usize = 20;

/// Writes a join into its [`JOIN_BYTES`].
pub(crate) fn write_join(bytes: &mut [u8], join: &JoinRecord) {
    bytes[..16].copy_from_slice(&join.visitor.0);
    bytes[16..].copy_from_slice(&join.joined_at.to_le_bytes());
}

/// Reads a join from its [`JOIN_BYTES`].
pub(crate) fn read_join(arrival: Arrival, bytes: &[u8]) -> JoinRecord {
    let (mut visitor, mut joined_at) = ([0; 16], [0; 4]);
    visitor.copy_from_slice(&bytes[..16]);
    joined_at.copy_from_slice(&bytes[16..]);
    JoinRecord { arrival, visitor: VisitorKey(visitor), joined_at: u32::from_le_bytes(joined_at) }
}
