//! Passes of others, and passes that nobody gave: cases 16 and 17.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use ropeline_tests::accounts::published_key;
use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::http;
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};
use serde_json::{Value, json};

use crate::common::*;

/// An app: it sends its tokens in headers.
async fn app(visitor: &Visitor, path: &str, headers: &[(&'static str, &str)]) -> Answer {
    let add = |request: reqwest::RequestBuilder, (name, value): &(&'static str, &str)| {
        request.header(*name, *value)
    };
    visitor.send(Method::GET, path, |request| headers.iter().fold(request, add)).await
}

#[tokio::test]
async fn case_16_an_admission_that_was_handed_on_is_worth_nothing_without_its_visitor() {
    let house = House::open(sale_for_one()).await;
    let seller = house.admitted().await;
    let (token, ticket) =
        (seller.cookies()[ADMISSION_COOKIE].clone(), seller.cookies()[TICKET_COOKIE].clone());
    let nobody = house.visitor();
    let buyer = house.joined().await;
    for thief in [&nobody, &buyer] {
        thief.keep_cookie(ADMISSION_COOKIE, &token);
        assert_eq!(thief.fetch(PAGE).await.problem(), "admission_missing");
        let page = thief.visit(PAGE).await;
        assert!(page.status == StatusCode::OK && page.text() != BODY, "{}", page.text());
        thief.lose_cookie(ADMISSION_COOKIE);
        // The seller's ticket leads to no admission, either.
        let own = thief.cookies().get(TICKET_COOKIE).cloned();
        thief.keep_cookie(TICKET_COOKIE, &ticket);
        assert_eq!(thief.status(SALE).await.problem(), "ticket_missing");
        assert_eq!(thief.claim(SALE).await.problem(), "ticket_missing");
        assert_eq!(thief.leave(SALE).await.problem(), "ticket_missing");
        match own {
            Some(own) => thief.keep_cookie(TICKET_COOKIE, &own),
            None => thief.lose_cookie(TICKET_COOKIE),
        }
    }
    // The same from an app, with no visitor or its own.
    let own = buyer.cookies()[VISITOR_COOKIE].clone();
    let bare = house.visitor();
    let stolen: [&[(&str, &str)]; 2] =
        [&[("ropeline-admission", &token)], &[("ropeline-admission", &token), ("ropeline-visitor", &own)]];
    for headers in stolen {
        assert_eq!(app(&bare, PAGE, headers).await.problem(), "admission_missing");
    }
    assert_eq!(house.shop.requests(), [], "a token that was handed on went through");

    let name = seller.cookies()[VISITOR_COOKIE].clone();
    let rightful = app(&bare, PAGE, &[("ropeline-admission", &token), ("ropeline-visitor", &name)]).await;
    assert_eq!(rightful.text(), BODY);
    assert_eq!(seller.visit(PAGE).await.text(), BODY);
}

#[tokio::test]
async fn case_16_one_visitor_holds_once_whoever_brings_the_token_and_however_often() {
    let (gateway, origin) = with_origin(5, sale()).await;
    let ada = joined(&gateway).await;
    let token = admitted(&ada).await.json()["admission_token"].as_str().unwrap().to_owned();
    let first = reserve(&ada, "one").await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text());
    let again = reserve(&ada.another_tab(), "two").await;
    assert_eq!((again.status, &again.json()["id"]), (StatusCode::OK, &first.json()["id"]));

    // A machine elsewhere that walks around the gateway holds the token, and gets the hold that is there.
    let direct = format!("http://{}", origin.address());
    let elsewhere = http::client();
    for key in ["three", "four"] {
        let answer = elsewhere
            .post(format!("{direct}/products/{SALE}/reservations"))
            .header("ropeline-admission", &token)
            .header("idempotency-key", key)
            .json(&json!({}))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.json::<Value>().await.unwrap()["id"], first.json()["id"]);
    }
    let audit: Value = elsewhere.get(format!("{direct}/audit")).send().await.unwrap().json().await.unwrap();
    let books = &audit["products"][0];
    assert_eq!((&books["available"], &books["held"]), (&json!(4), &json!(1)), "{audit}");
}

/// Every way to change one character, to cut one off or to put one in, and to move a dot by one.
fn changed(token: &str) -> Vec<String> {
    let mut all = Vec::new();
    for at in 0..token.len() {
        let put = if &token[at..=at] == "A" { "B" } else { "A" };
        all.push(format!("{}{put}{}", &token[..at], &token[at + 1..]));
        if &token[at..=at] == "." {
            let (before, after) = (&token[..at], &token[at + 1..]);
            all.push(format!("{}.{}{after}", &before[..at - 1], &before[at - 1..]));
            all.push(format!("{before}{}.{}", &after[..1], &after[1..]));
            all.push(format!("{before}{after}"));
            all.push(format!("{before}..{after}"));
        }
    }
    all.extend([format!("{token}A"), format!("{token}."), format!("{token}="), format!(".{token}")]);
    all.push(token[..token.len() - 1].to_owned());
    all.push(token[1..].to_owned());
    all
}

#[tokio::test]
async fn case_17_no_byte_of_a_cookie_can_be_changed_or_moved() {
    let house = House::open(sale()).await;
    let visitor = house.admitted().await;
    let kept = visitor.cookies();
    let (name, ticket, token) = (&kept[VISITOR_COOKIE], &kept[TICKET_COOKIE], &kept[ADMISSION_COOKIE]);
    for forged in changed(ticket) {
        visitor.keep_cookie(TICKET_COOKIE, &forged);
        let answer = visitor.status(SALE).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{forged}: {}", answer.text());
    }
    visitor.keep_cookie(TICKET_COOKIE, token);
    assert_eq!(visitor.status(SALE).await.problem(), "type_refused", "an admission is no ticket");
    visitor.keep_cookie(TICKET_COOKIE, ticket);

    for forged in changed(token) {
        visitor.keep_cookie(ADMISSION_COOKIE, &forged);
        let answer = visitor.fetch(PAGE).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{forged}: {}", answer.text());
    }
    visitor.keep_cookie(ADMISSION_COOKIE, ticket);
    assert_eq!(visitor.fetch(PAGE).await.problem(), "type_refused", "a ticket is no admission");
    visitor.keep_cookie(ADMISSION_COOKIE, token);

    for forged in changed(name) {
        visitor.keep_cookie(VISITOR_COOKIE, &forged);
        assert_eq!(visitor.fetch(PAGE).await.problem(), "admission_missing", "{forged}");
        assert_eq!(visitor.status(SALE).await.problem(), "ticket_missing", "{forged}");
    }
    visitor.keep_cookie(VISITOR_COOKIE, name);

    // Beside the true one, a second cookie of its name may be somebody's plant: neither counts.
    let twice = format!("{VISITOR_COOKIE}={name}; {ADMISSION_COOKIE}={token}; {ADMISSION_COOKIE}={token}");
    assert_eq!(app(&house.visitor(), PAGE, &[("cookie", &twice)]).await.problem(), "token_ambiguous");
    assert_eq!(house.shop.requests(), [], "a forged cookie went through");
    assert_eq!(visitor.visit(PAGE).await.text(), BODY);
}

/// The claims of a token, read without checking anything.
fn claims(token: &str) -> Value {
    jsonwebtoken::dangerous::insecure_decode::<Value>(token).expect("a JWT").claims
}

#[tokio::test]
async fn case_17_a_token_that_another_key_signed_is_refused_whatever_it_calls_itself() {
    let house = House::open(sale_for_one()).await;
    let inside = house.admitted().await;
    let waiting = house.joined().await;
    let true_one = inside.cookies()[ADMISSION_COOKIE].clone();
    let key_set = house.visitor().fetch("/.well-known/jwks.json").await.json();
    let kid = jsonwebtoken::decode_header(&true_one).unwrap().kid;
    let public = key_set["keys"].as_array().unwrap().iter().find(|key| key["kid"].as_str() == kid.as_deref());
    let public = public.expect("the key that signed")["x"].as_str().unwrap().to_owned();

    // Somebody who waits writes an admission for themselves.
    let mut wanted = claims(&true_one);
    wanted["sub"] = claims(&waiting.cookies()[TICKET_COOKIE])["sub"].clone();
    let sign = |algorithm, typ: &str, kid: Option<&str>, key: &EncodingKey| {
        let mut header = Header::new(algorithm);
        header.typ = Some(typ.to_owned());
        header.kid = kid.map(str::to_owned);
        encode(&header, &wanted, key).expect("a token")
    };
    let (admission, own) = ("ropeline-admission+jwt", published_key());
    // The public key taken for the secret of an HMAC is the oldest trick there is.
    let secret = EncodingKey::from_secret(public.as_bytes()).expect("a secret");
    let signed = sign(Algorithm::EdDSA, admission, kid.as_deref(), &own);
    let (head, body) = (signed.split('.').next().unwrap(), signed.split('.').nth(1).unwrap());
    let forged = [
        (signed.clone(), "signature_invalid"),
        (sign(Algorithm::EdDSA, admission, Some("other"), &own), "key_unknown"),
        (sign(Algorithm::EdDSA, admission, None, &own), "header_invalid"),
        (sign(Algorithm::EdDSA, "JWT", kid.as_deref(), &own), "type_refused"),
        (sign(Algorithm::HS256, admission, kid.as_deref(), &secret), "algorithm_refused"),
        (format!("{head}.{body}."), "token_malformed"),
        // The true signature over other claims, and none at all.
        (format!("{head}.{body}.{}", true_one.split('.').nth(2).unwrap()), "signature_invalid"),
        (format!("{}.{body}.", "eyJhbGciOiJub25lIn0"), "header_invalid"),
    ];
    for (token, code) in &forged {
        waiting.keep_cookie(ADMISSION_COOKIE, token);
        assert_eq!(waiting.fetch(PAGE).await.problem(), *code, "{token}");
        let page = waiting.send(Method::GET, PAGE, |request| request.header("accept", BROWSER_ACCEPT)).await;
        assert_ne!(page.text(), BODY, "{token}");
    }
    assert_eq!(house.shop.requests(), [], "a forged token went through");
    assert_eq!(state(&waiting).await, "waiting");
}

#[tokio::test]
async fn case_17_what_was_signed_for_one_sale_is_nothing_in_another() {
    let shop = Shop::open().await;
    let sales = [sale(), Sale::new("other", &["/other"]).set("max_active", "1")];
    let gateway = Gateway::start(Settings::new(shop.address()), &sales).await;
    let visitor = joined(&gateway).await;
    admitted(&visitor).await;
    let kept = visitor.cookies();
    visitor.keep_cookie("ropeline-ticket-other", &kept[TICKET_COOKIE]);
    visitor.keep_cookie("ropeline-admission-other", &kept[ADMISSION_COOKIE]);
    assert_eq!(visitor.status("other").await.problem(), "audience_refused");
    assert_eq!(visitor.claim("other").await.problem(), "audience_refused");
    assert_eq!(visitor.fetch("/other").await.problem(), "audience_refused");
    assert_eq!(shop.requests(), []);
}
