//! How visitors come: what they navigate with, what they hold and what they pretend.

use super::Generator;
use super::draft::ADMISSION;
use super::settings::{BUSY, DROP, EARLY, EXACT, GATEWAY, OUTLET, SECURE, SHOP, VIP};

pub(super) fn add(generator: &mut Generator) {
    navigation(generator);
    methods(generator);
    presentation(generator);
    tickets(generator);
    forged(generator);
    calls(generator);
}

/// Fields of a request, and whether they are a person's who navigates.
fn navigation(generator: &mut Generator) {
    let cases: [(&[(&str, &str)], bool); 42] = [
        (&[], false),
        (&[("accept", "*/*")], false),
        (&[("accept", "text/*")], false),
        (&[("accept", "")], false),
        (&[("accept", "text/html")], true),
        (&[("Accept", "TEXT/HTML")], true),
        (&[("accept", "application/xhtml+xml")], true),
        (&[("accept", "text/html;q=0.1")], true),
        (&[("accept", "text/html;q=0.001,*/*;q=0")], true),
        (&[("accept", "text/html;q=0")], false),
        (&[("accept", "text/html; q=0.000, */*")], false),
        (&[("accept", "text/html;q=1.000")], true),
        (&[("accept", "text/html;q=1.1")], false),
        (&[("accept", "text/html;q=0.1234")], false),
        (&[("accept", "text/html;level=1")], false),
        (&[("accept", "text/html;level=1, text/html;q=0.5")], true),
        (&[("accept", "application/json")], false),
        (&[("accept", "application/json, text/plain, */*")], false),
        (&[("accept", "application/json, text/html")], true),
        (&[("accept", "application/json, text/html;q=0.9")], false),
        (&[("accept", "application/json;q=0.5, text/html;q=0.6")], true),
        (&[("accept", "application/problem+json, text/html;q=0.9")], false),
        (&[("accept", "application/*, text/html;q=0.2")], true),
        (&[("accept", "text/html"), ("sec-fetch-mode", "navigate")], true),
        (&[("accept", "*/*"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], true),
        (&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], true),
        (&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")], true),
        (&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "frame")], true),
        (&[("Sec-Fetch-Mode", "Navigate"), ("Sec-Fetch-Dest", "Document")], true),
        (&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "image")], false),
        (&[("accept", "text/html"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "object")], false),
        (&[("accept", "text/html"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")], false),
        (&[("accept", "text/html"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")], false),
        (
            &[("accept", "text/html;q=0"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
            false,
        ),
        (
            &[("accept", "application/json"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
            false,
        ),
        (&[("accept", "text/html"), ("sec-purpose", "prefetch")], false),
        (&[("accept", "text/html"), ("sec-purpose", "prefetch;prerender")], false),
        (&[("accept", "text/html"), ("purpose", "prefetch")], false),
        (&[("accept", "text/html"), ("x-moz", "prefetch")], false),
        (&[("accept", "text/html"), ("x-purpose", "preview")], false),
        (&[("accept", "text/html"), ("x-requested-with", "XMLHttpRequest")], false),
        (&[("accept", "text/html"), ("x-requested-with", "com.example.browser")], true),
    ];
    for (fields, navigates) in cases {
        let said: Vec<_> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut draft = generator.get(&SHOP, format!("navigation: [{}]", said.join("] [")), "/sale/7");
        for (name, value) in fields {
            draft = draft.field(name, *value);
        }
        generator.add(draft.navigating(navigates).waits(&DROP, "token_missing"));
    }
    // Two lines of one field are one list.
    let draft = generator.get(&SHOP, "navigation: html in the second of two lines", "/sale/7");
    let draft = draft.field("accept", "application/json;q=0.1").field("accept", "text/html");
    generator.add(draft.navigating(true).waits(&DROP, "token_missing"));
    for (sale, path) in
        [(&DROP, "/sale"), (&VIP, "/preview"), (&EARLY, "/early"), (&BUSY, "/busy"), (&EXACT, "/Exact")]
    {
        for settings in [&SHOP, &GATEWAY, &SECURE] {
            let name = format!("room: {} as a page, {}", sale.name, settings.name);
            let draft = generator.get(settings, name, path).page();
            generator.add(draft.waits(sale, "token_missing"));
            let name = format!("room: {} as anything else, {}", sale.name, settings.name);
            let draft = generator.get(settings, name, path).field("accept", "application/json");
            generator.add(draft.waits(sale, "token_missing"));
        }
    }
}

fn methods(generator: &mut Generator) {
    let token = generator.token(&DROP);
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "get"] {
        for settings in [&SHOP, &GATEWAY] {
            let name = |what: &str| format!("method: {method} {what}, to the {}", settings.to);
            let draft =
                generator.get(settings, name("admitted"), "/sale/7").method(method).token(token.clone());
            generator.add(draft.jose(&DROP, true).admitted(&DROP, "/sale/7", &token));
            let draft = generator.get(settings, name("as a page without token"), "/sale/7?a").method(method);
            generator.add(draft.page().waits(&DROP, "token_missing"));
            let draft = generator.get(settings, name("without token"), "/early/7").method(method);
            generator.add(draft.waits(&EARLY, "token_missing"));
            let draft = generator.get(settings, name("where nothing is protected"), "/free").method(method);
            generator.add(draft.passes(None, "/free"));
            let draft = generator.get(settings, name("at an open gate"), "/outlet").method(method);
            generator.add(draft.passes(Some(&OUTLET), "/outlet"));
        }
        let draft = generator
            .get(&SHOP, format!("method: {method} of a path that is none"), "/sale%2f")
            .method(method);
        generator.add(draft.rejected("path_ambiguous"));
    }
    // Nobody has a shop, or a gateway, send back what was added on the way.
    for settings in [&SHOP, &GATEWAY] {
        for (target, method) in [
            ("/sale/7", "TRACE"),
            ("/sale/7", "Trace"),
            ("/free", "TRACE"),
            ("/api/v1/queue/status", "TRACE"),
            ("/sale%2f", "TRACE"),
        ] {
            let draft =
                generator.get(settings, format!("method: {method} {target}, to the {}", settings.to), target);
            generator.add(draft.method(method).token(token.clone()).rejected("method_refused"));
        }
    }
}

/// Where a token stands.
fn presentation(generator: &mut Generator) {
    let (token, other) = (generator.token(&DROP), generator.keys[1].token(&generator.claims(&DROP)));
    let stranger = generator.token(&VIP);
    for settings in [&SHOP, &SECURE, &GATEWAY] {
        let (token, other) = (token.as_str(), other.as_str());
        let get =
            |what: &str| generator.get(settings, format!("token: {what}, {}", settings.name), "/sale/7");
        let cookie = get("").cookie_name(&DROP);
        let plain = "ropeline-admission-drop";
        let held = |value: &str| format!("{cookie}={value}");
        let admitted = [
            get("in its cookie").cookie(&DROP, token),
            get("in a field in capitals").field("ROPELINE-ADMISSION", token),
            get("in a field and, the same, in its cookie").token(token).cookie(&DROP, token),
            get("among other cookies").field("cookie", format!("a=b; {}; c=d", held(token))),
            get("among cookies without space between").field("cookie", format!("a=b;{};c=d", held(token))),
            get("beside a cookie without name").field("cookie", format!("x; {}", held(token))),
            get("beside a cookie of another case")
                .field("cookie", format!("{}; {}={other}", held(token), cookie.to_uppercase())),
            get("beside another sale's").field("cookie", format!("{}-2={other}; {}", cookie, held(token))),
            get("in the second line of cookies").field("cookie", "a=b").field("Cookie", held(token)),
        ];
        let ambiguous = [
            get("two cookies in one line").field("cookie", format!("{}; {}", held(token), held(other))),
            get("two equal cookies").field("cookie", format!("{}; a=b; {}", held(token), held(token))),
            get("two cookies in two lines").field("cookie", held(token)).field("cookie", held(other)),
            get("an empty cookie before it").field("cookie", format!("{}; {}", held(""), held(token))),
            get("another in the cookie than in the field").token(token).cookie(&DROP, other),
            get("a sound field, an empty cookie").token(token).cookie(&DROP, ""),
            get("a broken field, a sound cookie").token("x").cookie(&DROP, token),
            get("two fields").token(token).token(other),
            get("two equal fields").token(token).field("Ropeline-Admission", token),
        ];
        let missing = [
            get("in the cookie of another sale").cookie(&VIP, token),
            get("in a cookie of another case").field("cookie", format!("{}={token}", cookie.to_uppercase())),
            get("in a cookie of the other kind").field(
                "cookie",
                if settings.secure { format!("{plain}={token}") } else { format!("__Host-{plain}={token}") },
            ),
            get("in a field with an underscore").field("ropeline_admission", token),
            get("as a bearer token").field("authorization", format!("Bearer {token}")),
            get("in the field of tickets").field("ropeline-ticket", token),
            get("in a value of another cookie").field("cookie", format!("a={cookie}={token}")),
        ];
        let malformed = [
            get("empty in its field").token(""),
            get("empty in its cookie").cookie(&DROP, ""),
            get("in quotation marks in its cookie").cookie(&DROP, &format!("\"{token}\"")),
            get("with an equals sign behind it").cookie(&DROP, &format!("{token}=")),
        ];
        let get =
            |what: &str| generator.get(settings, format!("token: {what}, {}", settings.name), "/sale/7");
        let audience = [
            get("for another sale in its field").token(stranger.clone()),
            get("for another sale in the cookie of this one").cookie(&DROP, &stranger),
        ];
        let cases = (admitted.into_iter().map(|draft| draft.admitted(&DROP, "/sale/7", token)))
            .chain(ambiguous.into_iter().map(|draft| draft.waits(&DROP, "token_ambiguous")))
            .chain(missing.into_iter().map(|draft| draft.waits(&DROP, "token_missing")))
            .chain(malformed.into_iter().map(|draft| draft.waits(&DROP, "token_malformed")))
            .chain(audience.into_iter().map(|draft| draft.waits(&DROP, "audience_refused")));
        for case in cases.collect::<Vec<_>>() {
            generator.add(case);
        }
    }
    // As sent: the gateway reads it again.
    let draft = generator.get(&SHOP, "ticket: on a path in another spelling", "//SALE/./%37?a");
    let draft = draft.field("ropeline-ticket", "x.y.z").page().holding_ticket();
    generator.add(draft.waits(&DROP, "token_missing"));
    // A token for the path above is none for the one below, and the other way round.
    let draft = generator.get(&SHOP, "token: of the path above", "/sale/vip").token(token.clone());
    generator.add(draft.page().jose(&VIP, false).waits(&VIP, "audience_refused"));
    let both = format!("ropeline-admission-drop={token}; ropeline-admission-vip={stranger}");
    for (path, sale, token) in [("/sale/7", &DROP, &token), ("/sale/vip", &VIP, &stranger)] {
        let draft = generator.get(&SHOP, format!("token: of two sales, at {path}"), path);
        generator.add(draft.field("cookie", both.clone()).admitted(sale, path, token));
    }
}

/// Who holds a ticket is the gateway's to answer.
fn tickets(generator: &mut Generator) {
    for settings in [&SHOP, &SECURE, &GATEWAY] {
        let prefix = if settings.secure { "__Host-" } else { "" };
        let ticket = format!("{prefix}ropeline-ticket-drop");
        let get =
            |what: &str| generator.get(settings, format!("ticket: {what}, {}", settings.name), "/sale/7?a=b");
        let holding = [
            get("in its cookie").field("cookie", format!("{ticket}=x.y.z")),
            get("in its cookie, empty").field("cookie", format!("{ticket}=")),
            get("twice").field("cookie", format!("{ticket}=x; {ticket}=y")),
            get("in its field").field("ropeline-ticket", "x.y.z"),
            get("that is no text").field("ropeline-ticket", *b"\xFF\xFE"),
        ];
        let none = [
            get("of another sale").field("cookie", format!("{ticket}2=x")),
            get("of another case").field("cookie", format!("{}=x", ticket.to_uppercase())),
        ];
        let elsewhere = get("and no page").field("cookie", format!("{ticket}=x")).field("accept", "*/*");
        let cases: Vec<_> = (holding.into_iter().map(|draft| draft.page().holding_ticket()))
            .chain(none.into_iter().map(|draft| draft.page()))
            .chain([elsewhere])
            .map(|draft| draft.waits(&DROP, "token_missing"))
            .collect();
        for case in cases {
            generator.add(case);
        }
        let get =
            generator.get(settings, format!("ticket: at a gate that is open, {}", settings.name), "/outlet");
        generator.add(
            get.page()
                .field("cookie", format!("{prefix}ropeline-ticket-outlet=x"))
                .passes(Some(&OUTLET), "/outlet"),
        );
        let token = generator.keys[1].token(&crate::conformance::tokens::Claims {
            exp: generator.now - 7_000,
            nbf: 0,
            ..generator.claims(&DROP)
        });
        let get = generator.get(
            settings,
            format!("ticket: beside a token that expired, {}", settings.name),
            "/sale/7",
        );
        let get = get.field("cookie", format!("{ticket}=x")).cookie(&DROP, &token).page().holding_ticket();
        generator.add(get.waits(&DROP, "token_expired"));
    }
}

/// Fields that are Ropeline's to set, and that lead a shop astray, in every spelling that a shop may take for them.
fn forged(generator: &mut Generator) {
    let token = generator.token(&DROP);
    for settings in [&SHOP, &GATEWAY] {
        for name in [
            "Ropeline-Visitor",
            "ropeline-visitor",
            "ROPELINE_VISITOR",
            "Ropeline_Visitor",
            "Ropeline-Sale",
            "ropeline_sale",
            "Ropeline-Lease",
            "Ropeline-Stock",
            "Ropeline-Anything",
            "ropeline_ticket",
            "Ropeline_Admission",
            "X-Original-URL",
            "x_rewrite_url",
            "X-HTTP-Method-Override",
            "X-Method_Override",
            "X-HTTP-Method",
            "X-Original-URI",
            "X-Original-Host",
            "X-Original-Forwarded-For",
            "X_Url-Scheme",
            "X-Host",
            "Forwarded",
            "X-Forwarded-User",
            "X_Forwarded_Email",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Real-IP",
            "Client-IP",
            "True-Client-IP",
            "CF-Connecting-IP",
            "Fastly-Client-IP",
            "X-Cluster-Client-IP",
        ] {
            let get = |what: &str, target| {
                generator
                    .get(settings, format!("forged: {name} {what}, {}", settings.name), target)
                    .field(name, "forged")
            };
            let cases = [
                get("with a token", "/sale/7")
                    .token(token.clone())
                    .jose(&DROP, true)
                    .admitted(&DROP, "/sale/7", &token),
                get("where nothing is protected", "/free").passes(None, "/free"),
                get("at an open gate", "/outlet").page().passes(Some(&OUTLET), "/outlet"),
                get("and nothing else", "/sale/7").page().waits(&DROP, "token_missing"),
            ];
            for case in cases {
                generator.add(case);
            }
        }
        for name in ["X-Ropeline-Sale", "Ropelines-Sale", "Ropeline", "Forwarded-By", "X-Method"] {
            let draft =
                generator.get(settings, format!("forged: {name} is not ours, {}", settings.name), "/sale/7");
            let draft = draft.field(name, "theirs").token(token.clone()).jose(&DROP, true);
            generator.add(draft.admitted(&DROP, "/sale/7", &token));
        }
        let draft = generator.get(
            settings,
            format!("fields: the shopper's own arrive, {}", settings.name),
            "/sale/7",
        );
        let draft = draft
            .field("accept-language", "de, en;q=0.5")
            .field("x-text", "a  b\tc")
            .field("cookie", "a=b; c=\"d e\"");
        let draft = draft
            .field("authorization", "Basic eDp5")
            .field("if-none-match", "\"x\"")
            .field("referer", "https://shop.example/");
        generator.add(draft.token(token.clone()).jose(&DROP, true).admitted(&DROP, "/sale/7", &token));
        let draft =
            generator.get(settings, format!("fields: bytes that are no text, {}", settings.name), "/free");
        generator
            .add(draft.field("x-bytes", *b"caf\xE9").field("accept", *b"\xFF\xFE").passes(None, "/free"));
    }
    let draft =
        generator.get(&SHOP, "forged: an admission where none is needed", "/free").field(ADMISSION, token);
    generator.add(draft.passes(None, "/free"));
    let draft = generator.get(&SHOP, "token: with a token at an open gate", "/outlet");
    let outlet = generator.token(&OUTLET);
    generator.add(draft.token(outlet.clone()).jose(&OUTLET, true).admitted(&OUTLET, "/outlet", &outlet));
    let draft = generator.get(&SHOP, "token: with a broken token at an open gate", "/outlet").token("x");
    generator.add(draft.passes(Some(&OUTLET), "/outlet"));
}

/// Calls of the queue go to the gateway whole, whatever they bear.
fn calls(generator: &mut Generator) {
    for settings in [&SHOP, &GATEWAY, &SECURE] {
        for (method, target) in [
            ("POST", "/api/v1/queue/join"),
            ("GET", "/api/v1/queue/status?sale=drop"),
            ("POST", "/api/v1/queue/claim"),
            ("GET", "/api/v1/queue/sales/drop/snapshot"),
            ("GET", "/api/v1/queue/sales/drop/room"),
            ("GET", "/api/v1/queue"),
            ("GET", "/api/v1/queue/"),
            ("GET", "/api//v1/./queue/status"),
            ("GET", "/api/v1/%71ueue/status"),
            ("GET", "/sale/../api/v1/queue/status"),
            ("OPTIONS", "/api/v1/queue/join"),
            ("GET", "/.well-known/jwks.json"),
            ("HEAD", "/.well-known/jwks.json?x"),
            ("GET", "/.well-known//jwks.json"),
        ] {
            let draft =
                generator.get(settings, format!("call: {method} {target}, {}", settings.name), target);
            let draft = draft
                .method(method)
                .page()
                .field("ropeline-ticket", "x.y.z")
                .field("ropeline-visitor", "v.1");
            generator.add(draft.field("cookie", "ropeline-ticket-drop=x.y.z").calls_the_gateway());
        }
        for target in
            ["/API/v1/queue/status", "/.well-known/jwks.json/", "/.well-known/JWKS.json", "/.well-known/jwks"]
        {
            let draft = generator.get(settings, format!("call: {target} is none, {}", settings.name), target);
            generator.add(draft.passes(None, target));
        }
        for target in ["/api/v1/queue/%2e%2e%2fsale", "/api/v1/queue/..;/x"] {
            let draft =
                generator.get(settings, format!("call: {target} is refused, {}", settings.name), target);
            generator.add(draft.rejected("path_ambiguous"));
        }
    }
}
