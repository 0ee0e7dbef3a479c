use proptest::prelude::*;

use super::*;

fn head(lines: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: shop.example\r\n{lines}\r\n").into_bytes()
}

#[test]
fn sound_heads_pass() {
    for lines in [
        "",
        "Content-Length: 0\r\n",
        "content-length:5\r\n",
        "Content-Length: \t5 \r\n",
        "Transfer-Encoding: Chunked\r\n",
        "X-Content-Length: 5\r\nContent-Length: 5\r\n",
        "Cookie: a=b#c; content-length: 7\r\n",
    ] {
        assert_eq!(check(&head(lines)), Ok(()), "{lines:?}");
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
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding:\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
    ] {
        assert_eq!(check(&head(lines)), Err(Malformed::Framing), "{lines:?}");
    }
}

#[test]
fn a_line_ends_in_one_way() {
    for bytes in [
        &b"GET / HTTP/1.1\nHost: a\n\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
        b"GET / HTTP/1.1",
    ] {
        assert_eq!(check(bytes), Err(Malformed::LineEnding), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_target_has_no_fragment() {
    assert_eq!(check(b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"), Err(Malformed::Fragment));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let _ = check(&bytes);
    }
}
