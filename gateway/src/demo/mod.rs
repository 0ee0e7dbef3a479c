//! A whole sale on one machine: gateway, queue, reservation service and a crowd, over real HTTP on loopback.
//!
//! [`plan`] says how the sale goes, [`stage`] is what stands, [`crowd`] who comes, each a [`character`] in a browser of
//! the [`web`]; [`scripted`] is the one shopper who checks every step, [`operator`] watches, and [`summary`] adds up.

mod character;
mod crowd;
mod operator;
mod plan;
mod scripted;
mod snapshot;
mod stage;
mod summary;
mod tally;
mod web;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use ropeline_origin::Audit;
use ropeline_queue::UnixMillis;
use ropeline_store::{Clock as _, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep_until};

pub use plan::{Plan, PlanError};

use crate::operator::sales::SaleDocument;
use operator::Seen;
use plan::{PRODUCT_PAGE, SALE};
use stage::Stage;
use tally::Tally;
use web::Web;

/// How often it is said where the sale stands.
const SECOND: Duration = Duration::from_secs(1);

/// How the demo came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as it should be, as far as the demo went.
    Good,
    /// What is not.
    Failed(Vec<String>),
}

/// Lives through the sale, telling it to `out`. What it writes lies in `folder`, where the keys are already, under
/// `keys`. Blocks.
///
/// # Errors
/// When a part cannot be started or breaks, or `out` takes nothing more.
pub fn run(plan: &Plan, port: Option<u16>, folder: &Path, out: &mut dyn Write) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let verdict = runtime.block_on(Box::pin(play(plan, port, folder, out)));
    runtime.shutdown_timeout(Duration::from_secs(5));
    verdict
}

async fn play(plan: &Plan, port: Option<u16>, folder: &Path, out: &mut dyn Write) -> anyhow::Result<Verdict> {
    // From now on a signal no longer kills: the folder is removed whatever happens.
    let mut told = Told::listen()?;
    writeln!(out, "{} shoppers for {} units, seed {}", plan.shoppers, plan.units, plan.seed)?;
    let mut stage = tokio::select! {
        stage = Stage::set(plan, port, folder) => stage?,
        () = told.ended() => return Ok(interrupted(plan)),
    };
    let verdict = Show::begin(plan, &stage, folder, out).await?.go_on(&mut stage, &mut told, out).await;
    let struck = stage.strike().await;
    let verdict = verdict?;
    struck?;
    if verdict == Verdict::Good {
        writeln!(out, "ok")?;
    }
    Ok(verdict)
}

/// SIGINT and SIGTERM.
struct Told {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

/// The sale while it goes on.
struct Show {
    plan: Arc<Plan>,
    start: Instant,
    tally: Arc<Tally>,
    seen: watch::Receiver<Seen>,
    steps: UnboundedReceiver<String>,
    /// The crowd, and the scripted shopper.
    shoppers: JoinSet<()>,
    /// The operator's watch; ends with this value.
    _watching: JoinSet<()>,
}

// === impl Told ===

impl Told {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn ended(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Whoever watches may end it at any time; a check that was cut short has found nothing.
fn interrupted(plan: &Plan) -> Verdict {
    if plan.once {
        Verdict::Failed(vec!["it was interrupted before the end".to_owned()])
    } else {
        Verdict::Good
    }
}

// === impl Show ===

impl Show {
    async fn begin(plan: &Plan, stage: &Stage, folder: &Path, out: &mut dyn Write) -> anyhow::Result<Self> {
        let plan = Arc::new(plan.clone());
        let (now, start): (UnixMillis, _) = (SystemClock::new().now(), Instant::now());
        stage.operator.create(&plan.definition(now)?).await?;
        writeln!(out, "\n  The shop:  {}{PRODUCT_PAGE}", stage.url)?;
        if !plan.once {
            let (program, config) = (std::env::current_exe()?, folder.join("ropeline.toml"));
            writeln!(out, "  Run it:    {} sale show {SALE} -c {}", program.display(), config.display())?;
        }
        let opens = plan.joining + plan.drawing;
        writeln!(
            out,
            "  It opens in {} s; who joins in the next {} s is in the draw.\n",
            opens.as_secs(),
            plan.joining.as_secs()
        )?;

        let (web, tally) = (Web::new(&stage.url)?, Arc::new(Tally::default()));
        let (seen_sender, seen) = watch::channel(Seen::default());
        let mut watching = JoinSet::new();
        watching.spawn(stage.operator.clone().keep_watching(seen_sender, Arc::clone(&tally)));
        let mut shoppers = JoinSet::new();
        shoppers.spawn(crowd::run(Arc::clone(&plan), web.clone(), Arc::clone(&tally), start));
        let (step_sender, steps) = unbounded_channel();
        if plan.once {
            let tally = Arc::clone(&tally);
            shoppers.spawn(async move {
                if let Err(error) = scripted::run(web, step_sender, &tally).await {
                    tally.counts().fault(format!("the scripted shopper: {error:#}"));
                }
            });
        }
        Ok(Self { plan, start, tally, seen, steps, shoppers, _watching: watching })
    }

    async fn go_on(
        mut self,
        stage: &mut Stage,
        told: &mut Told,
        out: &mut dyn Write,
    ) -> anyhow::Result<Verdict> {
        let deadline = self.plan.deadline.map(|deadline| self.start + deadline);
        let mut second = interval_at(self.start + SECOND, SECOND);
        let mut last = String::new();
        let mut summed = false;
        loop {
            tokio::select! {
                Some(step) = self.steps.recv() => writeln!(out, "{} shopper    {step}", self.clock())?,
                _ = second.tick() => {
                    let line = self.line(&stage.books.audit().await?);
                    // Once nothing moves any more there is nothing to say.
                    if !summed || line != last {
                        writeln!(out, "{} {line}", self.clock())?;
                        last = line;
                    }
                    if !summed && self.is_through() {
                        let verdict = self.sum_up(stage, out).await?;
                        if self.plan.once {
                            return Ok(verdict);
                        }
                        if let Verdict::Failed(faults) = verdict {
                            writeln!(out, "  seen on the way: {}", faults.join("; "))?;
                        }
                        writeln!(out, "The crowd is through. The shop stays open until Ctrl-C.\n")?;
                        summed = true;
                    }
                }
                Some(ended) = self.shoppers.join_next() => ended.context("the crowd has panicked")?,
                () = told.ended() => return Ok(interrupted(&self.plan)),
                error = stage.broken() => return Err(error),
                () = until(deadline) => {
                    let line = self.line(&stage.books.audit().await?);
                    let mut faults = vec![format!("not at its end after {:?}: {line}", self.start.elapsed())];
                    faults.append(&mut self.tally.counts().faults.clone());
                    return Ok(Verdict::Failed(faults));
                }
            }
        }
    }

    /// Whether every shopper is through, and every call was claimed or has lapsed.
    fn is_through(&self) -> bool {
        let settled = |sale: &SaleDocument| sale.waiting == 0 && sale.unclaimed == 0 && sale.recalls == 0;
        let over = |sale: &SaleDocument| sale.phase == ropeline_queue::Phase::SoldOut;
        self.shoppers.is_empty()
            && self.steps.is_empty()
            && self.seen.borrow().sale.as_deref().is_some_and(|sale| settled(sale) || over(sale))
    }

    async fn sum_up(&self, stage: &Stage, out: &mut dyn Write) -> anyhow::Result<Verdict> {
        let (sale, books) = (stage.operator.show().await?, stage.books.audit().await?);
        let seen = self.seen.borrow().clone();
        let (lines, faults) = {
            let mut counts = self.tally.counts();
            let lines = summary::lines(&sale, &seen, &books, &mut counts);
            (lines, summary::faults(&self.plan, &sale, &books, &counts))
        };
        writeln!(out, "\nafter {:.1} s\n{lines}", self.start.elapsed().as_secs_f64())?;
        Ok(if faults.is_empty() { Verdict::Good } else { Verdict::Failed(faults) })
    }

    fn clock(&self) -> String {
        let seconds = self.start.elapsed().as_secs();
        format!("{:>3}:{:02}", seconds / 60, seconds % 60)
    }

    /// Where the sale stands, in one line.
    fn line(&self, books: &Audit) -> String {
        let seen = self.seen.borrow();
        let Some(sale) = &seen.sale else { return "not looked at yet".to_owned() };
        let sum = |of: fn(&ropeline_origin::ProductAudit) -> i64| books.products.iter().map(of).sum::<i64>();
        format!(
            "{:<10} joined {:>4}  waiting {:>4}  serving {:>4}  called {:>3}  active {:>3}  holds {:>3}  sold {:>4}  stock {:>4}",
            sale.phase.as_str(),
            sale.arrivals,
            sale.waiting,
            sale.serving,
            sale.unclaimed,
            sale.active,
            sum(|product| product.held),
            sum(|product| product.sold),
            sum(|product| product.available),
        )
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
