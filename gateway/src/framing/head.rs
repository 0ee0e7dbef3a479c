//! The head of a request, line by line: RFC 9112, sections 2 to 6.

use memchr::{memchr, memchr2};

use super::{Malformed, is_text, is_token};

/// How the body that follows a head ends (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes; 0 where there is none.
    Length(u64),
    /// With its last chunk.
    Chunked,
}

/// A head of which these lines have come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    bytes: usize,
    version: Option<Version>,
    body: Option<Body>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

impl Head {
    pub(super) const fn begun(&self) -> bool {
        self.bytes > 0
    }

    /// Counts the bytes that came.
    pub(super) fn grow(&mut self, bytes: usize, limit: usize) -> Result<(), Malformed> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > limit { Err(Malformed::HeadTooLong) } else { Ok(()) }
    }

    /// Reads a line up to its LF; says what follows once it was the last.
    pub(super) fn read_line(&mut self, line: &[u8]) -> Result<Option<Body>, Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed::LineEnding)?;
        if memchr2(b'\r', b'\n', line).is_some() {
            return Err(Malformed::LineEnding);
        }
        match self.version {
            // Empty lines before a request line are passed over (section 2.2).
            None if line.is_empty() => {}
            None => self.version = Some(request_line(line)?),
            Some(_) if line.is_empty() => return Ok(Some(self.body.unwrap_or(Body::Length(0)))),
            Some(version) => {
                if let Some(body) = field(line, version)?
                    && self.body.replace(body).is_some()
                {
                    return Err(Malformed::Framing);
                }
            }
        }
        Ok(None)
    }
}

fn request_line(line: &[u8]) -> Result<Version, Malformed> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Malformed::RequestLine);
    };
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err(Malformed::RequestLine),
    };
    let is_method = !method.is_empty() && method.iter().all(|byte| is_token(*byte));
    let is_target = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
    if !is_method || !is_target {
        return Err(Malformed::RequestLine);
    }
    if memchr(b'#', target).is_some() { Err(Malformed::Fragment) } else { Ok(version) }
}

/// Checks a header line; says how the body ends where it does.
fn field(line: &[u8], version: Version) -> Result<Option<Body>, Malformed> {
    let colon = memchr(b':', line).ok_or(Malformed::HeaderLine)?;
    let (name, value) = line.split_at(colon);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err(Malformed::HeaderLine);
    }
    // Without a way out of the loop it is one over many bytes at once.
    if !value.iter().fold(true, |sound, byte| sound & is_text(*byte)) {
        return Err(Malformed::HeaderLine);
    }
    let body = if name.eq_ignore_ascii_case(b"content-length") {
        length(value)
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        // In HTTP/1.0 there is no such thing, and whoever sends it may not mean it (section 6.1).
        (version == Version::Http11 && plain(value).eq_ignore_ascii_case(b"chunked")).then_some(Body::Chunked)
    } else {
        return Ok(None);
    };
    body.map(Some).ok_or(Malformed::Framing)
}

/// A field's value without its colon and the white space around it.
fn plain(value: &[u8]) -> &[u8] {
    let mut value = value.strip_prefix(b":").unwrap_or(value);
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn length(value: &[u8]) -> Option<Body> {
    let digits = plain(value);
    if digits.is_empty() {
        return None;
    }
    let mut length = 0_i64; // as long as everybody's lengths can be
    for byte in digits {
        let digit = char::from(*byte).to_digit(10)?;
        length = length.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    u64::try_from(length).ok().map(Body::Length)
}
