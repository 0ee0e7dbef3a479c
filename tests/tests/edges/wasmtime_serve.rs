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
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::rotation::{admitted_throughout, keys, settings, visit};
use crate::traffic::{Live, Road, Silent, course};

struct WasmtimeServe;

/// A copy of the folder that an operator deploys, being served.
struct Served {
    process: Process,
    port: Port,
    _folder: TempDir,
}

impl Served {
    async fn start(settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Self, Missing> {
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
        write("settings.env", format!("ROPELINE_SETTINGS='{settings}'\n"));
        write("serve.sh", deployed("wasmtime-serve/serve.sh"));
        let module = guest("ropeline-edge-wasi-http", "wasm32-wasip2", "wasi-http");
        fs::copy(module, folder.path().join("ropeline_edge_wasi_http.wasm")).expect("the module");
        let mut command = Command::new("sh");
        command.arg("serve.sh").current_dir(folder.path());
        command.env("PATH", search_path(wasmtime.parent().expect("its folder")));
        let mut process = Process::spawn("wasmtime", command, folder.path());
        process.listening(port.address()).await;
        Ok(Self { process, port, _folder: folder })
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
        let served = Served::start(settings, gateway, shop).await?;
        Ok(Running::new(served.port.address(), served))
    }
}

#[tokio::test]
async fn wasmtime_serve_does_as_every_edge_does() {
    run(&WasmtimeServe).await;
}

/// The settings of this host hold as long as its process: whoever renews them starts the next one beside it.
#[tokio::test]
async fn a_new_process_with_new_keys_takes_over_while_the_old_one_serves() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [old, new] = keys();
    let start = |settings: String| {
        let (gateway, shop) = (gateway.address(), shop.address());
        async move { Served::start(&settings, gateway, shop).await }
    };
    let Some(mut first) = permitted(start(settings(&[&old])).await) else { return };
    assert_eq!(visit(first.port.address(), &new.token()).await, Some(429), "a key that is not published yet");

    let both = start(settings(&[&old, &new]));
    let (second, visits) = admitted_throughout(first.port.address(), &old.token(), both).await;
    let second = second.expect("installed, as before");
    assert!(visits > 0, "nobody came meanwhile");
    for token in [old.token(), new.token()] {
        assert_eq!(visit(second.port.address(), &token).await, Some(200));
    }
    interrupt(&first.process);
    assert!(first.process.ended(Duration::from_secs(20)).await.success(), "it ends in peace");

    let (third, visits) =
        admitted_throughout(second.port.address(), &new.token(), start(settings(&[&new]))).await;
    let third = third.expect("installed, as before");
    assert!(visits > 0, "nobody came meanwhile");
    assert_eq!(visit(third.port.address(), &new.token()).await, Some(200));
    assert_eq!(visit(third.port.address(), &old.token()).await, Some(429), "a key that was withdrawn");
}

/// The one that serves, and where it sends.
struct Serving {
    served: Served,
    gateway: SocketAddr,
    shop: SocketAddr,
}

impl Live for Serving {
    fn address(&self) -> SocketAddr {
        self.served.port.address()
    }

    async fn renew(&mut self, settings: &str, road: &Road) {
        let next = Served::start(settings, self.gateway, self.shop).await.expect("installed, as before");
        road.leads_to(next.port.address()).await;
        let mut before = std::mem::replace(&mut self.served, next);
        interrupt(&before.process);
        assert!(before.process.ended(Duration::from_secs(20)).await.success(), "it ends in peace");
    }
}

#[tokio::test]
async fn wasmtime_serve_serves_on_whatever_changes_and_whoever_is_away() {
    course("wasmtime serve", Silent::GivenUp, |settings, gateway, shop| async move {
        Ok(Serving { served: Served::start(&settings, gateway, shop).await?, gateway, shop })
    })
    .await;
}

/// As Ctrl-C does: it takes no more connections, and lets requests that it has come to their end.
fn interrupt(process: &Process) {
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(id, Signal::INT).expect("a process that runs");
}

/// An instance that serves more than one request finds out that its build, or its keys, are broken.
#[tokio::test]
async fn an_instance_whose_known_answer_is_refused_lets_nobody_pass() {
    let (gateway, shop) = (Upstream::open("gateway").await, Upstream::open("shop").await);
    let [key, other] = keys();
    let mut document: serde_json::Value = serde_json::from_str(&settings(&[&key])).expect("JSON");
    document["known_answer"] = other.token().into();
    let started = Served::start(&document.to_string(), gateway.address(), shop.address()).await;
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
    let Some(served) = permitted(Served::start(&misspelt, gateway.address(), shop.address()).await) else {
        return;
    };
    assert_eq!(visit(served.port.address(), &key.token()).await, Some(503));
    let log = served.process.log();
    assert!(log.contains("nobody passes: settings_member_unknown"), "{log}");
}
