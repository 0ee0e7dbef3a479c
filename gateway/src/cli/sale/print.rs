//! What the operator sees of an answer.

use std::io::Write;

use ropeline_queue::{Pace, UnixMillis};
use serde::Serialize;

use crate::cli::{Done, Failure};
use crate::config::units::rfc3339;
use crate::operator::sales::{CommandDocument, SaleDocument, SaleList};

fn as_json(out: &mut dyn Write, answer: &impl Serialize) -> Done {
    let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::Unable(error.into()))?;
    writeln!(out, "{text}")?;
    Ok(())
}

pub(super) fn list(out: &mut dyn Write, json: bool, list: &SaleList) -> Done {
    if json {
        return as_json(out, list);
    }
    writeln!(out, "{:40} {:10} {:>10} {:>10} {:>10}", "SALE", "PHASE", "WAITING", "CALLED", "ACTIVE")?;
    for sale in &list.sales {
        writeln!(
            out,
            "{:40} {:10} {:>10} {:>10} {:>10}",
            sale.definition.id.as_str(),
            sale.phase.as_str(),
            sale.waiting,
            sale.unclaimed,
            sale.active
        )?;
    }
    Ok(())
}

pub(super) fn line(out: &mut dyn Write, json: bool, word: &str, sale: &SaleDocument) -> Done {
    if json {
        return as_json(out, sale);
    }
    writeln!(out, "{word} {} ({})", sale.definition.id, sale.phase.as_str())?;
    Ok(())
}

pub(super) fn command(out: &mut dyn Write, json: bool, done: &CommandDocument) -> Done {
    if json {
        return as_json(out, done);
    }
    if done.called > 0 {
        writeln!(out, "called {}", done.called)?;
    }
    match &done.sale {
        Some(after) => sale(out, false, after),
        None => {
            writeln!(out, "carried out; how the sale is now cannot be read, as its store is away")?;
            Ok(())
        }
    }
}

pub(super) fn sale(out: &mut dyn Write, json: bool, sale: &SaleDocument) -> Done {
    if json {
        return as_json(out, sale);
    }
    let definition = &sale.definition;
    let mut line = |name: &str, value: String| writeln!(out, "{name:14} {value}");
    line("sale", format!("{} {:?}", definition.id, definition.title))?;
    line("phase", format!("{}, epoch {}", sale.phase.as_str(), sale.epoch))?;
    if let Some(reason) = &sale.paused_reason {
        line("paused", format!("{:?}", reason.text))?;
    }
    for (name, time) in [
        ("joins open at", definition.joins_open_at),
        ("draw closes at", definition.draw.map(|draw| draw.closes_at)),
        ("opens at", definition.opens_at),
        ("closes at", definition.closes_at),
    ] {
        if let Some(UnixMillis(millis)) = time {
            line(name, rfc3339(millis))?;
        }
    }
    line(
        "pace",
        match definition.pace {
            Pace::Batch { admit, every_ms } => format!("{admit} every {every_ms} ms"),
            Pace::Smooth { admit, per_ms, burst } => {
                format!("{admit} per {per_ms} ms, at most {burst} at once")
            }
        },
    )?;
    line(
        "visitors",
        format!(
            "{} joined, {} waiting, {} called and not yet in, {} of {} active, {} with a hold",
            sale.arrivals, sale.waiting, sale.unclaimed, sale.active, definition.max_active, sale.holding
        ),
    )?;
    if let Some(stock) = sale.stock {
        let held = stock.held.map(|held| format!(", {held} held")).unwrap_or_default();
        line("stock", format!("{} left{held}", stock.available))?;
    }
    if let Some((beacon, round)) = definition.draw.and_then(|draw| draw.beacon).zip(sale.draw_round) {
        let when =
            sale.draw_round_at.map(|at| format!(", which comes at {}", rfc3339(at.0))).unwrap_or_default();
        let way_out = if beacon.fallback { "; by a secret should it be overdue" } else { "" };
        let waits = if sale.draw_waits { "; waited for" } else { "" };
        line("draw by", format!("round {round} of {}{when}{way_out}{waits}", beacon.name))?;
    }
    if let Some(trust) = sale.draw_trust {
        line("draw trust", trust.as_str().to_owned())?;
    }
    if let Some(size) = sale.draw_size {
        line("draw", format!("{size} arrivals{}", if sale.draw_seed.is_some() { ", made" } else { "" }))?;
    }
    let totals = &sale.totals;
    line(
        "so far",
        format!(
            "{} called, {} admitted, {} lapsed, {} recalled, {} left, {} ended",
            totals.called, totals.claimed, totals.lapsed, totals.recalled, totals.left, totals.ended
        ),
    )?;
    line("as of", rfc3339(sale.as_of.0))?;
    Ok(())
}
