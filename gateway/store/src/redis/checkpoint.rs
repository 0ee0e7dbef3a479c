//! How far the sales have gone at most, kept outside of Redis.
//!
//! One document a sale: numbers that may have been given, ahead of use in blocks; places that may have been called, and second
//! calls that may have been made, to the call; the definition, and the core as it was when one of these, the stage or the epoch
//! last changed; as which version that change was to be committed; and the generation that may go on, which is reserved before
//! it begins. All gateways use the same place, and what one writes, it writes before it commits. So whatever Redis loses, what
//! comes after it gives no number twice, and a gateway that still talks to a server of an older generation gets no further than
//! its block.

mod folder;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ropeline_queue::{Core, Queue, Reach, SaleDefinition, SaleId, UnixMillis, hex};
use serde::{Deserialize, Serialize};

use self::folder::Folder;
#[cfg(feature = "postgres")]
use self::postgres::Postgres;
use super::entry::Nonce;
use super::keys;
use super::sale::nonce;
use super::settings::RedisCheckpoint;
use crate::StoreError;
use crate::clock::wall_ms;

/// Numbers that are written down at once. A loss passes over so many at most; at 100,000 joins a second it is written
/// six times a second.
pub(super) const BLOCK: u64 = 16_384;

/// After their last mark, gateways may still know the sale for so long: as long as Redis may be away.
const MARKED_MS: u64 = 3_600_000;

/// Where its own name is kept: no sale's name has a dot.
const NAME: &str = "the.checkpoint";

/// The low bits of a mark tell it from others of the same time.
const MARK_BITS: u32 = 20;

/// A mark that is left now.
pub(super) fn mark(nonce: Nonce) -> u64 {
    wall_ms() << MARK_BITS | u64::from_le_bytes(nonce) >> (u64::BITS - MARK_BITS)
}

/// How far a sale may go without asking again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The generation that this holds for, and the name of its line.
    pub(super) generation: u64,
    pub(super) line: String,
    /// Numbers below may be given, places below called, and so the draw be frozen or made.
    pub(super) reach: Reach,
    /// As which version of the line what was ordered last was to be committed, at the latest.
    ordered_as: u64,
    /// What the generations before may have given and called.
    pub(super) floor: Floor,
    /// As it was written down, if it was.
    definition: Option<Arc<SaleDefinition>>,
}

// === impl Mark ===

impl Mark {
    /// It was given to this line.
    pub(super) fn is_of(&self, generation: u64, line: &str) -> bool {
        self.generation == generation && self.line == line
    }

    /// A commit that follows the version may take the sale as far as it has gone, and the sale is written down as it is now,
    /// with what was ordered since the version had so many `orders`.
    pub(super) fn allows(&self, queue: &Queue, version: u64, orders: u64) -> bool {
        let now = queue.definition();
        let same = |written: &Arc<SaleDefinition>| Arc::ptr_eq(written, now) || written == now;
        self.reach.covers(queue.core())
            && !self.reach.has_later_orders(queue.core())
            && self.definition.as_ref().is_some_and(same)
            && (queue.core().orders() == orders || version < self.ordered_as)
    }

    /// Takes back what was ordered last if the commit of that came to nothing, and says whether it did: the version as which
    /// it was to be committed is one that does not know of it.
    fn settle(&mut self, known: &Known) -> bool {
        let nothing =
            self.line == known.line && self.ordered_as <= known.version && self.reach.orders() > known.orders;
        if nothing {
            self.reach.follow_orders_of(&known.sale.core);
            self.definition = Some(Arc::clone(&known.sale.definition));
        }
        nothing
    }
}

/// How far the generations before have gone at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Floor {
    #[serde(flatten)]
    reach: Reach,
    /// As it was last changed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<Box<SaleDefinition>>,
}

impl Floor {
    fn of(mark: &Mark) -> Self {
        let definition = mark.definition.as_deref().cloned().map(Box::new);
        Self { reach: mark.reach.clone(), definition }
    }

    /// As far as another memory of the sale has got.
    pub(super) fn known_to(queue: &Queue) -> Self {
        let definition = Some(Box::new(SaleDefinition::clone(queue.definition())));
        Self { reach: Reach::of(queue.core()), definition }
    }

    /// Tells the sale what was ordered last, and passes over what may have been given or called up to here, if that has
    /// not been done.
    pub(super) fn pass(&self, queue: &mut Queue, now: UnixMillis) {
        queue.follow(&self.reach, self.definition.as_deref());
        if self.reach.is_ahead_of(queue.core()) {
            queue.skip(&self.reach, now);
        }
    }
}

/// What is written down of a sale.
#[derive(Debug, Serialize, Deserialize)]
struct Document {
    #[serde(default = "first_format")]
    format: u64,
    /// The one that went on last; 0 if none has yet.
    generation: u64,
    line: String,
    /// Up to here they have been handed out, each to one gateway, which may not have got round to it.
    reserved: u64,
    #[serde(flatten)]
    reach: Reach,
    #[serde(default)]
    ordered_as: u64,
    floor: Floor,
    definition: SaleDefinition,
    core: Core,
}

const fn first_format() -> u64 {
    1
}

/// What is read of a document before it is known that the rest makes sense.
#[derive(Deserialize)]
struct Heading {
    #[serde(default = "first_format")]
    format: u64,
}

/// A sale without its visitors, as it was at one time.
#[derive(Clone, Debug)]
struct Bare {
    definition: Arc<SaleDefinition>,
    core: Core,
}

/// What is known of a sale, with what is to be committed next.
#[derive(Clone, Debug)]
pub(super) struct Known {
    sale: Bare,
    /// What was committed last, and how many orders the sale had by then.
    line: String,
    version: u64,
    orders: u64,
}

// === impl Known ===

impl Known {
    /// The sale after a version of a line that had so many orders.
    pub(super) fn after(line: &str, version: u64, orders: u64, queue: &Queue) -> Self {
        let sale = Bare { definition: Arc::clone(queue.definition()), core: queue.core().clone() };
        Self { sale, line: line.to_owned(), version, orders }
    }

    /// The sale as it was committed as a version of a line.
    pub(super) fn of(line: &str, version: u64, queue: &Queue) -> Self {
        Self::after(line, version, queue.core().orders(), queue)
    }
}

/// Where it is written down. Documents are read and replaced while no other gateway does.
#[derive(Debug)]
pub(super) enum Checkpoint {
    Folder(Folder),
    #[cfg(feature = "postgres")]
    Postgres(Box<Postgres>),
}

/// Looks at what is written down, and says what is to be written instead, if anything.
type Look<T> = Result<(Option<Document>, T), StoreError>;

/// Why nothing came of looking at a text.
enum Unread {
    /// It makes no sense.
    Damaged(String),
    Failed(StoreError),
}

// === impl Unread ===

impl From<StoreError> for Unread {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<serde_json::Error> for Unread {
    fn from(error: serde_json::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

// === impl Checkpoint ===

impl Checkpoint {
    /// Nothing is opened or connected to before it is needed, and then waited for no longer than `patience`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an address that makes no sense.
    pub(super) fn new(place: &RedisCheckpoint, patience: Duration) -> Result<Self, StoreError> {
        Ok(match place {
            RedisCheckpoint::Folder(folder) => Self::Folder(Folder::new(folder.clone(), patience)),
            #[cfg(feature = "postgres")]
            RedisCheckpoint::Postgres(url) => Self::Postgres(Box::new(Postgres::new(url, patience)?)),
        })
    }

    /// Every sale that is written down: all that were ever made.
    pub(super) async fn sales(&self) -> Result<BTreeSet<SaleId>, StoreError> {
        let names = match self {
            Self::Folder(folder) => folder.names().await?,
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => postgres.names().await?,
        };
        Ok(names.into_iter().filter_map(|name| SaleId::try_from(name).ok()).collect())
    }

    /// What tells it from every other, given to it when somebody first asks. It goes with whatever is kept there.
    pub(super) async fn name(&self) -> Result<String, StoreError> {
        let given = hex(&[nonce()?, nonce()?].concat());
        self.look_at(NAME, move |text| {
            Ok(match text.as_deref().map(serde_json::from_str).transpose()? {
                Some(name) => (None, name),
                None => (Some(serde_json::to_string(&given)?), given),
            })
        })
        .await
    }

    /// Leaves another mark in the place of the one before: whoever does so reaches the servers.
    pub(super) async fn leave_mark(&self, sale: &SaleId, mark: u64) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder.leave_mark(sale, mark).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => postgres.leave_mark(sale, mark).await,
        }
    }

    /// The mark that was left last.
    pub(super) async fn mark(&self, sale: &SaleId) -> Result<Option<u64>, StoreError> {
        let mark = match self {
            Self::Folder(folder) => folder.mark(sale).await?,
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => postgres.mark(sale).await?,
        };
        // One that is just being written says nothing yet.
        Ok(mark.and_then(|mark| mark.parse().ok()))
    }

    /// Somebody has reached the servers not long ago, and may know more than is written down.
    pub(super) async fn is_marked(&self, sale: &SaleId) -> Result<bool, StoreError> {
        let mark = self.mark(sale).await?;
        Ok(mark.is_some_and(|mark| (mark >> MARK_BITS).abs_diff(wall_ms()) < MARKED_MS))
    }

    /// The generation that went on last, and the sale as it was written down then, without its visitors, who have from now
    /// on to show up.
    pub(super) async fn read(
        &self,
        sale: &SaleId,
        now: UnixMillis,
    ) -> Result<Option<(u64, Queue)>, StoreError> {
        self.look(sale, move |document| {
            let read = document.map(|Document { generation, definition, core, .. }| {
                (generation, Queue::without_visitors(definition, core, now))
            });
            Ok((None, read))
        })
        .await
    }

    /// A generation after `seen` and all that are written down or were handed out: nobody else is given it. At a failover
    /// two gateways may each find another server, and no number may be given at both.
    pub(super) async fn reserve(&self, sale: &SaleId, seen: u64, known: Known) -> Result<u64, StoreError> {
        self.look(sale, move |document| {
            let (reserved, mut mark, sale) =
                document.map_or_else(|| (0, Mark::default(), known.sale.clone()), Document::into_parts);
            let reserved = seen.max(mark.generation).max(reserved) + 1;
            // What came to nothing in this generation is not what the next one begins with.
            let sale = if mark.settle(&known) { known.sale } else { sale };
            Ok((Some(Document::new(mark, reserved, sale)), reserved))
        })
        .await
    }

    /// Lets the sale go as far as it is known to have gone. No older generation gets any further from now on.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for an older generation, or for another line of the same: its server is not the one that
    /// the others talk to.
    pub(super) async fn reach(
        &self,
        sale: &SaleId,
        generation: u64,
        known: Known,
    ) -> Result<Mark, StoreError> {
        self.look(sale, move |document| {
            let (reserved, written, told) =
                document.map_or_else(|| (0, Mark::default(), known.sale.clone()), Document::into_parts);
            let mut held = written.clone();
            if held.generation > generation || (held.generation == generation && held.line != known.line) {
                let reason = "the sale goes on at another server, after a loss".to_owned();
                return Err(StoreError::Unavailable { reason });
            }
            held.settle(&known);
            let begins = held.generation < generation;
            let floor = if begins { Floor::of(&held) } else { held.floor };
            let Known { sale, line, version, orders } = known;
            let later = held.reach.has_later_orders(&sale.core);
            let ordered = !later && sale.core.orders() > orders;
            let reach = held.reach.extended(&sale.core, BLOCK);
            // What was ordered later stays together with the core that it was ordered in.
            let sale = if later { told } else { sale };
            let mark = Mark {
                generation,
                line,
                reach,
                ordered_as: match (begins, ordered) {
                    (true, _) => version + 1,
                    (false, true) => held.ordered_as.max(version + 1),
                    (false, false) => held.ordered_as,
                },
                floor,
                definition: Some(Arc::clone(&sale.definition)),
            };
            let write = (mark != written).then(|| Document::new(mark.clone(), reserved, sale));
            Ok((write, mark))
        })
        .await
    }

    async fn look<T: Send + 'static>(
        &self,
        sale: &SaleId,
        look: impl FnOnce(Option<Document>) -> Look<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.look_at(sale.as_str(), |text| {
            let (write, done) = look(text.as_deref().map(Document::parse).transpose()?)?;
            let write = write.as_ref().map(serde_json::to_string).transpose();
            Ok((write?, done))
        })
        .await
    }

    async fn look_at<T: Send + 'static>(
        &self,
        name: &str,
        look: impl FnOnce(Option<String>) -> Result<(Option<String>, T), Unread> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self {
            Self::Folder(folder) => folder.look(name, look).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(postgres) => postgres.look(name, look).await,
        }
    }
}

// === impl Document ===

impl Document {
    fn parse(text: &str) -> Result<Self, Unread> {
        let Heading { format } = serde_json::from_str(text)?;
        if format != keys::FORMAT {
            return Err(keys::newer(keys::IN_CHECKPOINT, &format.to_string()).into());
        }
        Ok(serde_json::from_str(text)?)
    }

    fn new(mark: Mark, reserved: u64, sale: Bare) -> Self {
        let Mark { generation, line, reach, ordered_as, floor, definition: _ } = mark;
        let Bare { definition, core } = sale;
        let definition = Arc::unwrap_or_clone(definition);
        Self { format: keys::FORMAT, generation, line, reserved, reach, ordered_as, floor, definition, core }
    }

    /// What is handed out, the mark, and the sale beside it.
    fn into_parts(self) -> (u64, Mark, Bare) {
        let Self { format: _, generation, line, reserved, reach, ordered_as, floor, definition, core } = self;
        let sale = Bare { definition: Arc::new(definition), core };
        let definition = Some(Arc::clone(&sale.definition));
        (reserved, Mark { generation, line, reach, ordered_as, floor, definition }, sale)
    }
}
