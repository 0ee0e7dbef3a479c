//! The gateway's side of the edges: the settings that it exports say what it decides itself, and the module that edges
//! run decides in its stead, or beside it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

use reqwest::{Method, StatusCode};
use ropeline_edge::{Act, Field, Request, Settings as EdgeSettings};
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::process::binary;
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use ropeline_tests::wait::until;
use ropeline_tests::{guests, http};
use serde_json::{Value, json};

static MODULE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let module = guests::guest("ropeline-edge-abi", "wasm32-unknown-unknown", "abi");
    fs::read(module).expect("the module")
});

/// The module with another name for one refusal: a build of another release.
fn other_module() -> Vec<u8> {
    let (known, other) = (b"token_missing", b"token_lacking");
    let mut module = MODULE.clone();
    let at = module.windows(known.len()).position(|window| window == known).expect("the name of a refusal");
    module[at..at + other.len()].copy_from_slice(other);
    module
}

fn ropeline(arguments: &[&str]) -> Output {
    Command::new(binary("ropeline")).args(arguments).output().expect("ropeline")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

async fn deciding(module: &[u8], mode: &str, sales: &[Sale]) -> (Shop, Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("edge.wasm");
    fs::write(&file, module).expect("the module");
    let shop = Shop::open().await;
    let settings = Settings::new(shop.address()).set("edge", "module", &format!("{:?}", text(&file))).set(
        "edge",
        "mode",
        &format!("{mode:?}"),
    );
    let gateway = Gateway::start(settings, sales).await;
    (shop, gateway, folder)
}

/// A counter, as Prometheus reads it.
async fn counted(gateway: &Gateway, line: &str) -> u64 {
    let url = format!("http://{}/metrics", gateway.operator_address());
    let answer = http::client().get(url).bearer_auth(gateway.operator_token()).send().await.expect("metrics");
    let metrics = answer.text().await.expect("metrics");
    let value = metrics.lines().find_map(|other| other.strip_prefix(line)?.trim().parse().ok());
    value.unwrap_or_default()
}

async fn shadowed(gateway: &Gateway, result: &str) -> u64 {
    counted(gateway, &format!("ropeline_edge_shadow_total{{result=\"{result}\"}}")).await
}

fn export(gateway: &Gateway, more: &[&str]) -> EdgeSettings {
    let config = gateway.folder().join("ropeline.toml");
    let all = [&["edge", "export", "-c", text(&config), "--for", "cloudflare"], more].concat();
    let output = ropeline(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    EdgeSettings::from_json(&output.stdout).expect("settings")
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs()
}

/// In a word what the gateway did: `shop`, `room 503`, or the code of a problem.
fn done(answer: &Answer) -> String {
    let kind = answer.header("content-type").unwrap_or_default();
    if answer.text() == BODY {
        "shop".to_owned()
    } else if kind.starts_with("text/html") {
        format!("room {}", answer.status.as_u16())
    } else {
        format!("{} {}", answer.problem(), answer.status.as_u16())
    }
}

/// The same of what an edge would do.
fn planned(
    settings: &EdgeSettings,
    method: &str,
    host: &str,
    target: &str,
    fields: &[(String, String)],
) -> String {
    let headers: Vec<Field<'_>> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let plan = settings.plan(&Request { method, host, target, headers: &headers }, now());
    match plan.act {
        Act::Forward(_) => "shop".to_owned(),
        Act::Room(room) => format!("room {}", room.status),
        Act::Answer(answer) => {
            let problem: Value = serde_json::from_str(&answer.body).expect("a problem");
            format!("{} {}", problem["code"].as_str().expect("a code"), answer.status)
        }
    }
}

#[tokio::test]
async fn an_edge_with_the_exported_settings_does_what_the_gateway_does() {
    let shop = Shop::open().await;
    let sales = [
        Sale::new("drop", &["/sale", "=/preview"])
            .set("page_status", "503")
            .set("bypass", r#"["*.css", "/sale/info"]"#),
        Sale::new("hosts", &["/gala"]).set("hosts", r#"["gala.test"]"#),
    ];
    let gateway = Gateway::start(Settings::new(shop.address()), &sales).await;
    let visitor = Visitor::new(&gateway);
    assert_eq!(visitor.join("drop").await.status, StatusCode::OK);
    let claimed = until("the visitor is called", || async {
        let claimed = visitor.claim("drop").await;
        (claimed.status == StatusCode::OK).then_some(claimed)
    })
    .await;
    let token = claimed.json()["admission_token"].as_str().expect("a token").to_owned();
    let ours = visitor.cookies();
    let with_token = |extra: &[(&str, &str)]| {
        let cookies: Vec<_> = ours.iter().filter(|(name, _)| !name.contains("admission")).collect();
        let cookie =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let mut fields =
            vec![("cookie".to_owned(), cookie), ("ropeline-admission".to_owned(), token.clone())];
        fields.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        fields
    };
    let page = ("accept", BROWSER_ACCEPT);
    let plain = |extra: &[(&str, &str)]| -> Vec<(String, String)> {
        extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let requests = [
        ("GET", "shop.test", "/", plain(&[page])),
        ("GET", "shop.test", "/sale", plain(&[page])),
        ("GET", "shop.test", "/SALE/7?a=b", plain(&[page])),
        ("GET", "shop.test", "/sale", plain(&[("accept", "application/json")])),
        ("POST", "shop.test", "/sale", plain(&[])),
        ("GET", "shop.test", "/sale/style.css", plain(&[])),
        ("GET", "shop.test", "/sale/info", plain(&[page])),
        ("GET", "shop.test", "/preview", plain(&[])),
        ("GET", "shop.test", "/preview/more", plain(&[])),
        ("GET", "shop.test", "/gala", plain(&[page])),
        ("GET", "gala.test", "/gala", plain(&[page])),
        ("GET", "GALA.test:80", "//gala/x", plain(&[])),
        ("GET", "shop.test", "/sale%2f7", plain(&[page])),
        ("GET", "shop.test", "/sale", plain(&[("ropeline-admission", "forged")])),
        ("GET", "shop.test", "/sale/7", with_token(&[])),
        ("POST", "shop.test", "/sale/7", with_token(&[])),
        ("GET", "gala.test", "/gala", with_token(&[])),
        ("GET", "shop.test", "/late", plain(&[])),
    ];
    let compare = async |settings: &EdgeSettings| {
        let mut seen = Vec::new();
        for (method, host, target, fields) in &requests {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let stranger = Visitor::new(&gateway);
            let answer = stranger
                .send(method.clone(), target, |request| {
                    let request = request.header("host", *host);
                    fields.iter().fold(request, |request, (name, value)| request.header(name, value))
                })
                .await;
            let (gateway, edge) = (done(&answer), planned(settings, method.as_str(), host, target, fields));
            assert_eq!(edge, gateway, "{method} {host} {target}");
            seen.push(gateway);
        }
        seen
    };
    let before = compare(&export(&gateway, &[])).await;
    for word in ["shop", "room 503", "room 200", "path_ambiguous 400", "admission_missing 401"] {
        assert!(before.iter().any(|seen| seen == word), "nothing came out as {word}: {before:?}");
    }
    assert_eq!((before[14].as_str(), before[17].as_str()), ("shop", "shop"));

    // A sale that is created, and one whose tokens are revoked, are in the very next export.
    let late =
        json!({ "id": "late", "max_active": 2, "protect": { "routes": ["/late"], "other_status": 429 } });
    let (status, answer) = gateway.operator(Method::POST, "/api/v1/operator/sales", Some(&late)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    gateway.command("drop", "revoke", &Value::Null).await;
    let after = compare(&export(&gateway, &[])).await;
    assert_eq!((after[14].as_str(), after[17].as_str()), ("epoch_outdated 401", "admission_missing 429"));

    let settings = export(&gateway, &["--send-to", "shop", "--expires-in", "1h", "--past-expiry", "open"]);
    let left = settings.expires_at().expect("an end") - now();
    assert!((3_590..=4_500).contains(&left), "{left}");
}

#[tokio::test]
async fn a_shopper_lives_through_a_sale_that_the_module_decides() {
    let (shop, gateway, _folder) = deciding(&MODULE, "module", &[Sale::new("drop", &["/sale"])]).await;
    let visitor = Visitor::new(&gateway);
    assert_eq!(visitor.visit("/").await.text(), BODY);
    assert!(visitor.visit("/sale").await.text().contains("Sale drop"));
    assert_eq!(visitor.fetch("/sale").await.problem(), "admission_missing");
    assert_eq!(visitor.fetch("/sale%2f7").await.problem(), "path_ambiguous");
    assert_eq!(visitor.join("drop").await.status, StatusCode::OK);
    until("the visitor is called", || async {
        (visitor.claim("drop").await.status == StatusCode::OK).then_some(())
    })
    .await;
    assert_eq!(visitor.visit("//sale/./7?a=b").await.text(), BODY);
    let admitted = shop.requests().pop().expect("a request");
    assert!(admitted.line.starts_with("GET /sale/7?a=b "), "{}", admitted.line);
    let told = |name: &str, value: &str| {
        admitted.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v == value)
    };
    assert!(told("ropeline-sale", "drop"), "{:?}", admitted.headers);

    // What only the gateway knows still counts: whose the pass is, and that it was given up.
    let thief = Visitor::new(&gateway);
    for (name, value) in visitor.cookies().iter().filter(|(name, _)| name.contains("admission")) {
        thief.keep_cookie(name, value);
    }
    assert_eq!(thief.fetch("/sale").await.problem(), "admission_missing");
    let again = visitor.another_tab();
    assert_eq!(visitor.leave("drop").await.status, StatusCode::NO_CONTENT);
    assert_ne!(again.fetch("/sale").await.text(), BODY);

    // A policy that changes reaches the module before the operator is answered.
    let late = json!({ "id": "late", "max_active": 2, "protect": { "routes": ["/late"] } });
    assert_eq!(visitor.visit("/late").await.text(), BODY);
    let (status, answer) = gateway.operator(Method::POST, "/api/v1/operator/sales", Some(&late)).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(visitor.fetch("/late").await.problem(), "admission_missing");
    assert_eq!(counted(&gateway, "ropeline_failures_total{code=\"edge_module\"}").await, 0);
    assert_eq!(counted(&gateway, "ropeline_edge_policies_total{result=\"refused\"}").await, 0);
}

#[tokio::test]
async fn a_module_beside_the_gateway_says_the_same_and_one_of_another_release_is_found_out() {
    let ask = async |gateway: &Gateway| {
        let visitor = Visitor::new(gateway);
        visitor.visit("/").await;
        visitor.visit("/sale%2f7").await;
        visitor.join("drop").await;
        until("the visitor is called", || async {
            (visitor.claim("drop").await.status == StatusCode::OK).then_some(())
        })
        .await;
        for path in ["/sale", "//sale/7?a", "/sale/./x"] {
            assert_eq!(visitor.visit(path).await.text(), BODY);
        }
    };
    let (_shop, gateway, _folder) = deciding(&MODULE, "shadow", &[Sale::new("drop", &["/sale"])]).await;
    ask(&gateway).await;
    Visitor::new(&gateway).fetch("/sale").await;
    until("all has been compared", || async { (shadowed(&gateway, "agree").await >= 8).then_some(()) }).await;
    for result in ["differ", "failed", "skipped"] {
        assert_eq!(shadowed(&gateway, result).await, 0, "{result}");
    }

    let (_shop, gateway, _folder) =
        deciding(&other_module(), "shadow", &[Sale::new("drop", &["/sale"])]).await;
    ask(&gateway).await;
    assert_eq!(Visitor::new(&gateway).fetch("/sale?secret").await.problem(), "admission_missing");
    until("the difference is counted", || async { (shadowed(&gateway, "differ").await > 0).then_some(()) })
        .await;
    assert_eq!((shadowed(&gateway, "differ").await, shadowed(&gateway, "failed").await), (1, 0));
    let mut gateway = gateway;
    let log = gateway.process().log();
    assert!(log.contains("the edge module decides otherwise") && !log.contains("secret"), "{log}");
}

#[tokio::test]
async fn where_the_module_gives_no_verdict_nobody_passes() {
    let (shop, gateway, _folder) =
        deciding(&other_module(), "module", &[Sale::new("drop", &["/sale"])]).await;
    let visitor = Visitor::new(&gateway);
    assert_eq!(visitor.visit("/").await.text(), BODY);
    let answer = visitor.visit("/sale").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.text().contains("The waiting room cannot be reached"), "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("private, no-store"));
    assert_eq!(counted(&gateway, "ropeline_failures_total{code=\"edge_module\"}").await, 1);
    assert_eq!(shop.requests().len(), 1);
}

#[tokio::test]
async fn by_a_policy_that_is_not_in_force_any_more_nobody_passes() {
    let (_shop, gateway, _folder) = deciding(&MODULE, "module", &[Sale::new("drop", &["/sale"])]).await;
    let free =
        || async { http::client().get(gateway.url("/free")).send().await.expect("an answer").status() };
    assert_eq!(free().await, StatusCode::OK);
    // More routes than the module reads with the fuel it has.
    let routes: Vec<_> = (0..28_000).map(|number| format!("/{number}")).collect();
    let change = async |routes: Value| {
        let document = json!({ "protect": { "routes": routes } });
        gateway.operator(Method::PATCH, "/api/v1/operator/sales/drop", Some(&document)).await
    };
    let (status, answer) = change(json!(routes)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(free().await, StatusCode::SERVICE_UNAVAILABLE, "by the old policy it is free");
    let (status, answer) = change(json!(["/sale"])).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(free().await, StatusCode::OK);
}

#[test]
fn settings_that_would_open_a_gate_are_not_exported() {
    let output = ropeline(&["edge", "export", "--for", "google-service-extensions", "--send-to", "shop"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("leave out --send-to shop"), "{told}");
}

#[tokio::test]
async fn a_module_that_is_none_is_told_before_the_start() {
    let (_shop, gateway, folder) = deciding(&MODULE, "native", &[Sale::new("drop", &["/sale"])]).await;
    let config = gateway.folder().join("ropeline.toml");
    let module = folder.path().join("edge.wasm");
    let written = fs::read_to_string(&config).expect("the configuration");
    let check = |mode: &str, file: &[u8]| {
        fs::write(&module, file).expect("the module");
        fs::write(&config, written.replace("\"native\"", &format!("{mode:?}"))).expect("the configuration");
        let output = ropeline(&["check", "-c", text(&config)]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check("module", &MODULE).0, Some(0));
    let empty = b"\0asm\x01\0\0\0";
    for (file, told) in
        [(&b"text"[..], "no module of an edge"), (empty, "no module of an edge"), (b"", "no module")]
    {
        for mode in ["module", "shadow"] {
            let (code, words) = check(mode, file);
            assert!(
                code == Some(1) && words.contains(told) && words.contains("edge.module"),
                "{mode}: {words}"
            );
            assert!(words.contains("mend: name the module"), "{words}");
        }
    }
    let (code, words) = check("sidecar", &MODULE);
    assert!(code == Some(1) && words.contains("edge.mode"), "{words}");
}

#[test]
fn a_module_is_put_to_the_vectors_by_a_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = folder.path().join("edge.wasm");
    fs::write(&module, &*MODULE).expect("the module");
    let output = ropeline(&["edge", "test", "--module", text(&module)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().expect("a count");
    let (agree, total) = last.trim_end_matches(" agree").split_once(" of ").expect("two counts");
    assert!(agree == total && total.parse::<usize>().expect("a count") > 300, "{last}");

    fs::write(&module, other_module()).expect("the module");
    let output = ropeline(&["edge", "test", "--module", text(&module)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("code: \"token_lacking\" in place of \"token_missing\""), "{said}");
}
