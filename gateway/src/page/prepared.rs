//! Bytes made once and served to everyone: identity, gzip and brotli, each with its own strong validator.

use std::io::Write;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// A content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Encoding {
    /// `br`, RFC 7932.
    Brotli,
    /// `gzip`, RFC 1952.
    Gzip,
    /// As it is.
    Identity,
}

impl Encoding {
    /// The value of `Content-Encoding`; none for identity.
    #[must_use]
    pub const fn header(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }
}

/// One representation: bytes under one coding.
#[derive(Clone, Debug)]
pub struct Representation {
    /// How the bytes are coded.
    pub encoding: Encoding,
    /// The bytes.
    pub body: Bytes,
    /// A strong entity tag, quotes included; distinct per coding (RFC 9110 §8.8.3.3).
    pub etag: String,
}

/// What to answer with.
#[derive(Clone, Copy, Debug)]
pub struct Selected<'a> {
    /// The chosen representation: its headers go on a 304 as well.
    pub representation: &'a Representation,
    /// The client has these very bytes: answer 304 without a body.
    pub not_modified: bool,
}

/// A document with all its representations. An answer made from it also carries `Vary: Accept-Encoding`.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Best first; identity, which is always there, last.
    coded: Vec<Representation>,
    identity: Representation,
}

/// How hard to compress: rooms are made again while people wait, assets once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effort {
    Quick,
    Best,
}

impl Prepared {
    /// A public JSON document that changes now and then. Costs a compression: not for the request path.
    #[must_use]
    pub fn json(body: Vec<u8>) -> Self {
        Self::new("application/json", body, Effort::Quick)
    }

    pub(super) fn new(content_type: &'static str, body: Vec<u8>, effort: Effort) -> Self {
        let hash = content_hash(&body);
        let coded = [(Encoding::Brotli, brotli(&body, effort)), (Encoding::Gzip, gzip(&body))]
            .into_iter()
            .filter_map(|(encoding, coded)| {
                // Writing to memory does not fail; if it ever did, the document is served without that coding.
                let coded = coded.ok().filter(|c| c.len() < body.len())?;
                let suffix = encoding.header()?;
                Some(Representation { encoding, body: coded.into(), etag: format!("\"{hash}-{suffix}\"") })
            })
            .collect();
        let identity =
            Representation { encoding: Encoding::Identity, body: body.into(), etag: format!("\"{hash}\"") };
        Self { content_type, coded, identity }
    }

    /// Chooses by `Accept-Encoding` (RFC 9110 §12.5.3; several lines joined with commas) and compares with
    /// `If-None-Match` (§13.1.2; weak comparison). Of codings wanted equally, the smallest.
    #[must_use]
    pub fn select(&self, accept_encoding: Option<&str>, if_none_match: Option<&str>) -> Selected<'_> {
        let wanted = Wanted::parse(accept_encoding.unwrap_or(""));
        let mut best = (wanted.quality(Encoding::Identity), &self.identity);
        for candidate in self.coded.iter().rev() {
            let quality = wanted.quality(candidate.encoding);
            if quality > 0 && quality >= best.0 {
                best = (quality, candidate);
            }
        }
        let representation = best.1;
        Selected {
            representation,
            not_modified: if_none_match.is_some_and(|v| names_tag(v, &representation.etag)),
        }
    }

    /// The bytes without a coding.
    #[must_use]
    pub const fn identity(&self) -> &Representation {
        &self.identity
    }
}

/// What a client said of each coding, in thousandths.
#[derive(Default)]
struct Wanted {
    brotli: Option<u16>,
    gzip: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl Wanted {
    fn parse(header: &str) -> Self {
        let mut wanted = Self::default();
        for (coding, quality) in weighted(header) {
            let slot = if coding.eq_ignore_ascii_case("br") {
                &mut wanted.brotli
            } else if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
                &mut wanted.gzip
            } else if coding.eq_ignore_ascii_case("identity") {
                &mut wanted.identity
            } else if coding == "*" {
                &mut wanted.any
            } else {
                continue;
            };
            *slot = Some(quality);
        }
        wanted
    }

    /// Identity that nobody spoke of is acceptable, but the last choice.
    fn quality(&self, encoding: Encoding) -> u16 {
        match encoding {
            Encoding::Brotli => self.brotli.or(self.any).unwrap_or(0),
            Encoding::Gzip => self.gzip.or(self.any).unwrap_or(0),
            Encoding::Identity => self.identity.or(self.any.filter(|q| *q == 0)).unwrap_or(1),
        }
    }
}

/// The elements of a list with their weights in thousandths (RFC 9110 §12.4.2).
pub(super) fn weighted(header: &str) -> impl Iterator<Item = (&str, u16)> {
    header.split(',').map(|element| {
        let mut parts = element.split(';');
        let name = parts.next().unwrap_or("").trim();
        let quality = parts
            .filter_map(|p| p.trim().split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
            .map_or(1000, |(_, value)| thousandths(value.trim()));
        (name, quality)
    })
}

/// A `qvalue` (RFC 9110 §12.4.2) in thousandths. One that is malformed counts as 0: a coding is not forced on a client
/// that may not have wanted it.
fn thousandths(value: &str) -> u16 {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return 0;
    }
    match whole {
        "1" if fraction.bytes().all(|b| b == b'0') => 1000,
        "0" => format!("{fraction:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

/// Whether `If-None-Match` names this entity tag (RFC 9110, section 13.1.2).
pub(crate) fn names_tag(if_none_match: &str, etag: &str) -> bool {
    let list = if_none_match.trim();
    list == "*" || list.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag)
}

/// The first 16 hexadecimal digits of SHA-256: enough to tell versions of one document apart.
pub(super) fn content_hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body)?;
    encoder.finish()
}

fn brotli(body: &[u8], effort: Effort) -> std::io::Result<Vec<u8>> {
    let quality = match effort {
        Effort::Quick => 9,
        Effort::Best => 11,
    };
    let mut out = Vec::new();
    let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, quality, 22);
    encoder.write_all(body)?;
    encoder.flush()?;
    drop(encoder);
    Ok(out)
}
