//! The one way in which this service makes HTTP clients.

use std::time::Duration;

/// How long any answer is waited for.
const ANSWER: Duration = Duration::from_secs(5);

/// A client that follows no redirects and waits a bounded time.
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn new() -> Result<reqwest::Client, reqwest::Error> {
    // Whoever runs the service in a process of its own making may have chosen a provider already; that one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(ANSWER).redirect(reqwest::redirect::Policy::none()).build()
}
