//! What can be asked of a queue, and what it answers.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::beacon::BeaconOutput;
use crate::definition::SaleDefinition;
use crate::lane::Lane;
use crate::state::Core;
use crate::types::{Arrival, Epoch, Place, UnixMillis, VisitorKey};

/// How a visitor joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinOptions {
    /// The visitor asks for a new ticket at the back because theirs is used up. Never assumed.
    pub again: bool,
    /// The invitation they show, which has been checked.
    pub invited: Option<Invited>,
    /// Only a visitor who has a number is answered with one; nobody new is given any.
    pub known_only: bool,
}

/// What a good invitation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    /// The lane it lets its visitor join.
    pub lane: Lane,
    /// Names the invitation, which gives one number to whoever shows it first; none: it names its visitor itself.
    pub once: Option<VisitorKey>,
}

/// A visitor's ticket, new or as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number, the same from every tab and device.
    pub arrival: Arrival,
    /// When it was given, in Unix seconds, so that a ticket issued again has the same bytes.
    pub joined_at: u64,
    /// Generation the ticket belongs to.
    pub epoch: Epoch,
    /// The number was given just now.
    pub new: bool,
}

/// Why a visitor without a ticket got none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// Joining opens later.
    #[error("joining has not opened yet")]
    NotYetOpen,
    /// The sale is over.
    #[error("the sale is closed")]
    Closed,
    /// Nothing is left.
    #[error("the sale is sold out")]
    SoldOut,
    /// Every number has been given.
    #[error("the sale has no number left to give")]
    Full,
    /// No lane takes visitors without an invitation.
    #[error("it takes an invitation to join the sale")]
    InvitationNeeded,
    /// The invitation has given somebody else a number.
    #[error("the invitation has been used by another visitor")]
    InvitationUsed,
    /// The lane takes no invitations, or the sale has no such lane.
    #[error("the sale has no lane that this is an invitation to")]
    NoSuchLane,
    /// The visitor has no number, and none was to be given.
    #[error("the visitor has no number yet")]
    NotKnown,
}

/// A visitor's admission; the same until the lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The ticket's place.
    pub place: Place,
    /// When it was claimed first.
    pub claimed_at: UnixMillis,
    /// When the lease ends.
    pub expires_at: UnixMillis,
    /// Generation the admission belongs to.
    pub epoch: Epoch,
}

/// Why a ticket is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    /// Its turn has not come.
    #[error("the ticket has not been called yet")]
    NotCalled,
    /// It lapsed and is next as soon as there is room.
    #[error("the ticket will be recalled as soon as there is room")]
    RecallPending,
    /// It was called and not claimed in time, and cannot be recalled.
    #[error("the call has lapsed")]
    Lapsed,
    /// Its visitor left.
    #[error("the visitor has left the queue")]
    Left,
    /// Its lease is over.
    #[error("the admission has ended")]
    Ended,
    /// Nothing is left.
    #[error("the sale is sold out")]
    SoldOut,
    /// The sale is over.
    #[error("the sale is closed")]
    Closed,
    /// This queue never gave such a ticket.
    #[error("the ticket does not belong to this queue")]
    Unknown,
}

/// Why a ticket cannot leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaveRefusal {
    /// This queue never gave such a ticket.
    #[error("the ticket does not belong to this queue")]
    Unknown,
}

/// What the shop says about an admitted visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEvent {
    /// The visitor has a unit on hold and no longer competes for what is left. When the shop says both at once,
    /// the new stock goes in first: otherwise the unit would count as left and as held for a moment.
    Holding,
    /// The visitor has no unit on hold any more and competes again. When the shop says both at once, this goes in
    /// before the new stock: otherwise the unit that came back would be offered to the visitor and to another.
    Released,
    /// The visitor is done; the capacity is free.
    Ended,
}

/// Why a sale is paused, in the operator's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseReason {
    /// Shown where no translation fits.
    pub text: String,
    /// By language tag.
    #[serde(default)]
    pub translations: BTreeMap<String, String>,
}

/// What an operator can tell a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Begins calling now or, where a draw is still to be made, as soon as it has been. A sale that is halted is past
    /// that: resume or restock it.
    Open,
    /// Stops calling. Those already called may claim; their time stands still.
    Pause {
        /// Why, for the visitors.
        reason: PauseReason,
    },
    /// Ends a pause.
    Resume,
    /// Ends the sale. Leases run on.
    Close,
    /// Nothing is left, whatever the stock says.
    SoldOut,
    /// There is something again: takes any "sold out" back and forgets the stock last heard of. What the shop says
    /// next decides again.
    Restock,
    /// Calls so many at once, beside the pace and the health limit and while paused, too. `max_active` and stock hold.
    Admit {
        /// Most to call.
        batch_size: u32,
        /// Their lease, if not the sale's.
        #[serde(default)]
        lease_ms: Option<u64>,
    },
    /// Makes every token issued so far worthless. Places stay: the same visitor gets the same number again.
    Revoke,
    /// Draws with a round of the public beacon. Not an operator's word: whoever hands it in has checked the signature.
    Beacon(BeaconOutput),
    /// Draws with the operator's secret, because the beacon's round is overdue. Only where the manifest has kept that
    /// way open; the decision is published.
    DrawBySecret {
        /// Why, for everybody who reads the draw's document.
        reason: String,
    },
}

/// What a command did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandDone {
    /// Visitors called by it.
    pub called: u64,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// The sale is over for good.
    #[error("the sale is closed")]
    Closed,
    /// It has not opened yet.
    #[error("the sale has not opened yet")]
    NotOpen,
    /// It is sold out.
    #[error("the sale is sold out: restock it first")]
    SoldOut,
    /// It has opened and is paused.
    #[error("the sale is paused: resume it instead")]
    Paused,
    /// The lease is shorter than a second or longer than 30 days.
    #[error("a lease is 1 second to 30 days")]
    LeaseOutOfRange,
    /// The epoch cannot grow any further.
    #[error("the sale cannot be revoked once more")]
    EpochSpent,
    /// No draw waits for a beacon.
    #[error("the sale has no draw that waits for a beacon's round")]
    NotDrawing,
    /// The draw waits for another round.
    #[error("the draw waits for another round of the beacon")]
    OtherRound,
    /// The manifest says nothing of a secret.
    #[error("the draw's manifest commits to no secret: it can only be drawn with the beacon's round")]
    NoFallback,
    /// The round has not come, or only just now.
    #[error("the beacon's round is not overdue: it may be given up a minute after its time")]
    BeaconNotOverdue,
}

/// Why a definition cannot replace the one in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// It names another sale.
    #[error("id: the definition belongs to another sale")]
    OtherSale,
    /// The draw's manifest is out: it holds from the opening of joins on.
    #[error("draw: cannot change once joining has opened")]
    DrawFixed,
    /// Visitors stand in its lanes, and a draw's manifest has promised what each gets.
    #[error(
        "lanes: which there are, and whom they take, cannot change once joining has opened, nor can their shares where \
         there is a draw"
    )]
    LanesFixed,
    /// The sale is over.
    #[error("the sale is closed")]
    Closed,
    /// Another change came first.
    #[error("the definition has been changed meanwhile")]
    Overtaken,
}

/// What a tick knows that the queue does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickInput {
    /// Most visitors the shop's health allows at the moment; none: no opinion.
    pub health_limit: Option<u32>,
}

/// A number given to a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRecord {
    /// The number.
    pub arrival: Arrival,
    /// Who holds it.
    pub visitor: VisitorKey,
    /// When, in Unix seconds; 32 bits last until 2106.
    pub joined_at: u32,
}

/// What became of a ticket that has been called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionState {
    /// Admitted; the lease runs.
    Claimed {
        /// When it was claimed first.
        claimed_at: UnixMillis,
        /// When the lease ends.
        expires_at: UnixMillis,
        /// The visitor has a unit on hold.
        holding: bool,
    },
    /// The lease is over.
    Ended,
    /// Lapsed and come back in time: called again before anybody uncalled.
    RecallPending {
        /// The lease it will have, if not the sale's.
        lease_ms: Option<u64>,
    },
    /// Called for the second and last time.
    Recalled {
        /// When this call lapses.
        until: UnixMillis,
        /// The lease it will have, if not the sale's.
        lease_ms: Option<u64>,
    },
    /// Lapsed for good.
    Lapsed,
    /// The visitor left after the call.
    Left,
}

/// A called ticket and its state, for a store to keep: the latest one for an arrival counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRecord {
    /// The ticket's number.
    pub arrival: Arrival,
    /// Its place.
    pub place: Place,
    /// What became of it.
    pub state: AdmissionState,
}

/// What has changed since it was asked last; a store keeps all of it in one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// [`Core`](crate::Core) is to be written anew.
    pub core: bool,
    /// The definition is to be written anew.
    pub definition: bool,
    /// New numbers, ascending.
    pub joins: Vec<JoinRecord>,
    /// Called tickets with a new state.
    pub admissions: Vec<AdmissionRecord>,
    /// Numbers whose visitors left before they were called.
    pub left: Vec<Arrival>,
    /// Numbers that are their visitors' no more: of those who left or have another, which may be an older one after a loss.
    /// A store that loses nothing may keep the joins all the same.
    pub vacated: Vec<Arrival>,
    /// Of these nothing has to be kept any more, whatever is said of them above: all that have been forgotten so far. None
    /// where that is as before.
    pub forgotten: Vec<Range<Arrival>>,
}

impl Changes {
    /// Nothing is to be kept.
    pub fn is_empty(&self) -> bool {
        !self.core
            && !self.definition
            && self.joins.is_empty()
            && self.admissions.is_empty()
            && self.left.is_empty()
            && self.vacated.is_empty()
            && self.forgotten.is_empty()
    }
}

/// What another replica of the queue has committed: one [`Changes`] or several in their order, and the documents that
/// they say were written anew.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The latest [`Core`], if it was written.
    pub core: Option<Core>,
    /// The latest definition, if it was written.
    pub definition: Option<SaleDefinition>,
    /// [`Changes::joins`].
    pub joins: Vec<JoinRecord>,
    /// [`Changes::admissions`]; of one arrival the last counts.
    pub admissions: Vec<AdmissionRecord>,
    /// [`Changes::left`].
    pub left: Vec<Arrival>,
    /// [`Changes::vacated`].
    pub vacated: Vec<Arrival>,
}
