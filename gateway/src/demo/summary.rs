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

/// What is not as it must be once everybody is through. With `--once` nobody but the crowd and the scripted shopper
/// came, so that they and the queue must count alike; else a person may have joined them, and bought.
#[must_use]
pub(super) fn faults(plan: &Plan, sale: &SaleDocument, books: &Audit, counts: &Counts) -> Vec<String> {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    // Nothing in books that are balanced is negative.
    let units = |units: i64| u64::try_from(units).unwrap_or(u64::MAX);
    let mut faults = counts.faults.clone();
    if counts.fault_count > number(faults.len()) {
        faults.push(format!("{} faults in all", counts.fault_count));
    }
    let mut compare = |what: &str, one: u64, other: u64, alike: bool| {
        let wrong = if alike { one != other } else { one < other };
        if wrong {
            faults.push(format!("{what}: {one} and {other}"));
        }
    };
    let alone = plan.once;
    compare("tickets the queue gave, and shoppers who have one", sale.arrivals, counts.joined, alone);
    compare("claims the queue counts, and shoppers admitted", sale.totals.claimed, counts.admitted, alone);
    compare("recalls the queue counts, and shoppers recalled", sale.totals.recalled, counts.recalled, false);
    for product in &books.products {
        let [total, available, held, sold] =
            [product.total, product.available, product.held, product.sold].map(units);
        let together = available.saturating_add(held).saturating_add(sold);
        compare("units delivered, and units in the books", plan.units.into(), total, true);
        compare("units, and available, held and sold together", total, together, true);
        compare("units sold, and purchases confirmed", sold, number(counts.purchases.len()), alone);
    }
    if !books.balanced {
        faults.push(format!("the shop's books are not balanced: {books:?}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use ropeline_origin::ProductAudit;
    use ropeline_queue::{JoinOptions, Queue, UnixMillis, VisitorKey};

    use super::*;

    /// A sale that one visitor has joined who is not of the crowd, and bought in.
    fn visited(plan: &Plan) -> (SaleDocument, Audit) {
        let now = UnixMillis(1_700_000_000_000);
        let mut queue = Queue::create(plan.definition(now).unwrap(), [7; 32], now);
        queue.join(VisitorKey([1; 16]), JoinOptions::default(), now).unwrap();
        let total = i64::from(plan.units);
        let product = ProductAudit {
            id: "sneaker".to_owned(),
            total,
            available: total - 1,
            held: 0,
            sold: 1,
            balanced: true,
            differs: Vec::new(),
            stopped: false,
        };
        (SaleDocument::from(&queue.view(now)), Audit { balanced: true, products: vec![product] })
    }

    #[test]
    fn a_person_beside_the_crowd_is_no_fault_unless_nobody_else_may_come() {
        let plan = Plan::interactive(0, 1);
        let (sale, books) = visited(&plan);
        assert_eq!(faults(&plan, &sale, &books, &Counts::default()), Vec::<String>::new());
        let plan = Plan::once(0, 1);
        let (sale, books) = visited(&plan);
        assert_eq!(
            faults(&plan, &sale, &books, &Counts::default()).len(),
            2,
            "a ticket and a purchase too many"
        );
    }

    #[test]
    fn a_unit_or_a_purchase_that_is_missing_is_a_fault() {
        for plan in [Plan::interactive(0, 1), Plan::once(0, 1)] {
            let (sale, mut books) = visited(&plan);
            let mut counts = Counts::default();
            counts.purchases.extend(["one".to_owned(), "two".to_owned()]);
            books.products[0].available -= 1;
            let found = faults(&plan, &sale, &books, &counts).join("\n");
            assert!(found.contains("units sold, and purchases confirmed: 1 and 2"), "{found}");
            assert!(found.contains("available, held and sold together"), "{found}");
        }
    }
}
