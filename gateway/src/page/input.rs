//! What the page is told: the sale as everyone sees it, and one visitor's standing.

use ropeline_queue::flow::EtaRange;
use ropeline_queue::{PauseReason, Phase};

use super::prepared::weighted;

/// A pause's reason and its language: in the first of `tags` that it was given in, regions aside, else as the operator gave
/// it, in whatever language that is.
pub(super) fn in_first_of<'a>(reason: &'a PauseReason, tags: &[&str]) -> (&'a str, &'a str) {
    let given =
        |tag: &str| reason.translations.iter().find(|(language, _)| language.eq_ignore_ascii_case(tag));
    let primary = |tag: &str| tag.split('-').next().and_then(given);
    let found = tags.iter().find_map(|tag| given(tag).or_else(|| primary(tag)));
    found.map_or(("", &reason.text), |(language, text)| (language, text))
}

/// All that the page shows of a sale to everyone. Two equal inputs make the same bytes, so a gateway prepares the
/// page again only when this changes. Times are Unix milliseconds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoomInput {
    /// The sale's id.
    pub sale: String,
    /// The sale's name for people.
    pub title: String,
    /// Where the shopper side answers, without a slash at the end: `/api/v1/queue`.
    pub api_prefix: String,
    /// Where a shopper goes who opened the room by its own address: a path of the shop.
    pub entry_url: String,
    /// Where the sale stands.
    pub phase: Phase,
    /// When joining opens.
    pub joins_open_at: Option<u64>,
    /// When calling begins.
    pub opens_at: Option<u64>,
    /// When the draw takes those who have joined; `None` for a sale without a draw.
    pub draw_closes_at: Option<u64>,
    /// The public random number that the draw rests on; `None` for one that rests on a secret, and without a draw.
    pub beacon: Option<RoomBeacon>,
    /// Why it is paused.
    pub paused_reason: Option<PauseReason>,
    /// The store of the queue cannot be reached: all of this was true before, and nobody joins or goes in for now.
    pub store_away: bool,
    /// Nothing is free, and some of what is held may come back: nobody is called for now.
    pub all_held: bool,
    /// The sale has lanes that take an invitation.
    pub invitations: bool,
}

/// Why a visitor does not get into a lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uninvited {
    /// Nobody gets in without an invitation, and none was shown.
    Needed,
    /// It was for one visitor, and another one has it.
    Used,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// It is to another sale.
    OtherSale,
    /// It is to a lane that is not there, or takes everybody.
    OtherLane,
    /// It names another visitor.
    OtherVisitor,
    /// It is no invitation of anybody whose invitations count.
    Invalid,
}

/// A public random number that a draw rests on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RoomBeacon {
    /// When it comes, in Unix milliseconds.
    pub due_at: u64,
    /// The draw waits for it, and it is overdue.
    pub late: bool,
}

/// How one visitor stands in the sale.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Has no ticket.
    Outside,
    /// Has a ticket that has not been called.
    Waiting {
        /// The place, counted from 0; `None` before the draw.
        place: Option<u64>,
        /// How many are called before it.
        ahead: u64,
        /// The expected wait, where it is known.
        eta: Option<EtaRange>,
    },
    /// Has been called.
    Called {
        /// Seconds left to claim, where a limit is set.
        left_s: Option<u64>,
    },
    /// Has claimed, and the lease runs.
    Admitted,
    /// Did not claim in time and will be called once more.
    Recall,
    /// Did not claim in time, or the lease is over.
    Lapsed,
    /// Gave the place up.
    Left,
}

/// Who reads a personal page, as the request tells it.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Where the visitor wanted to go: a path with its query, already checked to be of the same site.
    pub return_to: &'a str,
    /// The `Accept-Language` header, several lines joined with commas.
    pub accept_language: Option<&'a str>,
    /// What the lane is called that they stand in, where there are lanes.
    pub lane: Option<&'a str>,
    /// Why what they sent by a form just now came to nothing.
    pub barrier: Option<Barrier>,
}

/// What stood in the way of a form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Barrier {
    /// The invitation was refused.
    Uninvited(Uninvited),
    /// Many have joined from the network, and no script computes a proof.
    Crowded {
        /// Seconds until it takes none.
        free_in_s: u64,
    },
}

impl Reader<'_> {
    /// The languages asked for, the dearest first (RFC 9110 §12.5.4).
    pub(super) fn languages(&self) -> Vec<&str> {
        let mut ranges: Vec<_> = weighted(self.accept_language.unwrap_or(""))
            .filter(|(tag, quality)| *quality > 0 && !tag.is_empty() && *tag != "*")
            .collect();
        ranges.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
        ranges.into_iter().map(|(tag, _)| tag).collect()
    }
}

/// What the page says. The script decides by the same table (`stateOf` in `room/state.mjs`), and
/// `room/testdata/states.json` holds both to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Scheduled,
    Joining,
    PreQueue,
    InDraw,
    Drawing,
    Waiting,
    Paused,
    Called,
    Admitted,
    Recall,
    Lapsed,
    Left,
    SoldOut,
    Closed,
}

impl State {
    pub(super) fn of(phase: Phase, draw: bool, standing: &Standing) -> Self {
        match (phase, standing) {
            (_, Standing::Admitted) => Self::Admitted,
            (Phase::SoldOut, _) => Self::SoldOut,
            (Phase::Closed, _) => Self::Closed,
            (_, Standing::Called { .. }) => Self::Called,
            (_, Standing::Recall) => Self::Recall,
            (_, Standing::Lapsed) => Self::Lapsed,
            (_, Standing::Left) => Self::Left,
            (Phase::Scheduled, Standing::Outside) => Self::Scheduled,
            (_, Standing::Outside) => Self::Joining,
            (Phase::Scheduled | Phase::PreQueue, Standing::Waiting { .. }) if draw => Self::InDraw,
            (Phase::Scheduled | Phase::PreQueue, Standing::Waiting { .. }) => Self::PreQueue,
            (Phase::Drawing, Standing::Waiting { .. }) => Self::Drawing,
            (Phase::Open, Standing::Waiting { .. }) => Self::Waiting,
            (Phase::Paused, Standing::Waiting { .. }) => Self::Paused,
        }
    }

    /// The state's name in the texts and in the page's `data-state`.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Joining => "joining",
            Self::PreQueue => "pre_queue",
            Self::InDraw => "in_draw",
            Self::Drawing => "drawing",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Called => "called",
            Self::Admitted => "admitted",
            Self::Recall => "recall",
            Self::Lapsed => "lapsed",
            Self::Left => "left",
            Self::SoldOut => "sold_out",
            Self::Closed => "closed",
        }
    }

    /// Whether nothing that the queue does matters to the visitor any more.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Admitted | Self::SoldOut | Self::Closed)
    }

    /// Whether joining again at the back is offered.
    pub(super) const fn may_rejoin(self) -> bool {
        matches!(self, Self::Lapsed | Self::Left)
    }

    /// Whether there is a place to give up.
    pub(super) const fn may_leave(self) -> bool {
        matches!(
            self,
            Self::PreQueue | Self::InDraw | Self::Drawing | Self::Waiting | Self::Paused | Self::Recall
        )
    }

    /// Whether an invitation is still of use to somebody who is in no lane of the invited.
    pub(super) const fn may_show_invitation(self) -> bool {
        matches!(self, Self::Joining | Self::PreQueue | Self::InDraw | Self::Waiting | Self::Paused)
    }

    /// Seconds after which the page looks again by itself where no script runs. Slow on purpose: each look is a whole
    /// page, and a refresh takes a screen reader back to the top.
    pub(super) const fn refresh_s(self) -> u64 {
        match self {
            Self::Called | Self::Admitted | Self::Recall | Self::Drawing => 15,
            Self::Waiting | Self::Paused | Self::PreQueue | Self::InDraw | Self::Scheduled => 30,
            Self::Joining | Self::SoldOut => 60,
            Self::Lapsed | Self::Left | Self::Closed => 300,
        }
    }
}
