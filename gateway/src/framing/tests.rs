mod cut;

use super::*;

const LIMIT: usize = 4 << 10;

/// Where requests end in `bytes`, and what is wrong after the last of those ends.
fn ends(bytes: &[u8]) -> (Vec<usize>, Result<(), Malformed>) {
    let mut framing = Framing::new(LIMIT);
    let mut ends = Vec::new();
    let mut open = false;
    for (at, byte) in bytes.iter().enumerate() {
        if let Err(fault) = framing.push(std::slice::from_ref(byte)) {
            return (ends, Err(fault));
        }
        let between = matches!(&framing.state, State::Head(head) if *head == Head::default());
        if between && open {
            ends.push(at + 1);
        }
        open = !between;
    }
    (ends, Ok(()))
}

/// That `bytes` are one whole request, and nothing else.
#[track_caller]
fn whole(bytes: &[u8]) {
    assert_eq!(ends(bytes), (vec![bytes.len()], Ok(())), "{}", bytes.escape_ascii());
}

#[track_caller]
fn refused(bytes: &[u8], fault: Malformed) {
    assert_eq!(ends(bytes).1, Err(fault), "{}", bytes.escape_ascii());
    assert_eq!(Framing::new(LIMIT).push(bytes), Err(fault), "{}", bytes.escape_ascii());
}

fn head(lines: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    [head("Transfer-Encoding: chunked\r\n"), body.as_bytes().to_vec()].concat()
}

#[test]
fn sound_heads_pass() {
    for lines in [
        "",
        "Content-Length: 0\r\n",
        "content-length:0\r\n",
        "Content-Length: \t0 \r\n",
        "X-Content-Length: 5\r\n",
        "Cookie: a=b#c; content-length: 7\r\n",
        "X-Empty:\r\n",
        "X-Text: caf\u{e9} \t \"quoted\"\r\n",
        "!#$%&'*+-.^_`|~09azAZ: b\r\n",
    ] {
        whole(&head(lines));
    }
    whole(b"GET / HTTP/1.0\r\n\r\n");
    whole(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    whole(b"M-SEARCH /%20?a=b|{c} HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn empty_lines_before_a_request_are_passed_over() {
    // RFC 9112 section 2.2.
    whole(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    whole(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refused(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::LineEnding);
    refused(b"\r\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::LineEnding);
}

#[test]
fn a_request_line_has_one_form() {
    for line in [
        "GET /a b HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET /\u{b}HTTP/1.1",
        "GET / HTTP/1.1\t",
        "GET / HTTP/1.1 x",
        "GET / HTTP/1.1x",
        "GET / HTTP/1.10",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / HTTP/11",
        "GET / HTTP/1",
        "GET / http/1.1",
        "GET / HTTP/1.1, HTTP/1.1",
        "GET /",
        "GET",
        "GET  HTTP/1.1",
        "/ HTTP/1.1",
        "G(T / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET /\u{7f} HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET /?\u{e9} HTTP/1.1",
    ] {
        refused(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), Malformed::RequestLine);
    }
    refused(b"GET /?\xff HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::RequestLine);
    refused(b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", Malformed::Fragment);
}

#[test]
fn a_header_line_has_one_form() {
    for line in [
        "X-A",
        ": b",
        " : b",
        "X-A : b",
        "X-A\t: b",
        " X-A: b",
        "\tX-A: b",
        "X A: b",
        "X(A): b",
        "\"X-A\": b",
        "X-\u{e9}: b",
        "X\0: b",
        "X-A: b\0",
        "X-A: \u{b}b",
        "X-A: \u{1b}b",
        "X-A: b\u{7f}",
    ] {
        refused(&head(&format!("{line}\r\n")), Malformed::HeaderLine);
    }
}

#[test]
fn a_body_has_one_length() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nCONTENT-LENGTH: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked;a=b\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding:\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 9223372036854775808\r\n",
        "Content-Length: 99999999999999999999\r\n",
    ] {
        refused(&head(lines), Malformed::Framing);
    }
    refused(b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", Malformed::Framing);
}

#[test]
fn a_line_ends_in_one_way() {
    for bytes in [
        &b"GET / HTTP/1.1\nHost: a\n\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
        b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        refused(bytes, Malformed::LineEnding);
    }
}

#[test]
fn a_head_has_an_end() {
    refused(&head(&format!("X-A: {}\r\n", "b".repeat(LIMIT))), Malformed::HeadTooLong);
    refused(&head(&"X-A: b\r\n".repeat(LIMIT / 8)), Malformed::HeadTooLong);
    refused(&"\r\n".repeat(LIMIT).into_bytes(), Malformed::HeadTooLong);
    refused(&vec![b'a'; LIMIT + 1], Malformed::HeadTooLong);
    let mut framing = Framing::new(LIMIT);
    for _ in 0..100_000 {
        let _ = framing.push(b"a");
        assert!(framing.line.len() <= LIMIT);
    }
}

#[test]
fn bodies_are_skipped_by_their_length() {
    whole(&[head("Content-Length: 12\r\n"), b"GET / \n\r\n\r\n".to_vec(), vec![0]].concat());
    let two = [
        head("Content-Length: \t003 \r\n"),
        b"abc".to_vec(),
        head(""),
        head("Transfer-Encoding: Chunked\r\n"),
    ]
    .concat();
    let first = head("Content-Length: \t003 \r\n").len() + 3;
    assert_eq!(ends(&two), (vec![first, first + head("").len()], Ok(())));
}

#[test]
fn sound_chunks_pass() {
    for body in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "0005\r\nhello\r\n000\r\n\r\n",
        "a\r\n0123456789\r\nA\r\n0\r\n\r\n56789\r\n0\r\n\r\n",
        "5;a\r\nhello\r\n0;b=c\r\n\r\n",
        "5;a=b;c=\"d\";e\r\nhello\r\n0\r\n\r\n",
        "5 ; a = b ;\tc\t=\t\"d\" ;e\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\\\"\\;\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"caf\u{e9} \t;=,\"\r\nhello\r\n0\r\n\r\n",
        "0\r\nX-A: b\r\nX-B:\r\n\r\n",
    ] {
        whole(&chunked(body));
    }
}

#[test]
fn malformed_chunks_are_refused() {
    for body in [
        "\r\nhello\r\n0\r\n\r\n",
        "\n0\r\n\r\n",
        ";a=b\r\nhello\r\n0\r\n\r\n",
        "zz\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5h\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!!0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5; \r\nhello\r\n0\r\n\r\n",
        "5;;a\r\nhello\r\n0\r\n\r\n",
        "5;=b\r\nhello\r\n0\r\n\r\n",
        "5;a=\r\nhello\r\n0\r\n\r\n",
        "5;a= \r\nhello\r\n0\r\n\r\n",
        "5;a=b \r\nhello\r\n0\r\n\r\n",
        "5;a \r\nhello\r\n0\r\n\r\n",
        "5;a b\r\nhello\r\n0\r\n\r\n",
        "5;a=b c\r\nhello\r\n0\r\n\r\n",
        "5;a=b=c\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\\\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\nb\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\0b\"\r\nhello\r\n0\r\n\r\n",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        "5;\u{e9}\r\nhello\r\n0\r\n\r\n",
        "5;\nhello\r\n0\r\n\r\n",
        "5,a\r\nhello\r\n0\r\n\r\n",
        "0\r\n\n",
        "0\r\n\rX",
        "0\r\nX-A\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\nX-A : b\r\n\r\n",
        "0\r\n X-A: b\r\n\r\n",
        "0\r\nX-A: b\r\n c\r\n\r\n",
        "0\r\nX-A: b\n\r\n",
        "0\r\nX-A: b\rc\r\n\r\n",
        "0\r\nX-A: b\0\r\n\r\n",
        "0\r\nX\u{e9}: b\r\n\r\n",
    ] {
        refused(&chunked(body), Malformed::Chunk);
    }
    refused(&chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(5_000))), Malformed::Chunk);
    refused(&chunked(&format!("0\r\n{}\r\n", "X-A: b\r\n".repeat(3_000))), Malformed::Chunk);
}

#[test]
fn what_is_cut_short_is_not_whole() {
    for bytes in [
        chunked("5\r\nhello\r\n0\r\nX-A: b\r\n\r\n"),
        [head("Content-Length: 2\r\n"), b"ab".to_vec()].concat(),
    ] {
        for length in 0..bytes.len() {
            assert_eq!(ends(&bytes[..length]), (vec![], Ok(())), "{}", bytes[..length].escape_ascii());
        }
    }
}

#[test]
fn a_fault_is_told_before_anybody_acts_on_the_request_or_not_at_all() {
    for (pieces, unheard) in [
        (&[&b"GET / HTTP/1.1\n\n"[..]][..], true),
        (&[b"GET /", b"a b HTTP/1.1\r\n\r\n"], true),
        (&[b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz"], true),
        (&[b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz"], false),
        (&[b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", b"aGET\n"], false),
        (&[b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", b"a", b"GET\n"], true),
    ] {
        let mut framing = Framing::new(LIMIT);
        let outcome = pieces.iter().try_for_each(|piece| framing.push(piece));
        assert_eq!((outcome.err(), framing.unheard()), (framing.fault(), unheard), "{pieces:?}");
        assert!(framing.fault().is_some());
        assert_eq!(framing.push(b"GET / HTTP/1.1\r\n\r\n").err(), framing.fault(), "a fault is forgotten");
    }
}
