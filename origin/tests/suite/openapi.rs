//! The OpenAPI document against the service that serves it, by `schemathesis`, which makes requests of it that are right and
//! requests that are wrong, and holds every answer to it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use ropeline_origin::RawConfig;
use ropeline_origin::config::{RawKind, RawProduct};
use serde_json::{Value, json};

use crate::common::{Shop, product, said};
use crate::postgres;

const VERSION: &str = "4.32.5";
/// Everything but two. `positive_data_acceptance`: a product, a label or a means of payment that does not exist is refused,
/// though it is written well. `use_after_free`: a reservation that was given back can still be looked at.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,allow_header_conformance,\
                      ensure_resource_availability,ignored_auth";
/// The whole run.
const TIME: Duration = Duration::from_secs(240);

fn schemathesis() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
    let program = cache.join(format!("ropeline/schemathesis-{VERSION}/bin/schemathesis"));
    assert!(program.exists(), "{} is missing: run scripts/setup.sh test", program.display());
    program
}

/// Products and means of payment that there are, so that not every call ends at the first look-up, and a key for each call.
/// The steps from one call to the next are the document's own links.
const SETTINGS: &str = r#"
hooks = "hooks.py"

[phases.stateful]
generation = { mode = "positive", max-examples = 40 }
inference = { algorithms = [] }

[dictionaries.products]
values = ["runner", "gala", "walker", "opera"]

[dictionaries.cards]
values = ["test_accepted", "test_slow", "test_declined", "test_lost_reply"]

[dictionaries.keys]
values = ["new"]

[[operations]]
include-path-regex = "^/products/"
parameters = { "path.id" = { dictionary = "products" }, "header.Idempotency-Key" = { dictionary = "keys", probability = 0.9 } }

[[operations]]
include-path-regex = "/(cancel|extension)$"
parameters = { "header.Idempotency-Key" = { dictionary = "keys", probability = 0.9 } }

[[operations]]
include-path-regex = "/purchases$"

[operations.parameters]
"header.Idempotency-Key" = { dictionary = "keys", probability = 0.9 }
"body.payment_method" = { dictionary = "cards", probability = 0.9 }
"#;

/// A key that is named so is made a new one as it is sent.
const HOOKS: &str = r#"
import itertools
import schemathesis

numbers = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.headers and case.headers.get("Idempotency-Key") == "new":
        case.headers["Idempotency-Key"] = f"key-{next(numbers)}"
"#;

/// Of what there is to do, what leads to a purchase.
const ONWARD: [&str; 6] = [
    "--phases",
    "stateful",
    "--include-path-regex",
    "^/products/|^/purchases/[^/]*$|/purchases$|^/reservations/[^/]*$",
    "--exclude-method",
    "DELETE",
];

/// Runs it against a shop, as a visitor who was let in.
async fn hold_to_its_document(shop: &Shop, visitor: &str, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), SETTINGS).unwrap();
    std::fs::write(folder.path().join("hooks.py"), HOOKS).unwrap();
    let run = tokio::process::Command::new(schemathesis())
        .current_dir(folder.path())
        .args(["--no-color", "run", &format!("{}/openapi.json", shop.base)])
        .args(["--header", &format!("ropeline-admission: {}", shop.gate.token(visitor))])
        .args(["--checks", CHECKS, "--seed", "20250101", "--max-examples", "25", "--continue-on-failure"])
        .args(["--generation-database", "none", "--no-shrink", "--warnings", "off"])
        .args(more)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(TIME, run).await.expect("schemathesis took too long").unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(output.contains("No issues found"), "{output}");
}

/// One visitor tries everything; another, at the same time, reserves, pays and looks at what was bought.
async fn hold_two_visitors_to_its_document(shop: &Shop) {
    tokio::join!(hold_to_its_document(shop, "ann", &[]), hold_to_its_document(shop, "bob", &ONWARD));
    let sold: i64 = shop.handle.audit().await.unwrap().products.iter().map(|product| product.sold).sum();
    assert!(sold > 0, "nobody came as far as buying anything");
    shop.stock().await;
}

/// Products of both kinds, and extensions.
fn offer(raw: &mut RawConfig) {
    raw.hold_extension_seconds = 60;
    raw.products.push(product("walker", 500));
    for id in ["gala", "opera"] {
        raw.products.push(RawProduct { kind: RawKind::Units, ..product(id, 500) });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_openapi_document_says() {
    let shop = Shop::open_with(1_000, offer).await;
    hold_two_visitors_to_its_document(&shop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_on_postgres_is_as_the_openapi_document_says() {
    let (_server, url) = Box::pin(postgres::migrated()).await;
    let shop = Shop::open_with(1_000, |raw| {
        postgres::on(raw, &url);
        offer(raw);
    })
    .await;
    hold_two_visitors_to_its_document(&shop).await;
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
    let pay = &said.body["paths"]["/reservations/{id}/purchases"]["post"];
    let asked = pay["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str().unwrap();
    let asked = said.body.pointer(asked.strip_prefix('#').unwrap()).unwrap();
    assert_eq!(asked["required"], json!(["payment_method"]), "what is sent to pay: {asked}");
    for (from, status, to) in [
        (reserve, "201", "pay"),
        (reserve, "201", "extend"),
        (reserve, "200", "cancel"),
        (pay, "202", "purchase"),
    ] {
        let link = &from["responses"][status]["links"][to];
        assert_eq!(
            (&link["operationId"], &link["parameters"]["id"]),
            (&json!(to), &json!("$response.body#/id"))
        );
    }
    let pages = |path: &str, method: &str, status: &str| {
        let answer = &said.body["paths"][path][method]["responses"][status];
        (answer.is_object(), answer["content"]["text/html"].is_object())
    };
    assert_eq!(pages("/products/{id}", "get", "200"), (true, true), "browsers are answered with a page");
    assert_eq!(pages("/products/{id}/reservations", "post", "409"), (true, true));
    assert_eq!(pages("/products/{id}/reservations", "post", "303"), (true, false), "or sent on to one");
    assert_eq!(pages("/reservations/{id}", "get", "303"), (true, false));
    let key = &reserve["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "Idempotency-Key");
    assert_eq!(key.unwrap()["required"], true);
}
