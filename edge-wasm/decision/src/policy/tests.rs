use alloc::format;

use super::*;
use crate::path::normalise;

const POLICY: &str = r#"{
    "issuer": "https://shop.example", "leeway_seconds": 10, "api_prefix": "/api/v1/queue", "secure_cookies": true,
    "sales": [
        {"sale": "shoe", "epoch": 2, "gate": "queue", "ignore_case": false, "bypass": ["*.css", "/sale/help", "=/sale/faq"],
         "routes": [{"host": "Shop.example", "path": "/sale"}, {"path": "=/drop"}], "page_status": 503, "other_status": 429},
        {"sale": "coat", "epoch": 0, "gate": "open", "routes": [{"path": "/s%C3%A4le/"}]}
    ]
}"#;

fn covers(pattern: &str, path: &str) -> bool {
    PathPattern::parse(pattern).unwrap().covers(&normalise(path).unwrap(), true)
}

fn bypasses(rule: &str, path: &str) -> bool {
    Bypass::parse(rule).unwrap().covers(&normalise(path).unwrap())
}

#[test]
fn a_policy_comes_back_from_its_own_text() {
    let policy = Policy::from_json(POLICY.as_bytes()).unwrap();
    assert_eq!(Policy::from_json(policy.to_json().as_bytes()).unwrap(), policy);

    assert_eq!(policy.leeway.seconds(), 10);
    let [shoe, coat] = policy.sales.as_slice() else { panic!("two sales") };
    assert_eq!((shoe.epoch, shoe.gate, shoe.ignore_case), (2, Gate::Queue, false));
    assert_eq!((shoe.page_status.code(), shoe.other_status.code()), (503, 429));
    assert_eq!(shoe.routes[0].host.as_ref().unwrap().as_str(), "shop.example");
    assert_eq!((coat.gate, coat.ignore_case, coat.bypass.len()), (Gate::Open, true, 0));
    assert_eq!((coat.page_status.code(), coat.other_status.code()), (200, 401));
    assert_eq!(coat.routes[0].path.to_text(), "/s%C3%A4le");
}

#[test]
fn a_policy_with_a_fault_is_refused_as_a_whole() {
    let faults = [
        ("\"issuer\"", "\"isuer\"", "no such member"),
        ("\"leeway_seconds\": 10", "\"leeway_seconds\": 61", "60 at most"),
        ("\"leeway_seconds\": 10", "\"leeway_seconds\": 1.5", "whole number"),
        ("\"secure_cookies\": true", "\"secure_cookies\": 1", "true or false"),
        ("\"gate\": \"open\"", "\"gate\": \"opne\"", "queue or open"),
        ("\"coat\"", "\"shoe\"", "occurs twice"),
        ("\"coat\"", "\"Coat\"", "a-z"),
        ("\"epoch\": 0", "\"epoch\": 4294967296", "2^32"),
        ("\"epoch\": 0", "\"epoch\": 0, \"epoch\": 1", "repeated"),
        ("\"page_status\": 503", "\"page_status\": 500", "200, 202"),
        ("\"other_status\": 429", "\"other_status\": 200", "401 or 429"),
        ("\"Shop.example\"", "\"Shop.example:80\"", "not a host name"),
        ("=/drop", "drop", "not an absolute path"),
        ("=/drop", "/drop%2f", "not an absolute path"),
        ("*.css", "*css", "not an extension"),
    ];
    for (from, to, message) in faults {
        let text = POLICY.replacen(from, to, 1);
        assert_ne!(text, POLICY);
        let error = format!("{}", Policy::from_json(text.as_bytes()).unwrap_err());
        assert!(error.contains(message), "{to}: {error}");
    }
}

#[test]
fn a_pattern_ends_on_a_segment() {
    for path in ["/sale", "/sale/", "/sale/7", "/SALE/7", "/sale;x/7"] {
        assert!(covers("/sale", path), "{path}");
    }
    for path in ["/", "/sal", "/sales", "/sale-7", "/x/sale"] {
        assert!(!covers("/sale", path), "{path}");
    }
    assert!(covers("=/sale", "/sale/") && covers("=/sale", "/Sale") && !covers("=/sale", "/sale/7"));
    assert!(covers("/", "/") && covers("/", "/anything/at/all"));
    assert!(covers("=/", "/") && !covers("=/", "/x"));
    assert!(covers("/%73ale/", "/sale"));
}

#[test]
fn case_is_ignored_beyond_ascii_too_unless_the_shop_tells_it_apart() {
    assert!(covers("/s\u{c3}le".replace('\u{c3}', "%C3%84").as_str(), "/S%C3%A4LE"));
    let pattern = PathPattern::parse("/sale").unwrap();
    assert!(!pattern.covers(&normalise("/Sale").unwrap(), false));
}

#[test]
fn a_bypass_is_taken_narrowly() {
    for path in ["/sale/a.css", "/a.CSS", "/sale/x.min.css"] {
        assert!(bypasses("*.css", path), "{path}");
    }
    for path in [
        "/sale/.css",
        "/sale/css",
        "/sale/a.css/",
        "/sale/a.css/x",
        "/sale/a.css;x",
        "/sale;a.css",
        "/sale/a.cssx",
        "/%C3%A4",
        "/sale/a%2Ecss%3B",
    ] {
        assert!(!bypasses("*.css", path), "{path}");
    }
    assert!(bypasses("/sale/help", "/sale/help/1") && !bypasses("/sale/help", "/sale/Help"));
    assert!(bypasses("=/sale/faq", "/sale/faq") && !bypasses("=/sale/faq", "/sale/faq/1"));
}

#[test]
fn a_path_belongs_to_the_sale_that_names_it_most_closely() {
    let sale = |name: &str, routes: &str| {
        format!(r#"{{"sale":"{name}","epoch":0,"gate":"queue","routes":{routes}}}"#)
    };
    let text = format!(
        r#"{{"issuer":"i","api_prefix":"/q","secure_cookies":false,"sales":[{},{},{}]}}"#,
        sale("all", r#"[{"path":"/"}]"#),
        sale("shoe", r#"[{"path":"/shoe"}]"#),
        sale("here", r#"[{"host":"here.example","path":"/shoe"}]"#),
    );
    let policy = Policy::from_json(text.as_bytes()).unwrap();
    let found = |host, path| policy.sale_for(host, &normalise(path).unwrap()).unwrap().sale.as_str();
    assert_eq!(found("x.example", "/coat"), "all");
    assert_eq!(found("x.example", "/shoe/1"), "shoe");
    assert_eq!(found("HERE.example", "/shoe/1"), "here");
}
