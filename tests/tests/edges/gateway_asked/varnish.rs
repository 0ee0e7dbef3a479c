//! Varnish, with the file of `cdn-config/varnish`: it keeps what is everybody's, and passes the rest to the gateway.

use std::net::SocketAddr;

use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, set};

use super::{House, haproxy, nginx};

async fn start(gateway: SocketAddr, shop: SocketAddr) -> Result<EdgeHost, Missing> {
    EdgeHost::start("varnish", |address, folder| {
        let mut text = deployed("varnish/default.vcl");
        for (port, address) in [("8080", gateway), ("8081", shop)] {
            text = set(&text, &format!(".port = \"{port}\""), &format!(".port = \"{}\"", address.port()));
        }
        let (work, file) = (folder.join("work"), folder.join("default.vcl"));
        Launch::new()
            .file("default.vcl", text)
            .arguments(["-j", "none", "-F", "-T", "none", "-s", "default,16m", "-a", &address.to_string()])
            .arguments(["-p", "http_req_hdr_len=16k", "-p", "http_req_size=48k"])
            .arguments(["-n".into(), work.into_os_string(), "-f".into(), file.into_os_string()])
    })
    .await
}

a_host_that_asks!("varnish", start);

#[tokio::test]
async fn what_is_static_needs_no_gateway_and_nothing_else_is_static() {
    let Some(mut house) = House::open(start).await else { return };
    haproxy::static_paths(&mut house).await;
}

/// A crowd in the room costs the gateway one request a second.
#[tokio::test]
async fn the_room_comes_from_the_cache() {
    nginx::the_room_is_fetched_for_many_at_once(start).await;
}
