//! The file of vectors: requests, and what every edge must do with them.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All vectors for one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vectors {
    /// What the generator's random choices started from.
    pub seed: u64,
    /// The time of every case that names none of its own, in Unix seconds.
    pub now: u64,
    /// Documents that an edge is given, by name.
    pub settings: BTreeMap<String, Value>,
    /// The cases. No two have the same name.
    pub cases: Vec<Case>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it is about.
    pub name: String,
    /// Which settings are in force.
    pub settings: String,
    /// The very second at which it holds, in Unix seconds, for cases about the borders of a time: a host whose clock
    /// cannot be set is not asked. All others hold for an hour around [`Vectors::now`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<u64>,
    /// The method.
    pub method: String,
    /// The `Host` field.
    pub host: String,
    /// The target in the request line.
    pub target: String,
    /// The other fields, in order.
    pub headers: Vec<(String, FieldValue)>,
    /// What is to be done.
    pub expect: Expect,
    /// What another implementation of JOSE must say of the one token that the request bears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jose: Option<Jose>,
}

/// The value of a field: text, or bytes that are none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// As it stands.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes {
        /// Padded base64 (RFC 4648, section 4).
        base64: String,
    },
}

/// The plan, as `Plan::to_json` writes it, and what must not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// What is to be done.
    #[serde(flatten)]
    pub act: Act,
    /// `forward`, `wait`, `reject` or `api`.
    pub kind: String,
    /// The sale that protects the path.
    pub sale: Option<String>,
    /// Why it waits or is rejected.
    pub code: Option<String>,
    /// The request's fields that must not reach the upstream, as the request spells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "lowercase")]
pub enum Act {
    /// It is sent on.
    Forward {
        /// `gateway` or `shop`.
        to: String,
        /// Path and query.
        target: String,
        /// Fields that are set, whatever the request said.
        set: Vec<(String, String)>,
        /// Whether a page stands in for an upstream that cannot be reached.
        room: bool,
    },
    /// The room is the answer.
    Room {
        /// Where the gateway has it.
        path: String,
        /// The status it is served with here.
        status: u16,
    },
    /// It is answered at the edge.
    Answer {
        /// The status.
        status: u16,
        /// Names, in lower case, and values.
        headers: Vec<(String, String)>,
        /// The body, not sent in answer to `HEAD`.
        body: String,
    },
}

/// The judgement of another implementation of JOSE (RFC 7515, RFC 7519, RFC 8037) on the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jose {
    /// The token's audience here: the sale that protects the path.
    pub sale: String,
    /// Whether it takes the token: signature, `typ`, `iss`, `aud`, `nbf` and `exp`.
    pub accepts: bool,
    /// Why Ropeline refuses what JOSE takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stricter: Option<String>,
}

// === impl Vectors ===

impl Vectors {
    /// As JSON, a case to a line, so that a change of one shows as such.
    ///
    /// # Panics
    /// Never: all of it can be written.
    pub fn to_text(&self) -> String {
        let settings =
            self.settings.iter().map(|(name, document)| format!("{}:{document}", Value::from(name.as_str())));
        let cases = self.cases.iter().map(|case| serde_json::to_string(case).expect("JSON"));
        format!(
            "{{\"seed\":{},\"now\":{},\"settings\":{{\n{}\n}},\"cases\":[\n{}\n]}}\n",
            self.seed,
            self.now,
            settings.collect::<Vec<_>>().join(",\n"),
            cases.collect::<Vec<_>>().join(",\n"),
        )
    }

    /// The settings of that name, as the document that an edge reads.
    ///
    /// # Panics
    /// When there are none.
    pub fn document(&self, settings: &str) -> String {
        self.settings.get(settings).unwrap_or_else(|| panic!("no settings {settings}")).to_string()
    }

    /// When `case` is asked, in Unix seconds.
    pub fn time(&self, case: &Case) -> u64 {
        case.now.unwrap_or(self.now)
    }
}

// === impl Case ===

impl Case {
    /// Its fields, as a plan is asked for with.
    pub fn fields(&self) -> Vec<(String, Vec<u8>)> {
        self.headers.iter().map(|(name, value)| (name.clone(), value.bytes())).collect()
    }
}

// === impl FieldValue ===

impl FieldValue {
    /// A value of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => Self::Text(text),
            Err(bytes) => Self::Bytes { base64: Base64::encode_string(bytes.as_bytes()) },
        }
    }

    /// Its bytes.
    ///
    /// # Panics
    /// When the file says base64 and has none.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes { base64 } => Base64::decode_vec(base64).expect("base64"),
        }
    }
}

// === impl Expect ===

impl Expect {
    /// The plan alone, as `Plan::to_json` writes it.
    ///
    /// # Panics
    /// Never: it can be written.
    pub fn plan(&self) -> Value {
        let alone = Self { gone: Vec::new(), ..self.clone() };
        serde_json::to_value(alone).expect("JSON")
    }
}
