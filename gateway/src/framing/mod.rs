//! Where the requests on an HTTP/1 connection begin and end, read as strictly as RFC 9112 allows.
//!
//! Pingora reads leniently and forwards what it understood: it escapes what may not stand in a target, takes an empty
//! chunk size for a zero, and drops what is no chunk extension. A shop, or a proxy before or behind, may understand the
//! same bytes otherwise, and then the two disagree about where a request ends or what it asks for (section 11.2). So
//! every byte passes through [`Framing`] first. What it lets through, Pingora reads in the one way there is.

mod chunks;
mod head;
#[cfg(test)]
mod tests;

use memchr::memchr;
use thiserror::Error;

use chunks::Chunks;
use head::{Body, Head};

/// Why the bytes of a connection are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A bare CR or LF in a head (RFC 9112, section 2.2).
    #[error("a line ends in something else than CR LF")]
    LineEnding,
    /// The first line is not a method, a target and a version with one space between (RFC 9112, section 3).
    #[error("the request line is not one")]
    RequestLine,
    /// The target has a fragment (RFC 9112, section 3.2).
    #[error("the target has a fragment")]
    Fragment,
    /// A header line is not a name, a colon and a value (RFC 9112, section 5).
    #[error("a header line is not one")]
    HeaderLine,
    /// More than one header line, or none that is sound, says where the body ends (RFC 9112, section 6).
    #[error("the length of the body is in doubt")]
    Framing,
    /// A body in chunks is not in chunks (RFC 9112, section 7.1), or says more beside its data than anybody needs.
    #[error("the chunks of the body are not well formed")]
    Chunk,
    /// The head is longer than what is taken.
    #[error("the head is too long")]
    HeadTooLong,
}

/// Follows the bytes of one connection from request to request.
///
/// In the common case it looks at them where they are; only a line that comes in pieces is copied, and no more than
/// the head's limit of it.
#[derive(Debug)]
pub struct Framing {
    head_limit: usize,
    /// What has come of a line of a head whose end has not.
    line: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    Head(Head),
    Length(u64),
    Chunks(Chunks),
    /// Nothing that follows can be read; `unheard` as in [`Framing::unheard`] before the bytes that were wrong.
    Refused {
        fault: Malformed,
        unheard: bool,
    },
}

impl Framing {
    /// Begins with a connection from which nothing has been read. A head may have at most `head_limit` bytes.
    #[must_use]
    pub fn new(head_limit: usize) -> Self {
        Self { head_limit, line: Vec::new(), state: State::Head(Head::default()) }
    }

    /// Reads the bytes that come next, however they are cut.
    ///
    /// # Errors
    /// What is wrong with them, or with those before. Nothing on this connection can be told apart after that.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let unheard = self.unheard();
        self.read(bytes).inspect_err(|fault| {
            self.line = Vec::new();
            self.state = State::Refused { fault: *fault, unheard };
        })
    }

    /// What was wrong, if something was.
    #[must_use]
    pub const fn fault(&self) -> Option<Malformed> {
        match self.state {
            State::Refused { fault, .. } => Some(fault),
            _ => None,
        }
    }

    /// Whether a head is being waited for or read, so that nobody acts yet on what comes next. After a fault: whether it
    /// was so when the faulty bytes came.
    #[must_use]
    pub const fn unheard(&self) -> bool {
        match self.state {
            State::Head(_) => true,
            State::Length(_) | State::Chunks(_) => false,
            State::Refused { unheard, .. } => unheard,
        }
    }

    /// Whether a head has begun and has not ended.
    #[must_use]
    pub const fn amid_head(&self) -> bool {
        matches!(&self.state, State::Head(head) if head.begun())
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            bytes = match &mut self.state {
                State::Head(head) => {
                    let end = memchr(b'\n', bytes).map(|at| at + 1);
                    let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    head.grow(piece.len(), self.head_limit)?;
                    if end.is_none() || !self.line.is_empty() {
                        self.line.extend_from_slice(piece);
                    }
                    if end.is_some() {
                        let gathered = std::mem::take(&mut self.line);
                        let line = if gathered.is_empty() { piece } else { &gathered };
                        match head.read_line(line)? {
                            None => {}
                            Some(Body::Length(0)) => self.state = State::Head(Head::default()),
                            Some(Body::Length(length)) => self.state = State::Length(length),
                            Some(Body::Chunked) => self.state = State::Chunks(Chunks::default()),
                        }
                    }
                    rest
                }
                State::Length(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left = left.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
                    if *left == 0 {
                        self.state = State::Head(Head::default());
                    }
                    bytes.get(taken..).unwrap_or_default()
                }
                State::Chunks(chunks) => {
                    let (rest, ended) = chunks.read(bytes)?;
                    if ended {
                        self.state = State::Head(Head::default());
                    }
                    rest
                }
                State::Refused { fault, .. } => return Err(*fault),
            };
        }
        Ok(())
    }
}

/// What a token may consist of (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// What a field value and a quoted string may hold: visible characters, spaces, tabs and, from older times, anything
/// beyond ASCII (RFC 9110, section 5.5).
const fn is_text(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7F) || byte == b'\t'
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut rest: &[u8] = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    while let [byte, after @ ..] = rest {
        table[*byte as usize] = true;
        rest = after;
    }
    table
};
