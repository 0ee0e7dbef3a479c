//! The settings that edges are given.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{AROUND, ISSUER};
use crate::conformance::tokens::{Claims, Key};

/// What the generator knows of one settings document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// Where requests go on to.
    pub(super) to: &'static str,
    /// Whether cookies bear the `__Host-` prefix.
    pub(super) secure: bool,
    pub(super) api_prefix: &'static str,
}

/// What the generator knows of one sale.
#[derive(Debug)]
pub(super) struct Sale {
    pub(super) name: &'static str,
    pub(super) epoch: u64,
    pub(super) page: u16,
    pub(super) other: u16,
}

const PREFIX: &str = "/api/v1/queue";

const fn setting(name: &'static str, to: &'static str) -> Setting {
    Setting { name, to, secure: false, api_prefix: PREFIX }
}

/// In front of the gateway.
pub(super) const GATEWAY: Setting = setting("gateway", "gateway");
/// In front of the shop.
pub(super) const SHOP: Setting = setting("shop", "shop");
/// In front of the shop, for shoppers who come over TLS.
pub(super) const SECURE: Setting = Setting { secure: true, ..setting("secure", "shop") };
/// The gateway's own calls live elsewhere, and everything else is protected.
pub(super) const WHOLE: Setting = Setting { api_prefix: "/queue", ..setting("whole", "shop") };
/// No leeway.
pub(super) const PRECISE: Setting = setting("precise", "shop");
/// As much leeway as there can be.
pub(super) const LENIENT: Setting = setting("lenient", "shop");
/// Not renewed in time: nobody passes.
pub(super) const CLOSED: Setting = setting("closed", "shop");
/// Not renewed in time: everybody passes.
pub(super) const OPEN: Setting = setting("open", "shop");
/// To be renewed later.
pub(super) const LASTING: Setting = setting("lasting", "gateway");
/// To be renewed by this second; nobody passes after it.
pub(super) const CLOSING: Setting = setting("closing", "shop");
/// To be renewed by this second; everybody passes after it.
pub(super) const OPENING: Setting = setting("opening", "shop");
/// No sale at all.
pub(super) const IDLE: Setting = setting("idle", "gateway");

/// Everything at its default.
pub(super) const DROP: Sale = Sale { name: "drop", epoch: 3, page: 200, other: 401 };
/// Below a path of the former.
pub(super) const VIP: Sale = Sale { name: "vip", epoch: 0, page: 503, other: 429 };
pub(super) const EARLY: Sale = Sale { name: "early-2026", epoch: 4_294_967_295, page: 202, other: 401 };
pub(super) const BUSY: Sale = Sale { name: "7", epoch: 1, page: 429, other: 429 };
/// Its gate is open.
pub(super) const OUTLET: Sale = Sale { name: "outlet", epoch: 2, page: 200, other: 401 };
/// Letter case counts.
pub(super) const EXACT: Sale = Sale { name: "exact", epoch: 0, page: 200, other: 401 };
/// On one host only.
pub(super) const HOSTED: Sale = Sale { name: "hosted", epoch: 0, page: 200, other: 429 };
/// Letters beyond ASCII.
pub(super) const CAFE: Sale = Sale { name: "cafe", epoch: 0, page: 200, other: 401 };

/// Where [`HOSTED`] is.
pub(super) const HOST: &str = "only.example";

/// The documents, by name.
pub(super) fn documents(now: u64, keys: &[Key; 2]) -> BTreeMap<String, Value> {
    let jwks = json!({ "keys": [keys[0].jwk(), keys[1].jwk()] });
    let sales = sales();
    let document = |setting: &Setting, leeway: Option<u64>, expiry: Option<(u64, &str)>, sales: &Value| {
        let mut policy = json!({
            "issuer": ISSUER,
            "api_prefix": setting.api_prefix,
            "secure_cookies": setting.secure,
            "sales": sales,
        });
        if let Some(leeway) = leeway {
            policy["leeway_seconds"] = leeway.into();
        }
        let mut document =
            json!({ "version": 1, "policy": policy, "keys": jwks, "known_answer": known_answer(&keys[0]) });
        // What is left out has its default.
        if setting.to != "gateway" {
            document["send_to"] = setting.to.into();
        }
        if let Some((at, then)) = expiry {
            document["expires_at"] = at.into();
            document["past_expiry"] = then.into();
        }
        (setting.name.to_owned(), document)
    };
    let everything =
        json!([{ "sale": DROP.name, "epoch": DROP.epoch, "gate": "queue", "routes": [{ "path": "/" }] }]);
    BTreeMap::from([
        document(&GATEWAY, None, None, &sales),
        document(&SHOP, Some(5), None, &sales),
        document(&SECURE, None, None, &sales),
        document(&WHOLE, None, None, &everything),
        document(&PRECISE, Some(0), None, &sales),
        document(&LENIENT, Some(60), None, &sales),
        document(&CLOSED, None, Some((now - AROUND, "closed")), &sales),
        document(&OPEN, None, Some((now - AROUND, "open")), &sales),
        document(&LASTING, None, Some((now + AROUND, "open")), &sales),
        document(&CLOSING, None, Some((now, "closed")), &sales),
        document(&OPENING, None, Some((now, "open")), &sales),
        document(&IDLE, None, None, &json!([])),
    ])
}

/// A token that verifies and holds for nothing.
fn known_answer(key: &Key) -> String {
    let claims = Claims {
        iss: ISSUER.to_owned(),
        aud: "known-answer".to_owned(),
        sub: "nobody".to_owned(),
        iat: 0,
        nbf: 0,
        exp: 1,
        epoch: 0,
    };
    key.token(&claims)
}

fn sales() -> Value {
    json!([
        {
            "sale": DROP.name, "epoch": DROP.epoch, "gate": "queue",
            "routes": [{ "path": "/sale" }],
            "bypass": ["/sale/assets", "=/sale/info", "*.css", "*.tar.gz"],
        },
        {
            "sale": VIP.name, "epoch": VIP.epoch, "gate": "queue",
            "routes": [{ "path": "/sale/vip" }, { "path": "=/preview" }],
            "page_status": VIP.page, "other_status": VIP.other,
        },
        {
            "sale": EARLY.name, "epoch": EARLY.epoch, "gate": "queue",
            "routes": [{ "path": "/early" }],
            "page_status": EARLY.page, "other_status": EARLY.other,
        },
        {
            "sale": BUSY.name, "epoch": BUSY.epoch, "gate": "queue",
            "routes": [{ "path": "/busy" }, { "path": "/also/busy/" }],
            "page_status": BUSY.page, "other_status": BUSY.other,
        },
        { "sale": OUTLET.name, "epoch": OUTLET.epoch, "gate": "open", "routes": [{ "path": "/outlet" }] },
        {
            "sale": EXACT.name, "epoch": EXACT.epoch, "gate": "queue",
            "routes": [{ "path": "/Exact" }],
            "ignore_case": false,
        },
        {
            "sale": HOSTED.name, "epoch": HOSTED.epoch, "gate": "queue",
            "routes": [{ "host": HOST, "path": "/sale" }, { "host": HOST, "path": "/hosted" }],
            "other_status": HOSTED.other,
        },
        { "sale": CAFE.name, "epoch": CAFE.epoch, "gate": "queue", "routes": [{ "path": "/caf%C3%A9 noir".replace(' ', "%20") }] },
    ])
}
