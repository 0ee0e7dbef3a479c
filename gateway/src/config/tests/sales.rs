//! Sales, their routes and lanes.

use super::*;

#[test]
fn sale_faults() {
    missed("id = \"sneaker\"", "sale[0].id");
    missed("max_active = 100", "sale[0].max_active");
    let id = "id = \"sneaker\"";
    refused(id, "id = \"Sneaker!\"", "sale[0].id", "not a sale id");
    let routes = "routes = [\"/sale\"]";
    for route in ["/../x", "/api/v1/queue", "/api/v1/queue/join", "/api", "/.well-known/jwks.json"] {
        refused(routes, &format!("routes = [{route:?}]"), "sale[0].routes", "is not accepted");
    }
    for route in ["sale", "", "/sale?x=1", "/a%2fb", "/a\\b", "/%zz", "https://shop/sale"] {
        refused(routes, &format!("routes = [{route:?}]"), "sale[0].routes", "is not accepted");
    }
    refused(routes, &format!("{routes}\nbypass = [\".css\"]"), "sale[0].bypass", "is not accepted");
    refused(routes, &format!("{routes}\nhosts = [\"https://shop\"]"), "sale[0].hosts", "is not accepted");
    refused(routes, &format!("{routes}\npage_status = 404"), "sale[0].page_status", "is not accepted");
    refused(routes, &format!("{routes}\nother_status = 403"), "sale[0].other_status", "is not accepted");
    let busy = parse(&with(routes, &format!("{routes}\nother_status = 429"))).unwrap();
    assert_eq!(busy.sales[0].protect.other_status, 429);
    refused(routes, &format!("{routes}\novercommit = \"99%\""), "sale[0].overcommit", "is not accepted");
    refused(routes, &format!("{routes}\novercommit = \"much\""), "sale[0].overcommit", "not a percentage");
    refused(
        routes,
        &format!("{routes}\nentry_url = \"//evil.example\""),
        "sale[0].entry_url",
        "is not accepted",
    );
    refused(
        routes,
        &format!("{routes}\nlease = \"1d\"\nclaim_window = \"10ms\""),
        "sale[0].claim_window",
        "is not accepted",
    );
    let opens = "opens_at = \"2030-01-01T10:00:00Z\"";
    refused(opens, "opens_at = \"2030-01-01T10:00:00\"", "sale[0].opens_at", "no offset from UTC");
    refused(opens, "opens_at = 2030-01-01", "sale[0].opens_at", "no time of day");
    refused(opens, "opens_at = 5", "sale[0].opens_at", "not a time");
    refused(
        opens,
        &format!("{opens}\ncloses_at = \"2029-01-01T10:00:00Z\""),
        "sale[0].closes_at",
        "is not accepted",
    );
    refused(
        opens,
        &format!("{opens}\ndraw_closes_at = \"2031-01-01T10:00:00Z\""),
        "sale[0].opens_at",
        "is not accepted",
    );
    let pace = "pace = { admit = 5, every = \"5s\" }";
    refused(pace, "pace = { admit = 5 }", "sale[0].pace.every", "is missing");
    refused(pace, "pace = { every = \"5s\" }", "sale[0].pace.admit", "is missing");
    refused(pace, "pace = { admit = 5, every = \"5s\", per = \"1s\" }", "sale[0].pace.per", "both");
    refused(pace, "pace = { admit = 5, every = \"5s\", burst = 1 }", "sale[0].pace.burst", "no meaning");
    refused(pace, "pace = { admit = 0, every = \"5s\" }", "sale[0].pace.admit", "is not accepted");
    for (wrong, key, said) in [
        ("admit = 1, every = \"0s\"", "sale[0].pace.every", "must be: 100 ms to 30 days"),
        ("admit = 1, per = \"31d\"", "sale[0].pace.per", "must be: 1 ms to 30 days"),
        ("admit = 900, per = \"1s\", burst = 1", "sale[0].pace.burst", "at least "),
    ] {
        let wrong = format!("pace = {{ {wrong} }}");
        refused(pace, &wrong, key, "is not accepted");
        let problems = parse(&with(pace, &wrong)).unwrap_err();
        assert!(problems[0].mend.contains(said), "{}", problems[0]);
    }
    refused(pace, "pace = { admit = 5, every = \"5s\", rate = 1 }", "sale[0].pace.rate", "not a known key");
    let smooth = parse(&with(pace, "pace = { admit = 100, per = \"1s\" }")).unwrap();
    assert_eq!(smooth.sales[0].pace, Pace::Smooth { admit: 100, per_ms: 1_000, burst: 100 });
    // TOML's own date-times are taken too.
    let native = parse(&with(opens, "opens_at = 2030-01-01T11:00:00+01:00")).unwrap();
    assert_eq!(native.sales[0].opens_at.unwrap().0, 1_893_492_000_000);

    let problems = parse(&format!("{GOOD}[[sale]]\nid = \"sneaker\"\nmax_active = 1\n")).unwrap_err();
    assert_eq!(problems[0].what, "\"sneaker\" is the id of sale[0] too", "{problems:#?}");

    let problems = parse(&with("leeway = \"5s\"", "leeway = \"61s\"")).unwrap_err();
    assert_eq!(
        (problems[0].what.as_str(), problems[0].mend.as_str()),
        ("1m1s is out of range", "give a time from 0s to 1m")
    );
}

#[test]
fn a_sale_that_is_over_is_warned_about() {
    let opens = "opens_at = \"2030-01-01T10:00:00Z\"";
    let closing = |year: u32| {
        with(opens, &format!("opens_at = \"2020-01-01T00:00:00Z\"\ncloses_at = \"{year}-01-01T00:00:00Z\""))
    };
    assert_eq!(parse(&closing(2030)).unwrap().warnings, []);
    let warnings = parse(&closing(2021)).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert_eq!(warnings[0].key, "sale[0].closes_at");
    assert_eq!(warnings[0].what, "2021-01-01T00:00:00Z has passed: the sale is over");
}

#[test]
fn a_sale_that_would_guard_nothing_is_refused() {
    let routes = "routes = [\"/sale\"]";
    refused(routes, "routes = []", "sale[0].routes", "names no path");
    // Where the shop asks for tokens by itself there is nothing to guard.
    parse(&GOOD.replace(&format!("{routes}\n"), "")).unwrap();
}

#[test]
fn a_route_that_another_sale_has_already_is_refused() {
    let address = "address = \"127.0.0.1:3000\"";
    let second = |id: &str, keys: &str| format!("{GOOD}[[sale]]\nid = \"{id}\"\nmax_active = 1\n{keys}\n");
    for (id, keys, first) in [
        ("tee", "routes = [\"/tee\", \"/sale\"]", Some("sneaker")),
        ("hat", "routes = [\"/sale\"]", Some("hat")),
        ("tee", "routes = [\"/SALE/\"]", Some("sneaker")),
        ("tee", "routes = [\"=/sale\"]", Some("sneaker")),
        // It has the path alone, and leaves all below it.
        ("hat", "routes = [\"=/sale\"]", None),
        ("tee", "routes = [\"/sale/tee\", \"/sales\"]", None),
        ("tee", "routes = [\"/sale\"]\nhosts = [\"tee.example\"]", None),
        ("tee", "", None),
    ] {
        let found = parse(&second(id, keys));
        let Some(first) = first else {
            found.unwrap_or_else(|problems| panic!("{keys}: {problems:#?}"));
            continue;
        };
        let problems = found.expect_err(keys);
        assert_eq!(problems.len(), 1, "{problems:#?}");
        let said = format!("is a route of sale[0] (line 25) too: all who come there wait for \"{first}\"");
        assert!(problems[0].key == "sale[1].routes" && problems[0].what.ends_with(&said), "{problems:#?}");
        assert_eq!(problems[0].line, 29);
    }
    let hosts = "routes = [\"/sale\"]\nhosts = [\"a.example\", \"B.example\"]";
    let both = second("tee", "routes = [\"/sale\"]\nhosts = [\"c.example\", \"b.example\"]");
    let both = both.replacen("routes = [\"/sale\"]", hosts, 1);
    assert_eq!(parse(&both).unwrap_err().len(), 1);
    let apart = both.replace("\"c.example\", \"b.example\"", "\"c.example\"");
    parse(&apart).unwrap();
    // Where every host names the same pages, a host of its own does not set a sale apart.
    let fixed = apart.replace(address, &format!("{address}\nhost_header = \"shop.example\""));
    assert!(parse(&fixed).unwrap_err()[0].what.contains("is a route of sale[0]"));
}

#[test]
fn lanes_need_shares_that_add_up_and_keys_of_those_who_invite() {
    let routes = "routes = [\"/sale\"]";
    let lanes = |text: &str| format!("{routes}\nlanes = [{text}]");
    let two = r#"{ name = "members", title = "Club", share = 60, invitation = true }, { name = "all", share = 40 }"#;
    refused(routes, &lanes(two), "sale[0].lanes", "no key of those who sign them is known");
    let admission = "admission = [{ path = \"keys/admission.jwk\", state = \"sign\" }]";
    let invites = |path: &str| with(admission, &format!("{admission}\ninvitation = [{path}]"));
    let good = invites(r#""keys/old.jwk""#).replace(routes, &lanes(two));
    let config = parse(&good).unwrap();
    assert_eq!(config.keys.invitation.as_ref().unwrap().keys().len(), 1);
    let lanes = &config.sales[0].lanes;
    assert_eq!((lanes[0].shown(), lanes[0].share, lanes[0].invitation), ("Club", 60, true));
    assert_eq!((lanes[1].shown(), lanes[1].share, lanes[1].invitation), ("all", 40, false));

    let found = |text: &str| parse(text).unwrap_err().remove(0);
    for (from, to, said) in [
        ("share = 40", "share = 41", "100 together"),
        ("name = \"all\"", "name = \"members\"", "another one for each"),
        (", invitation = true", "", "`invitation` must be: true for all lanes but one"),
    ] {
        let problem = found(&good.replace(from, to));
        assert!(problem.key == "sale[0].lanes" && problem.mend.contains(said), "{problem:?}");
    }
    let problem = found(&good.replace("share = 60", "share = 60, weight = 1"));
    assert_eq!(problem.key, "sale[0].lanes[0].weight");
    // The gateway needs no private key, and no key of its own signs an invitation.
    for (path, said) in
        [("\"keys/next.jwk\"", "holds the private key"), ("\"keys/old.jwk\", \"keys/old.jwk\"", "kid")]
    {
        assert!(found(&invites(path)).what.contains(said), "{:?}", found(&invites(path)));
    }
    let same = invites("\"keys/admission.public.jwk\"");
    let folder = folder();
    let public = SigningKey::from_seed([2; 32]).public_key().to_jwk();
    private(&folder.path().join("keys/admission.public.jwk"), &public);
    let problems = parse_in(folder.path(), &same).unwrap_err();
    assert!(problems[0].what.contains("signs tokens, too"), "{problems:?}");
}
