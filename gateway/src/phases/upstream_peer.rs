//! Which address the request goes to, and how long it may take.

use std::net::SocketAddr;

use pingora::Error;
use pingora::upstreams::peer::{ALPN, HttpPeer, HttpUpstreamRequestPolicy};

use crate::config;

/// A peer with every limit set: Pingora sets none by itself.
pub(super) fn peer(
    address: Option<SocketAddr>,
    settings: &config::Upstream,
) -> pingora::Result<Box<HttpPeer>> {
    let Some(address) = address else {
        return Error::e_explain(pingora::ErrorType::ConnectNoRoute, "the shop's name has no address");
    };
    let sni = settings.tls.as_ref().map(|tls| tls.sni.clone()).unwrap_or_default();
    let mut peer = HttpPeer::new(address, settings.tls.is_some(), sni);
    let options = &mut peer.options;
    options.connection_timeout = Some(settings.connect_timeout);
    options.total_connection_timeout = Some(settings.connect_timeout);
    options.read_timeout = Some(settings.read_timeout);
    options.write_timeout = Some(settings.write_timeout);
    options.idle_timeout = Some(settings.idle_timeout);
    // A POST may be sent twice when an HTTP/2 connection goes away; on HTTP/1.1 it never is.
    options.alpn = ALPN::H1;
    options.http_upstream_request_policy = HttpUpstreamRequestPolicy::deny_upgrades();
    if let Some(tls) = &settings.tls {
        options.verify_cert = tls.verify;
        options.verify_hostname = tls.verify;
    }
    Ok(Box::new(peer))
}
