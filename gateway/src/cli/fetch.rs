//! Documents that a command reads: from a file, from standard input, or from an address.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ropeline_token::KeySet;

use super::Failure;
use crate::config::files;
use crate::http_client;

/// Longest document, in bytes.
const MAX: usize = 1 << 20;

/// Reads `FILE`, `-` or `http://…`.
pub(super) fn bytes(source: &str) -> Result<Vec<u8>, Failure> {
    up_to(source, MAX)
}

/// The same for something that may be longer than a document, in bytes.
pub(super) fn up_to(source: &str, max: usize) -> Result<Vec<u8>, Failure> {
    let limit = u64::try_from(max).unwrap_or(u64::MAX);
    if source == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().take(limit).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    if is_address(source) {
        return Ok(super::block_on(from_address(source, max))??);
    }
    let read = files::read(Path::new(source), limit);
    Ok(read.map_err(|fault| anyhow!("{}; {}", fault.what, fault.mend))?)
}

pub(super) fn is_address(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

async fn from_address(address: &str, max: usize) -> anyhow::Result<Vec<u8>> {
    let client = http_client::builder(address).timeout(Duration::from_secs(20)).build()?;
    let mut response = client.get(address).send().await.with_context(|| format!("cannot fetch {address}"))?;
    if !response.status().is_success() {
        bail!("{address} answered {}", response.status());
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.with_context(|| format!("cannot read {address}"))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > max {
            bail!("{address} sends more than {max} bytes");
        }
    }
    Ok(bytes)
}

/// Reads a JWK Set, or a single JWK as `ropeline keygen` writes them; a private part is not used.
pub(super) fn keys(source: &str) -> Result<KeySet, Failure> {
    let bytes = bytes(source)?;
    let single = || ropeline_token::PublicKey::from_jwk(&bytes).ok().and_then(|key| KeySet::new([key]).ok());
    match KeySet::from_jwks(&bytes) {
        Ok(keys) => Ok(keys),
        Err(error) => {
            single().ok_or_else(|| Failure::Found(format!("{source} is no usable key set: {error}")))
        }
    }
}
