//! What has to be true in the end, whatever went wrong.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use ropeline_payment_service::{Payment, State};
use serde_json::Value;

use super::books::{Books, Purchase, Reservation, Unit};
use super::goods::{Goods, Kind};
use super::receiver::{Event, Inbox};
use super::shopper::{Crowd, Told};

/// Everything that was written down, by whom ever.
pub(super) struct Evidence {
    reservations: HashMap<String, Reservation>,
    purchases: HashMap<String, Purchase>,
    units: Vec<Unit>,
    available: HashMap<String, i64>,
    stopped: Vec<(String, Option<String>)>,
}

/// How things ended, for whoever looks at a run.
pub(super) type Ends = BTreeMap<String, usize>;

/// Faults found.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<String>);

impl Findings {
    fn check(&mut self, good: bool, what: impl FnOnce() -> String) {
        if !good {
            self.0.push(what());
        }
    }
}

impl Evidence {
    pub(super) async fn read(books: &mut Books) -> Self {
        Self {
            reservations: books.reservations().await.into_iter().map(|row| (row.id.clone(), row)).collect(),
            purchases: books.purchases().await.into_iter().map(|row| (row.id.clone(), row)).collect(),
            units: books.units().await,
            available: books.available().await.into_iter().collect(),
            stopped: books.stopped().await,
        }
    }

    pub(super) fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values()
    }

    fn state(&self, reservation: &str) -> &str {
        self.reservations.get(reservation).map_or("nowhere", |row| row.state.as_str())
    }

    fn payment(&self, purchase: &str) -> &str {
        self.purchases.get(purchase).map_or("nowhere", |row| row.state.as_str())
    }

    /// total = available + held + sold, and no visitor has more than one hold or purchase of a product.
    pub(super) fn stock(&self, goods: &Goods, findings: &mut Findings) -> Ends {
        let mut ends = Ends::new();
        findings.check(self.stopped.is_empty(), || format!("its sale was stopped: {:?}", self.stopped));
        let mut sums: HashMap<&str, (i64, i64)> = HashMap::new();
        let (mut live, mut of_visitor) = (HashSet::new(), HashMap::<&str, i64>::new());
        for row in self.reservations.values() {
            let (held, sold) = sums.entry(&row.product_id).or_default();
            match row.state.as_str() {
                "sold" => *sold += row.quantity,
                "held" | "paying" | "capturing" => *held += row.quantity,
                _ => continue,
            }
            *of_visitor.entry(&row.visitor).or_default() += row.quantity;
            let once = live.insert((&row.product_id, &row.visitor));
            findings.check(once, || format!("{} has {} twice", row.visitor, row.product_id));
        }
        for (visitor, units) in of_visitor {
            findings.check(units <= 4, || format!("{visitor} has {units} units, of 4 at most"));
        }
        for ware in &goods.0 {
            let (held, sold) = sums.get(ware.id).copied().unwrap_or_default();
            let available = self.available.get(ware.id).copied().unwrap_or_default();
            findings.check(ware.total == available + held + sold, || {
                format!("{}: {} ≠ {available} available + {held} held + {sold} sold", ware.id, ware.total)
            });
            for (end, units) in [("available", available), ("held", held), ("sold", sold)] {
                *ends.entry(end.to_owned()).or_default() += usize::try_from(units).unwrap_or_default();
            }
        }
        ends
    }

    /// No numbered unit belongs to two, and units and reservations name each other.
    pub(super) fn numbers(&self, goods: &Goods, findings: &mut Findings) {
        let mut owned: HashMap<(&str, String), &str> = HashMap::new();
        for row in self.reservations.values() {
            if !matches!(row.state.as_str(), "sold" | "held" | "paying" | "capturing") {
                continue;
            }
            let labels: Vec<String> =
                row.units.as_deref().map_or(Vec::new(), |units| serde_json::from_str(units).unwrap());
            let numbered = goods.0.iter().any(|ware| ware.id == row.product_id && ware.kind == Kind::Units);
            let named = i64::try_from(labels.len()).unwrap() == if numbered { row.quantity } else { 0 };
            findings.check(named, || format!("{row:?} names {} units", labels.len()));
            for label in labels {
                if let Some(other) = owned.insert((&row.product_id, label.clone()), &row.id) {
                    findings.0.push(format!("{label} of {} is in {other} and in {}", row.product_id, row.id));
                }
            }
        }
        for unit in &self.units {
            let owner = owned.remove(&(unit.product_id.as_str(), unit.label.clone()));
            let state = owner.map_or("free", |id| if self.state(id) == "sold" { "sold" } else { "held" });
            let fits = owner == unit.reservation_id.as_deref() && state == unit.state;
            findings.check(fits, || format!("{unit:?} belongs to {owner:?}"));
        }
        findings.check(owned.is_empty(), || format!("there are no such units: {owned:?}"));
    }

    /// Each charge belongs to one sold reservation, or has come back once; nothing was given away.
    pub(super) fn money(&self, payments: &[Payment], findings: &mut Findings) -> Ends {
        let (mut ends, mut paid) = (Ends::new(), HashSet::new());
        for payment in payments {
            let Some(purchase) = self.purchases.get(&payment.purchase) else {
                findings.0.push(format!("nobody knows of {payment:?}"));
                continue;
            };
            let state = purchase.state.as_str();
            if purchase.provider_ref.as_ref() != Some(&payment.id) {
                let untouched = payment.state == State::Created && payment.authorised + payment.captured == 0;
                findings
                    .check(untouched, || format!("moved under an unknown name: {payment:?}, {purchase:?}"));
                *ends.entry("made twice".into()).or_default() += 1;
                continue;
            }
            let fits = match payment.state {
                State::Captured if payment.refunded == 0 => state == "sold",
                State::Captured => state == "refunded" && payment.refunded == 1,
                // Refused, and shut all the same by somebody who did not know yet.
                State::Canceled if payment.authorised == 0 => matches!(state, "voided" | "declined"),
                State::Canceled => state == "voided" && payment.voided == 1,
                State::Declined => state == "declined",
                State::Created | State::RequiresAction | State::Processing | State::Authorised => false,
            };
            findings.check(fits, || format!("{purchase:?} here, and there {payment:?}"));
            let once = payment.captured <= 1 && payment.authorised <= 1;
            findings.check(once, || format!("charged twice: {payment:?}"));
            let owed = self.reservations.get(&purchase.reservation_id).map(|row| row.amount_minor);
            findings.check(owed == Some(payment.amount), || format!("{owed:?} was owed: {payment:?}"));
            if payment.state == State::Captured && payment.refunded == 0 {
                paid.insert(purchase.reservation_id.as_str());
            }
            *ends.entry(state.to_owned()).or_default() += 1;
        }
        let mut bought = HashSet::new();
        for purchase in self.purchases.values().filter(|purchase| purchase.state == "sold") {
            let reservation = purchase.reservation_id.as_str();
            findings.check(bought.insert(reservation), || format!("{reservation} was bought twice"));
        }
        for row in self.reservations.values() {
            let (id, sold) = (row.id.as_str(), row.state == "sold");
            let all = (paid.contains(id), bought.contains(id));
            findings.check(all == (sold, sold), || format!("(paid, bought) = {all:?}: {row:?}"));
        }
        for purchase in self.purchases.values() {
            let over = matches!(purchase.state.as_str(), "sold" | "declined" | "voided" | "refunded");
            findings.check(over, || format!("ambiguous: {purchase:?}"));
        }
        ends
    }

    /// Each event was received, in the order of its reservation, and again only as it was; and each outcome has its event.
    pub(super) fn events(&self, inbox: &Inbox, findings: &mut Findings) -> Ends {
        let (events, mut ends) = (inbox.events.lock().unwrap(), Ends::new());
        for strange in inbox.strange.lock().unwrap().iter() {
            findings.0.push(format!("no event, or none that is signed: {strange}"));
        }
        let mut first: HashMap<(&str, i64), &Event> = HashMap::new();
        // Up to where each reservation's are taken.
        let mut taken: HashMap<&str, i64> = HashMap::new();
        let mut outcomes: HashMap<(&str, &str), usize> = HashMap::new();
        for event in events.iter() {
            let aggregate = event.aggregate.as_str();
            let up_to = taken.entry(aggregate).or_default();
            findings
                .check(event.seq <= *up_to + 1, || format!("{up_to} was the last taken before {event:?}"));
            if event.taken {
                *up_to = event.seq.max(*up_to);
            }
            match first.entry((aggregate, event.seq)) {
                Entry::Occupied(before) => {
                    let same = before.get().id == event.id && before.get().body == event.body;
                    findings.check(same, || format!("{:?} came again as {event:?}", before.get()));
                    *ends.entry("again".into()).or_default() += 1;
                }
                Entry::Vacant(new) => {
                    new.insert(event);
                    *outcomes.entry((aggregate, &event.kind)).or_default() += 1;
                    *ends.entry(event.kind.clone()).or_default() += 1;
                }
            }
        }
        for row in self.reservations.values() {
            let up_to = taken.get(row.id.as_str()).copied().unwrap_or_default();
            findings.check(up_to == row.version, || format!("told up to {up_to}: {row:?}"));
            if matches!(row.state.as_str(), "cancelled" | "expired") {
                // What had expired may have been given back as well, which is no news.
                let told = ["reservation.cancelled", "reservation.expired"]
                    .into_iter()
                    .any(|kind| outcomes.contains_key(&(row.id.as_str(), kind)));
                findings.check(told, || format!("nobody was told: {row:?}"));
            }
        }
        let mut settled: HashMap<(&str, String), usize> = HashMap::new();
        for row in self.purchases.values() {
            let kind = format!("purchase.{}", row.state);
            *settled.entry((row.reservation_id.as_str(), kind)).or_default() += 1;
        }
        for ((reservation, kind), count) in settled {
            let told = outcomes.get(&(reservation, kind.as_str())).copied().unwrap_or_default();
            findings.check(told == count, || {
                format!("{kind} of {reservation} was told {told} times, not {count}")
            });
        }
        ends
    }

    /// Every answer that was given is true.
    pub(super) fn answers(&self, crowd: &Crowd, findings: &mut Findings) {
        let told = crowd.told.lock().unwrap();
        let mut first: HashMap<(&str, &str), &Told> = HashMap::new();
        for told in told.iter() {
            let before = first.entry((&told.call.visitor, told.call.key)).or_insert(told);
            findings.check(*before == told, || format!("two answers to one call: {before:?}, {told:?}"));
        }
        for told in first.values() {
            if let Some(why) = self.doubt(told, &crowd.goods) {
                findings.0.push(format!("{why}: {told:?}"));
            }
        }
        for seen in crowd.seen.lock().unwrap().iter() {
            let state = self.payment(&seen.purchase);
            findings.check(state == seen.state, || format!("{seen:?} was seen, and it is {state}"));
        }
    }

    /// Why an answer is not true.
    fn doubt(&self, told: &Told, goods: &Goods) -> Option<String> {
        let text = |member: &str| told.body[member].as_str().unwrap_or_default();
        let reservation = text("id");
        let link = |member: &str, prefix: &str| text(member).trim_start_matches(prefix).to_owned();
        match (told.call.key, told.status, text("code")) {
            ("hold" | "hold-b" | "extend", 200 | 201, _) => {
                let Some(row) = self.reservations.get(reservation) else {
                    return Some("the hold is lost".into());
                };
                let units: Value =
                    row.units.as_deref().map_or(Value::Null, |units| serde_json::from_str(units).unwrap());
                // A payment that came late and at once may have bought others than those that the hold had, where the
                // shopper chose none. What another tab had got (200) need not be what this call asked for.
                let chosen =
                    if told.status == 201 { told.call.body.get("units").is_some() } else { row.chosen };
                let bought_again = !chosen && row.state == "sold";
                let same = row.visitor == told.call.visitor
                    && row.quantity == told.body["quantity"].as_i64()?
                    && (told.body["units"] == units || units.is_null() || bought_again);
                (!same).then(|| format!("it is {row:?}"))
            }
            ("pay" | "pay-b" | "pay-2", 201, _) => {
                let (payment, hold) = (self.payment(reservation), link("reservation", "/reservations/"));
                let hold = if hold.is_empty() {
                    self.purchases.get(reservation).map_or("", |row| &row.reservation_id).to_owned()
                } else {
                    hold
                };
                let sold = payment == "sold" && self.state(&hold) == "sold";
                (!sold).then(|| format!("the purchase is {payment}, the hold {}", self.state(&hold)))
            }
            ("pay" | "pay-b" | "pay-2", 202, _) => {
                (self.payment(reservation) == "nowhere").then(|| "the purchase is lost".into())
            }
            ("pay" | "pay-b" | "pay-2", 402, _) | (_, 409, "payment_too_late") => {
                let payment = self.payment(&link("purchase", "/purchases/"));
                let free = matches!(payment, "declined" | "voided" | "refunded");
                (!free).then(|| format!("the purchase is {payment}"))
            }
            ("cancel", 204, _) => {
                let id = told.call.path.trim_start_matches("/reservations/").trim_end_matches("/cancel");
                let state = self.state(id);
                (!matches!(state, "cancelled" | "expired")).then(|| format!("the hold is {state}"))
            }
            (_, 409, "already_bought") => {
                let state = self.state(&link("reservation", "/reservations/"));
                (state != "sold").then(|| format!("the reservation is {state}"))
            }
            (_, 409, "hold_over") => {
                let state = self.state(&link("reservation", "/reservations/"));
                let over = matches!(state, "cancelled" | "expired")
                    // A payment by a method that moves the money at once may have bought it anew.
                    || state == "sold";
                (!over).then(|| format!("the reservation is {state}"))
            }
            ("hold" | "hold-b", 409, "sold_out") => {
                let ware = goods.0.iter().find(|ware| told.call.path.contains(&format!("/{}/", ware.id)))?;
                let sold: i64 = self
                    .reservations()
                    .filter(|row| row.product_id == ware.id && row.state == "sold")
                    .map(|row| row.quantity)
                    .sum();
                (sold != ware.total).then(|| format!("{sold} of {} are sold", ware.total))
            }
            (
                _,
                409,
                "not_enough" | "unit_taken" | "visitor_limit" | "extension_used" | "extension_needless"
                | "payment_capturing",
            ) => None,
            (_, status, code) => Some(format!("nobody expected {status} {code}")),
        }
    }
}
