//! What a script answers.

use redis::{FromRedisValue, ParsingError, Value, from_redis_value};
use ropeline_queue::{Core, SaleDefinition, Update};

use super::entry::{self, Nonce};
use super::spread::Spread;
use crate::StoreError;

/// How what the server has goes on from what a gateway has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The script did what it was asked.
    Done,
    /// There is no such sale.
    None,
    /// The gateway has nothing; core and definition are there.
    Load,
    /// Nothing was missed.
    Same,
    /// Entries, core and definition are what was missed.
    Since,
    /// More was missed than the log holds.
    Far,
    /// The server has less than the gateway.
    Behind,
    /// The server went on from something older than the gateway has.
    Other,
}

/// The head of a sale, and what a gateway has missed of it.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) status: Status,
    /// The server's clock, in Unix milliseconds.
    pub(super) now_ms: u64,
    pub(super) version: u64,
    pub(super) generation: u64,
    pub(super) line: String,
    pub(super) base: String,
    /// The server that took the last commit.
    pub(super) head_run: String,
    /// The server that answers.
    pub(super) run: String,
    /// Groups whose copies somebody misses.
    pub(super) wanted: String,
    core: Vec<u8>,
    definition: Vec<u8>,
    spread: Vec<u8>,
    entries: Vec<Vec<u8>>,
    /// Where this gateway waits for others.
    pub(super) turn: Option<Turn>,
}

/// A gateway's place on the list of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Gateways that commit before this one.
    pub(super) before: u64,
    /// The version when this one was put on the list.
    pub(super) since: u64,
}

// === impl Standing ===

impl Standing {
    /// The server is not the one that took the last commit: it was started again, or another took its place.
    pub(super) fn moved(&self) -> bool {
        self.head_run != self.run
    }

    /// What was missed, and the commits that it consists of.
    pub(super) fn update(&self) -> Result<(Update, Vec<Nonce>), StoreError> {
        let mut update = Update { core: self.core()?, definition: self.definition()?, ..Update::default() };
        let nonces = self.entries.iter().map(|bytes| entry::decode(bytes, &mut update));
        let nonces = nonces.collect::<Result<_, _>>().map_err(|_| unreadable("an entry of its log"))?;
        Ok((update, nonces))
    }

    pub(super) fn core(&self) -> Result<Option<Core>, StoreError> {
        document(&self.core).map_err(|_| unreadable("its state"))
    }

    /// Which joins are in slots of their own, if that is told.
    pub(super) fn spread(&self) -> Result<Option<Spread>, StoreError> {
        document(&self.spread).map_err(|_| unreadable("the whereabouts of its joins"))
    }

    pub(super) fn definition(&self) -> Result<Option<SaleDefinition>, StoreError> {
        document(&self.definition).map_err(|_| unreadable("its definition"))
    }
}

fn document<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<Option<T>> {
    if bytes.is_empty() { Ok(None) } else { serde_json::from_slice(bytes).map(Some) }
}

/// Something in Redis that makes no sense.
pub(super) fn unreadable(what: &str) -> StoreError {
    StoreError::Unavailable { reason: format!("redis holds a sale of which {what} cannot be read") }
}

impl FromRedisValue for Standing {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        type Times = (String, u64, u64);
        type Head = (u64, u64, String, String, String, String, String);
        type Missed = (Vec<u8>, Vec<u8>, Vec<u8>, Vec<Vec<u8>>);
        let Value::Array(mut fields) = value else {
            return Err(ParsingError::from("a script answered with no array"));
        };
        if !(14..=15).contains(&fields.len()) {
            return Err(ParsingError::from("a script answered with too few fields"));
        }
        // Only where turns are asked for.
        let turn: Option<Vec<u64>> = fields.split_off(14).pop().map(from_redis_value).transpose()?;
        let turn = match turn.as_deref() {
            Some(&[before, since]) => Some(Turn { before, since }),
            _ => None,
        };
        let missed = fields.split_off(10);
        let head = fields.split_off(3);
        let (status, seconds, micros): Times = from_redis_value(Value::Array(fields))?;
        let (version, generation, line, base, head_run, run, wanted): Head =
            from_redis_value(Value::Array(head))?;
        let [core, definition, spread, entries] = <[Value; 4]>::try_from(missed)
            .map_err(|_| ParsingError::from("a script answered with too few fields"))?;
        let (core, definition, spread, entries): Missed = (
            from_redis_value(core)?,
            from_redis_value(definition)?,
            from_redis_value(spread)?,
            from_redis_value(entries)?,
        );
        let status = match status.as_str() {
            "done" => Status::Done,
            "none" => Status::None,
            "load" => Status::Load,
            "same" => Status::Same,
            "since" => Status::Since,
            "far" => Status::Far,
            "behind" => Status::Behind,
            "other" => Status::Other,
            _ => return Err(ParsingError::from("a script answered with a word of its own")),
        };
        let now_ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
        Ok(Self {
            status,
            now_ms,
            version,
            generation,
            line,
            base,
            head_run,
            run,
            wanted,
            core,
            definition,
            spread,
            entries,
            turn,
        })
    }
}
