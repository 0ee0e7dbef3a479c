//! The OpenAPI document against the service that serves it, by `schemathesis`, which makes requests of it that are right and
//! requests that are wrong, and holds every answer to it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use ropeline_origin::config::RawKind;
use ropeline_origin::{RawConfig, operator};
use ropeline_test_postgres::Postgres;
use serde_json::Value;

use crate::common::{Shop, product, said};
use crate::postgres;

const VERSION: &str = "4.32.5";
/// Everything but `positive_data_acceptance`: a product, a label or a means of payment that does not exist is refused,
/// though it is written well.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,allow_header_conformance,use_after_free,\
                      ensure_resource_availability,ignored_auth";
/// The whole run.
const TIME: Duration = Duration::from_secs(60);

fn schemathesis() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
    let program = cache.join(format!("ropeline/schemathesis-{VERSION}/bin/schemathesis"));
    assert!(program.exists(), "{} is missing: run scripts/setup.sh test", program.display());
    program
}

/// Runs it against a shop, as a visitor who was let in.
async fn hold_to_its_document(shop: &Shop) {
    let folder = tempfile::tempdir().unwrap();
    // Names that exist, so that not every call ends at the first look-up.
    std::fs::write(
        folder.path().join("schemathesis.toml"),
        "[[operations]]\ninclude-path-regex = \"^/products/\"\nparameters = { \"path.id\" = [\"runner\", \"gala\"] }\n",
    )
    .unwrap();
    let run = tokio::process::Command::new(schemathesis())
        .current_dir(folder.path())
        .args(["--no-color", "run", &format!("{}/openapi.json", shop.base)])
        .args(["--header", &format!("ropeline-admission: {}", shop.gate.token("ann"))])
        .args(["--checks", CHECKS, "--seed", "20250101", "--max-examples", "25", "--continue-on-failure"])
        .args(["--workers", "2", "--generation-database", "none", "--no-shrink", "--warnings", "off"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(TIME, run).await.expect("schemathesis took too long").unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(output.contains("No issues found"), "{output}");
}

/// Both kinds of products, and extensions.
fn offer(raw: &mut RawConfig) {
    raw.hold_extension_seconds = 60;
    let mut gala = product("gala", 500);
    gala.kind = RawKind::Units;
    raw.products.push(gala);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_openapi_document_says() {
    let shop = Shop::open_with(1_000, offer).await;
    hold_to_its_document(&shop).await;
    shop.stock().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_on_postgres_is_as_the_openapi_document_says() {
    let server = Postgres::start();
    let url = server.create("shop");
    let mut probe = Shop::open(1).await;
    probe.close().await;
    postgres::on(&mut probe.raw, &url);
    operator::migrate(&probe.raw.clone().check().unwrap()).await.unwrap();
    let shop = Shop::open_with(1_000, |raw| {
        postgres::on(raw, &url);
        offer(raw);
    })
    .await;
    hold_to_its_document(&shop).await;
    shop.stock().await;
}

#[tokio::test]
async fn the_document_has_every_route_and_is_open_to_everybody() {
    let shop = Shop::open(1).await;
    let said =
        said(shop.request(Method::GET, "/openapi.json").header("x-forwarded-for", "203.0.113.9")).await;
    assert_eq!(said.status, 200);
    assert!(said.body["openapi"].as_str().unwrap().starts_with("3.1"), "{}", said.body["openapi"]);
    let Value::Object(paths) = &said.body["paths"] else { panic!("no paths: {}", said.text) };
    let all: Vec<String> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    for route in [
        "get /products/{id}",
        "post /products/{id}/reservations",
        "get /reservations/{id}",
        "delete /reservations/{id}",
        "post /reservations/{id}/cancel",
        "post /reservations/{id}/extension",
        "post /reservations/{id}/purchases",
        "get /purchases/{id}",
        "get /purchases/{id}/return",
        "get /checkout/{id}",
        "post /webhooks/payments",
        "get /healthz",
        "get /audit",
        "get /metrics",
        "get /openapi.json",
        "get /assets/shop.css",
    ] {
        assert!(all.iter().any(|one| one == route), "{route} is not in {all:?}");
    }
    let reserve = &said.body["paths"]["/products/{id}/reservations"]["post"];
    assert!(reserve["responses"]["409"]["content"]["application/problem+json"].is_object(), "{reserve}");
    assert!(reserve["responses"]["201"]["headers"]["Ropeline-Stock"].is_object(), "{reserve}");
    let key = &reserve["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "Idempotency-Key");
    assert_eq!(key.unwrap()["required"], true);
}
