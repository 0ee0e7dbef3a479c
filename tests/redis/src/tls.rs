//! Certificates of an authority that nobody else knows.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, what it gave a server on loopback, and what it gave a client. All in PEM.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
    /// The authority's own.
    pub authority: String,
    /// The client's.
    pub client: String,
    /// Its key.
    pub client_key: String,
}

// === impl Certificates ===

impl Certificates {
    /// Makes new ones.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let issue = |name: &str| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            // Else it would seem to vouch for itself.
            params.distinguished_name.push(DnType::CommonName, name);
            let key = key();
            (params.signed_by(&key, &authority).expect("a certificate").pem(), key.serialize_pem())
        };
        let ((server, server_key), (client, client_key)) = (issue("127.0.0.1"), issue("gateway"));
        let made = Self {
            folder: tempfile::tempdir().expect("a folder for certificates"),
            authority: authority.pem(),
            client,
            client_key,
        };
        for (name, text) in
            [("authority.pem", &made.authority), ("server.pem", &server), ("server.key", &server_key)]
        {
            fs::write(made.file(name), text).expect("a file for TLS");
        }
        made
    }

    /// The options of a server that takes connections by TLS, and from who shows a certificate alone, at that port.
    pub(crate) fn options(&self, port: u16) -> Vec<String> {
        let mut options = vec!["--tls-port".to_owned(), port.to_string()];
        for (option, name) in [
            ("--tls-cert-file", "server.pem"),
            ("--tls-key-file", "server.key"),
            ("--tls-ca-cert-file", "authority.pem"),
        ] {
            options.extend([option.to_owned(), self.file(name).display().to_string()]);
        }
        options
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
