//! The same proxy without a waiting room: the yardstick for what the checks cost.
//!
//! `bare_proxy LISTEN UPSTREAM THREADS`, each address as `ip:port`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::modules::http::HttpModules;
use pingora::proxy::{ProxyHttp, Session, http_proxy_service};
use pingora::server::Server;
use pingora::server::configuration::ServerConf;
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};

struct Bare(SocketAddr);

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> pingora::Result<Box<HttpPeer>> {
        let mut peer = HttpPeer::new(self.0, false, String::new());
        let options = &mut peer.options;
        options.connection_timeout = Some(Duration::from_secs(3));
        options.total_connection_timeout = Some(Duration::from_secs(3));
        options.read_timeout = Some(Duration::from_secs(30));
        options.write_timeout = Some(Duration::from_secs(30));
        options.idle_timeout = Some(Duration::from_secs(60));
        options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
        Ok(Box::new(peer))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, listen, upstream, threads] = arguments.as_slice() else {
        return Err("usage: bare_proxy LISTEN UPSTREAM THREADS".into());
    };
    let conf = ServerConf { threads: threads.parse()?, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&Arc::clone(&server.configuration), Bare(upstream.parse()?));
    proxy.add_tcp(listen);
    server.add_service(proxy);
    server.run_forever()
}
