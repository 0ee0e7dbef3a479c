//! The rooms that were fetched of late, and the requests that wait for one. A crowd asks the gateway once a second.

use std::rc::Rc;
use std::time::{Duration, SystemTime};

use ropeline_edge::Room;

/// How long a room is true: as long as the gateway lets caches keep it.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// How many forms of rooms are here at most, beside the plain form of each. A room has one for each language and coding
/// that is asked for.
const FORMS: usize = 64;

/// What the gateway is asked: one form of one room.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The host that the first visitor asks. Rooms do not depend on it.
    host: String,
    path: String,
    asks: [Option<String>; 2],
}

/// A room as the gateway gave it.
pub(crate) struct Page {
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What a request for a room is told.
pub(crate) enum Told {
    /// What the gateway said of late: None if it gave no room.
    Known(Option<Rc<Page>>),
    /// The request waits. Somebody has asked already.
    Waits,
    /// The request waits, and somebody has to ask.
    Ask,
}

/// A room for a request that waited for it.
pub(crate) struct Fetched {
    pub(crate) context: u32,
    pub(crate) room: Room,
    /// None if the gateway did not give one.
    pub(crate) page: Option<Rc<Page>>,
}

#[derive(Default)]
pub(crate) struct Rooms {
    forms: Vec<Form>,
}

struct Form {
    question: Question,
    state: State,
}

enum State {
    /// To be asked for, or asked for by this call, for these.
    Awaited { call: Option<u32>, waiting: Vec<(u32, Room)> },
    /// What the gateway answered, until it is too old. None if it gave no room: a gateway that is in trouble is not asked
    /// more often than one that is well.
    Known { page: Option<Rc<Page>>, until: SystemTime },
}

impl Question {
    /// `asks` are the values of [`Room::ASKS`].
    pub(crate) fn new(host: &str, path: &str, asks: [Option<String>; 2]) -> Self {
        Self { host: host.into(), path: path.into(), asks }
    }

    fn same_form(&self, other: &Self) -> bool {
        self.path == other.path && self.asks == other.asks
    }

    pub(crate) fn fields(&self) -> Vec<(&str, &str)> {
        let mut fields = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", self.host.as_str()),
            (":path", self.path.as_str()),
        ];
        let asks = Room::ASKS.into_iter().zip(&self.asks);
        fields.extend(asks.filter_map(|(name, value)| Some((name, value.as_deref()?))));
        fields
    }
}

impl Page {
    /// The room in an answer of the gateway; None if it is something else.
    pub(crate) fn of(fields: Vec<(String, Vec<u8>)>, body: impl FnOnce() -> Vec<u8>) -> Option<Rc<Self>> {
        let status = fields.iter().find(|(name, _)| name == ":status")?;
        if status.1 != b"200" {
            return None;
        }
        let kept = fields.into_iter().filter(|(name, _)| Room::keeps(name));
        let fields = kept.filter_map(|(name, value)| Some((name, String::from_utf8(value).ok()?))).collect();
        Some(Rc::new(Self { fields, body: body() }))
    }
}

impl Form {
    /// Whether what is known is too old. A clock that was set back ages nothing, and so keeps nothing.
    fn is_past(&self, now: SystemTime) -> bool {
        match self.state {
            State::Known { until, .. } => now >= until || now + KEPT_FOR < until,
            State::Awaited { .. } => false,
        }
    }
}

impl Rooms {
    /// Says what is known of a room, or puts the request among those that wait for it.
    pub(crate) fn ask(&mut self, question: Question, context: u32, room: Room, now: SystemTime) -> Told {
        self.forms.retain(|form| !form.is_past(now));
        let here = |forms: &[Form], question: &Question| {
            forms.iter().position(|form| form.question.same_form(question))
        };
        let mut at = here(&self.forms, &question);
        let mut question = question;
        if at.is_none() && self.forms.len() >= FORMS {
            // Whoever makes up languages without end gets the room in its plain form, as do others meanwhile.
            question.asks = [None, None];
            at = here(&self.forms, &question);
        }
        match at.and_then(|at| self.forms.get_mut(at)).map(|form| &mut form.state) {
            Some(State::Known { page, .. }) => Told::Known(page.clone()),
            Some(State::Awaited { waiting, .. }) => {
                waiting.push((context, room));
                Told::Waits
            }
            None => {
                let state = State::Awaited { call: None, waiting: vec![(context, room)] };
                self.forms.push(Form { question, state });
                Told::Ask
            }
        }
    }

    /// Takes a request out that is gone.
    pub(crate) fn left(&mut self, context: u32) {
        for form in &mut self.forms {
            if let State::Awaited { waiting, .. } = &mut form.state {
                waiting.retain(|(waits, _)| *waits != context);
            }
        }
    }

    pub(crate) fn to_be_asked(&self) -> Vec<Question> {
        let unasked = |form: &&Form| matches!(form.state, State::Awaited { call: None, .. });
        self.forms.iter().filter(unasked).map(|form| form.question.clone()).collect()
    }

    pub(crate) fn asked(&mut self, question: &Question, by: u32) {
        if let Some(Form { state: State::Awaited { call, .. }, .. }) =
            self.forms.iter_mut().find(|form| form.question == *question)
        {
            *call = Some(by);
        }
    }

    /// The call has ended with this page, or with none.
    pub(crate) fn answered(&mut self, call: u32, page: Option<Rc<Page>>, now: SystemTime) -> Vec<Fetched> {
        self.settle(
            |form| matches!(form.state, State::Awaited { call: Some(by), .. } if by == call),
            page,
            now,
        )
    }

    /// The question cannot be asked.
    pub(crate) fn gave_up(&mut self, question: &Question, now: SystemTime) -> Vec<Fetched> {
        self.settle(|form| form.question == *question, None, now)
    }

    fn settle(
        &mut self,
        which: impl Fn(&Form) -> bool,
        page: Option<Rc<Page>>,
        now: SystemTime,
    ) -> Vec<Fetched> {
        let Some(form) = self.forms.iter_mut().find(|form| which(form)) else { return Vec::new() };
        let known = State::Known { page: page.clone(), until: now + KEPT_FOR };
        match std::mem::replace(&mut form.state, known) {
            State::Awaited { waiting, .. } => waiting
                .into_iter()
                .map(|(context, room)| Fetched { context, room, page: page.clone() })
                .collect(),
            State::Known { .. } => Vec::new(),
        }
    }
}
