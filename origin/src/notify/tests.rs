use serde_json::json;

use super::mail::{Unfit, confirmation};
use super::*;
use crate::config::RawConfig;

fn config() -> NotifyConfig {
    let text = r#"
listen = "127.0.0.1:8081"
database = "origin.db"
public_url = "https://shop.example/"
[admission]
jwks_file = "keys.json"
issuer = "https://shop.example"
audience = "sneaker"
[payments]
webhook_secret = "whsec_0123456789abcdef"
[outbox]
redis_url = "redis://127.0.0.1:6379"
[notify]
smtp_url = "smtp://127.0.0.1:2525"
from = "Läden & Söhne <orders@shop.example>"
[[products]]
id = "runner"
name = "Night <b>Runner</b>"
price_minor = 18900
currency = "EUR"
total = 2
"#;
    RawConfig::from_toml(text).unwrap().check().unwrap().notify.unwrap()
}

fn event(kind: &str, payload: &str) -> HashMap<String, String> {
    let fields = [("id", "evt_1"), ("kind", kind), ("payload", payload)];
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn sold(email: Option<&str>) -> String {
    let reservation = json!({ "product": "runner", "quantity": 2, "units": ["A-1", "<i>"] });
    let purchase =
        json!({ "id": "pur_1", "amount_minor": 37_800, "currency": "EUR", "reservation": reservation });
    json!({ "purchase": purchase, "email": email, "visitor": "ann" }).to_string()
}

#[test]
fn a_confirmation_says_what_was_bought_and_nothing_of_it_is_markup() {
    let mail =
        confirmation(&config(), &event("purchase.sold", &sold(Some("ann@example.org")))).unwrap().unwrap();
    let raw = String::from_utf8(mail.formatted()).unwrap();
    assert!(raw.contains("Message-ID: <evt_1@shop.example>\r\n"), "{raw}");
    assert!(
        raw.contains("To: ann@example.org\r\n") && raw.contains("Auto-Submitted: auto-generated\r\n"),
        "{raw}"
    );
    assert_eq!(mail.envelope().to()[0].to_string(), "ann@example.org");
    let soft = raw.replace("=\r\n", "").replace("=C3=97", "×");
    assert!(soft.contains("2 × Night <b>Runner</b>\r\nUnits: A-1, <i>\r\nPaid: 378.00 EUR"), "{soft}");
    assert!(soft.contains("2 × Night &lt;b&gt;Runner&lt;/b&gt;"), "{soft}");
    assert!(soft.contains("Units: A-1, &lt;i&gt;</p>"), "{soft}");
    assert!(soft.contains("https://shop.example/purchases/pur_1"), "{soft}");
}

#[test]
fn what_asks_for_no_mail_gets_none_and_what_cannot_have_one_is_told_apart() {
    let mail =
        |kind, payload: &str| confirmation(&config(), &event(kind, payload)).map(|mail| mail.is_some());
    assert_eq!(mail("purchase.refunded", "{}"), Ok(false));
    assert_eq!(mail("purchase.sold", &sold(None)), Ok(false));
    assert_eq!(mail("purchase.sold", &sold(Some("ann@example.org"))), Ok(true));
    assert_eq!(mail("purchase.sold", "{}"), Err(Unfit::Unreadable));
    assert_eq!(mail("purchase.sold", "not json"), Err(Unfit::Unreadable));
    for bad in ["", "ann", "ann@example.org\r\nBcc: all@example.org", "ann@example.org, bob@example.org"] {
        assert_eq!(mail("purchase.sold", &sold(Some(bad))), Err(Unfit::Address), "{bad:?}");
    }
    assert!(matches!(confirmation(&config(), &HashMap::new()), Err(Unfit::Unreadable)));
}
