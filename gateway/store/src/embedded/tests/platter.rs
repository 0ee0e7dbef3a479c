//! A disk in memory that fails on command and forgets on power loss what was not synced.

use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

/// What happens at the chosen write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// That one write finds no room; later ones do.
    NoRoom,
    /// That write and all that follow fail.
    Broken,
}

/// Which of the writes since the last sync a power loss leaves on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    None,
    EverySecond,
    All,
}

/// Handles share one disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What reads see.
    cached: Vec<u8>,
    /// What a power loss leaves.
    stable: Vec<u8>,
    unsynced: Vec<Op>,
    /// Writes, resizes and syncs so far.
    ops: u64,
    fault: Option<(u64, Fault)>,
}

#[derive(Debug)]
enum Op {
    Resize(usize),
    Write(usize, Vec<u8>),
}

// === impl Op ===

impl Op {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Resize(len) => bytes.resize(*len, 0),
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(data);
            }
        }
    }
}

// === impl Platter ===

impl Platter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn ops(&self) -> u64 {
        self.state().ops
    }

    /// Has the `nth` write from now on fail.
    pub(super) fn fail_at(&self, nth: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.ops + nth, fault));
    }

    pub(super) fn mend(&self) {
        self.state().fault = None;
    }

    pub(super) fn lose_power(&self, survives: Survives) {
        let mut state = self.state();
        let state = &mut *state;
        for (index, op) in state.unsynced.drain(..).enumerate() {
            let kept = match survives {
                Survives::None => false,
                Survives::EverySecond => index % 2 == 1,
                Survives::All => true,
            };
            if kept {
                op.apply(&mut state.stable);
            }
        }
        state.cached.clone_from(&state.stable);
    }
}

impl State {
    fn count(&mut self) -> Result<(), Error> {
        let op = self.ops;
        self.ops += 1;
        match self.fault {
            Some((at, Fault::NoRoom)) if op == at => Err(ErrorKind::StorageFull.into()),
            Some((at, Fault::Broken)) if op >= at => Err(Error::other("the disk is broken")),
            _ => Ok(()),
        }
    }

    fn mutate(&mut self, op: Op) -> Result<(), Error> {
        self.count()?;
        op.apply(&mut self.cached);
        self.unsynced.push(op);
        Ok(())
    }
}

impl StorageBackend for Platter {
    fn len(&self) -> Result<u64, Error> {
        Ok(self.state().cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        let offset = usize::try_from(offset).map_err(Error::other)?;
        let state = self.state();
        let bytes = state.cached.get(offset..offset + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.state().mutate(Op::Resize(usize::try_from(len).map_err(Error::other)?))
    }

    fn sync_data(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.count()?;
        let state = &mut *state;
        for op in state.unsynced.drain(..) {
            op.apply(&mut state.stable);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let offset = usize::try_from(offset).map_err(Error::other)?;
        self.state().mutate(Op::Write(offset, data.to_vec()))
    }
}
