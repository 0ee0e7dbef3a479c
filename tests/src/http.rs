//! The HTTP client of these tests.

use std::time::Duration;

use reqwest::{Client, redirect};

/// A client with connections of its own, that shows redirects and follows none.
pub fn client() -> Client {
    client_within(Duration::from_secs(30))
}

/// The same, that waits so long for an answer.
pub fn client_within(limit: Duration) -> Client {
    // reqwest comes without a provider of cryptography and asks for one even where there is no TLS; that one is
    // installed already is no failure.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().redirect(redirect::Policy::none()).no_proxy();
    client.timeout(limit).build().expect("a client")
}
