//! Decoding base64url without padding (RFC 4648, sections 3.5 and 5) of public text: by table, in one pass. Secret text
//! is decoded in constant time by `base64ct`.

use alloc::vec::Vec;

const INVALID: u8 = 0xFF;

/// The six bits of each character.
const BITS: [u8; 256] = {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bits = [INVALID; 256];
    let mut value = 0;
    while value < 64 {
        bits[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    bits
};

/// The bytes, or `None` if the text is not what encoding them gives: no padding, no other characters, and the bits left
/// over at the end are zero.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let bits = |character: &u8| BITS.get(usize::from(*character)).copied().unwrap_or(INVALID);
    let (quads, tail) = text.as_chunks::<4>();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut seen, mut left_over) = (0, 0);
    for [a, b, c, d] in quads {
        let [a, b, c, d] = [bits(a), bits(b), bits(c), bits(d)];
        seen |= a | b | c | d;
        bytes.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    match tail {
        [] => {}
        [a, b] => {
            let (a, b) = (bits(a), bits(b));
            seen |= a | b;
            left_over = b & 0x0F;
            bytes.push(a << 2 | b >> 4);
        }
        [a, b, c] => {
            let (a, b, c) = (bits(a), bits(b), bits(c));
            seen |= a | b | c;
            left_over = c & 0x03;
            bytes.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2]);
        }
        _ => return None,
    }
    // An invalid character shows above the six bits of a valid one.
    (seen < 64 && left_over == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use base64ct::{Base64UrlUnpadded, Encoding};
    use proptest::prelude::*;

    use super::*;

    /// RFC 4648, section 10, in the alphabet of section 5 and without padding.
    #[test]
    fn rfc_4648_section_10() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode(b"-_-_").as_deref(), Some(&[0xFB, 0xFF, 0xBF][..]));
    }

    #[test]
    fn what_is_not_canonical_is_refused() {
        for text in [
            "Z", "Zg==", "Zg=", "Zh", "Zk", "Zo", "Zm9", "Zm-", "Zm+v", "Zm/v", "Zm 9v", "Zm9v\n", "Zm9vZ",
            "Z\u{e4}9",
        ] {
            assert_eq!(decode(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn another_decoder_agrees(bytes in any::<Vec<u8>>(), text in "[A-Za-z0-9_=+/-]{0,9}", any in any::<String>()) {
            prop_assert_eq!(decode(Base64UrlUnpadded::encode_string(&bytes).as_bytes()), Some(bytes));
            for text in [text, any] {
                prop_assert_eq!(decode(text.as_bytes()), Base64UrlUnpadded::decode_vec(&text).ok());
            }
        }
    }
}
