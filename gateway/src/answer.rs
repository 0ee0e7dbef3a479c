//! Answers the gateway makes itself, and the one place where they are written.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;

/// What every answer gets as it is sent.
const ALWAYS: [HeaderName; 2] = [header::CACHE_CONTROL, header::X_CONTENT_TYPE_OPTIONS];

/// How long a request body that nobody will read is drained before the connection is closed.
const DRAIN: Duration = Duration::from_secs(2);

/// Who may keep an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Personal, or true only at this instant: nobody may keep it.
    Never,
    /// The same for everyone for this many seconds.
    PublicFor(u32),
    /// Named by its content: never changes.
    Immutable,
}

impl Caching {
    fn value(self) -> HeaderValue {
        match self {
            Self::Never => HeaderValue::from_static("private, no-store"),
            Self::PublicFor(1) => HeaderValue::from_static("public, max-age=1"),
            Self::PublicFor(seconds) => HeaderValue::try_from(format!("public, max-age={seconds}"))
                .unwrap_or(HeaderValue::from_static("no-cache")),
            Self::Immutable => HeaderValue::from_static("public, max-age=31536000, immutable"),
        }
    }
}

/// A whole answer: its length is known before its first byte is sent.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// Headers besides `Content-Length`, `Cache-Control` and `X-Content-Type-Options`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Who may keep it.
    pub caching: Caching,
    /// The body; empty for 204 and 304.
    pub body: Bytes,
}

impl Answer {
    /// An answer without a body.
    #[must_use]
    pub fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), caching: Caching::Never, body: Bytes::new() }
    }

    /// An answer with a body of the given media type, for nobody to keep.
    #[must_use]
    pub fn with_body(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static(media_type))],
            caching: Caching::Never,
            body: body.into(),
        }
    }

    /// A JSON document for nobody to keep.
    #[must_use]
    pub fn json(status: StatusCode, document: &impl serde::Serialize) -> Self {
        // Documents here are plain structs of strings and numbers; writing one to memory cannot fail.
        let body = serde_json::to_vec(document).unwrap_or_default();
        Self::with_body(status, "application/json", body)
    }

    /// "See other": where a form's sender goes next.
    #[must_use]
    pub fn see_other(location: &str) -> Self {
        let mut answer = Self::empty(StatusCode::SEE_OTHER);
        if let Ok(location) = HeaderValue::try_from(location) {
            answer.headers.push((header::LOCATION, location));
        }
        answer
    }

    /// The same answer with one header more.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same answer, kept by whom `caching` says.
    #[must_use]
    pub fn caching(mut self, caching: Caching) -> Self {
        self.caching = caching;
        self
    }

    /// The same answer, setting a cookie.
    #[must_use]
    pub fn cookie(self, cookie: HeaderValue) -> Self {
        self.header(header::SET_COOKIE, cookie)
    }

    /// Sends the answer downstream.
    ///
    /// A request body that was not read is drained for a short while and the connection is then closed, so that
    /// what is left of it is never taken for the next request.
    ///
    /// # Errors
    /// When the client is gone or too slow.
    pub async fn send(self, session: &mut Session) -> pingora::Result<()> {
        let head = session.req_header().method == Method::HEAD;
        let bodiless = head || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);

        let mut response = ResponseHeader::build(self.status, Some(self.headers.len() + 3))?;
        for (name, value) in self.headers {
            response.append_header(name, value)?;
        }
        response.insert_header(header::CACHE_CONTROL, self.caching.value())?;
        response.insert_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")?;
        if !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            response.insert_header(header::CONTENT_LENGTH, self.body.len())?;
        }

        let downstream = session.as_downstream_mut();
        if !downstream.is_body_done() {
            downstream.set_total_drain_timeout(Some(DRAIN));
            downstream.set_keepalive(None);
        }
        session.write_response_header(Box::new(response), bodiless).await?;
        if !bodiless {
            session.write_response_body(Some(self.body), true).await?;
        }
        Ok(())
    }
}

impl From<ropeline_edge::Answer> for Answer {
    /// What an edge would answer, answered here. Such an answer is nobody's to keep.
    fn from(answer: ropeline_edge::Answer) -> Self {
        let headers = answer.headers.into_iter().filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        });
        Self {
            status: StatusCode::from_u16(answer.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
            headers: headers.filter(|(name, _)| !ALWAYS.contains(name)).collect(),
            caching: Caching::Never,
            body: answer.body.into(),
        }
    }
}
