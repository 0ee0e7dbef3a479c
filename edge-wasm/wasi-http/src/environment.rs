//! What the host's operator says: variables of the component's environment.

use alloc::string::String;

use spin::Once;
use wasip2::http::types::Scheme;

use crate::settings::Source;

/// What this edge must know beside its settings.
pub(crate) struct Environment {
    pub(crate) settings: Source,
    pub(crate) gateway: Origin,
    /// Needed where the settings say `send_to: shop`.
    pub(crate) shop: Option<Origin>,
    /// The field of the request in which this host tells the shopper's address.
    pub(crate) client_address: Option<String>,
}

/// Scheme and authority of an upstream.
pub(crate) struct Origin {
    pub(crate) scheme: Scheme,
    pub(crate) authority: String,
}

static ENVIRONMENT: Once<Option<Environment>> = Once::new();

/// The environment, read once in an instance's life. `None` when the edge cannot do its work with it: nobody passes then.
pub(crate) fn read() -> Option<&'static Environment> {
    ENVIRONMENT
        .call_once(|| match parse() {
            Ok(environment) => Some(environment),
            Err(fault) => {
                complain("nobody passes", fault);
                None
            }
        })
        .as_ref()
}

fn parse() -> Result<Environment, &'static str> {
    let (mut settings, mut gateway, mut shop, mut client_address) = (None, None, None, None);
    for (name, value) in wasip2::cli::environment::get_environment() {
        match name.as_str() {
            _ if value.is_empty() => {}
            "ROPELINE_SETTINGS" => settings = Some(value),
            "ROPELINE_GATEWAY" => gateway = Some(value),
            "ROPELINE_SHOP" => shop = Some(value),
            "ROPELINE_CLIENT_ADDRESS" => client_address = Some(value.to_ascii_lowercase()),
            _ => {}
        }
    }
    let settings = settings.ok_or("ROPELINE_SETTINGS is missing")?;
    Ok(Environment {
        settings: if settings.starts_with('{') { Source::Text(settings) } else { Source::File(settings) },
        gateway: gateway
            .as_deref()
            .and_then(Origin::parse)
            .ok_or("ROPELINE_GATEWAY is not a URL without a path")?,
        shop: match shop.as_deref().map(Origin::parse) {
            Some(None) => return Err("ROPELINE_SHOP is not a URL without a path"),
            shop => shop.flatten(),
        },
        client_address,
    })
}

/// Tells the operator what holds now, and why.
pub(crate) fn complain(outcome: &str, why: &str) {
    let line = ["ropeline: ", outcome, ": ", why, "\n"].concat();
    // Where there is nobody to hear it, the answers still say 503.
    let _ = wasip2::cli::stderr::get_stderr().blocking_write_and_flush(line.as_bytes());
}

impl Origin {
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let plain = !authority.is_empty() && !authority.contains(['/', '?', '#', '@']);
        plain.then(|| Self { scheme, authority: authority.into() })
    }
}
