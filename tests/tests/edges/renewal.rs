//! New settings while shoppers come.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Method;
use ropeline_tests::conformance::vectors::{Act, Case, Vectors};
use ropeline_tests::conformance::{Upstream, generate};
use ropeline_tests::edge_hosts::{EdgeHost, Missing, permitted};
use ropeline_tests::gateway::{Gateway, Settings};
use ropeline_tests::process::{Process, binary};
use ropeline_tests::raw::{Response, exchange};
use ropeline_tests::wait::{PATIENCE, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

/// Settings under which a request is admitted to the shop.
pub(crate) struct Sale {
    vectors: Vectors,
    admitted: Case,
    /// The same request without its token.
    bare: Case,
    key: String,
}

impl Sale {
    /// # Panics
    /// When no vector is of such a request.
    pub(crate) fn new() -> Self {
        let vectors = generate(now());
        let document = &vectors.settings["shop"];
        let known = document["known_answer"].as_str().expect("a token");
        let admitted = vectors.cases.iter().find(|case| {
            let set = matches!(&case.expect.act, Act::Forward { set, .. } if !set.is_empty());
            let fields = case.fields();
            set && case.settings == "shop"
                && case.method == "GET"
                && case.now.is_none()
                && matches!(fields.as_slice(), [(name, value)]
                    if name.eq_ignore_ascii_case("ropeline-admission") && header(known) == header(&String::from_utf8_lossy(value)))
        });
        let admitted = admitted.expect("a request with a token of the first key").clone();
        let bare = Case { headers: Vec::new(), ..admitted.clone() };
        let key = document["keys"]["keys"][0]["kid"].as_str().expect("a name").to_owned();
        Self { admitted, bare, key, vectors }
    }

    /// The settings with both keys.
    pub(crate) fn both_keys(&self) -> String {
        self.vectors.document("shop")
    }

    /// With the key alone that signs.
    pub(crate) fn signing_key(&self) -> String {
        self.with_keys(|kid| kid == self.key)
    }

    /// With the other key alone.
    pub(crate) fn other_key(&self) -> String {
        self.with_keys(|kid| kid != self.key)
    }

    fn with_keys(&self, keep: impl Fn(&str) -> bool) -> String {
        let mut document: Value = self.vectors.settings["shop"].clone();
        let keys = document["keys"]["keys"].as_array_mut().expect("keys");
        keys.retain(|key| key["kid"].as_str().is_some_and(&keep));
        assert_eq!(keys.len(), 1, "the key set has both keys");
        document.as_object_mut().expect("an object").remove("known_answer");
        document.to_string()
    }

    /// The status of the answer to somebody with a token.
    pub(crate) async fn admitted(&self, edge: SocketAddr) -> u16 {
        ask(edge, &self.admitted).await.status
    }

    /// The status of the answer to somebody without one.
    pub(crate) async fn without_token(&self, edge: SocketAddr) -> u16 {
        ask(edge, &self.bare).await.status
    }

    /// Admits all the time, until `done` says so.
    pub(crate) async fn admits_until(&self, edge: SocketAddr, what: &str, mut done: impl FnMut() -> bool) {
        until(what, || {
            let done = done();
            async move {
                assert_eq!(self.admitted(edge).await, 200, "until {what}");
                done.then_some(())
            }
        })
        .await;
    }

    /// Refuses after a while, and admits or refuses until then.
    pub(crate) async fn refuses_soon(&self, edge: SocketAddr) {
        until("the token of a withdrawn key is refused", || async {
            let status = self.admitted(edge).await;
            assert!(matches!(status, 200 | 401), "{status}");
            (status == 401).then_some(())
        })
        .await;
    }
}

/// Unix seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// The header of a token, which names its key.
fn header(token: &str) -> &str {
    token.split('.').next().unwrap_or_default()
}

/// # Panics
/// When there is no answer.
pub(crate) async fn ask(edge: SocketAddr, case: &Case) -> Response {
    let mut bytes =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", case.method, case.target, case.host).into_bytes();
    for (name, value) in case.fields() {
        bytes.extend_from_slice(format!("{name}: ").as_bytes());
        bytes.extend_from_slice(&value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"Connection: close\r\n\r\n");
    exchange(edge, &bytes, LIMIT).await.answer()
}

/// A host whose settings are in a file of its folder.
pub(crate) trait Exported {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// The folder that was deployed.
    fn folder(&self) -> &Path;
}

impl Exported for EdgeHost {
    fn address(&self) -> SocketAddr {
        self.address()
    }

    fn folder(&self) -> &Path {
        self.folder()
    }
}

/// An export with `--every` keeps `file` current, filled into the file `template` of the host's folder where there is one:
/// a sale that is made while shoppers come is soon protected, and stays so while the gateway is away.
pub(crate) async fn an_export_that_goes_on_brings_each_change<H: Exported, F>(
    cdn: &str,
    template: Option<&str>,
    file: &str,
    start: impl FnOnce(SocketAddr, SocketAddr) -> F,
) where
    F: Future<Output = Result<H, Missing>>,
{
    let shop = Upstream::open("shop").await;
    let mut gateway = Gateway::start(Settings::new(shop.address()), &[]).await;
    let Some(host) = permitted(start(gateway.address(), shop.address()).await) else { return };
    let mut command = Command::new(binary("ropeline"));
    command.args(["edge", "export", "--for", cdn, "--every", "1s", "--out", file, "-c"]);
    command.arg(gateway.folder().join("ropeline.toml")).current_dir(host.folder());
    command.args(template.map(|template| ["--template", template]).into_iter().flatten());
    let mut export = Process::spawn("export", command, gateway.folder());

    let page = b"GET /sale HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
    let becomes = |wanted: &'static [u16]| {
        let edge = host.address();
        until("the host has the settings", move || async move {
            wanted.contains(&exchange(edge, page, PATIENCE).await.answer().status).then_some(())
        })
    };
    becomes(&[200]).await;
    let sale = json!({ "id": "drop", "max_active": 5, "protect": { "routes": ["/sale"] } });
    let (status, answer) = gateway.operator(Method::POST, "/api/v1/operator/sales", Some(&sale)).await;
    assert!(status.is_success(), "{answer}");
    becomes(&[401, 429]).await;

    let written = || fs::read(host.folder().join(file)).expect("the file");
    let before = written();
    gateway.process().kill();
    until("the export says that it has failed", || async {
        export.log().contains("left as it is").then_some(())
    })
    .await;
    assert_eq!(written(), before);
    assert!(export.stop(PATIENCE).await.success(), "it ends in peace");
}
