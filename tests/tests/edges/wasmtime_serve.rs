//! `wasmtime serve`, with the files of `cdn-config/wasmtime-serve`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, Upstream, run};
use ropeline_tests::edge_hosts::{Missing, binary, permitted};
use ropeline_tests::guests::{deployed, guest, set};
use ropeline_tests::ports::Port;
use ropeline_tests::process::Process;
use ropeline_tests::wait::until;
use tempfile::TempDir;

use crate::renewal::{Exported, an_export_that_goes_on_brings_each_change};
use crate::rotation::{admitted_throughout, keys, settings, visit};
use crate::traffic::{Live, Silent, course};

struct WasmtimeServe;

/// Where the settings are.
const FILE: &str = "settings/settings.json";

/// From so long after a change on every request is judged by it, as the page says.
const FRESH: Duration = Duration::from_secs(1);

/// A copy of the folder that an operator deploys, being served.
struct Served {
    process: Process,
    port: Port,
    folder: TempDir,
}

impl Served {
    async fn start(settings: Option<&str>, gateway: SocketAddr, shop: SocketAddr) -> Result<Self, Missing> {
        let wasmtime = binary("wasmtime")?;
        let folder = tempfile::tempdir().expect("a folder");
        let port = Port::free();
        let mut variables = deployed("wasmtime-serve/edge.env");
        for (line, value) in [
            ("ROPELINE_GATEWAY=https://gateway.example", format!("ROPELINE_GATEWAY=http://{gateway}")),
            ("ROPELINE_SHOP=\n", format!("ROPELINE_SHOP=http://{shop}\n")),
            ("LISTEN=127.0.0.1:8080", format!("LISTEN={}", port.address())),
        ] {
            variables = set(&variables, line, &value);
        }
        let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect("a file");
        write("edge.env", variables);
        fs::create_dir(folder.path().join("settings")).expect("a folder");
        if let Some(settings) = settings {
            write(FILE, settings.to_owned());
        }
        write("serve.sh", deployed("wasmtime-serve/serve.sh"));
        let module = guest("ropeline-edge-wasi-http", "wasm32-wasip2", "wasi-http");
        fs::copy(module, folder.path().join("ropeline_edge_wasi_http.wasm")).expect("the module");
        let mut command = Command::new("sh");
        command.arg("serve.sh").current_dir(folder.path());
        command.env("PATH", search_path(wasmtime.parent().expect("its folder")));
        let mut process = Process::spawn("wasmtime", command, folder.path());
        process.listening(port.address()).await;
        Ok(Self { process, port, folder })
    }

    /// Puts these settings in the place of those that are there, as an export does.
    fn put(&self, settings: &str) {
        let next = self.folder.path().join("settings/next");
        fs::write(&next, settings).expect("a file");
        fs::rename(next, self.folder.path().join(FILE)).expect("it takes the other's place");
    }
}

impl Exported for Served {
    fn address(&self) -> SocketAddr {
        self.port.address()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// `folder`, and wherever programs are found otherwise.
fn search_path(folder: &Path) -> std::ffi::OsString {
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&others)))
        .expect("folders without a colon")
}

impl EdgeUnderTest for WasmtimeServe {
    fn name(&self) -> &str {
        "wasmtime serve"
    }

    fn traits(&self) -> HostTraits {
        HostTraits {
            alters: [RawForm::Target, RawForm::UrlCharacters].into(),
            keeps_host: false,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let served = Served::start(Some(settings), gateway, shop).await?;
        Ok(Running::new(served.port.address(), served))
    }
}

#[tokio::test]
async fn wasmtime_serve_does_as_every_edge_does() {
    run(&WasmtimeServe).await;
}

/// Keys come and go while a visitor is admitted throughout.
#[tokio::test]
async fn keys_rotate_while_shoppers_come() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [old, new] = keys();
    let started = Served::start(Some(&settings(&[&old])), gateway.address(), shop.address()).await;
    let Some(served) = permitted(started) else { return };
    let edge = served.port.address();
    assert_eq!(visit(edge, &new.token()).await, Some(429), "a key that is not published yet");

    served.put(&settings(&[&old, &new]));
    admitted_throughout(edge, &old.token(), tokio::time::sleep(FRESH)).await;
    assert_eq!(visit(edge, &new.token()).await, Some(200), "a key that was published");

    served.put(&settings(&[&new]));
    admitted_throughout(edge, &new.token(), tokio::time::sleep(FRESH)).await;
    assert_eq!(visit(edge, &old.token()).await, Some(429), "a key that was withdrawn");
}

/// An instance that has settings keeps them; one that is new has none, and lets nobody pass.
#[tokio::test]
async fn settings_that_are_refused_later_are_told_and_open_nothing() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, other] = keys();
    let started = Served::start(Some(&settings(&[&key])), gateway.address(), shop.address()).await;
    let Some(served) = permitted(started) else { return };
    let edge = served.port.address();
    assert_eq!(visit(edge, &key.token()).await, Some(200));
    served.put("{}");
    until("an instance has read them", || async {
        let status = visit(edge, &key.token()).await;
        assert!(matches!(status, Some(200 | 503)), "{status:?}");
        let status = visit(edge, &other.token()).await;
        assert!(matches!(status, Some(429 | 503)), "{status:?}");
        let log = served.process.log();
        ["the settings before stay", "nobody passes"]
            .iter()
            .any(|outcome| log.contains(&format!("ropeline: {outcome}: settings_member_invalid")))
            .then_some(())
    })
    .await;
}

impl Live for Served {
    fn address(&self) -> SocketAddr {
        self.port.address()
    }

    async fn renew(&mut self, settings: &str) {
        self.put(settings);
        // Until then instances side by side may differ.
        tokio::time::sleep(FRESH).await;
    }
}

#[tokio::test]
async fn wasmtime_serve_serves_on_whatever_changes_and_whoever_is_away() {
    course("wasmtime serve", Silent::GivenUp, |settings, gateway, shop| async move {
        Served::start(Some(&settings), gateway, shop).await
    })
    .await;
}

#[tokio::test]
async fn an_export_that_goes_on_brings_each_change_to_wasmtime_serve() {
    an_export_that_goes_on_brings_each_change("wasmtime-serve", None, FILE, |gateway, shop| {
        Served::start(None, gateway, shop)
    })
    .await;
}

/// An instance that serves more than one request finds out that its build, or its keys, are broken.
#[tokio::test]
async fn an_instance_whose_known_answer_is_refused_lets_nobody_pass() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, other] = keys();
    let mut document: serde_json::Value = serde_json::from_str(&settings(&[&key])).expect("JSON");
    document["known_answer"] = other.token().into();
    let started = Served::start(Some(&document.to_string()), gateway.address(), shop.address()).await;
    let Some(served) = permitted(started) else { return };
    until("an instance has served a second request", || async {
        (visit(served.port.address(), &key.token()).await == Some(503)).then_some(())
    })
    .await;
    let log = served.process.log();
    assert!(log.contains("nobody passes: settings_known_answer_refused"), "{log}");
}

/// Without settings nobody passes, and the log says why.
#[tokio::test]
async fn settings_that_are_refused_let_nobody_pass() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, _] = keys();
    let misspelt = settings(&[&key]).replace("\"send_to\"", "\"sends_to\"");
    let Some(served) = permitted(Served::start(Some(&misspelt), gateway.address(), shop.address()).await)
    else {
        return;
    };
    assert_eq!(visit(served.port.address(), &key.token()).await, Some(503));
    let log = served.process.log();
    assert!(log.contains("nobody passes: settings_member_unknown"), "{log}");
}
