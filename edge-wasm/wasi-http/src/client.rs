//! Answers to the client.

use alloc::string::ToString;

use ropeline_edge::{Answer, Reply, Room};
use wasip2::http::types::{ErrorCode, Fields, Method, OutgoingBody, OutgoingResponse, ResponseOutparam};

use crate::exchange::{Answered, Flow};
use crate::head;

/// The client, who waits for an answer.
pub(crate) struct Client {
    response: ResponseOutparam,
    /// It asked for the head alone.
    head_only: bool,
}

impl Client {
    /// Whoever asked with `method`.
    pub(crate) fn new(response: ResponseOutparam, method: &Method) -> Self {
        Self { response, head_only: matches!(method, Method::Head) }
    }

    /// Answers with this.
    pub(crate) fn answer(self, answer: &Answer) {
        let fields = Fields::new();
        for (name, value) in &answer.headers {
            head::append(&fields, name, value.as_bytes());
        }
        head::append(&fields, "content-length", answer.body.len().to_string().as_bytes());
        let Some(body) = self.start(answer.status, fields) else { return };
        let Ok(stream) = body.write() else { return };
        // Pieces of at most 4,096 bytes are what this call takes.
        let written =
            answer.body.as_bytes().chunks(4096).all(|piece| stream.blocking_write_and_flush(piece).is_ok());
        drop(stream);
        if written {
            let _ = OutgoingBody::finish(body, None);
        }
    }

    /// Hands on the answer of an upstream.
    pub(crate) fn relay(self, reply: Reply, answered: Answered) {
        let fields = Fields::new();
        let entries = answered.response.headers().entries();
        let is_set = |name: &str| name.eq_ignore_ascii_case("cache-control");
        let said = entries.iter().filter(|(name, _)| is_set(name)).map(|(_, value)| value.as_slice());
        let set = reply.sets(said);
        for (name, value) in &entries {
            let replaced = set.is_some() && is_set(name);
            if !replaced && !reply.removes(name) {
                head::append(&fields, name, value);
            }
        }
        if let Some((name, value)) = set {
            head::append(&fields, name, value.as_bytes());
        }
        self.stream(answered.response.status(), fields, answered);
    }

    /// Hands on the room that the gateway gave.
    pub(crate) fn room(self, room: &Room, answered: Answered) {
        let fields = Fields::new();
        for (name, value) in answered.response.headers().entries() {
            if Room::keeps(&name) || name.eq_ignore_ascii_case("content-length") {
                head::append(&fields, &name, &value);
            }
        }
        for (name, value) in Room::SETS {
            head::append(&fields, name, value.as_bytes());
        }
        if let Some(seconds) = room.retry_after_s() {
            head::append(&fields, "retry-after", seconds.to_string().as_bytes());
        }
        self.stream(room.status, fields, answered);
    }

    /// Says that an upstream cannot be reached, or does not speak HTTP.
    pub(crate) fn fail(self, error: &ErrorCode) {
        let late = matches!(
            error,
            ErrorCode::ConnectionTimeout
                | ErrorCode::ConnectionReadTimeout
                | ErrorCode::ConnectionWriteTimeout
                | ErrorCode::DnsTimeout
                | ErrorCode::HttpResponseTimeout
        );
        self.refuse(if late { 504 } else { 502 });
    }

    /// Answers with a status and nothing more.
    pub(crate) fn refuse(self, status: u16) {
        let fields = Fields::new();
        head::append(&fields, "content-length", b"0");
        head::append(&fields, "cache-control", b"no-store");
        if let Some(body) = self.start(status, fields) {
            let _ = OutgoingBody::finish(body, None);
        }
    }

    fn stream(self, status: u16, fields: Fields, answered: Answered) {
        let Some(outgoing) = self.start(status, fields) else { return };
        let flow = answered.response.consume().ok().and_then(|incoming| Flow::new(incoming, outgoing));
        if let Some(flow) = flow {
            flow.run(answered.upload);
        }
    }

    /// Sends the head. The body is what remains to be written, if this answer has one.
    fn start(self, status: u16, fields: Fields) -> Option<OutgoingBody> {
        let response = OutgoingResponse::new(fields);
        let valid = response.set_status_code(status).is_ok();
        let has_none = self.head_only || matches!(status, 204 | 304);
        let body = if has_none || !valid { None } else { response.body().ok() };
        ResponseOutparam::set(
            self.response,
            if valid { Ok(response) } else { Err(ErrorCode::HttpProtocolError) },
        );
        body
    }
}
