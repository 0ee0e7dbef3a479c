//! However bytes are cut, they are read alike; and what is let through, Pingora reads in the same way.

use pingora::protocols::http::v1::server::HttpSession;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokio::io::AsyncWriteExt as _;

use super::*;

fn body() -> impl Strategy<Value = Vec<u8>> {
    let data = || vec(any::<u8>(), 0..40);
    let length = data().prop_map(|data| {
        [format!("Content-Length: {}\r\n\r\n", data.len()).as_bytes(), data.as_slice()].concat()
    });
    let extension = select(&["", "", ";a", " ; a=b", ";a=\"b;\\\"\";c"][..]);
    let chunk = (vec(any::<u8>(), 1..40), extension).prop_map(|(data, extension)| {
        [format!("{:x}{extension}\r\n", data.len()).as_bytes(), data.as_slice(), b"\r\n"].concat()
    });
    let last =
        select(&["0\r\n\r\n", "00;a\r\n\r\n", "0\r\nX-A: b\r\n\r\n", "0\r\nX-A:\r\nX-B: \"c\"\r\n\r\n"][..]);
    let chunked = (vec(chunk, 0..4), last).prop_map(|(chunks, last)| {
        [b"Transfer-Encoding: chunked\r\n\r\n", chunks.concat().as_slice(), last.as_bytes()].concat()
    });
    prop_oneof![Just(b"\r\n".to_vec()), length, chunked]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let line = select(
        &["GET / HTTP/1.1", "POST /a?b=%20 HTTP/1.1", "\r\nPUT /a HTTP/1.1", "PATCH http://a/b HTTP/1.1"][..],
    );
    let field =
        select(&["Host: a", "X-A: b c", "X-Empty:", "X-B: \"\t\u{e9}\"", "Connection: keep-alive"][..]);
    (line, vec(field, 0..4), body()).prop_map(|(line, fields, body)| {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        [format!("{line}\r\n{fields}").as_bytes(), body.as_slice()].concat()
    })
}

/// One byte changed, added or taken away.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let byte = select(&b"\r\n \t:;,=\"\\0159afGx-\0\x0b\x7f\xff#?/"[..]);
    (vec(request(), 1..3), vec((any::<Index>(), byte, 0..3), 0..3)).prop_map(|(requests, changes)| {
        let mut bytes = requests.concat();
        for (index, byte, kind) in changes {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    })
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len().max(1))).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// The faults of both, and where they stand if there is none.
fn read(pieces: &[&[u8]]) -> (Option<Malformed>, String) {
    let mut framing = Framing::new(LIMIT);
    for piece in pieces {
        if framing.push(piece).is_err() {
            break;
        }
    }
    let fault = framing.fault();
    (fault, if fault.is_none() { format!("{framing:?}") } else { String::new() })
}

/// What Pingora makes of `bytes` that are followed by nothing.
#[derive(Debug, PartialEq, Eq)]
enum Pingora {
    /// It refuses the head, or waits for more of it.
    NoHead,
    /// It waits for more of the body.
    NoEnd,
    Whole,
}

async fn pingora(bytes: &[u8]) -> Pingora {
    let (mut client, server) = tokio::io::duplex(bytes.len().max(1));
    client.write_all(bytes).await.unwrap();
    drop(client);
    let mut session = HttpSession::new(Box::new(server));
    if !matches!(session.read_request().await, Ok(Some(_))) {
        return Pingora::NoHead;
    }
    loop {
        match session.read_body_bytes().await {
            Ok(Some(_)) => {}
            Ok(None) => return Pingora::Whole,
            Err(_) => return Pingora::NoEnd,
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #[test]
    fn requests_end_where_they_were_put_together(requests in vec(request(), 0..5), cuts: Vec<Index>) {
        let bytes = requests.concat();
        let mut sum = 0;
        let joints = requests.iter().map(|request| { sum += request.len(); sum }).collect();
        prop_assert_eq!(ends(&bytes), (joints, Ok(())));
        prop_assert_eq!(read(&pieces(&bytes, &cuts)), read(&[&bytes]));
    }

    #[test]
    fn bytes_are_read_alike_however_they_are_cut(bytes in mutated(), cuts: Vec<Index>) {
        prop_assert_eq!(read(&pieces(&bytes, &cuts)), read(&[&bytes]));
    }

    #[test]
    fn pingora_sees_the_same_end(bytes in mutated()) {
        if let Some(end) = ends(&bytes).0.first() {
            block_on(async {
                prop_assert_ne!(pingora(&bytes[..end - 1]).await, Pingora::Whole);
                // It refuses more heads, such as one with two hosts.
                prop_assert_ne!(pingora(&bytes[..*end]).await, Pingora::NoEnd);
                Ok(())
            })?;
        }
    }

    #[test]
    fn pingora_takes_what_is_sound(request in request()) {
        prop_assume!(request.windows(4).filter(|four| four == b"Host").count() < 2);
        prop_assert_eq!(block_on(pingora(&request)), Pingora::Whole);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, cuts: Vec<Index>) {
        read(&pieces(&bytes, &cuts));
    }
}
