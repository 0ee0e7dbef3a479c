use std::collections::HashSet;

use super::*;

/// The books of a payment service, as simple as they can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Books {
    Nothing,
    Pending,
    Authorised,
    Declined,
    Captured,
    Voided,
    Refunded,
}

/// One payment: our state, the payment service's books, and the reports still on their way. Each of them may be
/// delivered any number of times, in any order, or never.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Paying {
    state: Payment,
    books: Books,
    reports: Vec<Report>,
}

/// Everything there is in one checkout; the shopper may start a second payment when the first has come to nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    hold: Hold,
    payments: Vec<Paying>,
    units_held: i8,
    units_sold: i8,
}

impl Paying {
    fn say(&mut self, books: Books, report: Report) {
        self.books = books;
        if !self.reports.contains(&report) {
            self.reports.push(report);
            self.reports.sort_by_key(|r| *r as u8);
        }
    }

    /// What a look into the books brings.
    fn status(&self) -> Option<Report> {
        match self.books {
            Books::Nothing | Books::Pending => None,
            Books::Authorised => Some(Report::Authorised),
            Books::Declined => Some(Report::Declined),
            Books::Captured => Some(Report::Captured),
            Books::Voided => Some(Report::Voided),
            Books::Refunded => Some(Report::Refunded),
        }
    }

    /// The payment service does what our state asks of it.
    fn obey(&mut self) {
        match (self.state, self.books) {
            (Payment::Capturing, Books::Authorised) => self.say(Books::Captured, Report::Captured),
            (Payment::Voiding, Books::Authorised) => self.say(Books::Voided, Report::Voided),
            (Payment::Refunding, Books::Captured) => self.say(Books::Refunded, Report::Refunded),
            _ => {}
        }
    }
}

impl World {
    fn begin(&mut self) {
        if let Ok((hold, state)) = begin(self.hold) {
            self.hold = hold;
            self.payments.push(Paying { state, books: Books::Nothing, reports: Vec::new() });
        }
    }

    fn move_stock(&mut self, stock: StockMove) {
        match stock {
            StockMove::Stay => {}
            StockMove::Release => self.units_held -= 1,
            StockMove::Sell => {
                self.units_held -= 1;
                self.units_sold += 1;
            }
        }
    }

    fn hear(&mut self, payment: usize, said: Report) {
        let step = report(self.hold, self.payments[payment].state, said);
        self.move_stock(step.stock);
        self.hold = step.hold;
        self.payments[payment].state = step.payment;
    }

    fn count(&self, state: Payment) -> usize {
        self.payments.iter().filter(|payment| payment.state == state).count()
    }

    fn check(&self) {
        let holds = matches!(self.hold, Hold::Held | Hold::Paying | Hold::Capturing);
        assert_eq!(self.units_held, i8::from(holds), "units held do not match the hold: {self:?}");
        assert_eq!(
            self.units_sold,
            i8::from(self.hold == Hold::Sold),
            "units sold do not match the hold: {self:?}"
        );
        assert_eq!(self.count(Payment::Capturing), usize::from(self.hold == Hold::Capturing), "{self:?}");
        assert_eq!(
            self.count(Payment::Sold),
            usize::from(self.hold == Hold::Sold),
            "sold without a payment: {self:?}"
        );
        if self.hold == Hold::Paying {
            assert_eq!(self.count(Payment::Authorising), 1, "{self:?}");
        }
        for payment in &self.payments {
            if payment.state == Payment::Sold {
                assert_eq!(payment.books, Books::Captured, "sold, and the money never moved: {self:?}");
            }
        }
    }

    /// Every world one step away.
    fn next(&self, at_once: bool) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut push = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            worlds.push(world);
        };
        push(&|w| {
            let (hold, stock) = expire(w.hold);
            w.move_stock(stock);
            w.hold = hold;
        });
        if let Ok((hold, stock)) = cancel(self.hold) {
            push(&|w| {
                w.move_stock(stock);
                w.hold = hold;
            });
        }
        if self.payments.len() < 2 {
            push(&Self::begin);
        }
        for (index, payment) in self.payments.iter().enumerate() {
            match payment.books {
                // The request arrives, however late, even when the asker has given up.
                Books::Nothing => push(&|w| w.payments[index].books = Books::Pending),
                Books::Pending => {
                    push(&|w| w.payments[index].say(Books::Declined, Report::Declined));
                    if at_once {
                        push(&|w| w.payments[index].say(Books::Captured, Report::Captured));
                    } else {
                        push(&|w| w.payments[index].say(Books::Authorised, Report::Authorised));
                    }
                }
                // It may run out over there.
                Books::Authorised => push(&|w| w.payments[index].say(Books::Voided, Report::Voided)),
                Books::Declined | Books::Captured | Books::Voided | Books::Refunded => {}
            }
            push(&|w| w.payments[index].obey());
            if payment.state == Payment::Authorising
                && payment.books == Books::Nothing
                && self.hold != Hold::Paying
            {
                push(&|w| w.hear(index, Report::NeverHeard));
            }
            if payment.state == Payment::Capturing && payment.books == Books::Authorised {
                push(&|w| w.hear(index, Report::CaptureRefused));
            }
            for report in &payment.reports {
                push(&|w| w.hear(index, *report));
            }
        }
        worlds
    }
}

fn explore(at_once: bool) -> HashSet<World> {
    let mut start = World { hold: Hold::Held, payments: Vec::new(), units_held: 1, units_sold: 0 };
    start.begin();
    let mut seen = HashSet::from([start.clone()]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        world.check();
        for next in world.next(at_once) {
            if seen.insert(next.clone()) {
                todo.push(next);
            }
        }
    }
    seen
}

#[test]
fn money_moves_only_with_a_unit_in_every_interleaving() {
    for at_once in [false, true] {
        let worlds = explore(at_once);
        assert!(worlds.len() > 50, "the exploration is too small to mean anything: {}", worlds.len());
        for world in &worlds {
            let captured = world.payments.iter().filter(|payment| payment.books == Books::Captured).count();
            if !at_once && captured > 0 {
                assert_eq!(captured, 1, "charged twice: {world:?}");
                let certain = matches!(world.hold, Hold::Capturing | Hold::Sold);
                assert!(certain, "money was captured and the unit is not certain: {world:?}");
            }
        }
    }
}

#[test]
fn a_settled_payment_agrees_with_the_books_once_every_report_is_in() {
    for at_once in [false, true] {
        for mut world in explore(at_once) {
            // Ask until the payment service has nothing new to say, as the reconciler does.
            for _ in 0..4 {
                for index in 0..world.payments.len() {
                    if let Some(said) = world.payments[index].status() {
                        world.hear(index, said);
                    }
                    world.payments[index].obey();
                }
            }
            world.check();
            for payment in &world.payments {
                match payment.books {
                    Books::Captured if payment.state == Payment::Sold => {}
                    Books::Captured => panic!("charged for nothing: {world:?}"),
                    Books::Authorised => panic!("money is set aside and nobody will give it back: {world:?}"),
                    Books::Nothing | Books::Pending | Books::Declined | Books::Voided | Books::Refunded => {
                        assert_ne!(payment.state, Payment::Sold, "given away: {world:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_hold_that_is_being_captured_or_sold_neither_expires_nor_is_cancelled() {
    for hold in [Hold::Capturing, Hold::Sold] {
        assert_eq!(expire(hold), (hold, StockMove::Stay));
        assert!(cancel(hold).is_err());
    }
}

#[test]
fn what_the_visitor_gave_back_is_never_sold() {
    for hold in Hold::ALL {
        let Ok((given_back, _)) = cancel(hold) else { continue };
        assert!(begin(given_back).is_err(), "{hold:?}");
        for payment in Payment::ALL {
            for said in [Report::Authorised, Report::Captured, Report::Declined, Report::Voided] {
                assert_eq!(retake(given_back, payment, said), None, "{hold:?}, then {payment:?}, {said:?}");
            }
        }
    }
}

#[test]
fn a_decline_gives_the_hold_back_while_it_lasts() {
    let step = report(Hold::Paying, Payment::Authorising, Report::Declined);
    assert_eq!(step, Step { hold: Hold::Held, payment: Payment::Declined, stock: StockMove::Stay });
    let step = report(Hold::Expired, Payment::Authorising, Report::Declined);
    assert_eq!(step.hold, Hold::Expired);
}

#[test]
fn a_late_report_on_an_earlier_payment_leaves_the_hold_to_the_next_one() {
    for hold in Hold::ALL {
        for old in
            [Payment::Declined, Payment::Voiding, Payment::Voided, Payment::Refunding, Payment::Refunded]
        {
            for said in [
                Report::Authorised,
                Report::Declined,
                Report::NeverHeard,
                Report::Captured,
                Report::CaptureRefused,
                Report::Voided,
                Report::Refunded,
            ] {
                let step = report(hold, old, said);
                assert_eq!((step.hold, step.stock), (hold, StockMove::Stay), "{hold:?} {old:?} {said:?}");
            }
        }
    }
}

#[test]
fn only_a_hold_that_still_has_an_end_is_extended_and_once() {
    for hold in Hold::ALL {
        let ends = matches!(hold, Hold::Held | Hold::Paying);
        assert_eq!(extend(hold, false, true).is_ok(), ends, "{hold:?}");
        assert!(extend(hold, true, true).is_err(), "{hold:?}");
        assert_eq!(extend(hold, false, false), Err(ExtendRefusal::Off), "{hold:?}");
    }
    assert_eq!(extend(Hold::Paying, true, true), Err(ExtendRefusal::Used));
}

#[test]
fn units_are_sought_again_only_for_money_that_moved_as_the_hold_ended() {
    for hold in Hold::ALL {
        for payment in Payment::ALL {
            for said in [Report::Authorised, Report::Declined, Report::NeverHeard, Report::Captured] {
                let Some(again) = retake(hold, payment, said) else { continue };
                assert_eq!((hold, payment, said), (Hold::Expired, Payment::Authorising, Report::Captured));
                let sold = Step { hold: Hold::Sold, payment: Payment::Sold, stock: StockMove::Sell };
                assert_eq!(report(again, payment, said), sold, "found");
                let back = Step { hold, payment: Payment::Refunding, stock: StockMove::Stay };
                assert_eq!(report(hold, payment, said), back, "not found");
            }
        }
    }
    assert_eq!(retake(Hold::Expired, Payment::Authorising, Report::Captured), Some(Hold::Paying));
}

#[test]
fn every_word_is_read_back_as_its_state() {
    for hold in Hold::ALL {
        assert_eq!(Hold::parse(hold.as_str()), Some(hold));
    }
    for payment in Payment::ALL {
        assert_eq!(Payment::parse(payment.as_str()), Some(payment));
    }
    assert_eq!(Hold::parse("Held"), None);
}
