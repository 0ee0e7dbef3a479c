//! The edge hosts are there, and can be started and stopped.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test, and is printed with its output"
)]

use std::net::SocketAddr;
use std::path::Path;

use ropeline_tests::edge_hosts::{EdgeHost, HOSTS, Launch, binary, permitted};
use ropeline_tests::http;
use ropeline_tests::wait::PATIENCE;

#[test]
fn every_host_is_installed_or_listed_as_unavailable() {
    for missing in HOSTS.iter().filter_map(|host| binary(host).err()) {
        permitted::<()>(Err(missing));
    }
}

#[tokio::test]
async fn a_host_starts_with_its_files_and_stops_when_asked() {
    let Some(mut nginx) = permitted(EdgeHost::start("nginx", nginx).await) else { return };
    let answer = http::client().get(nginx.url("/greeting.txt")).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "good day");
    assert!(nginx.stop(PATIENCE).await.success());
}

fn nginx(address: SocketAddr, folder: &Path) -> Launch {
    let configuration = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr;
        events {{}}
        http {{
            access_log off;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
            uwsgi_temp_path uwsgi; scgi_temp_path scgi;
            server {{ listen {address}; root site; }}
        }}"
    );
    Launch::new()
        .file("nginx.conf", configuration)
        .file("site/greeting.txt", "good day")
        .arguments(["-e", "stderr", "-c", "nginx.conf", "-p"])
        .arguments([folder])
}
