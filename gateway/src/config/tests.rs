//! Every fault is shown at its line with a way out, and all of them at once.

mod sales;
#[cfg(feature = "redis")]
mod store;

use std::fs;

use proptest::prelude::*;
use ropeline_queue::{DrawDefinition, Pace, UnixMillis};
use ropeline_token::SigningKey;
use tempfile::TempDir;

use super::*;

const EXAMPLE: &str = include_str!("../../ropeline.example.toml");
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const GOOD: &str = r#"[listen]
shop = ["127.0.0.1:8080"]
operator = "127.0.0.1:9900"
[upstream]
address = "127.0.0.1:3000"
connect_timeout = "3s"
max_request_body = "1MiB"
[queue]
leeway = "5s"
[keys]
ticket = [{ path = "keys/ticket.jwk", state = "sign" }]
admission = [{ path = "keys/admission.jwk", state = "sign" }]
[visitor]
cookie_secrets = ["keys/visitor.secret"]
[operator]
token_file = "keys/operator.token"
[limits]
join = { exempt = ["127.0.0.0/8"] }
threads = 2
[[sale]]
id = "sneaker"
max_active = 100
opens_at = "2030-01-01T10:00:00Z"
pace = { admit = 5, every = "5s" }
routes = ["/sale"]
"#;

/// In 2027.
pub(super) const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// A folder with the files that [`GOOD`] and the example name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    fs::create_dir(&keys).unwrap();
    for (name, seed) in [("ticket.jwk", 1), ("admission.jwk", 2), ("next.jwk", 3)] {
        private(&keys.join(name), &SigningKey::from_seed([seed; 32]).to_private_jwk());
    }
    private(&keys.join("old.jwk"), &SigningKey::from_seed([4; 32]).public_key().to_jwk());
    private(&keys.join("invitation.public.jwk"), &SigningKey::from_seed([5; 32]).public_key().to_jwk());
    private(&keys.join("visitor.secret"), &"A".repeat(43));
    private(&keys.join("operator.token"), TOKEN);
    private(&keys.join("empty"), "");
    folder
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn parse_in(folder: &Path, text: &str) -> Result<Config, Vec<Problem>> {
    let env = |name: &str| (name == "TOKEN").then(|| TOKEN.to_owned());
    Config::parse(text, &Surroundings { base: folder, env: &env, now: NOW })
}

fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    parse_in(folder().path(), text)
}

/// [`GOOD`] with one line in place of another.
fn with(line: &str, replacement: &str) -> String {
    assert_eq!(GOOD.lines().filter(|other| *other == line).count(), 1, "no such line: {line}");
    GOOD.replace(&format!("{line}\n"), &format!("{replacement}\n"))
}

/// The one problem of [`GOOD`] with `line` replaced stands on that line, under `key`, says `what` and has a mend.
#[track_caller]
fn refused(line: &str, replacement: &str, key: &str, what: &str) {
    let problems = parse(&with(line, replacement)).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    let problem = &problems[0];
    let first = GOOD.lines().position(|other| other == line).unwrap() + 1;
    let lines = first..first + replacement.lines().count().max(1);
    assert!(lines.contains(&problem.line), "{problem} is not in lines {lines:?}");
    assert_eq!(problem.key, key, "{problem}");
    assert!(problem.what.contains(what), "{problem}");
    assert!(!problem.mend.is_empty(), "{problem}");
}

/// As [`refused`], for a key that is gone: the problem stands somewhere before or at its place.
#[track_caller]
fn missed(line: &str, key: &str) {
    let problems = parse(&GOOD.replace(&format!("{line}\n"), "")).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!((problems[0].key.as_str(), problems[0].what.as_str()), (key, "is missing"));
    assert!(!problems[0].mend.is_empty());
}

#[test]
fn a_whole_configuration_is_read() {
    let config = parse(GOOD).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.upstream.address.to_string(), "127.0.0.1:3000");
    assert_eq!(config.upstream.max_request_body, 1 << 20);
    assert_eq!(config.limits.threads.get(), 2);
    assert!(config.operator.token.matches(TOKEN.as_bytes()));
    assert!(!config.listen.secure_cookies());
    assert_eq!(config.keys.published().unwrap().keys().len(), 2);
    let sale = &config.sales[0];
    assert_eq!(sale.pace, Pace::Batch { admit: 5, every_ms: 5_000 });
    assert_eq!(sale.opens_at.unwrap().0, 1_893_492_000_000);
    assert_eq!(sale.protect.routes, ["/sale"]);
}

#[test]
fn the_example_is_read_as_it_is_and_with_every_default_written_out() {
    let config = parse(EXAMPLE).unwrap();
    assert_eq!(config.warnings, []);
    assert_eq!(config.sales.len(), 1);

    // What the comments call defaults must be known keys with accepted values. Tables whose files do not exist,
    // and the account, which replaces nothing, stay out.
    let written: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") && !key.contains("tls/") && !key.contains("sni") => key,
            _ => line,
        })
        .filter(|line| {
            !["cookie", "jwks", "refresh_every", "audience", "claim ", "algorithms", "redis", "checkpoint"]
                .iter()
                .any(|k| line.starts_with(k))
                || line.starts_with("cookie_")
        })
        .filter(|line| *line != "issuer = \"https://shop.example\"")
        .collect::<Vec<_>>()
        .join("\n");
    let config = parse(&written).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(config.sales[0].lease_ms, 600_000);
}

#[test]
fn a_beacon_that_could_not_be_drawn_with_is_refused() {
    let opens = "opens_at = \"2030-01-01T10:00:00Z\"";
    let draw = |keys: &str| format!("{opens}\ndraw_closes_at = \"2030-01-01T09:59:30Z\"\n{keys}");
    let beacon = "draw_beacon = \"drand-quicknet\"";
    let sale = |keys: &str| parse(&with(opens, &draw(keys))).unwrap().sales.remove(0).draw.unwrap();
    assert_eq!(sale(""), DrawDefinition::by_secret(UnixMillis(1_893_491_970_000)));
    assert_eq!((sale(beacon).round(), sale(beacon).beacon.unwrap().fallback), (Some(66896212), false));
    assert_eq!(
        sale(&format!("{beacon}\ndraw_round = 66896212\ndraw_fallback = true")).beacon.unwrap().round,
        Some(66896212)
    );

    let key = |name| format!("sale[0].{name}");
    let wrong = |keys: &str, name, what| refused(opens, &draw(keys), &key(name), what);
    wrong("draw_beacon = \"random.org\"", "draw_beacon", "is not a beacon");
    wrong("draw_beacon = true", "draw_beacon", "not text");
    wrong("draw_round = 66896212", "draw_round", "no meaning without draw_beacon");
    wrong("draw_fallback = false", "draw_fallback", "no meaning without draw_beacon");
    wrong(&format!("{beacon}\ndraw_round = 66896211"), "draw_round", "is not accepted");
    wrong(&format!("{beacon}\ndraw_round = 0"), "draw_round", "out of range");
    let alone = format!("{opens}\n{beacon}");
    refused(opens, &alone, "sale[0].draw_beacon", "no meaning without draw_closes_at");
    // The round comes when the sale is open already.
    let late = format!("{opens}\ndraw_closes_at = \"2030-01-01T09:59:31Z\"\n{beacon}");
    refused(opens, &late, "sale[0].opens_at", "is not accepted");
    let problems = parse(&with(opens, &late)).unwrap_err();
    assert!(problems[0].mend.contains("at least 32 seconds after draw_closes_at"), "{}", problems[0]);
}

#[test]
fn relays_of_the_beacon_are_addresses_and_each_named_once() {
    let public = parse(GOOD).unwrap().draw.beacons;
    assert_eq!(public.len(), crate::beacon::RelayAddress::PUBLIC.len());
    let draw = |beacons: &str| format!("[draw]\nbeacons = {beacons}\n[limits]");
    let one = parse(&with("[limits]", &draw("[\"http://relay.example:8080/drand\"]"))).unwrap();
    assert_eq!(one.draw.beacons[0].to_string(), "relay.example:8080");
    refused("[limits]", &draw("[]"), "draw.beacons", "names no relay");
    refused("[limits]", &draw("[\"https://a\", \"https://a/\"]"), "draw.beacons", "twice");
    refused("[limits]", &draw("[\"api.drand.sh\"]"), "draw.beacons[0]", "no address of a relay");
    refused("[limits]", &draw("\"https://api.drand.sh\""), "draw.beacons", "not a list");
}

#[test]
fn a_module_that_decides_is_named_and_is_one() {
    let edge = |keys: &str| format!("[edge]\n{keys}\n[limits]");
    refused("[limits]", &edge("mode = \"sidecar\""), "edge.mode", "is no mode");
    refused("[limits]", &edge("mode = \"module\""), "edge.module", "is missing");
    refused(
        "[limits]",
        &edge("mode = \"shadow\"\nmodule = \"keys/gone.wasm\""),
        "edge.module",
        "cannot read",
    );
    refused(
        "[limits]",
        &edge("mode = \"module\"\nmodule = \"keys/ticket.jwk\""),
        "edge.module",
        "ticket.jwk: this",
    );
    // Named for later, and not looked at yet.
    parse(&with("[limits]", &edge("module = \"keys/gone.wasm\""))).unwrap();
}

#[test]
fn every_default_of_the_example_is_the_default() {
    let bare = parse(EXAMPLE).unwrap();
    for (shown, key) in [
        (format!("{:?}", bare.upstream.connect_timeout), "connect_timeout = \"3s\""),
        (format!("{:?}", bare.upstream.read_timeout), "read_timeout = \"30s\""),
        (format!("{:?}", bare.queue.tick_every), "tick_every = \"200ms\""),
        (format!("{:?}", bare.limits.request_timeout), "request_timeout = \"30s\""),
        (format!("{:?}", bare.limits.shutdown_grace), "shutdown_grace = \"8s\""),
    ] {
        assert!(EXAMPLE.contains(key) && key.contains(&shown), "{key} against {shown}");
    }
    assert_eq!(bare.limits.header_bytes, 32 << 10);
    assert_eq!(bare.limits.keepalive.as_secs(), 60);
    assert_eq!(bare.upstream.max_request_body, 1 << 20);
    assert_eq!((bare.sales[0].claim_window_ms, bare.sales[0].recall_grace_ms), (120_000, 300_000));
}

#[test]
fn every_problem_is_shown_at_once_in_the_order_of_the_lines() {
    let text = r#"[listen]
shop = ["nowhere", "127.0.0.1:8080", "9"]
oprator = "127.0.0.1:9900"
[upstream]
connect_timeout = 3
[keys]
ticket = [{ path = "keys/none.jwk", state = "signs" }]
[visitor]
[operator]
[[sale]]
id = "Sneaker"
max_active = 0
lease = "0s"
pace = { admit = 0, every = "5s", burst = 3 }
"#;
    let problems = parse(text).unwrap_err();
    let found: Vec<_> = problems.iter().map(|problem| (problem.line, problem.key.as_str())).collect();
    for expected in [
        (2, "listen.shop[0]"),
        (2, "listen.shop[2]"),
        (3, "listen.oprator"),
        (4, "upstream.address"),
        (5, "upstream.connect_timeout"),
        (6, "keys.admission"),
        (7, "keys.ticket[0].path"),
        (7, "keys.ticket[0].state"),
        (8, "visitor.cookie_secrets"),
        (9, "operator.token_file"),
        (11, "sale[0].id"),
        (12, "sale[0].max_active"),
        (13, "sale[0].lease"),
        (14, "sale[0].pace.burst"),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not among {problems:#?}");
    }
    assert!(found.is_sorted_by_key(|(line, _)| *line));
    let oprator = problems.iter().find(|problem| problem.key == "listen.oprator").unwrap();
    assert_eq!(oprator.mend, "did you mean `operator`?");
}

#[test]
fn a_loop_and_routes_that_guard_nothing_are_shown_beside_all_else() {
    // A listener that is wrong itself hides no loop, and a loop hides no route.
    let text = GOOD
        .replace("address = \"127.0.0.1:3000\"", "address = \"127.0.0.1:8080\"")
        .replace("operator = \"127.0.0.1:9900\"", "trusted_proxies = [\"x\"]")
        .replace("leeway = \"5s\"", "api_prefix = \"/queue\"")
        .replace("routes = [\"/sale\"]", "routes = [\"/queue/x\", \"/../x\"]");
    let problems = parse(&text).unwrap_err();
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(
        keys,
        ["listen.trusted_proxies[0]", "upstream.address", "sale[0].routes", "sale[0].routes"],
        "{problems:#?}"
    );
    assert!(problems.iter().all(|problem| !problem.mend.is_empty()));
}

#[test]
fn a_fault_of_the_syntax_has_its_line() {
    let problems = parse("[listen]\nshop = [\"127.0.0.1:8080\"\n[upstream\naddress = \n").unwrap_err();
    assert!(!problems.is_empty());
    assert!(problems.iter().all(|problem| (2..=4).contains(&problem.line)), "{problems:#?}");
}

#[test]
fn a_file_that_is_missing_or_no_utf_8_is_said_to_be() {
    let folder = folder();
    let missing = Config::load(&folder.path().join("none.toml")).unwrap_err();
    assert!(missing.to_string().contains("none.toml"), "{missing}");
    let broken = folder.path().join("broken.toml");
    fs::write(&broken, [b'a', 0xff]).unwrap();
    assert!(Config::load(&broken).unwrap_err().to_string().contains("not UTF-8 (byte 1)"));
    let good = folder.path().join("good.toml");
    fs::write(&good, GOOD).unwrap();
    Config::load(&good).unwrap();
}

#[test]
fn listen_faults() {
    missed("shop = [\"127.0.0.1:8080\"]", "listen.shop");
    let shop = "shop = [\"127.0.0.1:8080\"]";
    refused(shop, "shop = []", "listen.shop", "is empty");
    refused(shop, "shop = \"127.0.0.1:8080\"", "listen.shop", "is text, not a list");
    refused(shop, "shop = [\"localhost:8080\"]", "listen.shop[0]", "not an address with a port");
    refused(shop, "shop = [\"127.0.0.1:1\", \"127.0.0.1:1\"]", "listen.shop", "named twice");
    refused(shop, "shop = [\"0.0.0.0:8080\"]", "listen.shop", "in the clear");
    refused(
        shop,
        "shop = [\"127.0.0.1:8080\"]\ntrusted_proxies = [\"x\"]",
        "listen.trusted_proxies[0]",
        "not a network",
    );
    let proxies = |list: &str| format!("{shop}\ntrusted_proxies = [{list}]");
    let wide = "\"::/0\" \"2000::/3\" \"0.0.0.0/0\" \"::ffff:0:0/96\"".split(' ').map(str::to_owned);
    let halves = ["\"0.0.0.0/1\", \"128.0.0.0/1\"", "\"2000::/4\", \"::ffff:10.0.0.1\", \"3000::/4\""];
    for list in wide.chain(halves.map(str::to_owned)) {
        refused(shop, &proxies(&list), "listen.trusted_proxies", "everybody");
    }
    parse(&with(shop, &proxies("\"0.0.0.0/1\", \"128.0.0.0/2\", \"2001:db8::/32\""))).unwrap();
    let operator = "operator = \"127.0.0.1:9900\"";
    refused(operator, "operator = \"0.0.0.0:9900\"", "listen.operator", "in the clear");
    refused(operator, "operator = \"127.0.0.1:8080\"", "listen.operator", "also a shop address");
    refused(operator, "tls = 5", "listen.tls", "not a table");
}

#[test]
fn joining_is_limited_unless_the_file_says_otherwise() {
    let join = "join = { exempt = [\"127.0.0.0/8\"] }";
    let limits = parse(&with(join, "join = { ipv4 = 7, exempt = [\"10.1.2.3\", \"2001:db8::1/48\"] }"));
    let limits = limits.unwrap().limits.join;
    assert_eq!((limits.enabled, limits.ipv4.get(), limits.ipv4_24.get()), (true, 7, 1_000));
    assert_eq!((limits.ipv6_64.get(), limits.ipv6_56.get(), limits.hardest_bits), (20, 100, 20));
    assert_eq!(limits.window.as_secs(), 600);
    assert_eq!(
        limits.exempt.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.1.2.3/32", "2001:db8::/48"]
    );
    for (wrong, key, what) in [
        ("exempt = [\"x\"]", "limits.join.exempt[0]", "not a network"),
        ("exempt = \"10.0.0.0/8\"", "limits.join.exempt", "not a list"),
        ("hardest_bits = 27", "limits.join.hardest_bits", "out of range"),
        ("hardest_bits = 13", "limits.join.hardest_bits", "out of range"),
        ("ipv4 = 0", "limits.join.ipv4", "out of range"),
        ("ipv6_56 = \"5\"", "limits.join.ipv6_56", "not a whole number"),
        ("window = \"9s\"", "limits.join.window", "out of range"),
        ("ipv6 = 5", "limits.join.ipv6", "not a known key"),
    ] {
        // The other key keeps the file from having a second fault.
        refused(join, &format!("join = {{ {wrong} }}"), key, what);
    }
}

#[test]
fn ipv4_networks_written_as_ipv6_are_the_ipv4_networks() {
    let shop = "shop = [\"127.0.0.1:8080\"]";
    let text = |network: &str| {
        with(shop, &format!("{shop}\ntrusted_proxies = [\"{network}\"]"))
            .replace("exempt = [\"127.0.0.0/8\"]", &format!("exempt = [\"{network}\"]"))
    };
    for (written, meant) in [
        ("::ffff:127.0.0.1", "127.0.0.1/32"),
        ("::ffff:7f00:1/128", "127.0.0.1/32"),
        ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        ("::ffff:128.0.0.0/97", "128.0.0.0/1"),
        ("::fffe:10.0.0.0/104", "::fffe:a00:0/104"),
    ] {
        let config = parse(&text(written)).unwrap();
        assert_eq!(config.listen.trusted_proxies, [meant.parse().unwrap()], "{written}");
        assert_eq!(config.limits.join.exempt, [meant.parse().unwrap()], "{written}");
    }
    for wide in ["::ffff:10.0.0.0/95", "::ffff:0:0/0"] {
        let problems = parse(&text(wide)).unwrap_err();
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["listen.trusted_proxies[0]", "limits.join.exempt[0]"], "{problems:#?}");
        assert!(problems[0].what.contains("wider than ::ffff:0:0/96"), "{problems:#?}");
        assert!(problems[0].mend.contains("IPv4"), "{problems:#?}");
    }
}

#[test]
fn a_proxy_in_front_that_is_not_named_is_warned_about_where_all_would_count_as_one_client() {
    let (shop, join) = ("shop = [\"127.0.0.1:8080\"]", "join = { exempt = [\"127.0.0.0/8\"] }");
    let warned = |shop_line: &str, join_line: &str| {
        let text = with(shop, shop_line).replace(&format!("{join}\n"), &format!("{join_line}\n"));
        let warnings = parse(&text).unwrap().warnings;
        warnings.iter().map(|warning| warning.key.clone()).collect::<Vec<_>>()
    };
    let public = "shop = [\"0.0.0.0:8080\"]\nbehind_tls = true";
    for (shop_line, join_line, warns) in [
        (shop, "", true),
        (shop, join, false),
        (shop, "join = { enabled = false }", false),
        (&format!("{shop}\ntrusted_proxies = [\"127.0.0.1\"]"), "", false),
        (public, "", true),
        (&format!("{public}\ntrusted_proxies = [\"10.0.0.0/8\"]"), "", false),
        (public, "join = { enabled = false }", false),
    ] {
        let keys: &[&str] = if warns { &["listen.trusted_proxies"] } else { &[] };
        assert_eq!(warned(shop_line, join_line), keys, "{shop_line} {join_line}");
    }
}

#[test]
fn dangerous_settings_work_once_they_are_asked_for_and_are_warned_about() {
    let text =
        with("shop = [\"127.0.0.1:8080\"]", "shop = [\"0.0.0.0:8080\"]\ntrusted_proxies = [\"0.0.0.0/0\"]")
            .replace("operator = \"127.0.0.1:9900\"", "operator = \"0.0.0.0:9900\"")
            + "[insecure]\nplain_http = true\noperator_off_loopback = true\ntrust_any_proxy = true\n";
    let config = parse(&text).unwrap();
    let warned: Vec<_> = config.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(warned, ["insecure.plain_http", "insecure.operator_off_loopback", "insecure.trust_any_proxy"]);

    let behind = with("shop = [\"127.0.0.1:8080\"]", "shop = [\"0.0.0.0:8080\"]\nbehind_tls = true");
    assert!(parse(&behind).unwrap().listen.secure_cookies());
}

#[test]
fn tls_files_are_opened() {
    let folder = folder();
    let text =
        with("operator = \"127.0.0.1:9900\"", "tls = { certificate = \"c.pem\", private_key = \"k.pem\" }");
    let problems = parse_in(folder.path(), &text).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    fs::write(folder.path().join("c.pem"), "-----BEGIN CERTIFICATE-----\n").unwrap();
    private(&folder.path().join("k.pem"), "-----BEGIN EC PRIVATE KEY-----\n");
    assert!(parse_in(folder.path(), &text).unwrap().listen.secure_cookies());
    fs::write(folder.path().join("c.pem"), "nothing").unwrap();
    let problems = parse_in(folder.path(), &text).unwrap_err();
    assert!(problems[0].what.contains("no PEM block"), "{problems:#?}");
}

#[test]
fn upstream_faults() {
    missed("address = \"127.0.0.1:3000\"", "upstream.address");
    let address = "address = \"127.0.0.1:3000\"";
    refused(address, "address = \"shop\"", "upstream.address", "not a host with a port");
    for own in ["127.0.0.1:8080", "localhost:8080", "127.0.0.1:9900"] {
        refused(
            address,
            &format!("address = \"{own}\""),
            "upstream.address",
            "where the gateway itself listens",
        );
    }
    refused(address, &format!("{address}\nsni = \"shop\""), "upstream.sni", "no effect without TLS");
    refused(address, &format!("{address}\ntls = true\nsni = \"-\""), "upstream.sni", "not a host name");
    refused(address, &format!("{address}\nhost_header = \"a b\""), "upstream.host_header", "not a host");
    let timeout = "connect_timeout = \"3s\"";
    refused(timeout, "connect_timeout = 3", "upstream.connect_timeout", "3 has no unit");
    refused(timeout, "connect_timeout = \"3\"", "upstream.connect_timeout", "not a duration");
    refused(timeout, "connect_timeout = \"0s\"", "upstream.connect_timeout", "out of range");
    refused(timeout, "connect_timeout = 1.5", "upstream.connect_timeout", "a decimal number");
    refused(timeout, "conect_timeout = \"3s\"", "upstream.conect_timeout", "not a known key");
    let body = "max_request_body = \"1MiB\"";
    refused(body, "max_request_body = 1", "upstream.max_request_body", "1 has no unit");
    refused(body, "max_request_body = \"1MB\"", "upstream.max_request_body", "not a size");
    refused(body, "max_request_body = \"2GiB\"", "upstream.max_request_body", "out of range");
}

#[test]
fn queue_store_and_limit_faults() {
    let leeway = "leeway = \"5s\"";
    refused(leeway, "leeway = \"61s\"", "queue.leeway", "out of range");
    refused(leeway, "leeway = \"1500ms\"", "queue.leeway", "not whole seconds");
    for prefix in ["", "/", "api", "/api/", "/a//b", "/a/../b", "/a b", "/%61"] {
        refused(leeway, &format!("api_prefix = {prefix:?}"), "queue.api_prefix", "not a path prefix");
    }
    refused(leeway, "issuer = \"\"", "queue.issuer", "not an issuer");
    refused(leeway, "tick_every = \"201ms\"", "queue.tick_every", "out of range");
    refused("threads = 2", "threads = 0", "limits.threads", "out of range");
    refused("threads = 2", "threads = \"2\"", "limits.threads", "not a whole number");
    refused("threads = 2", "header_bytes = \"1KiB\"", "limits.header_bytes", "out of range");
    refused("threads = 2", "[store]\npath = \"none/queue.redb\"", "store.path", "does not exist");
    refused("routes = [\"/sale\"]", "store_away = \"open\"", "sale[0].store_away", "is unknown");
    refused("routes = [\"/sale\"]", "store_away = { open = \"1m\" }", "sale[0].store_away", "is neither");
    refused(
        "routes = [\"/sale\"]",
        "store_away = { open_for = \"1s\" }",
        "sale[0].store_away",
        "not accepted",
    );
    refused("threads = 2", "[stores]", "stores", "not a known key");
}

#[test]
fn key_faults() {
    missed("ticket = [{ path = \"keys/ticket.jwk\", state = \"sign\" }]", "keys.ticket");
    let line = "ticket = [{ path = \"keys/ticket.jwk\", state = \"sign\" }]";
    let ticket = |list: &str| format!("ticket = [{list}]");
    refused(line, &ticket(""), "keys.ticket", "0 keys are in the state");
    refused(line, &ticket("{ path = \"keys/ticket.jwk\", state = \"verify\" }"), "keys.ticket", "0 keys");
    refused(
        line,
        &ticket(
            "{ path = \"keys/ticket.jwk\", state = \"sign\" }, { path = \"keys/next.jwk\", state = \"sign\" }",
        ),
        "keys.ticket",
        "2 keys are in the state",
    );
    refused(line, &ticket("{ path = \"keys/old.jwk\", state = \"sign\" }"), "keys.ticket", "no private part");
    refused(
        line,
        &ticket("{ path = \"keys/empty\", state = \"sign\" }"),
        "keys.ticket[0].path",
        "keys/empty",
    );
    refused(line, &ticket("{ path = \"keys\", state = \"sign\" }"), "keys.ticket[0].path", "is not a file");
    refused(line, &ticket("{ path = \"keys/ticket.jwk\" }"), "keys.ticket[0].state", "is missing");
    refused(
        line,
        &ticket("{ path = \"keys/ticket.jwk\", state = \"old\" }"),
        "keys.ticket[0].state",
        "no state",
    );
    refused(line, "ticket = \"keys/ticket.jwk\"", "keys.ticket", "not a list of tables");
    // A key of its own for each kind: what signs tickets is never taken for an admission.
    let admission = "admission = [{ path = \"keys/admission.jwk\", state = \"sign\" }]";
    refused(
        admission,
        &admission.replace("admission.jwk", "ticket.jwk"),
        "keys.admission[0].path",
        "same key",
    );
}

#[test]
fn a_rotation_has_one_signer_and_verifies_with_all() {
    let text = with(
        "admission = [{ path = \"keys/admission.jwk\", state = \"sign\" }]",
        "admission = [{ path = \"keys/old.jwk\", state = \"verify\" }, \
         { path = \"keys/admission.jwk\", state = \"sign\" }, { path = \"keys/next.jwk\", state = \"publish\" }]",
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.keys.admission.set().keys().len(), 3);
    assert_eq!(config.keys.admission.signer().kid(), SigningKey::from_seed([2; 32]).kid());
}

#[cfg(unix)]
#[test]
fn secrets_that_others_can_read_are_warned_about() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    for name in ["ticket.jwk", "visitor.secret", "operator.token"] {
        fs::set_permissions(folder.path().join("keys").join(name), fs::Permissions::from_mode(0o644))
            .unwrap();
    }
    let warnings = parse_in(folder.path(), GOOD).unwrap().warnings;
    let keys: Vec<_> = warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(keys, ["keys.ticket[0].path", "visitor.cookie_secrets", "operator.token_file"]);
    assert!(warnings[0].mend.starts_with("chmod 600 "), "{warnings:#?}");
}

#[test]
fn visitor_faults() {
    missed("cookie_secrets = [\"keys/visitor.secret\"]", "visitor.cookie_secrets");
    let secrets = "cookie_secrets = [\"keys/visitor.secret\"]";
    refused(secrets, "cookie_secrets = []", "visitor.cookie_secrets", "is empty");
    refused(
        secrets,
        "cookie_secrets = [\"keys/empty\"]",
        "visitor.cookie_secrets[0]",
        "must be 32 to 64 bytes",
    );
    let account = |lines: &str| format!("{secrets}\n[visitor.account]\n{lines}");
    let good = "cookie = \"s\"\njwks = \"keys/old.jwk\"\nissuer = \"i\"\naudience = \"a\"\n";
    refused(secrets, &account(&good.replace("cookie = \"s\"\n", "")), "visitor.account.cookie", "is missing");
    refused(
        secrets,
        &account(&good.replace("\"s\"", "\"a;b\"")),
        "visitor.account.cookie",
        "not a cookie name",
    );
    refused(
        secrets,
        &account(&format!("{good}header = \"x-user\"")),
        "visitor.account.header",
        "two sources",
    );
    refused(
        secrets,
        &account(&good.replace("cookie = \"s\"", "header = \"a b\"")),
        "visitor.account.header",
        "not a header name",
    );
    refused(
        secrets,
        &account(&good.replace("keys/old.jwk", "http://shop/jwks")),
        "visitor.account.jwks",
        "not fetched over https",
    );
    refused(secrets, &account(&good.replace("keys/old.jwk", "none")), "visitor.account.jwks", "cannot read");
    refused(
        secrets,
        &account(&good.replace("issuer = \"i\"", "issuer = \"\"")),
        "visitor.account.issuer",
        "is empty",
    );
    refused(
        secrets,
        &account(&format!("{good}algorithms = [\"HS256\"]")),
        "visitor.account.algorithms[0]",
        "not accepted",
    );
    refused(secrets, &account(&format!("{good}algorithms = []")), "visitor.account.algorithms", "is empty");
    let read = parse(&with(secrets, &account(good))).unwrap().visitor.account.unwrap();
    assert_eq!((read.claim.as_str(), read.algorithms.len()), ("sub", 3));
}

#[test]
fn operator_faults() {
    missed("token_file = \"keys/operator.token\"", "operator.token_file");
    let line = "token_file = \"keys/operator.token\"";
    refused(line, "token_file = \"keys/empty\"", "operator.token_file", "32 to 512 characters");
    refused(line, "token_env = \"NOT_SET\"", "operator.token_env", "NOT_SET is not set");
    refused(line, &format!("{line}\ntoken_env = \"TOKEN\""), "operator.token_env", "two tokens");
    // A secret that stands where its file or variable was to be named is not told on.
    for written in [
        "token_file = \"gazelle0123456789\"",
        "token_file = \"redis://:gazelle@h/1.x\"",
        "token_env = \"gazelle\"",
    ] {
        let told = format!("{:?}", parse(&with(line, written)).unwrap_err());
        assert!(told.contains("operator.token_") && !told.contains("gazelle"), "{told}");
    }
    assert!(parse(&with(line, "token_env = \"TOKEN\"")).unwrap().operator.token.matches(TOKEN.as_bytes()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a hand or a fault of the disk does to the file, it is read or refused with at least one problem.
    #[test]
    fn a_mangled_file_never_panics(cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[ -~\\n\"\\[\\]{}=é]{0,12}"), 1..6)) {
        let folder = folder();
        let mut text = format!("{GOOD}\n{EXAMPLE}").replace("keys/", "");
        if cuts.len() % 2 == 0 {
            text = EXAMPLE.to_owned();
        }
        for (start, length, insert) in cuts {
            let chars: Vec<char> = text.chars().collect();
            let start = start.index(chars.len().max(1)).min(chars.len());
            let end = (start + length.index(24)).min(chars.len());
            text = chars[..start].iter().collect::<String>() + &insert + &chars[end..].iter().collect::<String>();
        }
        if let Err(problems) = parse_in(folder.path(), &text) {
            prop_assert!(!problems.is_empty());
            let lines = text.matches('\n').count() + 1;
            prop_assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
        }
    }
}
