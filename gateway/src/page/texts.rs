//! The words of the page, apart from its markup, and the few rules for numbers and durations in words.
//!
//! One TOML file per language, embedded. The script reads the same texts from the page, so both say the same.

use serde::{Deserialize, Serialize};

use super::input::{State, Uninvited};

/// A language the page can speak.
///
/// Adding one: a file in `room/texts/` and a variant here; the compiler names the rest.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Language {
    /// English.
    #[default]
    English,
}

impl Language {
    /// The language tag (RFC 5646), as in the page's `lang`.
    #[must_use]
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::English => include_str!("../../room/texts/en.toml"),
        }
    }
}

/// Title, headline and detail of one state.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StateText {
    pub(super) title: String,
    pub(super) headline: String,
    pub(super) detail: String,
}

/// Declares the tables of a text file, so that a key missing in a language is found at start and not by a shopper.
macro_rules! tables {
    ($($table:ident { $($key:ident),+ $(,)? })+) => {$(
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $table { $(pub(super) $key: String),+ }
    )+};
}

tables! {
    Number { group }
    Label { lane, place, ahead, eta, progress, joins_open, opens, draw, beacon, reason }
    Button { join, claim, rejoin, retry, leave_summary, leave_detail, leave }
    Note { join, refresh, retrying, retrying_outside, busy, busy_outside, away, away_outside, held, beacon, beacon_late, within, proving, crowded }
    Eta { unknown, under_minute, under_two_minutes, seconds, minutes, hours, hours_minutes, up_to, about, between }
    Check {
        summary, arrival, size, seed, server, own, agree, differ, committed, broken, late, document,
        public, seen, unseen, frozen_late, public_broken, fallback, round, value, beacon,
    }
    Live { progress }
    Invitation {
        summary, label, button, needed, used, expired, not_yet_valid, other_sale, other_lane, other_visitor, invalid,
    }
}

/// The texts of every state; `blocked`, `stuck` and `refused` are said by the script alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct States {
    pub(super) scheduled: StateText,
    pub(super) joining: StateText,
    pub(super) pre_queue: StateText,
    pub(super) in_draw: StateText,
    pub(super) drawing: StateText,
    pub(super) waiting: StateText,
    pub(super) paused: StateText,
    pub(super) called: StateText,
    pub(super) admitted: StateText,
    pub(super) recall: StateText,
    pub(super) lapsed: StateText,
    pub(super) left: StateText,
    pub(super) sold_out: StateText,
    pub(super) closed: StateText,
    pub(super) blocked: StateText,
    pub(super) stuck: StateText,
    pub(super) refused: StateText,
}

/// All the texts of one language.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) number: Number,
    pub(super) state: States,
    pub(super) label: Label,
    pub(super) button: Button,
    pub(super) note: Note,
    pub(super) eta: Eta,
    pub(super) check: Check,
    pub(super) live: Live,
    pub(super) invitation: Invitation,
}

impl States {
    pub(super) const fn get(&self, state: State) -> &StateText {
        match state {
            State::Scheduled => &self.scheduled,
            State::Joining => &self.joining,
            State::PreQueue => &self.pre_queue,
            State::InDraw => &self.in_draw,
            State::Drawing => &self.drawing,
            State::Waiting => &self.waiting,
            State::Paused => &self.paused,
            State::Called => &self.called,
            State::Admitted => &self.admitted,
            State::Recall => &self.recall,
            State::Lapsed => &self.lapsed,
            State::Left => &self.left,
            State::SoldOut => &self.sold_out,
            State::Closed => &self.closed,
        }
    }
}

impl Invitation {
    pub(super) fn refused(&self, why: Uninvited) -> &str {
        match why {
            Uninvited::Needed => &self.needed,
            Uninvited::Used => &self.used,
            Uninvited::Expired => &self.expired,
            Uninvited::NotYetValid => &self.not_yet_valid,
            Uninvited::OtherSale => &self.other_sale,
            Uninvited::OtherLane => &self.other_lane,
            Uninvited::OtherVisitor => &self.other_visitor,
            Uninvited::Invalid => &self.invalid,
        }
    }
}

impl Texts {
    pub(super) fn load(language: Language) -> Result<Self, toml::de::Error> {
        toml::from_str(language.source())
    }

    /// A number with its digits in groups of three.
    pub(super) fn number(&self, n: u64) -> String {
        let digits = n.to_string();
        let mut out = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                out.push_str(&self.number.group);
            }
            out.push(digit);
        }
        out
    }

    /// A wait in words: rounded outwards, coarser the longer it is, and never more exact than it is known.
    pub(super) fn wait(&self, eta: Option<ropeline_queue::flow::EtaRange>) -> String {
        let Some(eta) = eta else {
            return self.eta.unknown.clone();
        };
        let high_minutes = eta.high_s.max(eta.low_s).div_ceil(60);
        if high_minutes <= 1 {
            return self.eta.under_minute.clone();
        }
        let high = high_minutes.next_multiple_of(step(high_minutes));
        let low_minutes = eta.low_s / 60;
        let low = low_minutes - low_minutes % step(low_minutes);
        let high_words = self.duration(high);
        if low == 0 {
            fill(&self.eta.up_to, &[("high", &high_words)])
        } else if low == high {
            fill(&self.eta.about, &[("high", &high_words)])
        } else {
            let low_words = if high < 60 { low.to_string() } else { self.duration(low) };
            fill(&self.eta.between, &[("low", &low_words), ("high", &high_words)])
        }
    }

    /// Whole minutes in words.
    pub(super) fn duration(&self, minutes: u64) -> String {
        let (hours, rest) = (minutes / 60, minutes % 60);
        if hours == 0 {
            fill(&self.eta.minutes, &[("n", &minutes.to_string())])
        } else if rest == 0 {
            fill(&self.eta.hours, &[("h", &hours.to_string())])
        } else {
            fill(&self.eta.hours_minutes, &[("h", &hours.to_string()), ("m", &rest.to_string())])
        }
    }
}

/// How coarsely so many minutes are told.
const fn step(minutes: u64) -> u64 {
    match minutes {
        0..=10 => 1,
        11..=60 => 5,
        61..=180 => 15,
        _ => 60,
    }
}

/// Puts values in the place of `{name}`; a name that is not given stays as it is.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, tail) = rest.split_at(open);
        out.push_str(before);
        let named = tail.find('}').and_then(|close| {
            let value = values.iter().find(|(name, _)| *name == &tail[1..close])?.1;
            Some((value, close))
        });
        if let Some((value, close)) = named {
            out.push_str(value);
            rest = &tail[close + 1..];
        } else {
            out.push('{');
            rest = &tail[1..];
        }
    }
    out.push_str(rest);
    out
}

/// A Unix time as RFC 3339 in UTC, to the second: what a `<time>` element carries.
pub(super) fn rfc3339(unix_ms: u64) -> String {
    let (year, month, day, second) = civil(unix_ms);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The same for people whose time zone is not known.
pub(super) fn utc_words(unix_ms: u64) -> String {
    let (year, month, day, second) = civil(unix_ms);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

/// Year, month, day and second of the day in the proleptic Gregorian calendar
/// (H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
const fn civil(unix_ms: u64) -> (u64, u64, u64, u64) {
    let seconds = unix_ms / 1000;
    let z = seconds / 86_400 + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day, seconds % 86_400)
}
