//! The dangerous switches, all in one place: `[insecure]`. Each is off unless the file says otherwise.

use super::read::Section;
use super::report::Fault;

/// What the operator has accepted knowingly. Every switch that is on is warned about at each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Insecure {
    /// The shop's listeners may speak plain HTTP off loopback with no TLS in front: tokens cross the network
    /// in the clear.
    pub plain_http: bool,
    /// The operator listener may be bound off loopback, where its bearer token crosses the network in the clear.
    pub operator_off_loopback: bool,
    /// Every peer may say who the client is (`X-Forwarded-For` from anywhere is believed).
    pub trust_any_proxy: bool,
    /// The upstream's certificate is not checked.
    pub upstream_certificate_unchecked: bool,
    /// The shop's account keys may come over plain HTTP, where anyone on the way can replace them.
    pub account_keys_over_http: bool,
}

pub(super) fn read(section: Section<'_>) -> Insecure {
    let switch = |key: &'static str, danger: &str| {
        let on = section.or(key, false, |item| item.bool());
        if on {
            section.warn(key, Fault::new(format!("is on: {danger}"), "turn it off before the sale"));
        }
        on
    };
    let read = Insecure {
        plain_http: switch("plain_http", "tokens and cookies cross the network in the clear"),
        operator_off_loopback: switch(
            "operator_off_loopback",
            "the operator's token crosses the network in the clear",
        ),
        trust_any_proxy: switch("trust_any_proxy", "any client may claim any address"),
        upstream_certificate_unchecked: switch(
            "upstream_certificate_unchecked",
            "anyone on the way can pose as the shop",
        ),
        account_keys_over_http: switch(
            "account_keys_over_http",
            "anyone on the way can replace the account keys",
        ),
    };
    section.finish();
    read
}
