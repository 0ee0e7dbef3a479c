//! As much of Redis's protocol as asking a question takes.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line or a string.
    Text(String),
    /// A number.
    Number(i64),
    /// Several.
    List(Vec<Reply>),
    /// Nothing there.
    Nothing,
    /// It refused.
    Refused(String),
}

// === impl Reply ===

impl Reply {
    /// What it says, if that is a line or a string.
    pub fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::List(_) | Self::Nothing | Self::Refused(_) => None,
        }
    }
}

/// Connects, asks and reads the answer.
pub(crate) fn try_ask(port: u16, words: &[&[u8]]) -> io::Result<Reply> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    stream.write_all(&request)?;
    read(&mut BufReader::new(stream))
}

fn read(from: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| io::Error::other("the server hung up"))?;
    let count = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Refused(rest.to_owned())),
        ":" => Ok(Reply::Number(count()?)),
        "$" => {
            let Ok(length) = usize::try_from(count()?) else { return Ok(Reply::Nothing) };
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text)?;
            text.truncate(length);
            Ok(Reply::Text(String::from_utf8_lossy(&text).into_owned()))
        }
        "*" => {
            let Ok(length) = usize::try_from(count()?) else { return Ok(Reply::Nothing) };
            (0..length).map(|_| read(from)).collect::<io::Result<_>>().map(Reply::List)
        }
        other => Err(io::Error::other(format!("the server said {other}"))),
    }
}
