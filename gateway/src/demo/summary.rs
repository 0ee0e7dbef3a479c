//! The end: what the operator, the shop's books and the shoppers say, and whether they say the same.

use std::fmt::Write as _;

use ropeline_origin::Audit;

use super::operator::Seen;
use super::plan::Plan;
use super::tally::{Counts, Ending};
use crate::operator::sales::SaleDocument;

/// The whole sale in a few lines.
#[must_use]
pub(super) fn lines(sale: &SaleDocument, seen: &Seen, books: &Audit, counts: &mut Counts) -> String {
    let mut text = String::new();
    let mut line = |what: &str, said: String| {
        // Memory takes it all.
        let _ = writeln!(text, "  {what:<11} {said}");
    };
    let totals = &sale.totals;
    line("joins", format!("{}, {} of them in the draw", sale.arrivals, sale.draw_size.unwrap_or_default()));
    line(
        "calls",
        format!(
            "{}, and {} recalls; {} lapsed, {} left",
            totals.called, totals.recalled, totals.lapsed, totals.left
        ),
    );
    line(
        "admissions",
        format!(
            "{}; at most {} called or admitted at once, {} allowed, in {} looks",
            totals.claimed, seen.most_active, sale.definition.max_active, seen.looks
        ),
    );
    line(
        "shopping",
        format!(
            "{} bought, {} looked, {} declined, {} holds ran out, {} found nothing left",
            counts.purchases.len(),
            counts.ended(Ending::Looked),
            counts.ended(Ending::Declined),
            counts.ended(Ending::HoldRanOut),
            counts.ended(Ending::SoldOut)
        ),
    );
    line(
        "fairness",
        format!(
            "{} second units refused, {} double clicks made one hold, {} cards declined",
            counts.second_refused, counts.double_clicks, counts.declined
        ),
    );
    for product in &books.products {
        line(
            "stock",
            format!(
                "{} = {} available + {} held + {} sold",
                product.total, product.available, product.held, product.sold
            ),
        );
    }
    let (polls, [half, nine_tenths, most, all]) = counts.polls();
    line(
        "polls",
        format!("{polls}; 50 % within {half:.1?}, 90 % {nine_tenths:.1?}, 99 % {most:.1?}, all {all:.1?}"),
    );
    text
}

/// What is not as it must be once everybody is through. Nobody but the crowd and the scripted shopper came.
#[must_use]
pub(super) fn faults(plan: &Plan, sale: &SaleDocument, books: &Audit, counts: &Counts) -> Vec<String> {
    let mut faults = counts.faults.clone();
    if counts.recalled > sale.totals.recalled {
        faults.push(format!("{} were recalled; the queue counts {}", counts.recalled, sale.totals.recalled));
    }
    if counts.fault_count > u64::try_from(faults.len()).unwrap_or(u64::MAX) {
        faults.push(format!("{} faults in all", counts.fault_count));
    }
    let mut same = |what: &str, one: u64, other: u64| {
        if one != other {
            faults.push(format!("{what}: {one} and {other}"));
        }
    };
    same("tickets the queue gave, and shoppers who have one", sale.arrivals, counts.joined);
    same("claims the queue counts, and shoppers admitted", sale.totals.claimed, counts.admitted);
    for product in &books.products {
        // Nothing of it is negative in books that are balanced.
        let units = |units: i64| u64::try_from(units).unwrap_or(u64::MAX);
        let (available, held, sold) = (units(product.available), units(product.held), units(product.sold));
        same("units delivered, and units in the books", plan.units.into(), units(product.total));
        same(
            "units, and available, held and sold together",
            units(product.total),
            available.saturating_add(held).saturating_add(sold),
        );
        same(
            "units sold, and purchases confirmed",
            sold,
            u64::try_from(counts.purchases.len()).unwrap_or(u64::MAX),
        );
    }
    if !books.balanced {
        faults.push(format!("the shop's books are not balanced: {books:?}"));
    }
    faults
}
