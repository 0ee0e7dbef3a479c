//! A sale in which everything goes wrong: processes are killed and stopped, replies are lost, clocks are set, the payment
//! service fails. Then nothing goes wrong any more, and the books are compared with the payment service's, with what
//! each shopper was told and with the events that were received.
//!
//! ```sh
//! make faults                                        # 100,000 shoppers, 25,000 units, 20 seeds, on both databases
//! make faults SEED=7 SEEDS=1 SHOPPERS=2000 UNITS=500 # one run as in the tests, with the seed that a failed one printed
//! ```
//!
//! The short form takes one to three minutes, as much for its pauses as for its work. Ten thousand shoppers took two minutes
//! on two cores, and six where others had most of them; reckon with ten times as much for each run of full size. A slow
//! machine makes the faults rarer and the sale longer, and finds nothing that is not there.
//!
//! The hard cases, each a test of its own, as well as part of what happens in every run:
//!
//! | | what happens | test |
//! | --- | --- | --- |
//! | a | the database is killed between commit and reply; the same key is retried | `store::postgres::tests::a_database_killed_between_commit_and_reply_makes_one_hold_of_the_same_key`, `crash::a_killed_process_loses_no_answer_and_no_unit` |
//! | b | a claimer is paused past its time, and goes on against a reclaim | `store::postgres::tests::a_claimer_that_is_paused_past_its_time_neither_blocks_a_reclaim_nor_sells_twice` |
//! | c | an authorisation comes as the hold ends and its unit is claimed anew | `stripe::authorisation_in_the_same_millisecond_as_expiry_and_re_claim` |
//! | d | captured, the reply lost, the process dead, and no webhook comes | `stripe::capture_done_reply_lost_process_dead_and_no_webhook` |
//! | e | webhooks twice, reversed, three days late, forged, at 300 and 301 s, under a new secret | `stripe::webhooks_duplicated_reversed_and_three_days_late_change_nothing_that_is_settled`, `stripe::webhooks_forged_or_out_of_time_are_refused_and_slow_ones_taken`, `payments::signature::tests::the_time_counts_to_the_second_on_both_sides`, `stripe::while_the_endpoint_s_secret_is_rotated_either_is_believed` |
//! | f | the clock steps an hour, both ways | `store::postgres::tests::the_books_add_up_however_the_clock_is_stepped`, `store::tests::*::keys::a_clock_that_is_set_back_leaves_no_payment_waiting` |
//! | g | two nodes, one key, different bodies, and the first dies | `faults::cases::two_nodes_one_key_different_bodies_and_the_first_dies` |
//! | h | a transaction stays open | `store::postgres::tests::a_transaction_that_stays_open_makes_no_claim_dearer` |
//! | i | the last unit, and a thousand who want it | `store::postgres::tests::the_last_unit_goes_to_one_of_a_thousand` |
//! | j | the disk is full | `faults::cases::a_full_disk_under_sqlite_sells_nothing_that_is_not_written`, `faults::cases::a_full_disk_under_postgres_sells_nothing_that_is_not_written` |
//!
//! The seed decides what is done to whom; what comes of it also depends on the machine, so a seed that found a fault makes
//! it likely again, not certain. That is why a fault that was found becomes a test of its own, and no list of seeds is kept.

#![allow(clippy::print_stdout, reason = "how a run went is for people to look at")]

mod books;
mod cases;
mod checker;
mod disk;
mod goods;
mod proxy;
mod receiver;
mod schedule;
mod shopper;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use ropeline_payment_service::{PaymentService, Plan};

use crate::common::Gate;
use crate::stripe::{ACCOUNT, ENDPOINT};
use checker::{Evidence, Findings};
use goods::Goods;
use proxy::Weather;
use receiver::Inbox;
use schedule::Progress;
use shopper::Crowd;
use world::{Store, Surroundings, World};

/// Shoppers at a time.
const AT_A_TIME: u64 = 256;
/// How long the service may take to settle everything once nothing goes wrong any more, on a slow machine.
const SETTLING: Duration = Duration::from_secs(240);

/// How large a run is.
#[derive(Clone, Copy, Debug)]
struct Size {
    shoppers: u64,
    units: i64,
    /// The longest time between two faults.
    pause: Duration,
    /// How long a shopper thinks at most, before and after the reservation.
    leisure: Duration,
}

/// What every test run does.
const SHORT: Size = Size {
    shoppers: 2_000,
    units: 500,
    pause: Duration::from_millis(700),
    leisure: Duration::from_millis(500),
};
/// What `make faults` does unless it is told otherwise.
const FULL: Size = Size {
    shoppers: 100_000,
    units: 25_000,
    pause: Duration::from_millis(1_500),
    leisure: Duration::from_millis(200),
};

/// Runs a whole sale, and fails with everything that is not as it has to be.
async fn run(store: Store, seed: u64, size: Size) {
    println!("{store:?}, seed {seed}, {size:?}");
    let (began, mut chance) = (Instant::now(), fastrand::Rng::with_seed(seed));
    let (gate, goods) = (Gate::new(7), Goods::of(size.units));
    let service = PaymentService::start(Plan::rough(chance.u64(..)), ACCOUNT).await.unwrap();
    let inbox = Arc::new(Inbox::default());
    let told = receiver::start(inbox.clone(), chance.u64(..)).await;
    let around = Surroundings {
        gate: &gate,
        goods: &goods,
        payment_service: &service.base_url(),
        receiver: &told.base,
        hold: world::HOLD,
        timeout: 1,
    };
    let world = tokio::task::block_in_place(|| World::build(store, &std::env::temp_dir(), &around));
    let (weather, mut bases) = (Arc::new(Weather::default()), Vec::new());
    for node in &world.nodes {
        let address = proxy::start(node.port.clone(), weather.clone(), chance.u64(..)).await;
        bases.push(format!("http://{address}"));
    }
    service.send_events_to(&format!("{}/webhooks/payments", bases[0]), ENDPOINT);
    let (sale, fate) = (Arc::new(Progress::default()), chance.u64(..));
    let faults = {
        let sale = sale.clone();
        std::thread::spawn(move || schedule::run(world, fate, size.pause, &sale))
    };
    let crowd = Arc::new(Crowd::new(chance.u64(..), gate, goods.clone(), bases, size.leisure, sale.clone()));
    shop(&crowd, size.shoppers).await;
    sale.over.store(true, Ordering::Relaxed);
    let (world, made) = tokio::task::spawn_blocking(move || faults.join().unwrap()).await.unwrap();
    weather.calm.store(true, Ordering::Relaxed);
    service.change(Plan::calm());
    let shopping = began.elapsed();
    println!(
        "shopping took {shopping:?}; faults: {made:?}, and {} connections cut",
        weather.cut.load(Ordering::Relaxed)
    );

    let mut findings = Findings::default();
    let mut books = world.books().await;
    settle(&mut books, &mut findings).await;
    repeat(&crowd, seed, &mut findings).await;
    settle(&mut books, &mut findings).await;
    let evidence = Evidence::read(&mut books).await;
    books.close().await;
    let units = evidence.stock(&goods, &mut findings);
    evidence.numbers(&goods, &mut findings);
    let payments = evidence.money(&service.payments(), &mut findings);
    evidence.answers(&crowd, &mut findings);
    let events = evidence.events(&inbox, &mut findings);
    audit(&crowd, &world, &mut findings).await;
    findings.0.append(&mut crowd.wrong.lock().unwrap());

    println!("all of it took {:?}", began.elapsed());
    println!("replies lost to shoppers: {}", crowd.lost.load(Ordering::Relaxed));
    let mut answers: Vec<_> = crowd.answers.lock().unwrap().clone().into_iter().collect();
    answers.sort();
    println!("answers: {answers:?}\nunits: {units:?}\npayments: {payments:?}\nevents: {events:?}");
    if !findings.0.is_empty() {
        let count = findings.0.len();
        findings.0.truncate(40);
        panic!(
            "{count} findings with {store:?} and seed {seed}:\n{}\n{}",
            findings.0.join("\n"),
            world.logs()
        );
    }
    for end in ["sold", "voided", "declined"] {
        assert!(payments.contains_key(end), "the run was too tame to mean anything: {payments:?}");
    }
}

/// All of them, some at a time.
async fn shop(crowd: &Arc<Crowd>, shoppers: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let visits: Vec<_> = (0..AT_A_TIME)
        .map(|_| {
            let (crowd, next) = (crowd.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= shoppers {
                        return;
                    }
                    crowd.shop(number).await;
                }
            })
        })
        .collect();
    for visit in visits {
        visit.await.unwrap();
    }
}

/// Waits until no hold and no purchase is under way any more, and every event is told: from then on nothing changes while it
/// is looked at.
async fn settle(books: &mut books::Books, findings: &mut Findings) {
    let deadline = Instant::now() + SETTLING;
    loop {
        let (held, unsettled, untold) = (books.held().await, books.unsettled().await, books.untold().await);
        if held + unsettled + untold == 0 {
            return;
        }
        if Instant::now() > deadline {
            findings.0.push(format!(
                "{held} holds never end, {unsettled} purchases are never settled, {untold} events never told"
            ));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Makes the calls that were never answered, which must have an answer now, and some that were, which must have the same.
async fn repeat(crowd: &Crowd, seed: u64, findings: &mut Findings) {
    let unanswered = std::mem::take(&mut *crowd.unanswered.lock().unwrap());
    let mut answered: Vec<_> = crowd.told.lock().unwrap().iter().map(|told| told.call.clone()).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut answered);
    answered.truncate(1_000);
    println!("{} calls were never answered", unanswered.len());
    let calls: Vec<_> = unanswered.into_iter().chain(answered).collect();
    for some in calls.chunks(64) {
        for (call, answer) in
            join_all(some.iter().map(|call| async move { (call, crowd.again(call).await) })).await
        {
            match answer {
                Some(Ok(told)) => crowd.told.lock().unwrap().push(told),
                // May still become possible, and is no promise.
                Some(Err(code)) if matches!(code.as_str(), "all_held" | "payment_running") => {}
                other => findings.0.push(format!("{call:?} has no answer: {other:?}")),
            }
        }
    }
}

/// The service finds its books in order as well.
async fn audit(crowd: &Crowd, world: &World, findings: &mut Findings) {
    for node in &world.nodes {
        let answer = crowd.client.get(format!("{}/audit", node.base())).send().await.unwrap();
        let audit: serde_json::Value = answer.json().await.unwrap();
        if audit["balanced"] != true {
            findings.0.push(format!("the service finds its books wrong: {audit}"));
        }
    }
}

/// A seed that nobody chose.
fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    u32::from_le_bytes(bytes).into()
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_sqlite_survives_every_fault() {
    run(Store::Sqlite, any_seed(), SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_postgres_survives_every_fault() {
    run(Store::Postgres, any_seed(), SHORT).await;
}

/// What `make faults` runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes hours"]
async fn many_full_sales_survive_every_fault() {
    let seeds = from_environment("SEEDS").unwrap_or(20);
    let shoppers = from_environment("SHOPPERS").unwrap_or(FULL.shoppers);
    let units = from_environment("UNITS").map_or(FULL.units, |units| i64::try_from(units).unwrap());
    let first = from_environment("SEED").unwrap_or_else(any_seed);
    let like = if shoppers > SHORT.shoppers { FULL } else { SHORT };
    let size = Size { shoppers, units, ..like };
    let stores = match std::env::var("STORE").as_deref() {
        Ok("sqlite") => &[Store::Sqlite][..],
        Ok("postgres") => &[Store::Postgres],
        _ => &[Store::Postgres, Store::Sqlite],
    };
    for seed in (0..seeds).map(|number| first.wrapping_add(number)) {
        for store in stores {
            run(*store, seed, size).await;
        }
    }
}
