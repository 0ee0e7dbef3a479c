//! Whom TLS to Redis goes by, and what it shows.

use std::path::{Path, PathBuf};

use ropeline_store::{RedisClientCertificate, RedisTls};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::config::files;
use crate::config::read::{Item, Section};
use crate::config::report::Fault;

/// Longest file, in bytes.
const MAX: u64 = 1 << 20;

const AUTHORITY: &str = "redis_ca";
const CERTIFICATE: &str = "redis_client_certificate";
const KEY: &str = "redis_client_key";

/// What the section says of TLS, with the first of its keys; nothing where it has none.
pub(super) fn read(section: &Section<'_>) -> Result<Option<(&'static str, RedisTls)>, ()> {
    let authority = section.try_get(AUTHORITY, |item| {
        let (path, pem) = file(item)?;
        let mut trusted = RootCertStore::empty();
        for certificate in certificates(&path, &pem)? {
            trusted.add(certificate).map_err(|error| {
                let what =
                    format!("{} has a certificate that nobody can be trusted by: {error}", path.display());
                Fault::new(what, "name the certificates of authorities alone")
            })?;
        }
        Ok(pem)
    });
    let certificate = section.try_get(CERTIFICATE, |item| {
        let (path, pem) = file(item)?;
        Ok((certificates(&path, &pem)?, pem))
    });
    let key = section.try_get(KEY, |item| {
        let (path, pem) = file(item)?;
        // Why is not said: it would be with what stands in the file.
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
            let what = format!("{} holds no private key in PEM", path.display());
            Fault::new(what, "name a file with -----BEGIN PRIVATE KEY-----")
        })?;
        if let Some(fault) = files::readable_by_others(&path) {
            section.warn(KEY, fault);
        }
        Ok((key, pem))
    });
    let (authority, certificate, key) = (authority?, certificate?, key?);
    let first = [(AUTHORITY, authority.is_some()), (CERTIFICATE, certificate.is_some())];
    let client = match (certificate, key) {
        (None, None) => None,
        (Some((chain, certificate)), Some((private, key))) => {
            CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(|error| {
                let what = format!("does not go with store.{CERTIFICATE}: {error}");
                section.fault(KEY, Fault::new(what, "name the key that the certificate was made for"));
            })?;
            Some(RedisClientCertificate { certificate, key })
        }
        (Some(_), None) => {
            section.missing(KEY, "name the file with the certificate's private key");
            return Err(());
        }
        (None, Some(_)) => {
            section.missing(CERTIFICATE, "name the file with the certificate that the key is for");
            return Err(());
        }
    };
    let first = first.into_iter().find_map(|(key, there)| there.then_some(key));
    Ok(first.map(|key| (key, RedisTls { authority, client })))
}

fn file(item: &Item<'_>) -> Result<(PathBuf, Vec<u8>), Fault> {
    let path = item.path()?;
    let pem = files::read(&path, MAX)?;
    Ok((path, pem))
}

/// The certificates in a file, at least one.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().ok();
    read.filter(|read| !read.is_empty()).ok_or_else(|| {
        let what = format!("{} holds no certificate in PEM", path.display());
        Fault::new(what, "name a file with -----BEGIN CERTIFICATE-----")
    })
}
