//! Problem documents (RFC 9457): what a client that is not a browser gets when something stands in its way.

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::answer::Answer;

/// One thing that stands in a request's way.
#[derive(Clone, Debug)]
pub struct Problem(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    sale: Option<String>,
    room: Option<String>,
    retry_after_s: Option<u64>,
    proof: Option<ProofWanted>,
    visitor: Option<String>,
}

/// What a client has to compute to go on.
#[derive(Clone, Debug, Serialize)]
pub struct ProofWanted {
    /// How: `sha256`.
    pub algorithm: &'static str,
    /// What the proof begins with.
    pub challenge: String,
    /// Zero bits that its hash has to begin with.
    pub bits: u8,
    /// Until when the challenge is good, in Unix seconds.
    pub expires_at: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sale: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'a ProofWanted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    visitor: Option<&'a str>,
}

impl Problem {
    /// A problem with its stable code, a title that is the same for every occurrence, and what this client can do.
    #[must_use]
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self(Box::new(Parts {
            status,
            code,
            title,
            detail: detail.into(),
            sale: None,
            room: None,
            retry_after_s: None,
            proof: None,
            visitor: None,
        }))
    }

    /// Something failed here that the client cannot mend; what it was is in the log alone.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Something went wrong here",
            "Try again in a moment.",
        )
    }

    /// The same problem, naming the sale.
    #[must_use]
    pub fn sale(mut self, sale: &str) -> Self {
        self.0.sale = Some(sale.to_owned());
        self
    }

    /// The same problem, naming the address of the sale's room.
    #[must_use]
    pub fn room(mut self, room: String) -> Self {
        self.0.room = Some(room);
        self
    }

    /// The same problem, saying when to try again, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry_after_s = Some(seconds);
        self
    }

    /// The same problem, saying what the client may compute instead of waiting.
    #[must_use]
    pub fn proof(mut self, wanted: ProofWanted) -> Self {
        self.0.proof = Some(wanted);
        self
    }

    /// The same problem, naming the new visitor it is about: what an app without a cookie jar sends as `Ropeline-Visitor`.
    #[must_use]
    pub fn visitor(mut self, credential: Option<String>) -> Self {
        self.0.visitor = credential;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The status code.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The answer that carries the document.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let document = Document {
            r#type: format!("urn:ropeline:problem:{}", self.0.code),
            title: self.0.title,
            status: self.0.status.as_u16(),
            detail: &self.0.detail,
            code: self.0.code,
            sale: self.0.sale.as_deref(),
            room: self.0.room.as_deref(),
            retry_after_s: self.0.retry_after_s,
            proof: self.0.proof.as_ref(),
            visitor: self.0.visitor.as_deref(),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut answer = Answer::with_body(self.0.status, "application/problem+json", body);
        if let Some(seconds) = self.0.retry_after_s {
            answer = answer.header(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            // RFC 9110 §11.6.1: a 401 names a scheme.
            answer =
                answer.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Ropeline realm=\"sale\""));
        }
        answer
    }
}
