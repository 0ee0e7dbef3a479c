//! What goes wrong and when: a deck of faults, shuffled by the seed and gone through again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::world::World;

/// Seconds that the clock is ahead.
const STEPS: [i64; 5] = [-3_600, 0, 3_600, 30, 0];
/// The same at the end: past the last hold that was made while the clock was ahead. Until it is over, its shopper may still
/// confirm a payment, which so long is not settled.
const AFTER_ALL: i64 = 3_660;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillNode,
    PauseNode,
    KillServer,
    PauseServer,
    CutSessions,
    StepClock,
}

/// Answers that come between two faults, or a slow machine would see little of a sale.
const ANSWERS: usize = 40;
/// How long they are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far a sale is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Answers that have come.
    pub(super) answers: AtomicUsize,
    /// Everybody is done.
    pub(super) over: AtomicBool,
}

/// How often each fault was made.
pub(super) type Made = BTreeMap<Fault, usize>;

/// Makes faults until the sale is over, then puts everything in order again. With at most `pause` between two faults, unless
/// too little comes of it.
pub(super) fn run(mut world: World, seed: u64, pause: Duration, sale: &Arc<Progress>) -> (World, Made) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut made = Made::new();
    let mut deck = Vec::new();
    // The whole deck once, however early everybody is done.
    while !(sale.over.load(Ordering::Relaxed) && made.len() >= kinds(&world)) {
        let fault = loop {
            match deck.pop() {
                Some(fault) => break fault,
                None => deck = shuffled(&world, &mut chance),
            }
        };
        let before = sale.answers.load(Ordering::Relaxed);
        std::thread::sleep(pause.mul_f64(0.3 + 0.7 * chance.f64()));
        let deadline = Instant::now() + PATIENCE;
        while !sale.over.load(Ordering::Relaxed)
            && sale.answers.load(Ordering::Relaxed) < before + ANSWERS
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        make(&mut world, fault, &mut chance);
        *made.entry(fault).or_default() += 1;
    }
    world.step_clock(AFTER_ALL);
    (world, made)
}

fn deck(world: &World) -> &'static [Fault] {
    use Fault::{CutSessions, KillNode, KillServer, PauseNode, PauseServer, StepClock};
    if world.has_server() {
        &[
            KillNode,
            KillNode,
            PauseNode,
            PauseNode,
            KillServer,
            PauseServer,
            CutSessions,
            CutSessions,
            StepClock,
            StepClock,
        ]
    } else {
        &[KillNode, KillNode, PauseNode, StepClock]
    }
}

fn kinds(world: &World) -> usize {
    let mut kinds = deck(world).to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len()
}

fn shuffled(world: &World, chance: &mut fastrand::Rng) -> Vec<Fault> {
    let mut deck = deck(world).to_vec();
    chance.shuffle(&mut deck);
    deck
}

fn make(world: &mut World, fault: Fault, chance: &mut fastrand::Rng) {
    let node = chance.usize(0..world.nodes.len());
    // Longer than a hold lasts, now and then.
    let long = chance.u8(0..4) == 0;
    let mut between = |least: u64, most| Duration::from_millis(chance.u64(least..most));
    let most = if long { 4_500 } else { 500 };
    match fault {
        Fault::KillNode => {
            world.nodes[node].kill();
            std::thread::sleep(between(0, 300));
            world.nodes[node].start();
        }
        Fault::PauseNode => {
            world.nodes[node].pause();
            let pause = between(100, most);
            std::thread::sleep(pause / 2);
            if chance.bool() {
                world.step_clock(STEPS[chance.usize(0..STEPS.len())]);
            }
            std::thread::sleep(pause / 2);
            world.nodes[node].resume();
        }
        Fault::KillServer => {
            world.kill_server();
            std::thread::sleep(between(0, 500));
            world.launch_server();
        }
        Fault::PauseServer => {
            world.pause_server();
            std::thread::sleep(between(100, most));
            world.resume_server();
        }
        Fault::CutSessions => world.cut_sessions(),
        Fault::StepClock => world.step_clock(STEPS[chance.usize(0..STEPS.len())]),
    }
}
