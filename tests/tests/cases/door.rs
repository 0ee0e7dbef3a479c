//! What passes the door, and what those get who do not: cases 7, 8 and 9.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use ropeline_tests::gateway::{Gateway, Settings};
use ropeline_tests::raw::{self, Response};
use ropeline_tests::shop::{BODY, Shop};
use ropeline_tests::visitor::{Answer, BROWSER_ACCEPT, Visitor};

use crate::common::*;

/// Sends a request whose target is exactly `target`.
async fn get(house: &House, target: &str, host: &str, cookies: &str) -> Response {
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\nAccept: */*\r\n\r\n");
    raw::exchange(house.gateway.address(), request.as_bytes(), Duration::from_secs(10)).await.answer()
}

fn cookies(visitor: &Visitor) -> String {
    let pairs: Vec<_> = visitor.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ")
}

#[tokio::test]
async fn case_7_no_spelling_of_a_path_or_host_walks_past_the_room() {
    let house = House::open(sale().set("hosts", r#"["shop.test"]"#)).await;
    let spellings = [
        "/sale",
        "/Sale",
        "/SALE/",
        "/sale/",
        "/sale//",
        "//sale",
        "///sale/x",
        "/%73ale",
        "/s%61l%65/x",
        "/%53ALE",
        "/x/../sale",
        "/x/%2e%2E/sale",
        "/x/y/../../sale/x",
        "/./sale",
        "/%2e/sale",
        "/sale/.",
        "/sale/x/..",
        "/sale;v=1",
        "/sale;/x",
        "/sale?x",
        "/sale?/../other",
        "http://shop.test/sale",
        "HTTP://shop.test/x/../%73ale",
    ];
    for target in spellings {
        let answer = get(&house, target, "shop.test", "").await;
        assert_eq!(answer.status, 401, "{target}: {}", answer.text());
        assert!(answer.text().contains("admission_missing"), "{target}: {}", answer.text());
    }
    // What may mean one thing here and another there reaches nobody.
    let ambiguous = [
        "/%2fsale",
        "/sale%2fx",
        "/x/..%2fsale",
        "/%5csale",
        "/x\\..\\sale",
        "/sale%00",
        "/sale%0a",
        "/%2573ale",
        "/s%zzle",
        "/sale%",
        "/%c0%afsale",
        "/x/..;/sale",
        "/sale#x",
        "http://other.test/sale",
    ];
    for target in ambiguous {
        let answer = get(&house, target, "shop.test", "").await;
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
    }
    for host in ["SHOP.TEST", "shop.test:80", "shop.test.", "Shop.Test.:8080"] {
        assert_eq!(get(&house, "/sale", host, "").await.status, 401, "{host}");
    }
    for host in ["shop.test, other.test", "shop.test/x", "shop%2etest", ""] {
        assert_eq!(get(&house, "/sale", host, "").await.status, 400, "{host}");
    }
    assert_eq!(house.shop.requests(), [], "somebody walked past the room");

    // Those next door are let through, and a path that is guarded arrives in the spelling that was judged.
    for (target, arrives) in
        [("/salesman", "/salesman"), ("/x/../about//us?a=/../sale", "/about/us?a=/../sale")]
    {
        assert_eq!(get(&house, target, "shop.test", "").await.text(), BODY, "{target}");
        assert_eq!(house.shop.requests().last().unwrap().line, format!("GET {arrives} HTTP/1.1"));
    }
    assert_eq!(get(&house, "/sale", "other.test", "").await.text(), BODY);
    let cookies = cookies(&house.admitted().await);
    let answer = get(&house, "/x/../%73ale//item?q=%41", "shop.test", &cookies).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, BODY));
    assert_eq!(house.shop.requests().last().unwrap().line, "GET /sale/item?q=%41 HTTP/1.1");
}

/// A request as a browser makes it, apart from its cookies.
async fn ask(visitor: &Visitor, method: Method, path: &str, headers: &[(&'static str, &str)]) -> Answer {
    let add = |request, (name, value): &(&'static str, &str)| -> reqwest::RequestBuilder {
        reqwest::RequestBuilder::header(request, *name, *value)
    };
    visitor.send(method, path, |request| headers.iter().fold(request, add)).await
}

#[tokio::test]
async fn case_8_only_who_goes_to_a_page_gets_the_room_and_nothing_else_is_a_visitor() {
    let house = House::open(sale()).await;
    let navigation = ("sec-fetch-mode", "navigate");
    let asks: [(&str, &[(&str, &str)]); 9] = [
        ("an image", &[("accept", "image/avif,image/webp,*/*;q=0.8"), ("sec-fetch-dest", "image")]),
        ("an image, plainly", &[("accept", "image/png,*/*;q=0.8")]),
        ("a font", &[("accept", "*/*"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "font")]),
        ("a style", &[("accept", "text/css,*/*;q=0.1"), ("sec-fetch-dest", "style")]),
        ("a fetch", &[("accept", "*/*"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")]),
        (
            "a fetch of HTML",
            &[("accept", "text/html"), ("sec-fetch-mode", "same-origin"), ("sec-fetch-dest", "empty")],
        ),
        ("an old script", &[("accept", "text/html, */*"), ("x-requested-with", "XMLHttpRequest")]),
        ("a prefetch", &[("accept", BROWSER_ACCEPT), navigation, ("sec-purpose", "prefetch;prerender")]),
        ("an old prefetch", &[("accept", BROWSER_ACCEPT), ("purpose", "prefetch")]),
    ];
    for (what, headers) in asks {
        let answer = ask(&house.visitor(), Method::GET, PAGE, headers).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}: {}", answer.text());
        assert_eq!(answer.problem(), "admission_missing", "{what}");
        let problem = answer.json();
        assert_eq!(problem["sale"], SALE, "{what}");
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds >= 1 && problem["retry_after_s"] == seconds, "{what}: {problem}");
        let room = house.visitor().visit(problem["room"].as_str().unwrap()).await;
        assert_eq!(room.header("content-type"), Some("text/html; charset=utf-8"), "{what}");
        assert!(answer.headers.get("set-cookie").is_none(), "{what} became a visitor");
    }
    let person = [("accept", BROWSER_ACCEPT), navigation, ("sec-fetch-dest", "document")];
    let answer = ask(&house.visitor(), Method::GET, PAGE, &person).await;
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{}", answer.text());
    assert_eq!(house.sale().await["arrivals"], 0, "somebody queues who never asked to");
    assert_eq!(house.shop.requests(), []);
}

#[tokio::test]
async fn case_8_what_passes_by_is_read_without_a_queue_and_only_read() {
    let house = House::open(sale().set("bypass", r#"["/sale/images", "*.css"]"#)).await;
    let visitor = house.visitor();
    for path in ["/sale/images/shoe.avif", "/sale/images", "/sale/looks/night.css", "/sale/night.css?v=3"] {
        assert_eq!(visitor.fetch(path).await.text(), BODY, "{path}");
    }
    let before = house.shop.requests();
    assert_eq!(before.len(), 4);
    assert!(
        before.iter().all(|request| request.headers.iter().all(|(name, _)| !name.starts_with("ropeline")))
    );
    for path in ["/sale/imagesque", "/sale/images/../buy", "/sale/x.css.html", "/sale/x?.css", "/sale/css"] {
        assert_eq!(visitor.fetch(path).await.problem(), "admission_missing", "{path}");
    }
    let bought = ask(&visitor, Method::POST, "/sale/images/shoe.avif", &[]).await;
    assert_eq!(bought.problem(), "admission_missing");
    assert_eq!(house.shop.requests().len(), 4);
}

#[tokio::test]
async fn case_8_the_status_of_the_room_is_the_operators_choice() {
    let shop = Shop::open().await;
    let statuses = [("a", "/a", 200), ("b", "/b", 202), ("c", "/c", 429), ("d", "/d", 503)];
    let sales = statuses.map(|(id, route, status)| {
        ropeline_tests::gateway::Sale::new(id, &[route]).set("page_status", &status.to_string())
    });
    let gateway = Gateway::start(Settings::new(shop.address()), &sales).await;
    for (id, route, status) in statuses {
        let answer = Visitor::new(&gateway).visit(route).await;
        assert_eq!(answer.status, status, "{id}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{id}");
        assert_eq!(answer.header("retry-after").is_some(), status > 299, "{id}");
    }
}

#[tokio::test]
async fn case_8_the_status_for_what_is_no_navigation_is_the_operators_choice() {
    let shop = Shop::open().await;
    let sales = [("a", "/a", "401"), ("b", "/b", "429")].map(|(id, route, status)| {
        ropeline_tests::gateway::Sale::new(id, &[route]).set("other_status", status)
    });
    let gateway = Gateway::start(Settings::new(shop.address()), &sales).await;
    for (route, status) in [("/a", 401), ("/b", 429)] {
        let answer = Visitor::new(&gateway).fetch(route).await;
        assert_eq!(
            (answer.status.as_u16(), answer.problem()),
            (status, "admission_missing".to_owned()),
            "{route}"
        );
        // RFC 9110 section 15.5.2: a challenge goes with 401, and with nothing else here.
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401, "{route}");
        assert!(answer.header("retry-after").is_some(), "{route}");
        // A page is another matter.
        assert_eq!(Visitor::new(&gateway).visit(route).await.status, 200, "{route}");
    }
}

#[tokio::test]
async fn case_9_who_likes_json_better_gets_no_html() {
    let house = House::open(sale()).await;
    let accepts: [(&[&str], bool); 14] = [
        (&["application/json, text/plain, */*"], false),
        (&["*/*"], false),
        (&[], false),
        (&[""], false),
        (&["application/json"], false),
        (&["text/html;q=0.8, application/json"], false),
        (&["application/problem+json, text/html;q=0.9"], false),
        (&["text/html;q=0, */*"], false),
        (&["text/*, application/json;q=0.1"], false),
        (&["text/html"], true),
        (&["TEXT/HTML;Q=0.5, application/json;q=0.4"], true),
        (&["application/json;q=0.9", "text/html"], true),
        (&["application/xhtml+xml, */*;q=0.1"], true),
        (&[BROWSER_ACCEPT], true),
    ];
    for (lines, page) in accepts {
        let headers: Vec<_> = lines.iter().map(|line| ("accept", *line)).collect();
        let request = |path: &str| {
            let lines: String = headers.iter().map(|(name, line)| format!("{name}: {line}\r\n")).collect();
            format!("GET {path} HTTP/1.1\r\nHost: shop.test\r\n{lines}\r\n").into_bytes()
        };
        let answer =
            raw::exchange(house.gateway.address(), &request(PAGE), Duration::from_secs(10)).await.answer();
        let (status, kind) =
            if page { (200, "text/html; charset=utf-8") } else { (401, "application/problem+json") };
        let got = (answer.status, answer.header("content-type"));
        assert_eq!(got, (status, Some(kind)), "{lines:?}");
    }
}
