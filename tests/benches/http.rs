//! What the gateway does over HTTP, side by side with what it is measured against, in one run.
//!
//! One worker each, 64 connections, `wrk` and nginx beside them on the same machine. Every pair is measured in turns;
//! medians of the rounds and their ratio are printed. `ROUNDS` and `SECONDS` shorten or lengthen it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark: it prints what it found, and stops at what went wrong"
)]

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::measure::{median, setting};
use ropeline_tests::ports::Port;
use ropeline_tests::process::{Process, binary};

/// The size of the shop's answer in bytes.
const ANSWER: usize = 1_024;
const CONNECTIONS: &str = "64";

/// What is asked of one server.
struct Target {
    name: &'static str,
    url: String,
    headers: Vec<String>,
    script: Option<PathBuf>,
}

impl Target {
    fn new(name: &'static str, url: String) -> Self {
        Self { name, url, headers: Vec::new(), script: None }
    }

    fn header(mut self, line: &str) -> Self {
        self.headers.push(line.to_owned());
        self
    }

    /// Requests a second over `seconds`.
    fn measure(&self, seconds: u64) -> f64 {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", "-c", CONNECTIONS, "-d", &format!("{seconds}s")]);
        for header in &self.headers {
            wrk.args(["-H", header]);
        }
        if let Some(script) = &self.script {
            wrk.arg("-s").arg(script);
        }
        let output = wrk.arg(&self.url).output().expect("wrk");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("Non-2xx"), "{}: answers other than 2xx:\n{text}", self.name);
        let line = text.lines().find(|line| line.starts_with("Requests/sec:"));
        let number =
            line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{}: wrk said\n{text}", self.name))
    }
}

/// Measures the targets in turns and prints medians and how the first compares with each other one.
fn compare(title: &str, targets: &[Target]) {
    let (rounds, seconds) = (setting("ROUNDS", 5), setting("SECONDS", 4));
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); targets.len()];
    for target in targets {
        target.measure(1);
    }
    for _ in 0..rounds {
        for (target, found) in targets.iter().zip(&mut found) {
            found.push(target.measure(seconds));
        }
    }
    let medians: Vec<f64> = found.iter_mut().map(|rates| median(rates)).collect();
    println!("{title}");
    for (target, rate) in targets.iter().zip(&medians) {
        println!("  {:<34} {rate:>9.0}/s   {:.3} × of it is the first", target.name, medians[0] / rate);
    }
}

fn nginx(folder: &Path, files: SocketAddr, proxy: SocketAddr) -> Process {
    fs::create_dir_all(folder.join("www")).expect("a folder");
    let configuration = format!(
        "daemon off; master_process off; pid {0}/nginx.pid; error_log {0}/error.log;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; default_type text/html; keepalive_requests 1000000;
           client_body_temp_path {0}/t1; proxy_temp_path {0}/t2; fastcgi_temp_path {0}/t3;
           uwsgi_temp_path {0}/t4; scgi_temp_path {0}/t5;
           upstream shop {{ server {files}; keepalive 64; keepalive_requests 1000000; }}
           server {{ listen {files}; root {0}/www; }}
           server {{ listen {proxy};
             location / {{ proxy_pass http://shop; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}
         }}",
        folder.display()
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, configuration).expect("a configuration");
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(Path::new).into_iter().find(|path| path.exists());
    let program = program.expect("nginx; `make bench` installs it");
    let arguments = ["-c".as_ref(), path.as_os_str(), "-p".as_ref(), folder.as_os_str()];
    Process::start("nginx", program, arguments, folder, &[])
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let (files, nginx_proxy, bare) = (Port::free(), Port::free(), Port::free());
    let mut nginx = nginx(folder.path(), files.address(), nginx_proxy.address());
    nginx.listening(files.address()).await;
    let www = folder.path().join("www");
    fs::create_dir_all(www.join("sale")).expect("a folder");
    fs::write(www.join("sale/item"), "x".repeat(ANSWER)).expect("a file");

    let program = binary("examples/bare_proxy");
    let arguments = [bare.address().to_string(), files.address().to_string(), "1".to_owned()];
    let mut bare_proxy = Process::start("bare_proxy", &program, arguments, folder.path(), &[]);
    bare_proxy.listening(bare.address()).await;

    let sale = Sale::new("bench", &["/sale"])
        .set("max_active", "1000000")
        .set("lease", r#""1h""#)
        .set("pace", r#"{ admit = 1000000, every = "1s" }"#);
    // The same queue with nobody called, so that a ticket of it waits.
    let waiting = Sale::new("waiting", &["/waiting"]).set("opens_at", r#""2100-01-01T00:00:00Z""#);
    let settings = Settings::new(files.address()).set("limits", "threads", "1");
    let gateway = Gateway::start(settings, &[sale, waiting]).await;

    let client = ropeline_tests::http::client();
    let ticket = join(&client, &gateway, "waiting").await;
    let admission = admit(&client, &gateway).await;
    let snapshot = get(&client, &gateway.url("/api/v1/queue/sales/waiting/snapshot")).await;
    let room = get(&client, &gateway.url("/api/v1/queue/sales/waiting/room")).await;
    fs::write(www.join("snapshot"), &snapshot).expect("a file");
    fs::write(www.join("room"), &room).expect("a file");
    println!("snapshot {} bytes, room {} bytes (identity)", snapshot.len(), room.len());

    let item = "/sale/item";
    let on = |address: SocketAddr, path: &str| format!("http://{address}{path}");
    compare(
        "forwarding an admitted request",
        &[
            Target::new("ropeline", gateway.url(item)).header(&admission),
            Target::new("bare Pingora", on(bare.address(), item)).header(&admission),
            Target::new("nginx proxy_pass", on(nginx_proxy.address(), item)).header(&admission),
        ],
    );
    compare(
        "snapshot",
        &[
            Target::new("ropeline", gateway.url("/api/v1/queue/sales/waiting/snapshot")),
            Target::new("nginx, a file of that size", on(files.address(), "/snapshot")),
        ],
    );
    compare(
        "room",
        &[
            Target::new("ropeline", gateway.url("/api/v1/queue/sales/waiting/room")),
            Target::new("nginx, a file of that size", on(files.address(), "/room")),
        ],
    );
    compare(
        "status with a ticket",
        &[
            Target::new("ropeline", gateway.url("/api/v1/queue/status?sale=waiting")).header(&ticket),
            Target::new("snapshot", gateway.url("/api/v1/queue/sales/waiting/snapshot")),
        ],
    );

    let script = folder.path().join("join.lua");
    fs::write(
        &script,
        "wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"application/json\"\nwrk.body = '{\"sale\":\"waiting\"}'\n",
    )
    .expect("a script");
    let mut joins = Target::new("ropeline, each join a new visitor", gateway.url("/api/v1/queue/join"));
    joins.script = Some(script);
    compare("join over HTTP, ticket signed, durable", &[joins]);
}

async fn get(client: &reqwest::Client, url: &str) -> Vec<u8> {
    let answer = client.get(url).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{url}: {}", answer.status());
    answer.bytes().await.expect("a body").to_vec()
}

/// The `Cookie` line of a visitor who joined.
async fn join(client: &reqwest::Client, gateway: &Gateway, sale: &str) -> String {
    cookies(&post(client, gateway, "join", sale, "").await)
}

/// The `Cookie` line of a visitor who joined, was called and claimed.
async fn admit(client: &reqwest::Client, gateway: &Gateway) -> String {
    let ticket = join(client, gateway, "bench").await;
    loop {
        let answer = post(client, gateway, "claim", "bench", &ticket).await;
        if answer.status().is_success() {
            let admission = cookies(&answer);
            let admission = admission.strip_prefix("Cookie: ").expect("a cookie line");
            return format!("{ticket}; {admission}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn post(
    client: &reqwest::Client,
    gateway: &Gateway,
    call: &str,
    sale: &str,
    cookie: &str,
) -> reqwest::Response {
    let mut request =
        client.post(gateway.url(&format!("/api/v1/queue/{call}"))).json(&serde_json::json!({ "sale": sale }));
    if let Some(cookie) = cookie.strip_prefix("Cookie: ") {
        request = request.header("cookie", cookie);
    }
    request.send().await.expect("an answer")
}

fn cookies(answer: &reqwest::Response) -> String {
    let mut line = String::from("Cookie: ");
    for value in answer.headers().get_all("set-cookie") {
        let pair = value.to_str().expect("text").split(';').next().expect("a pair");
        let separator = if line.len() > 8 { "; " } else { "" };
        write!(line, "{separator}{pair}").expect("memory");
    }
    line
}
