//! A second gateway beside the one of the model, and whole queues compared.

use super::*;
use crate::outcome::Update;

/// A replica, and what it has not yet heard of.
pub(super) struct Gateway {
    queue: Queue,
    missed: Update,
    health: Option<Option<u32>>,
}

impl Gateway {
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue, missed: Update::default(), health: None }
    }

    /// The other one has committed something.
    pub(super) fn miss(&mut self, changes: &Changes, from: &Queue) {
        add(&mut self.missed, changes, from);
    }

    /// Hears of everything and becomes the one that is asked.
    pub(super) fn take_over(&mut self, asked: &mut Queue, health: &mut Option<Option<u32>>) {
        self.queue.take_changes();
        self.queue.apply(std::mem::take(&mut self.missed));
        // Both read the same clock.
        self.queue.core.last_now = self.queue.core.last_now.max(asked.core.last_now);
        assert!(self.queue.take_changes().is_empty(), "what others have committed was to be committed again");
        std::mem::swap(&mut self.queue, asked);
        std::mem::swap(&mut self.health, health);
    }
}

/// Adds a commit to those that are to be applied at once.
pub(super) fn add(missed: &mut Update, changes: &Changes, from: &Queue) {
    if changes.core {
        missed.core = Some(from.core().clone());
    }
    if changes.definition {
        missed.definition = Some(SaleDefinition::clone(from.definition()));
    }
    missed.joins.extend(&changes.joins);
    missed.admissions.extend(&changes.admissions);
    missed.left.extend(&changes.left);
    missed.vacated.extend(&changes.vacated);
}

/// Everything about a queue, in an order of its own.
#[derive(Debug)]
#[allow(dead_code, reason = "read by its Debug")]
pub(super) struct Comparable<'q> {
    core: &'q Core,
    definition: &'q SaleDefinition,
    visitors: Vec<JoinRecord>,
    admissions: BTreeMap<Arrival, Admission>,
    left: BTreeSet<Arrival>,
    left_places: Vec<&'q BTreeSet<Place>>,
    leases: &'q BTreeSet<(UnixMillis, Arrival)>,
    recall_windows: &'q BTreeSet<(UnixMillis, Arrival)>,
    recalls: Vec<&'q BTreeMap<Place, Arrival>>,
    holding: u64,
    shuffle: Vec<Option<&'q Prepared>>,
    health: Option<TickInput>,
    backlogs: &'q Lines<Backlog>,
    advanced_to: Option<UnixMillis>,
    pending: &'q Pending,
}

impl<'q> Comparable<'q> {
    pub(super) fn of(queue: &'q Queue) -> Self {
        let records: Vec<JoinRecord> = queue.joins().collect();
        let maps = queue.lines.iter().flat_map(|line| [&line.visitors, &line.invitations]);
        assert_eq!(maps.map(VisitorMap::len).sum::<usize>(), records.len());
        let found = |record: &JoinRecord| queue.map(record.arrival).unwrap().get(&record.visitor);
        assert!(records.iter().all(|record| found(record) == Some(*record)));
        for lane in queue.core.lines.lanes() {
            let line = &queue.core.lines[lane];
            let vacant = |place: &Place| {
                place.0 >= line.drawn().end
                    && line.skipped.iter().any(|range| range.contains(&place.0))
                    && !queue.left.contains(&Arrival(place.0))
            };
            let vacant: Stretches = queue.lines[lane].left_places.iter().copied().filter(vacant).collect();
            assert_eq!(queue.lines[lane].vacant, vacant, "{lane:?}");
        }
        Self {
            core: &queue.core,
            definition: &queue.definition,
            visitors: records,
            admissions: queue.admissions.iter().map(|(arrival, admission)| (*arrival, *admission)).collect(),
            left: queue.left.iter().copied().collect(),
            left_places: queue.lines.iter().map(|line| &line.left_places).collect(),
            leases: &queue.leases,
            recall_windows: &queue.recall_windows,
            recalls: queue.lines.iter().map(|line| &line.recalls).collect(),
            holding: queue.holding,
            shuffle: queue.lines.iter().map(|line| line.shuffle.as_ref()).collect(),
            health: queue.health,
            backlogs: &queue.backlogs,
            advanced_to: queue.advanced_to,
            pending: &queue.pending,
        }
    }
}
