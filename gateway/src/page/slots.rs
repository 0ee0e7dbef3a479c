//! What stands in each slot of the template.

use super::Words;
use super::assets::Assets;
use super::input::{Barrier, Reader, RoomInput, Standing, State, in_first_of};
use super::template::Value;
use super::texts::{Language, StateText, fill, rfc3339, utc_words};

macro_rules! slots {
    ($($name:literal => $slot:ident),+ $(,)?) => {
        /// A slot of `room/template.html`.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Slot { $($slot),+ }

        impl Slot {
            /// The slot of this name.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$slot),)+
                    _ => None,
                }
            }
        }
    };
}

slots! {
    "lang" => Lang, "asset.css" => Css, "asset.js" => Js, "api" => Api, "draw" => Draw, "texts" => Texts,
    "sale" => Sale, "sale.title" => SaleTitle, "entry" => Entry, "return" => Return,
    "state" => State, "state.title" => Title, "state.headline" => Headline, "state.detail" => Detail,
    "reason" => Reason, "reason.lang" => ReasonLang, "hide.reason" => HideReason, "label.reason" => LabelReason,
    "when.label" => WhenLabel, "when.iso" => WhenIso, "when.words" => WhenWords, "hide.when" => HideWhen,
    "place" => Place, "hide.place" => HidePlace, "label.place" => LabelPlace,
    "ahead" => Ahead, "eta" => Eta, "hide.ahead" => HideAhead, "label.ahead" => LabelAhead, "label.eta" => LabelEta,
    "progress.max" => ProgressMax, "progress.value" => ProgressValue, "hide.progress" => HideProgress,
    "label.progress" => LabelProgress,
    "lane" => Lane, "hide.lane" => HideLane, "label.lane" => LabelLane,
    "barrier" => Barrier, "hide.barrier" => HideBarrier, "hide.invited" => HideInvited,
    "invitation.summary" => InvitationSummary, "invitation.label" => InvitationLabel,
    "invitation.button" => InvitationButton,
    "note" => Note, "hide.note" => HideNote, "refresh" => Refresh, "refresh_s" => RefreshSeconds,
    "button.join" => Join, "note.join" => NoteJoin, "hide.join" => HideJoin, "button.claim" => Claim, "hide.claim" => HideClaim,
    "button.rejoin" => Rejoin, "hide.rejoin" => HideRejoin, "button.retry" => Retry,
    "button.leave_summary" => LeaveSummary, "button.leave_detail" => LeaveDetail, "button.leave" => Leave,
    "hide.leave" => HideLeave,
    "check.summary" => CheckSummary, "check.arrival" => CheckArrival, "check.size" => CheckSize,
    "check.own" => CheckOwn, "check.server" => CheckServer, "check.seed" => CheckSeed,
    "check.document" => CheckDocument, "check.round" => CheckRound, "check.value" => CheckValue,
    "check.beacon" => CheckBeacon,
}

/// Everything one rendering shows.
pub(super) struct Page<'a> {
    input: &'a RoomInput,
    state: State,
    text: &'a StateText,
    words: &'a Words,
    return_to: &'a str,
    /// The visitor's lane, where it is worth a word.
    lane: Option<&'a str>,
    barrier: Option<String>,
    language: Language,
    /// The operator's reason: its language, where that is known, and its text.
    reason: Option<(&'a str, &'a str)>,
    css: String,
    js: String,
    draw: String,
    refresh_s: String,
    refresh: String,
    /// Which moment the state waits for, with its label.
    when: Option<(&'a str, String, String)>,
    figures: Option<Figures>,
    note: Option<String>,
}

struct Figures {
    place: String,
    /// What is ahead and how long it takes: only while the queue has begun to move.
    ahead: Option<(String, String)>,
    progress: Option<(String, String)>,
}

impl<'a> Page<'a> {
    pub(super) fn new(
        input: &'a RoomInput,
        standing: &Standing,
        state: State,
        reader: &Reader<'a>,
        language: Language,
        words: &'a Words,
        assets: &Assets,
    ) -> Self {
        let texts = &words.texts;
        let api = &input.api_prefix;
        let refresh_s = match reader.barrier {
            // Not before what is in the way has been read.
            Some(Barrier::Crowded { free_in_s }) => free_in_s.max(state.refresh_s()),
            _ => state.refresh_s(),
        };
        let refresh = fill(&texts.note.refresh, &[("time", &seconds_words(refresh_s, words))]);
        // What answers a form has no address of its own to look at again.
        let refresh_to = reader.barrier.map_or_else(String::new, |_| format!("; url={}", reader.return_to));
        let when = match state {
            State::Scheduled => input.joins_open_at.map(|at| (&texts.label.joins_open, at)),
            State::InDraw => input.draw_closes_at.map(|at| (&texts.label.draw, at)),
            State::PreQueue => input.opens_at.map(|at| (&texts.label.opens, at)),
            State::Drawing => input.beacon.map(|beacon| (&texts.label.beacon, beacon.due_at)),
            _ => None,
        };
        Self {
            input,
            state,
            text: texts.state.get(state),
            words,
            return_to: reader.return_to,
            lane: reader.lane,
            barrier: reader.barrier.map(|barrier| barrier_words(barrier, words)),
            reason: reason(input, reader, language),
            language,
            css: format!("{api}/assets/{}", assets.style.name),
            js: format!("{api}/assets/{}", assets.script.name),
            draw: format!("{api}/sales/{}/draw", input.sale),
            refresh,
            refresh_s: format!("{refresh_s}{refresh_to}"),
            when: when.map(|(label, at)| (label.as_str(), rfc3339(at), utc_words(at))),
            figures: Figures::new(input, standing, state, words),
            note: note(input, standing, state, words),
        }
    }

    pub(super) fn value(&self, slot: Slot) -> Value<'_> {
        use Value::{Hidden, Text};
        let texts = &self.words.texts;
        let figures = self.figures.as_ref();
        let ahead = figures.and_then(|f| f.ahead.as_ref());
        let progress = figures.and_then(|f| f.progress.as_ref());
        match slot {
            Slot::Lang => Text(self.language.tag()),
            Slot::Css => Text(&self.css),
            Slot::Js => Text(&self.js),
            Slot::Api => Text(&self.input.api_prefix),
            Slot::Draw => Text(&self.draw),
            Slot::Texts => Text(&self.words.json),
            Slot::Sale => Text(&self.input.sale),
            Slot::SaleTitle => Text(&self.input.title),
            Slot::Entry => Text(&self.input.entry_url),
            Slot::Return => Text(self.return_to),
            Slot::State => Text(self.state.key()),
            Slot::Title => Text(&self.text.title),
            Slot::Headline => Text(&self.text.headline),
            Slot::Detail => Text(&self.text.detail),
            Slot::Reason => Text(self.reason.map_or("", |(_, text)| text)),
            Slot::ReasonLang => Text(self.reason.map_or("", |(language, _)| language)),
            Slot::HideReason => Hidden(self.reason.is_none()),
            Slot::LabelReason => Text(&texts.label.reason),
            Slot::WhenLabel => Text(self.when.as_ref().map_or("", |(label, _, _)| label)),
            Slot::WhenIso => Text(self.when.as_ref().map_or("", |(_, iso, _)| iso)),
            Slot::WhenWords => Text(self.when.as_ref().map_or("", |(_, _, words)| words)),
            Slot::HideWhen => Hidden(self.when.is_none()),
            Slot::Place => Text(figures.map_or("", |f| &f.place)),
            Slot::HidePlace => Hidden(figures.is_none()),
            Slot::LabelPlace => Text(&texts.label.place),
            Slot::Ahead => Text(ahead.map_or("", |(ahead, _)| ahead)),
            Slot::Eta => Text(ahead.map_or("", |(_, eta)| eta)),
            Slot::HideAhead => Hidden(ahead.is_none()),
            Slot::LabelAhead => Text(&texts.label.ahead),
            Slot::LabelEta => Text(&texts.label.eta),
            Slot::ProgressMax => Text(progress.map_or("1", |(max, _)| max)),
            Slot::ProgressValue => Text(progress.map_or("0", |(_, value)| value)),
            Slot::HideProgress => Hidden(progress.is_none()),
            Slot::LabelProgress => Text(&texts.label.progress),
            Slot::Lane => Text(self.lane.unwrap_or("")),
            Slot::HideLane => Hidden(self.lane.is_none()),
            Slot::LabelLane => Text(&texts.label.lane),
            Slot::Barrier => Text(self.barrier.as_deref().unwrap_or("")),
            Slot::HideBarrier => Hidden(self.barrier.is_none()),
            Slot::HideInvited => Hidden(!(self.input.invitations && self.state.may_show_invitation())),
            Slot::InvitationSummary => Text(&texts.invitation.summary),
            Slot::InvitationLabel => Text(&texts.invitation.label),
            Slot::InvitationButton => Text(&texts.invitation.button),
            Slot::Note => Text(self.note.as_deref().unwrap_or("")),
            Slot::HideNote => Hidden(self.note.is_none()),
            Slot::Refresh => Text(&self.refresh),
            Slot::RefreshSeconds => Text(&self.refresh_s),
            Slot::Join => Text(&texts.button.join),
            Slot::NoteJoin => Text(&texts.note.join),
            Slot::HideJoin => Hidden(self.state != State::Joining || self.input.store_away),
            Slot::Claim => Text(&texts.button.claim),
            Slot::HideClaim => Hidden(
                self.input.store_away
                    || !matches!(self.state, State::Called | State::Admitted | State::Recall),
            ),
            Slot::Rejoin => Text(&texts.button.rejoin),
            Slot::HideRejoin => Hidden(!self.state.may_rejoin()),
            Slot::Retry => Text(&texts.button.retry),
            Slot::LeaveSummary => Text(&texts.button.leave_summary),
            Slot::LeaveDetail => Text(&texts.button.leave_detail),
            Slot::Leave => Text(&texts.button.leave),
            Slot::HideLeave => Hidden(!self.state.may_leave()),
            Slot::CheckSummary => Text(&texts.check.summary),
            Slot::CheckArrival => Text(&texts.check.arrival),
            Slot::CheckSize => Text(&texts.check.size),
            Slot::CheckOwn => Text(&texts.check.own),
            Slot::CheckServer => Text(&texts.check.server),
            Slot::CheckSeed => Text(&texts.check.seed),
            Slot::CheckDocument => Text(&texts.check.document),
            Slot::CheckRound => Text(&texts.check.round),
            Slot::CheckValue => Text(&texts.check.value),
            Slot::CheckBeacon => Text(&texts.check.beacon),
        }
    }
}

/// Why a form came to nothing.
fn barrier_words(barrier: Barrier, words: &Words) -> String {
    match barrier {
        Barrier::Uninvited(why) => words.texts.invitation.refused(why).to_owned(),
        Barrier::Crowded { free_in_s } => {
            fill(&words.texts.note.crowded, &[("time", &seconds_words(free_in_s, words))])
        }
    }
}

/// Seconds in words; never fewer than they are.
fn seconds_words(seconds: u64, words: &Words) -> String {
    match seconds {
        0..120 => fill(&words.texts.eta.seconds, &[("n", &seconds.to_string())]),
        _ => words.texts.duration(seconds.div_ceil(60)),
    }
}

/// The operator's reason with its language, while the sale is paused and whatever the visitor's own state is.
fn reason<'a>(input: &'a RoomInput, reader: &Reader<'_>, language: Language) -> Option<(&'a str, &'a str)> {
    let reason = input.paused_reason.as_ref().filter(|_| input.phase == ropeline_queue::Phase::Paused)?;
    let mut languages = reader.languages();
    if languages.is_empty() {
        languages.push(language.tag());
    }
    Some(in_first_of(reason, &languages)).filter(|(_, text)| !text.is_empty())
}

impl Figures {
    fn new(input: &RoomInput, standing: &Standing, state: State, words: &Words) -> Option<Self> {
        let Standing::Waiting { place: Some(place), ahead, eta } = *standing else {
            return None;
        };
        let moving = matches!(state, State::Waiting | State::Paused);
        if !moving && state != State::PreQueue {
            return None;
        }
        let texts = &words.texts;
        // A queue that stands still has no expected wait.
        let eta = eta.filter(|_| state == State::Waiting && !input.all_held && !input.store_away);
        Some(Self {
            place: texts.number(place.saturating_add(1)),
            ahead: moving.then(|| (texts.number(ahead), texts.wait(eta))),
            progress: (moving && place > 0)
                .then(|| (place.to_string(), place.saturating_sub(ahead).to_string())),
        })
    }
}

fn note(input: &RoomInput, standing: &Standing, state: State, words: &Words) -> Option<String> {
    let texts = &words.texts;
    if input.store_away && !state.is_over() {
        let outside = matches!(standing, Standing::Outside);
        return Some(if outside { &texts.note.away_outside } else { &texts.note.away }.clone());
    }
    match (state, standing) {
        (State::Called, Standing::Called { left_s: Some(left_s) }) => {
            // Rounded down: better early than sorry.
            let left =
                if *left_s < 120 { texts.eta.under_two_minutes.clone() } else { texts.duration(left_s / 60) };
            Some(fill(&texts.note.within, &[("time", &left)]))
        }
        (State::Waiting, _) if input.all_held => Some(texts.note.held.clone()),
        (State::Drawing, _) => input.beacon.map(|beacon| {
            let note = if beacon.late { &texts.note.beacon_late } else { &texts.note.beacon };
            note.clone()
        }),
        _ => None,
    }
}
