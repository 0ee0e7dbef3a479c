//! What stands in the file, and how a batch gets there.
//!
//! Per sale: its definition and its [`Core`] as JSON, replaced as they change; one row for the
//! joins of each commit, a row a lane, never changed again; one row for each arrival that has been called and
//! claimed, or has come back or left; one for each that left before its call. Rows of arrivals that
//! the queue has forgotten are removed.

use std::ops::Range;
use std::path::PathBuf;

use redb::{
    Database, Durability, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, Value,
    WriteTransaction,
};
use ropeline_queue::{AdmissionRecord, Arrival, Changes, Core, Queue, SaleDefinition, SaleId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::file::Source;
use super::sales::Sales;
use crate::StoreError;
use crate::records::{JOIN_BYTES, read_join, write_join};

/// The layout below. Additions to the JSON do not change it.
const FORMAT: u64 = 1;
const FORMAT_KEY: &str = "format";

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Sale → [`SaleDefinition`] as JSON.
const DEFINITIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("definitions");
/// Sale → [`Core`] as JSON.
const CORES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("cores");
/// Sale, first arrival → records of [`JOIN_BYTES`], of that arrival and the ones after it.
const JOINS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("joins");
/// Sale, arrival → [`AdmissionRecord`] as JSON.
const ADMISSIONS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("admissions");

/// Sale, arrival → nothing: its visitor left before being called.
const LEFT: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("left");

/// The open file.
pub(super) struct Disk {
    path: PathBuf,
    database: Database,
}

/// Makes the tables of an empty store.
pub(super) fn format(database: &Database) -> Result<(), Failure> {
    let transaction = durable(database)?;
    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    transaction.open_table(DEFINITIONS)?;
    transaction.open_table(CORES)?;
    transaction.open_table(JOINS)?;
    transaction.open_table(ADMISSIONS)?;
    transaction.open_table(LEFT)?;
    transaction.commit()?;
    Ok(())
}

fn durable(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate).map_err(|error| Failure::lasting(error.to_string()))?;
    Ok(transaction)
}

// === impl Disk ===

impl Disk {
    pub(super) fn open(source: &Source) -> Result<Self, StoreError> {
        let disk = Self { path: source.path.clone(), database: source.open()? };
        let found = disk.read(|transaction| {
            let format = transaction.open_table(META)?.get(FORMAT_KEY)?;
            format.map(|value| value.value()).ok_or_else(|| Failure::lasting("it names no format"))
        })?;
        if found == FORMAT {
            Ok(disk)
        } else {
            Err(StoreError::Format { path: disk.path, found, known: FORMAT })
        }
    }

    /// Writes what the touched sales say has changed, and returns once it is on the disk. Writes
    /// nothing if nothing has changed.
    pub(super) fn commit(&self, sales: &mut Sales) -> Result<(), Failure> {
        let mut transaction = None;
        for (sale, queue) in sales.touched() {
            let changes = queue.take_changes();
            if changes.is_empty() {
                continue;
            }
            let transaction = match &mut transaction {
                Some(begun) => begun,
                none => none.insert(durable(&self.database)?),
            };
            write(transaction, sale, queue, &changes)?;
        }
        if let Some(transaction) = transaction {
            transaction.commit()?;
        }
        Ok(())
    }

    /// Reads every sale.
    pub(super) fn load(&self) -> Result<Sales, StoreError> {
        self.read(|transaction| {
            let definitions = transaction.open_table(DEFINITIONS)?;
            let mut sales = Sales::default();
            for row in definitions.iter()? {
                let (sale, definition) = row?;
                let sale: SaleId =
                    sale.value().parse().map_err(|_| Failure::lasting("a sale has no valid id"))?;
                let definition = decode(&sale, "definition", definition.value())?;
                let queue = load_sale(transaction, &sale, definition)?;
                sales.restore(sale, queue);
            }
            Ok(sales)
        })
    }

    fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, Failure>) -> Result<T, StoreError> {
        self.database
            .begin_read()
            .map_err(Failure::from)
            .and_then(|transaction| read(&transaction))
            .map_err(|failure| StoreError::Damaged { path: self.path.clone(), detail: failure.reason })
    }
}

fn write(
    transaction: &WriteTransaction,
    sale: &SaleId,
    queue: &Queue,
    changes: &Changes,
) -> Result<(), Failure> {
    let name = sale.as_str();
    if changes.definition {
        let definition = encode(queue.definition().as_ref())?;
        transaction.open_table(DEFINITIONS)?.insert(name, definition.as_slice())?;
    }
    if changes.core {
        let core = encode(queue.core())?;
        transaction.open_table(CORES)?.insert(name, core.as_slice())?;
    }
    if !changes.joins.is_empty() {
        let mut table = transaction.open_table(JOINS)?;
        // One row a lane, in fact: arrivals are dense.
        for run in changes.joins.chunk_by(|a, b| a.arrival.0 + 1 == b.arrival.0) {
            let mut row = table.insert_reserve((name, run[0].arrival.0), run.len() * JOIN_BYTES)?;
            for (bytes, join) in row.as_mut().chunks_exact_mut(JOIN_BYTES).zip(run) {
                write_join(bytes, join);
            }
        }
    }
    if !changes.admissions.is_empty() {
        let mut table = transaction.open_table(ADMISSIONS)?;
        for admission in &changes.admissions {
            let record = encode(admission)?;
            table.insert((name, admission.arrival.0), record.as_slice())?;
        }
    }
    if !changes.left.is_empty() {
        let mut table = transaction.open_table(LEFT)?;
        for arrival in &changes.left {
            table.insert((name, arrival.0), ())?;
        }
    }
    for Range { start, end } in &changes.forgotten {
        let range = (name, start.0)..(name, end.0);
        transaction.open_table(ADMISSIONS)?.retain_in(range.clone(), |_, _| false)?;
        transaction.open_table(LEFT)?.retain_in(range.clone(), |_, ()| false)?;
        // A row goes with the last of its joins.
        transaction.open_table(JOINS)?.retain_in(range, |(_, first), row| {
            let joins = u64::try_from(row.len() / JOIN_BYTES).unwrap_or(u64::MAX);
            first.saturating_add(joins) > end.0
        })?;
    }
    Ok(())
}

fn load_sale(
    transaction: &ReadTransaction,
    sale: &SaleId,
    definition: SaleDefinition,
) -> Result<Queue, Failure> {
    let name = sale.as_str();
    let core: Core = match transaction.open_table(CORES)?.get(name)? {
        Some(core) => decode(sale, "state", core.value())?,
        None => return Err(Failure::lasting(format!("sale {sale} has no state"))),
    };
    let all = (name, 0)..=(name, u64::MAX);
    let mut joins = Rows::new(transaction.open_table(JOINS)?.range(all.clone())?, |first, row| {
        let records = row.chunks_exact(JOIN_BYTES);
        if !records.remainder().is_empty() {
            return Err(Failure::lasting(format!("the joins of sale {sale} from {first} on are cut short")));
        }
        Ok((first..)
            .zip(records)
            .map(|(arrival, bytes)| read_join(Arrival(arrival), bytes))
            .collect::<Vec<_>>())
    });
    let mut admissions = Rows::new(transaction.open_table(ADMISSIONS)?.range(all.clone())?, |_, row| {
        decode::<AdmissionRecord>(sale, "admission", row)
    });
    let mut left = Rows::new(transaction.open_table(LEFT)?.range(all)?, |arrival, ()| Ok(Arrival(arrival)));
    let queue =
        Queue::restore(definition, core, joins.by_ref().flatten(), admissions.by_ref(), left.by_ref());
    joins.finish()?;
    admissions.finish()?;
    left.finish()?;
    Ok(queue)
}

/// The rows of one sale as plain values. It ends at the first row that cannot be read, which
/// [`finish`](Rows::finish) then tells: what takes the rows need know nothing of failures.
struct Rows<V: Value + 'static, D> {
    range: redb::Range<'static, (&'static str, u64), V>,
    decode: D,
    failure: Option<Failure>,
}

// === impl Rows ===

impl<V, D, T> Rows<V, D>
where
    V: Value + 'static,
    D: FnMut(u64, V::SelfType<'_>) -> Result<T, Failure>,
{
    fn new(range: redb::Range<'static, (&'static str, u64), V>, decode: D) -> Self {
        Self { range, decode, failure: None }
    }

    fn finish(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }
}

impl<V, D, T> Iterator for Rows<V, D>
where
    V: Value + 'static,
    D: FnMut(u64, V::SelfType<'_>) -> Result<T, Failure>,
{
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        let read = self.range.next()?.map_err(Failure::from).and_then(|(key, row)| {
            let (_, arrival) = key.value();
            (self.decode)(arrival, row.value())
        });
        match read {
            Ok(value) => Some(value),
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }
}

fn encode(record: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(record).map_err(|error| Failure::lasting(error.to_string()))
}

fn decode<T: DeserializeOwned>(sale: &SaleId, what: &str, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::lasting(format!("the {what} of sale {sale}: {error}")))
}
