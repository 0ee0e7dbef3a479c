//! Any bytes on a connection, however cut: read alike, and where a request is let through, the lenient parser behind
//! finds the same head and the same end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ropeline_fuzz::framing::{Framing, Malformed};

const HEAD_LIMIT: usize = 1 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((cuts, bytes)) = input.split_at_checked(4) else { return };
    let whole = read(std::iter::once(bytes));
    assert_eq!(read(pieces(bytes, cuts).into_iter()), whole);
    assert_eq!(read(bytes.chunks(1)), whole);
    if let Some((head, request)) = first(bytes) {
        assert_eq!(lenient(bytes, head), Some(request), "{}", bytes.escape_ascii());
    }
});

fn pieces<'a>(mut bytes: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, rest) = bytes.split_at(usize::from(*cut).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// What is wrong with the pieces, or else where they leave off.
fn read<'a>(mut pieces: impl Iterator<Item = &'a [u8]>) -> Result<String, Malformed> {
    let mut framing = Framing::new(HEAD_LIMIT);
    let outcome = pieces.try_for_each(|piece| framing.push(piece));
    assert_eq!(framing.fault(), outcome.err());
    outcome.map(|()| format!("{framing:?}"))
}

/// Where the first head and the first request end.
fn first(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut framing = Framing::new(HEAD_LIMIT);
    let mut head = None;
    for (at, byte) in bytes.iter().enumerate() {
        let before = framing.amid_head();
        framing.push(std::slice::from_ref(byte)).ok()?;
        if before && !framing.amid_head() {
            head = Some(at + 1);
        }
        if let Some(head) = head
            && framing.unheard()
        {
            return Some((head, at + 1));
        }
    }
    None
}

/// Where the parser that Pingora uses sees the end of a request whose head has this length.
fn lenient(bytes: &[u8], head: usize) -> Option<usize> {
    let mut headers = [httparse::EMPTY_HEADER; HEAD_LIMIT];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == head => {}
        other => panic!("{other:?} where a head ends at {head}: {}", bytes.escape_ascii()),
    }
    let value = |name: &str| {
        let mut values = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        let first = values.next()?.value;
        assert!(values.next().is_none(), "two {name}");
        Some(first.trim_ascii())
    };
    match (value("content-length"), value("transfer-encoding")) {
        (None, None) => Some(head),
        (Some(length), None) => Some(head + std::str::from_utf8(length).ok()?.parse::<usize>().ok()?),
        (None, Some(_)) => chunks(bytes, head),
        (Some(_), Some(_)) => panic!("a length and a coding"),
    }
}

fn chunks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(&bytes[at..]) else {
            return None;
        };
        at += line;
        if size == 0 {
            // From the line's own end on: without trailers the next one follows at once.
            let end = bytes[at - 2..].windows(4).position(|four| four == b"\r\n\r\n")?;
            return Some(at - 2 + end + 4);
        }
        at += usize::try_from(size).ok()?;
        assert_eq!(&bytes[at..at + 2], b"\r\n");
        at += 2;
    }
}
