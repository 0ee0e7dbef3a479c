//! Settings of other kinds: with an end, or with everything protected.

use super::Generator;
use super::settings::{
    CLOSED, CLOSING, DROP, LASTING, LENIENT, OPEN, OPENING, OUTLET, PRECISE, Setting, VIP, WHOLE,
};

pub(super) fn add(generator: &mut Generator) {
    let (now, token) = (generator.now, generator.token(&DROP));
    for (settings, at) in [(&CLOSED, None), (&CLOSING, Some(now)), (&CLOSING, Some(now + 1))] {
        closed(generator, settings, at);
    }
    for (settings, at) in [(&OPEN, None), (&OPENING, Some(now)), (&OPENING, Some(now + 1))] {
        open(generator, settings, at);
    }
    let in_time: [(&'static Setting, Option<u64>); 3] =
        [(&LASTING, None), (&CLOSING, Some(now - 1)), (&OPENING, Some(now - 1))];
    for (settings, at) in in_time {
        let draft =
            super::draft::Draft::new(settings, format!("expiry: in time, {}", settings.name), "/sale/7");
        let draft = at.into_iter().fold(draft, super::draft::Draft::at);
        let admitted = draft.clone().token(token.clone()).jose(&DROP, true);
        generator.add(admitted.admitted(&DROP, "/sale/7", &token));
        let draft = super::draft::Draft::new(
            settings,
            format!("expiry: in time and without token, {}", settings.name),
            "/sale/7",
        );
        let draft = at.into_iter().fold(draft, super::draft::Draft::at);
        generator.add(draft.page().waits(&DROP, "token_missing"));
    }
    whole(generator);
    leeway(generator);
}

/// Nobody passes a protected path.
fn closed(generator: &mut Generator, settings: &'static Setting, at: Option<u64>) {
    let token = generator.token(&DROP);
    let after = at.map_or("long since", |at| if at == generator.now { "now" } else { "for a second" });
    let get = |what: &str, target: &str| {
        let draft = generator.get(settings, format!("expiry: closed {after}, {what}"), target);
        at.into_iter().fold(draft, super::draft::Draft::at)
    };
    let cases = [
        get("with a token", "/sale/7").token(token.clone()).waits(&DROP, "keys_outdated"),
        get("with a token in a cookie, as a page", "/sale/7")
            .cookie(&DROP, &token)
            .page()
            .waits(&DROP, "keys_outdated"),
        get("with a broken token", "/sale/7").token("x").waits(&DROP, "keys_outdated"),
        get("with two tokens", "/sale/7").token("x").cookie(&DROP, &token).waits(&DROP, "token_ambiguous"),
        get("without token", "/sale/vip").page().waits(&VIP, "token_missing"),
        get("where nothing is protected", "/free").page().passes(None, "/free"),
        get("at an open gate", "/outlet").page().passes(Some(&OUTLET), "/outlet"),
        get("at an open gate with a token", "/outlet").token(token.clone()).passes(Some(&OUTLET), "/outlet"),
        get("a path that passes by", "/sale/style.css").passes(Some(&DROP), "/sale/style.css"),
        get("a call", "/api/v1/queue/join").method("POST").calls_the_gateway(),
        get("a path that is none", "/sale%2f").rejected("path_ambiguous"),
    ];
    for case in cases {
        generator.add(case);
    }
}

/// Everybody passes.
fn open(generator: &mut Generator, settings: &'static Setting, at: Option<u64>) {
    let token = generator.token(&DROP);
    let after = at.map_or("long since", |at| if at == generator.now { "now" } else { "for a second" });
    let get = |what: &str, target: &str| {
        let draft = generator.get(settings, format!("expiry: open {after}, {what}"), target);
        at.into_iter().fold(draft, super::draft::Draft::at)
    };
    let cases = [
        get("with a token", "/sale/7")
            .token(token.clone())
            .jose(&DROP, true)
            .admitted(&DROP, "/sale/7", &token),
        get("with a broken token", "/sale/7").token("x").passes(Some(&DROP), "/sale/7"),
        get("with two tokens", "/sale/7").token("x").cookie(&DROP, &token).passes(Some(&DROP), "/sale/7"),
        get("without token", "/sale//vip").page().passes(Some(&VIP), "/sale/vip"),
        get("forged", "/sale/7").field("Ropeline-Visitor", "forged").passes(Some(&DROP), "/sale/7"),
        get("a form", "/sale/7").method("POST").page().passes(Some(&DROP), "/sale/7"),
        get("where nothing is protected", "/free").page().passes(None, "/free"),
        get("a call", "/api/v1/queue/join").method("POST").calls_the_gateway(),
        get("a path that is none", "/sale%2f").rejected("path_ambiguous"),
    ];
    for case in cases {
        generator.add(case);
    }
}

/// The whole host is protected, and the queue is reached all the same.
fn whole(generator: &mut Generator) {
    for target in ["/", "/anything", "//", "/sale/../x", "/api/v1/queue/join", "/queues", "/Queue"] {
        let draft = generator.get(&WHOLE, format!("everything: {target} waits"), target).page();
        generator.add(draft.waits(&DROP, "token_missing"));
    }
    let token = generator.token(&DROP);
    for (target, canonical) in [("/", "/"), ("//a//", "/a/")] {
        let draft =
            generator.get(&WHOLE, format!("everything: {target} is admitted"), target).token(token.clone());
        generator.add(draft.jose(&DROP, true).admitted(&DROP, canonical, &token));
    }
    for target in ["/queue", "/queue/join", "/queue/sales/drop/room", "/.well-known/jwks.json"] {
        let draft = generator.get(&WHOLE, format!("everything: {target} is a call"), target).page();
        generator.add(draft.calls_the_gateway());
    }
}

/// Settings whose borders need an exact clock hold well inside them on any.
fn leeway(generator: &mut Generator) {
    let token = generator.token(&DROP);
    for settings in [&PRECISE, &LENIENT] {
        let draft = generator.get(settings, format!("leeway: well inside, {}", settings.name), "/sale/7");
        generator.add(draft.token(token.clone()).jose(&DROP, true).admitted(&DROP, "/sale/7", &token));
    }
}
