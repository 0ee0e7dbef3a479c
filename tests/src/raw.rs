//! An HTTP/1.1 client that sends exactly the bytes it is given, whatever they are.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    /// Received and not yet given out.
    pending: Vec<u8>,
    ended: bool,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A whole response.
    Answer(Response),
    /// The connection was closed (or reset) before a whole response had come; the bytes that had.
    Closed(Vec<u8>),
    /// Neither within the time given; the bytes that had come.
    Silence(Vec<u8>),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header lines, in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, with any chunked coding taken off.
    pub body: Vec<u8>,
}

// === impl Raw ===

impl Raw {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        Self::over(stream)
    }

    /// A connection that is there already.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, pending: Vec::new(), ended: false }
    }

    /// Sends `bytes`. False when the other side has closed the connection before it had taken them all.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Says that nothing more will be sent, and keeps listening.
    pub async fn finish(&mut self) {
        // Fails only when the other side has closed already, which the next read tells.
        let _ = self.stream.shutdown().await;
    }

    /// Waits for the next response, at most `limit`. `head` says that it answers a HEAD request and has no body.
    pub async fn receive(&mut self, limit: Duration, head: bool) -> Outcome {
        let whole = timeout(limit, async {
            loop {
                if let Some((response, used)) = parse(&self.pending, head, self.ended) {
                    self.pending.drain(..used);
                    return Some(response);
                }
                if self.ended {
                    return None;
                }
                self.read_more().await;
            }
        })
        .await;
        match whole {
            Ok(Some(response)) => Outcome::Answer(response),
            Ok(None) => Outcome::Closed(std::mem::take(&mut self.pending)),
            Err(_) => Outcome::Silence(std::mem::take(&mut self.pending)),
        }
    }

    /// Waits until the other side closes, at most `limit`: true when it does. What comes before that is kept.
    pub async fn closed(&mut self, limit: Duration) -> bool {
        timeout(limit, async {
            while !self.ended {
                self.read_more().await;
            }
        })
        .await
        .is_ok()
    }

    async fn read_more(&mut self) {
        match self.stream.read_buf(&mut self.pending).await {
            Ok(0) | Err(_) => self.ended = true,
            Ok(_) => {}
        }
    }
}

/// Sends `bytes` on a connection of their own and waits for one response.
pub async fn exchange(address: SocketAddr, bytes: &[u8], limit: Duration) -> Outcome {
    let mut raw = Raw::connect(address).await;
    raw.send(bytes).await;
    raw.receive(limit, bytes.starts_with(b"HEAD ")).await
}

// === impl Outcome ===

impl Outcome {
    /// The response.
    ///
    /// # Panics
    /// When there was none.
    pub fn answer(self) -> Response {
        match self {
            Self::Answer(response) => response,
            Self::Closed(bytes) => panic!("closed without an answer: {}", bytes.escape_ascii()),
            Self::Silence(bytes) => panic!("no answer in time: {}", bytes.escape_ascii()),
        }
    }
}

// === impl Response ===

impl Response {
    /// The value of the header `name` (in lower case), when there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        first.filter(|_| values.next().is_none())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The first response in `bytes` and its length there; `None` while it is incomplete. Interim responses (1xx) are
/// passed over.
fn parse(bytes: &[u8], head: bool, ended: bool) -> Option<(Response, usize)> {
    let end = find(bytes, b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let start = end + 4;
    if (100..200).contains(&status) && status != 101 {
        let (response, used) = parse(&bytes[start..], head, ended)?;
        return Some((response, start + used));
    }
    let mut response = Response { status, headers, body: Vec::new() };
    let rest = &bytes[start..];
    let used = if head || matches!(status, 101 | 204 | 304) {
        0
    } else if response
        .header("transfer-encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        let (body, used) = unchunk(rest)?;
        response.body = body;
        used
    } else if let Some(length) = response.header("content-length") {
        let length = length.parse().ok()?;
        response.body = rest.get(..length)?.to_vec();
        length
    } else if ended {
        response.body = rest.to_vec();
        rest.len()
    } else {
        return None;
    };
    Some((response, start + used))
}

/// The content of a chunked body and its length on the wire; `None` while it is incomplete.
pub(crate) fn unchunk(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        at += line + 2;
        if size == 0 {
            let trailer = find(&bytes[at..], b"\r\n")?;
            if trailer == 0 {
                return Some((body, at + 2));
            }
            return Some((body, at + find(&bytes[at..], b"\r\n\r\n")? + 4));
        }
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
        if bytes.len() < at {
            return None;
        }
    }
}

/// Where `wanted` begins in `bytes`.
pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> Response {
        let (response, used) = parse(bytes, false, false).expect("whole");
        assert_eq!(used, bytes.len());
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], false, false), None, "{end} bytes are not whole");
        }
        response
    }

    #[test]
    fn a_response_is_whole_by_its_length() {
        let response = whole(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.header("x-a"), Some("b"));
    }

    #[test]
    fn a_response_is_whole_by_its_chunks() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n";
        assert_eq!(whole(bytes).text(), "hello!");
    }

    #[test]
    fn a_response_of_unknown_length_is_whole_when_the_connection_ends() {
        let bytes = b"HTTP/1.0 200 OK\r\n\r\nhello";
        assert_eq!(parse(bytes, false, false), None);
        assert_eq!(parse(bytes, false, true).expect("whole").0.text(), "hello");
    }

    #[test]
    fn interim_responses_are_passed_over() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(whole(bytes).status, 204);
    }
}
