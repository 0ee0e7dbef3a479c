//! The way to PostgreSQL, where others may listen or answer.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use ropeline_origin::{Config, operator};
use ropeline_test_postgres::Postgres;
use tempfile::TempDir;

use crate::common::{Shop, raw_config};

/// Somebody who certifies servers.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

// === impl Authority ===

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("root.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// A server at `address` with a certificate for `name`.
    fn server(&self, address: Ipv4Addr, name: &str) -> Postgres {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Postgres::start_with_tls(address, &certificate.pem(), &key.serialize_pem())
    }
}

/// A loopback address that no other test has.
fn address() -> Ipv4Addr {
    let id = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 | (id[1] & 63), id[2], id[3].clamp(1, 254))
}

fn url(address: Ipv4Addr, mode: &str, root: &Path) -> PathBuf {
    format!("postgres://postgres@{address}/shop?sslmode={mode}&sslrootcert={}", root.display()).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_spoken_to_under_tls_and_only_with_the_right_certificate() {
    let (ours, theirs, at) = (Authority::new("ours"), Authority::new("theirs"), address());
    let mut server = ours.server(at, &at.to_string());
    server.create("shop");
    let books = tempfile::tempdir().unwrap();
    let config = |url: PathBuf| {
        let mut raw = raw_config(url, books.path().join("jwks.json"), 1);
        raw.payments.test_database = Some(books.path().join("payments.db"));
        raw.check().unwrap()
    };
    operator::migrate(&config(url(at, "verify-full", &ours.root()))).await.unwrap();
    let mut shop = Shop::open_with(3, |raw| {
        raw.payments.test_database = Some(raw.database.clone());
        raw.database = url(at, "verify-full", &ours.root());
    })
    .await;
    shop.held("ann").await;
    let plain = server.psql(
        "shop",
        "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
         FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'ropeline-origin'",
    );
    let (under_tls, plain) = plain.trim().split_once('|').unwrap();
    assert!(under_tls != "0" && plain == "0", "{under_tls} connections under TLS, {plain} plain");
    let refused = refusal(config(url(at, "disable", &ours.root()))).await;
    assert!(refused.contains("no encryption"), "{refused}");
    shop.close().await;

    // Certified by somebody else, and certified for another server.
    for (mode, root) in [("verify-full", theirs.root()), ("verify-ca", theirs.root())] {
        let refused = refusal(config(url(at, mode, &root))).await;
        assert!(refused.contains("UnknownIssuer"), "{mode}: {refused}");
    }
    server.stop();
    let other = ours.server(at, "db.example");
    other.create("shop");
    let refused = refusal(config(url(at, "verify-full", &ours.root()))).await;
    assert!(refused.contains("NotValidForName"), "{refused}");
    operator::migrate(&config(url(at, "verify-ca", &ours.root()))).await.unwrap();
}

async fn refusal(config: Config) -> String {
    format!("{:?}", operator::migrate(&config).await.unwrap_err())
}
