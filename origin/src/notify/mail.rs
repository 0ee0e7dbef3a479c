//! What a confirmation says.

use std::collections::HashMap;

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, Message};
use serde::Deserialize;

use crate::config::NotifyConfig;
use crate::markup::{money, text};

/// Of what happened, what a mail tells.
const SOLD: &str = "purchase.sold";

/// Why there can be no mail of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    /// It is not as the outbox writes it.
    #[error("it cannot be read")]
    Unreadable,
    /// No mail can be sent to what the shopper gave.
    #[error("no address")]
    Address,
    /// It cannot be put into a mail.
    #[error("it makes no mail")]
    Mail,
}

#[derive(Deserialize)]
struct Sold {
    purchase: Bought,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Bought {
    id: String,
    amount_minor: i64,
    currency: String,
    reservation: Units,
}

#[derive(Deserialize)]
struct Units {
    product: String,
    quantity: i64,
    #[serde(default)]
    units: Vec<String>,
}

/// The mail that an event asks for; `None`: it is not told, or the shopper gave no address.
///
/// # Errors
/// When there can be none.
pub(super) fn confirmation(
    config: &NotifyConfig,
    event: &HashMap<String, String>,
) -> Result<Option<Message>, Unfit> {
    let [id, kind, payload] =
        ["id", "kind", "payload"].map(|name| event.get(name).map(String::as_str).ok_or(Unfit::Unreadable));
    if kind? != SOLD {
        return Ok(None);
    }
    let Sold { purchase, email } = serde_json::from_str(payload?).map_err(|_| Unfit::Unreadable)?;
    let Some(email) = email else { return Ok(None) };
    let to = mailbox(&email).ok_or(Unfit::Address)?;
    let Bought { id: purchase, amount_minor, currency, reservation } = purchase;
    let Units { product, quantity, units } = reservation;
    let product = one_line(config.products.get(&product).unwrap_or(&product));
    let order = format!("{quantity} × {product}");
    let units = (!units.is_empty()).then(|| one_line(&units.join(", ")));
    let paid = money(amount_minor, &currency);
    let page = format!("{}/purchases/{purchase}", config.shop);

    let listed = units.as_ref().map(|units| format!("Units: {units}\n")).unwrap_or_default();
    let plain = format!(
        "Thank you for your order.\n\n{order}\n{listed}Paid: {paid}\nOrder number: {purchase}\n\n\
         You can look at it here:\n{page}\n"
    );
    let listed = units.map(|units| format!("<p>Units: {}</p>\n", text(&units))).unwrap_or_default();
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Your order</title></head>\n<body>\n\
         <p>Thank you for your order.</p>\n<p><strong>{}</strong></p>\n{listed}<p>Paid: {paid}</p>\n\
         <p>Order number: {}</p>\n<p><a href=\"{page}\">Look at your order</a></p>\n</body>\n</html>\n",
        text(&order),
        text(&purchase),
        page = text(&page),
    );
    let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
    Message::builder()
        .from(config.from.clone())
        .to(to)
        .subject(format!("Your order: {product}"))
        .message_id(Some(format!("<{}@{}>", one_line(id?), config.from.email.domain())))
        // Nobody's absence note is to answer it (RFC 3834).
        .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
        .multipart(MultiPart::alternative_plain_html(plain, html))
        .map(Some)
        .map_err(|_| Unfit::Mail)
}

/// Whom a mail to this address goes to; `None`: to nobody. Hosts in other letters than ASCII's are written as mail servers of any
/// age know them (RFC 5891).
pub(crate) fn mailbox(email: &str) -> Option<Mailbox> {
    let (name, host) = email.rsplit_once('@')?;
    let host = if host.is_ascii() { host.to_owned() } else { idna::domain_to_ascii(host).ok()? };
    Some(Mailbox::new(None, Address::new(name, host).ok()?))
}

/// Whatever it is, it starts no line of its own.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
