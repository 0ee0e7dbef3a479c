//! The way to PostgreSQL, where others may listen or answer.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ropeline_origin::{Config, operator};
use ropeline_test_postgres::Postgres;

use crate::authority::Authority;
use crate::common::{Shop, raw_config};

/// A server at `address` with a certificate for `name`.
fn server(authority: &Authority, address: Ipv4Addr, name: &str) -> Postgres {
    let (certificate, key) = authority.certify(name);
    Postgres::start_with_tls(address, &certificate, &key)
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
    let mut server = server(&ours, at, &at.to_string());
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
    let other = self::server(&ours, at, "db.example");
    other.create("shop");
    let refused = refusal(config(url(at, "verify-full", &ours.root()))).await;
    assert!(refused.contains("NotValidForName"), "{refused}");
    operator::migrate(&config(url(at, "verify-ca", &ours.root()))).await.unwrap();
}

async fn refusal(config: Config) -> String {
    format!("{:?}", operator::migrate(&config).await.unwrap_err())
}
