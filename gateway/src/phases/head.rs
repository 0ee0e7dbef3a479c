//! What is wrong with an HTTP/1 request head that Pingora lets pass.
//!
//! Pingora reads heads leniently and forwards what it understood. A shop may read the same bytes otherwise, and then the
//! two disagree about where a request ends or what it asks for (RFC 9112, section 11.2). So the bytes themselves are
//! looked at: what has two readings is refused.

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Malformed {
    /// A bare CR or LF (RFC 9112, section 2.2).
    #[error("a line ends in something else than CR LF")]
    LineEnding,
    /// The target has a fragment (RFC 9112, section 3.2).
    #[error("the target has a fragment")]
    Fragment,
    /// More than one header line, or none that is sound, says where the body ends (RFC 9112, section 6).
    #[error("the length of the body is in doubt")]
    Framing,
}

/// Checks the bytes of a head, from the request line to the blank line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(head: &[u8]) -> Result<(), Malformed> {
    let mut framed = false;
    for (number, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed::LineEnding)?;
        if line.contains(&b'\r') {
            return Err(Malformed::LineEnding);
        }
        if number == 0 {
            if line.contains(&b'#') {
                return Err(Malformed::Fragment);
            }
            continue;
        }
        let Some((name, value)) =
            line.iter().position(|byte| *byte == b':').map(|colon| line.split_at(colon))
        else {
            continue;
        };
        let sound: fn(&[u8]) -> bool = if name.eq_ignore_ascii_case(b"content-length") {
            |value| (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            |value| value.eq_ignore_ascii_case(b"chunked")
        } else {
            continue;
        };
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
        if framed || !sound(value) {
            return Err(Malformed::Framing);
        }
        framed = true;
    }
    Ok(())
}
