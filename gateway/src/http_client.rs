//! A client for the few documents that are fetched: key sets, a draw, the operator's calls.

/// A builder that can fetch `address`. Only an `https` one loads the system's certificates, so that calls on loopback
/// work in an image that has none.
pub fn builder(address: &str) -> reqwest::ClientBuilder {
    // reqwest comes without a crypto provider of its own; a second call in one process finds the first's.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder();
    if address.starts_with("https://") { builder } else { builder.tls_certs_only([]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_address_get_a_client() {
        for address in ["http://127.0.0.1:9900", "https://shop.example/jwks.json"] {
            builder(address).build().unwrap();
        }
    }
}
