//! Taking back a batch of events that was not committed.
//!
//! A store that shares a sale with others runs a batch on its replica before it knows whether the others have been
//! faster. The small part of the state is kept as it was; of what grows with the crowd, each step is noted.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::definition::SaleDefinition;
use crate::flow::Backlog;
use crate::lane::{Lane, Lines};
use crate::outcome::{JoinRecord, TickInput};
use crate::queue::{Admission, Pending, Queue};
use crate::state::Core;
use crate::types::{Arrival, Place, UnixMillis};

/// The queue as it was when the batch began.
#[derive(Debug)]
pub(super) struct Journal {
    definition: Arc<SaleDefinition>,
    core: Core,
    health: Option<TickInput>,
    backlogs: Lines<Backlog>,
    advanced_to: Option<UnixMillis>,
    pending: Pending,
    steps: Vec<Step>,
}

/// One change to what grows with the crowd.
#[derive(Debug)]
pub(super) enum Step {
    /// A visitor was put on record, who held another number of the lane before.
    Entered(JoinRecord, Option<JoinRecord>),
    /// A visitor was taken off the record.
    Forgotten(JoinRecord),
    /// A called ticket changed its state, from this one.
    Admission(Arrival, Option<Admission>),
    Left(Arrival),
    NotLeft(Arrival),
    LeftPlace(Place),
    NotLeftPlace(Place),
    /// These were called, and are left places no more.
    LeftPlacesCalled(Lane, BTreeSet<Place>),
    /// All were found anew; these they were.
    LeftPlacesFound(Lane, BTreeSet<Place>),
}

impl Queue {
    /// Begins a batch that can be taken back. An earlier one can no longer be.
    pub fn begin(&mut self) {
        self.journal = Some(Box::new(Journal {
            definition: Arc::clone(&self.definition),
            core: self.core.clone(),
            health: self.health,
            backlogs: self.backlogs.clone(),
            advanced_to: self.advanced_to,
            pending: self.pending.clone(),
            steps: Vec::new(),
        }));
    }

    /// The batch holds: it cannot be taken back any more.
    pub fn keep(&mut self) {
        self.journal = None;
    }

    /// Takes back everything since [`Queue::begin`], changes already taken included: the queue is what it was. Without a
    /// batch it does nothing.
    pub fn undo(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let Journal { definition, core, health, backlogs, advanced_to, pending, steps } = *journal;
        let (mut touched, mut found) = (BTreeSet::new(), false);
        for step in steps.into_iter().rev() {
            match &step {
                Step::Left(arrival) | Step::NotLeft(arrival) => drop(touched.insert(Place(arrival.0))),
                Step::LeftPlace(place) | Step::NotLeftPlace(place) => drop(touched.insert(*place)),
                Step::LeftPlacesCalled(_, gone) => touched.extend(gone),
                Step::LeftPlacesFound(..) => found = true,
                Step::Entered(..) | Step::Forgotten(_) | Step::Admission(..) => {}
            }
            self.take_back(step);
        }
        let drawn = core.draw() != self.core.draw();
        self.definition = definition;
        self.core = core;
        self.fit_lines();
        if drawn {
            self.shuffle();
        }
        // A place is vacant by what is written of the sale, too.
        if drawn || found {
            for lane in self.core.lines.lanes() {
                self.find_vacant(lane);
            }
        } else {
            touched.into_iter().for_each(|place| self.settle_vacant(place));
        }
        self.health = health;
        self.backlogs = backlogs;
        self.advanced_to = advanced_to;
        self.pending = pending;
    }

    fn take_back(&mut self, step: Step) {
        match step {
            Step::Entered(record, held) => {
                if let Some(map) = self.map_mut(record.arrival) {
                    map.remove(&record.visitor);
                }
                if let Some(held) = held {
                    self.put_back(held);
                }
            }
            Step::Forgotten(record) => self.put_back(record),
            Step::Admission(arrival, before) => {
                self.unindex(arrival);
                if let Some(before) = before {
                    self.index(arrival, before);
                }
            }
            Step::Left(arrival) => drop(self.left.remove(&arrival)),
            Step::NotLeft(arrival) => drop(self.left.insert(arrival)),
            Step::LeftPlace(place) => drop(self.lines[place.lane()].left_places.remove(&place)),
            Step::NotLeftPlace(place) => drop(self.lines[place.lane()].left_places.insert(place)),
            Step::LeftPlacesCalled(lane, gone) => self.lines[lane].left_places.extend(gone),
            Step::LeftPlacesFound(lane, before) => self.lines[lane].left_places = before,
        }
    }

    fn put_back(&mut self, record: JoinRecord) {
        // It was there before, and whatever could be in its way has been taken back.
        if let Some(map) = self.map_mut(record.arrival) {
            let _ = map.insert(record);
        }
    }

    /// Remembers a step of a batch.
    pub(super) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(journal) = &mut self.journal {
            journal.steps.push(step());
        }
    }
}
