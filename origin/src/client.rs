//! The one way in which this service makes HTTP clients.

use std::time::Duration;

use http::Uri;

/// How long any answer is waited for.
const ANSWER: Duration = Duration::from_secs(5);

/// A client for the server at `url` that follows no redirects and waits a bounded time. What may go without TLS because it
/// stays on this machine is not given to the proxy that the environment may name.
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn new(url: &str) -> Result<reqwest::Client, reqwest::Error> {
    // Whoever runs the service in a process of its own making may have chosen a provider already; that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(ANSWER).redirect(reqwest::redirect::Policy::none());
    let client = if url.parse().is_ok_and(|uri| is_local(&uri)) { client.no_proxy() } else { client };
    client.build()
}

/// Whether it is on this machine.
pub(crate) fn is_local(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
