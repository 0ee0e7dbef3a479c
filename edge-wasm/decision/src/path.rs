//! The path of a request, in one spelling.
//!
//! A path has many spellings that one shop or another takes for the same: escapes, dot segments, repeated slashes,
//! parameters after a semicolon. [`normalise`] leaves one of them, which is what is matched and what is forwarded: gate
//! and shop never read two different paths. What servers are known to disagree about is refused.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

#[cfg(test)]
pub(crate) mod tests;

/// Why a target is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// Not an origin-form target (RFC 9112, section 3.2.1) of visible ASCII.
    #[error("the target is not a path")]
    Invalid,
    /// Servers disagree about what this path names.
    #[error("the path can be read in more than one way")]
    Ambiguous,
}

/// A path in one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a> {
    /// To forward: no dot segments, no repeated slashes, escapes in upper case and only where they are needed
    /// (RFC 3986, section 6.2.2).
    pub canonical: Cow<'a, str>,
    /// To match: escapes resolved, parameters and the last slash cut off. Empty for the root.
    pub plain: Cow<'a, str>,
    /// Whether a segment had parameters (`;…`).
    pub parameters: bool,
}

/// The path of an origin-form target and its query, the question mark excluded.
#[must_use]
pub fn split_query(target: &str) -> (&str, Option<&str>) {
    match target.bytes().position(|byte| byte == b'?') {
        None => (target, None),
        Some(at) => (target.get(..at).unwrap_or_default(), target.get(at + 1..)),
    }
}

/// Brings a path into one spelling. `path` is the target up to the question mark.
///
/// # Errors
/// [`PathError::Ambiguous`] for an encoded slash or backslash, a backslash, an encoded control character, an escape that
/// is none or that hides another escape, bytes that are not UTF-8 (overlong forms included), and dot segments with
/// parameters. [`PathError::Invalid`] for what is no path at all.
pub fn normalise(path: &str) -> Result<Path<'_>, PathError> {
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(PathError::Invalid);
    }
    if is_canonical(path) {
        return Ok(Path {
            canonical: Cow::Borrowed(path),
            plain: Cow::Borrowed(path.strip_suffix('/').unwrap_or(path)),
            parameters: false,
        });
    }

    let mut segments: Vec<Segment> = Vec::new();
    let mut directory = true;
    for raw in path.as_bytes().split(|byte| *byte == b'/') {
        let segment = Segment::read(raw)?;
        match segment.name() {
            "." | ".." if segment.has_parameters() => return Err(PathError::Ambiguous),
            "" if segment.has_parameters() => return Err(PathError::Ambiguous),
            "" | "." => directory = true,
            ".." => {
                segments.pop();
                directory = true;
            }
            _ => {
                segments.push(segment);
                directory = false;
            }
        }
    }

    let (mut canonical, mut plain, mut parameters) = (String::new(), String::new(), false);
    for segment in &segments {
        canonical.push('/');
        canonical.push_str(&segment.canonical);
        plain.push('/');
        plain.push_str(segment.name());
        parameters |= segment.has_parameters();
    }
    if directory {
        canonical.push('/');
    }
    let canonical = if canonical == path { Cow::Borrowed(path) } else { Cow::Owned(canonical) };
    Ok(Path { canonical, plain: Cow::Owned(plain), parameters })
}

/// Whether a path is its own only spelling: the common case, which costs no allocation.
fn is_canonical(path: &str) -> bool {
    let mut previous = 0;
    for byte in path.bytes() {
        // A segment that starts with a dot may be a dot segment; the long way tells.
        if matches!(byte, b'%' | b';' | b'\\') || previous == b'/' && matches!(byte, b'/' | b'.') {
            return false;
        }
        previous = byte;
    }
    true
}

struct Segment {
    canonical: String,
    decoded: String,
}

impl Segment {
    fn read(raw: &[u8]) -> Result<Self, PathError> {
        let mut canonical = String::new();
        let mut decoded = Vec::new();
        let mut rest = raw;
        while let Some((&first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'\\' => return Err(PathError::Ambiguous),
                b'%' => {
                    let (byte, after) = escape(after).ok_or(PathError::Ambiguous)?;
                    if matches!(byte, b'/' | b'\\') {
                        return Err(PathError::Ambiguous);
                    }
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                        canonical.push(char::from(byte));
                    } else {
                        canonical.push('%');
                        canonical
                            .extend(rest.iter().take(2).map(|digit| char::from(digit.to_ascii_uppercase())));
                    }
                    decoded.push(byte);
                    rest = after;
                }
                _ => {
                    canonical.push(char::from(first));
                    decoded.push(first);
                }
            }
        }
        let decoded = String::from_utf8(decoded).map_err(|_| PathError::Ambiguous)?;
        // A percent sign before two digits is an escape again to whoever decodes twice.
        let hides_escape = decoded.as_bytes().windows(3).any(
            |three| matches!(three, [b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()),
        );
        if hides_escape || decoded.chars().any(char::is_control) {
            return Err(PathError::Ambiguous);
        }
        Ok(Self { canonical, decoded })
    }

    /// The segment without its parameters.
    fn name(&self) -> &str {
        let end = self.decoded.bytes().position(|byte| byte == b';');
        end.and_then(|end| self.decoded.get(..end)).unwrap_or(&self.decoded)
    }

    fn has_parameters(&self) -> bool {
        self.name().len() < self.decoded.len()
    }
}

/// The byte of the two digits at the front, and what follows them.
fn escape(digits: &[u8]) -> Option<(u8, &[u8])> {
    let (pair, rest) = digits.split_at_checked(2)?;
    let digit = |index: usize| pair.get(index).and_then(|byte| char::from(*byte).to_digit(16));
    let byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    Some((byte, rest))
}

/// A [`Path::plain`] as it may stand in a target.
pub(crate) fn escaped(plain: &str) -> String {
    let mut text = String::new();
    for byte in plain.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => text.push(char::from(byte)),
            // Of the rest, what a segment may hold (RFC 3986, section 3.3), and the slashes between.
            _ if b"-._~!$&'()*+,=:@/".contains(&byte) => text.push(char::from(byte)),
            _ => {
                text.push('%');
                for nibble in [byte >> 4, byte & 0xF] {
                    let digit = char::from_digit(nibble.into(), 16).unwrap_or('0');
                    text.push(digit.to_ascii_uppercase());
                }
            }
        }
    }
    text
}
