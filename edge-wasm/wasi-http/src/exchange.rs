//! A request to an upstream, and bodies that flow while others wait.

use alloc::vec::Vec;
use core::iter;

use wasip2::clocks::monotonic_clock;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions,
};
use wasip2::io::poll::{self, Pollable};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

use crate::environment::Origin;

/// How long an upstream may take to accept a connection, and the gateway to begin an answer of its own, in nanoseconds:
/// a room, or the answer to a call. How long a shop may take, behind it or not, is the host's to limit.
const PATIENCE_NS: u64 = 5_000_000_000;

/// How long a shopper may take to begin the body that was announced, in nanoseconds. Whoever never does would keep an
/// instance for ever.
const FIRST_BYTE_NS: u64 = 30_000_000_000;

/// How much is handed over at once, at most, in bytes.
const PIECE: u64 = 64 * 1024;

/// The head of an upstream's answer, and the rest of the request's body, which may still be flowing.
pub(crate) struct Answered {
    pub(crate) response: IncomingResponse,
    pub(crate) upload: Option<Flow>,
}

/// Who has to think about an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The gateway itself.
    Gateway,
    /// The shop, behind the gateway or not.
    Shop,
}

/// Sends a request and waits for the head of the answer.
pub(crate) fn send(
    upstream: &Origin,
    method: &Method,
    target: &str,
    head: Fields,
    body: Option<Body>,
    answers: Answers,
) -> Result<Answered, ErrorCode> {
    let request = OutgoingRequest::new(head);
    let refused = |()| ErrorCode::HttpProtocolError;
    request.set_method(method).map_err(refused)?;
    request.set_scheme(Some(&upstream.scheme)).map_err(refused)?;
    request.set_authority(Some(&upstream.authority)).map_err(refused)?;
    request.set_path_with_query(Some(target)).map_err(refused)?;
    let options = RequestOptions::new();
    // A host that has no such limits has its own.
    let _ = options.set_connect_timeout(Some(PATIENCE_NS));
    if answers == Answers::Gateway {
        let _ = options.set_first_byte_timeout(Some(PATIENCE_NS));
    }

    let mut upload = match body {
        Some(body) => Some(body.flow(request.body().map_err(refused)?).map_err(refused)?),
        None => None,
    };
    let answer = outgoing_handler::handle(request, Some(options))?;
    loop {
        if let Some(response) = received(&answer) {
            return Ok(Answered { response: response?, upload });
        }
        let wait = answer.subscribe();
        match upload.take() {
            None => wait.block(),
            Some(mut flow) => match flow.step() {
                Step::Wait(more) => {
                    poll::poll(&[&wait, &more]);
                    drop(more);
                    upload = Some(flow);
                }
                Step::End => flow.finish(),
                // The answer, or the lack of one, will say why.
                Step::Broken => drop(flow),
            },
        }
    }
}

fn received(answer: &FutureIncomingResponse) -> Option<Result<IncomingResponse, ErrorCode>> {
    answer.get().map(|response| response.unwrap_or(Err(ErrorCode::HttpProtocolError)))
}

/// A request's body, of which something is there.
pub(crate) struct Body {
    // The stream is dropped before the body it belongs to.
    from: InputStream,
    incoming: IncomingBody,
    read: Vec<u8>,
}

impl Body {
    /// A request's body, once its first byte is there. Most requests have none, and must not get the framing of one that
    /// has. The error is the status to answer with.
    pub(crate) fn begun(incoming: IncomingBody) -> Result<Option<Self>, u16> {
        let from = incoming.stream().map_err(|()| 400_u16)?;
        let (some, late) = (from.subscribe(), monotonic_clock::subscribe_duration(FIRST_BYTE_NS));
        loop {
            poll::poll(&[&some, &late]);
            match from.read(PIECE) {
                Err(StreamError::Closed) => return Ok(None),
                Err(StreamError::LastOperationFailed(_)) => return Err(400),
                Ok(read) if read.is_empty() && late.ready() => return Err(408),
                Ok(read) if read.is_empty() => {}
                Ok(read) => {
                    drop(some);
                    return Ok(Some(Self { from, incoming, read }));
                }
            }
        }
    }

    fn flow(self, outgoing: OutgoingBody) -> Result<Flow, ()> {
        let to = outgoing.write()?;
        let Self { from, incoming, read } = self;
        Ok(Flow { from, to, incoming, outgoing, read })
    }
}

/// A body on its way from one side to the other. Dropped before [`Flow::finish`], it is cut off there as well.
pub(crate) struct Flow {
    // Streams are dropped before the bodies they belong to.
    from: InputStream,
    to: OutputStream,
    incoming: IncomingBody,
    outgoing: OutgoingBody,
    /// What has been read and not written.
    read: Vec<u8>,
}

/// What a body did.
enum Step {
    /// It waits for this.
    Wait(Pollable),
    /// All of it is through.
    End,
    /// One side is gone.
    Broken,
}

impl Flow {
    /// A flow of this body.
    pub(crate) fn new(incoming: IncomingBody, outgoing: OutgoingBody) -> Option<Self> {
        let from = incoming.stream().ok()?;
        let to = outgoing.write().ok()?;
        Some(Self { from, to, incoming, outgoing, read: Vec::new() })
    }

    /// Moves what can be moved without waiting.
    fn step(&mut self) -> Step {
        loop {
            let room = match self.to.check_write() {
                Ok(0) => return Step::Wait(self.to.subscribe()),
                Ok(room) => room.min(PIECE),
                Err(_) => return Step::Broken,
            };
            if !self.read.is_empty() {
                let length = usize::try_from(room).map_or(self.read.len(), |room| room.min(self.read.len()));
                let rest = self.read.split_off(length);
                if self.to.write(&self.read).is_err() {
                    return Step::Broken;
                }
                self.read = rest;
                continue;
            }
            match self.to.splice(&self.from, room) {
                Ok(0) => return Step::Wait(self.from.subscribe()),
                Ok(_) => {}
                Err(StreamError::Closed) => return Step::End,
                Err(StreamError::LastOperationFailed(_)) => return Step::Broken,
            }
        }
    }

    /// Says that the body is whole.
    fn finish(self) {
        let Self { from, to, incoming, outgoing, .. } = self;
        drop((from, to));
        // Where the other side is gone, or was promised another length, it knows.
        let _ = OutgoingBody::finish(outgoing, None);
        drop(incoming);
    }

    /// Lets the body through to its end while `other` may flow the other way.
    pub(crate) fn run(mut self, mut other: Option<Self>) {
        loop {
            let wait = match self.step() {
                Step::Wait(wait) => wait,
                Step::End => return self.finish(),
                Step::Broken => return,
            };
            let more = match other.take() {
                None => None,
                Some(mut flow) => match flow.step() {
                    Step::Wait(more) => {
                        other = Some(flow);
                        Some(more)
                    }
                    Step::End => {
                        flow.finish();
                        None
                    }
                    Step::Broken => None,
                },
            };
            let waits: Vec<&Pollable> = iter::once(&wait).chain(&more).collect();
            poll::poll(&waits);
        }
    }
}
