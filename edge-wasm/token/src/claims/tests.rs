use alloc::format;

use super::*;

fn ticket() -> Authentic<TicketClaims> {
    let payload = r#"{"iss":"shop","aud":"shoe","sub":"v","jti":"j","iat":1000,"nbf":1000,"exp":2000,"epoch":3,"arrival":7}"#;
    Authentic::new(TicketClaims::parse(payload.as_bytes()).unwrap())
}

fn expect(seconds: u64) -> Expect<'static> {
    Expect { issuer: "shop", audience: "shoe", min_epoch: 3, leeway: Leeway::from_seconds(seconds).unwrap() }
}

#[test]
fn the_leeway_ends_on_the_second() {
    for (leeway, first, last) in [(0, 1_000, 1_999), (5, 995, 2_004), (60, 940, 2_059)] {
        let (ticket, expect) = (ticket(), expect(leeway));
        assert_eq!(ticket.accept(&expect, first - 1), Err(Refusal::NotYetValid));
        assert!(ticket.accept(&expect, first).is_ok());
        assert!(ticket.accept(&expect, last).is_ok());
        assert_eq!(ticket.accept(&expect, last + 1), Err(Refusal::Expired));
    }
    assert_eq!(ticket().accept(&expect(5), 0), Err(Refusal::NotYetValid));
    assert_eq!(ticket().accept(&expect(5), u64::MAX), Err(Refusal::Expired));
}

#[test]
fn a_leeway_of_more_than_a_minute_cannot_be_had() {
    assert_eq!(Leeway::from_seconds(61), Err(LeewayTooLong));
    assert_eq!(Leeway::default().seconds(), 5);
}

#[test]
fn a_token_issued_in_the_future_is_not_valid_yet() {
    let mut claims = ticket().unaccepted().clone();
    claims.claims.iat = 1_600;
    let ticket = Authentic::new(claims);
    assert_eq!(ticket.accept(&expect(5), 1_594), Err(Refusal::NotYetValid));
    assert!(ticket.accept(&expect(5), 1_595).is_ok());
}

#[test]
fn times_at_the_end_of_the_range_do_not_wrap() {
    let mut claims = ticket().unaccepted().clone();
    claims.claims.exp = u64::MAX;
    let ticket = Authentic::new(claims);
    assert!(ticket.accept(&expect(60), u64::MAX - 1).is_ok());
    assert_eq!(ticket.accept(&expect(60), u64::MAX), Err(Refusal::Expired));
}

#[test]
fn issuer_audience_and_epoch_must_be_those_expected() {
    let ticket = ticket();
    let now = 1_500;
    assert_eq!(ticket.accept(&Expect { issuer: "shop2", ..expect(5) }, now), Err(Refusal::IssuerRefused));
    assert_eq!(ticket.accept(&Expect { audience: "sho", ..expect(5) }, now), Err(Refusal::AudienceRefused));
    assert_eq!(ticket.accept(&Expect { min_epoch: 4, ..expect(5) }, now), Err(Refusal::EpochOutdated));
    assert!(ticket.accept(&Expect { min_epoch: 0, ..expect(5) }, now).is_ok());
}

#[test]
fn claims_out_of_form_are_refused() {
    let good = r#"{"iss":"i","aud":"a","sub":"s","jti":"j","iat":1,"nbf":1,"exp":2,"epoch":0,"arrival":0,"place":0}"#;
    assert!(AdmissionClaims::parse(good.as_bytes()).is_ok());
    let with = |from: &str, to: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        AdmissionClaims::parse(text.as_bytes())
    };
    for name in ["iss", "aud", "sub", "jti", "iat", "nbf", "exp", "epoch", "arrival", "place"] {
        assert_eq!(
            with(&format!("\"{name}\""), "\"other\""),
            Err(Refusal::ClaimsInvalid),
            "{name} is missing"
        );
    }
    for (from, to) in [
        ("\"exp\":2", "\"exp\":1"), // not after nbf
        ("\"exp\":2", "\"exp\":2.0"),
        ("\"exp\":2", "\"exp\":2e3"),
        ("\"exp\":2", "\"exp\":\"2\""),
        ("\"exp\":2", "\"exp\":-2"),
        ("\"exp\":2", "\"exp\":02"),
        ("\"exp\":2", "\"exp\":18446744073709551616"),
        ("\"exp\":2", "\"exp\":2,\"exp\":3"),
        ("\"exp\":2", "\"exp\":2,\"e\\u0078p\":3"),
        ("\"exp\":2", "\"exp\":2,\"x\":{\"a\":1,\"a\":1}"),
        ("\"epoch\":0", "\"epoch\":4294967296"),
        ("\"aud\":\"a\"", "\"aud\":[\"a\"]"),
        ("\"sub\":\"s\"", "\"sub\":\"\""),
        ("\"sub\":\"s\"", "\"sub\":\" s\""),
        ("\"sub\":\"s\"", "\"sub\":\"s\\n\""),
        ("\"sub\":\"s\"", "\"sub\":\"\\u0000\""),
        ("\"sub\":\"s\"", "\"sub\":\"\\ud800\""),
        ("\"sub\":\"s\"", "\"sub\":null"),
        ("{", "[{"),
        ("}", "}x"),
    ] {
        assert_eq!(with(from, to), Err(Refusal::ClaimsInvalid), "{to}");
    }
    assert!(with("{", "{\"unknown\":[1.5,{\"deep\":null}],").is_ok());
    assert!(with("\"sub\":\"s\"", "\"sub\":\"J\\u00fcrgen \\ud83d\\ude00\"").is_ok());
}
