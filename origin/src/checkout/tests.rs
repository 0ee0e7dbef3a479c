use super::*;

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
