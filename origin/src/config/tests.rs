use super::*;
use crate::store::SeedStock;

const GOOD: &str = r#"
listen = "127.0.0.1:8081"
database = "origin.db"
public_url = "https://shop.example"

[admission]
jwks_url = "http://127.0.0.1:8080/.well-known/jwks.json"
issuer = "https://shop.example"
audience = "sneaker"

[payments]
webhook_secret = "whsec_0123456789abcdef"

[[products]]
id = "sneaker"
name = "Night Runner"
price_minor = 18900
currency = "EUR"
total = 250
"#;

fn faults(text: &str) -> Vec<String> {
    let error = RawConfig::from_toml(text).and_then(RawConfig::check).unwrap_err();
    error.0.into_iter().map(|fault| fault.field).collect()
}

#[test]
fn a_good_file_is_taken_with_its_defaults() {
    let config = RawConfig::from_toml(GOOD).unwrap().check().unwrap();
    assert_eq!(config.hold, Duration::from_secs(300));
    assert_eq!(config.public_authority, "shop.example");
    assert_eq!(config.products[0].product.max_quantity, 1);
    assert_eq!(config.terms.leeway, Leeway::default());
}

#[test]
fn everything_wrong_is_said_at_once() {
    let text = r#"
listen = "nowhere"
database = "/"
public_url = "shop.example/path"
hold_seconds = 0
hold_extension_seconds = 86401

[limits]
units_per_visitor = 0

[admission]
issuer = ""
audience = ""
leeway_seconds = 61
refresh_seconds = 0

[payments]
webhook_secret = "short"
reconcile_seconds = 0
test_delay_ms = 3600001

[[products]]
id = "Not Good"
name = ""
price_minor = -1
currency = "eur"
total = -1
max_quantity = 0

[[products]]
id = "twice"
name = "a"
price_minor = 1
currency = "EUR"
total = 1

[[products]]
id = "twice"
name = "a"
price_minor = 1
currency = "EUR"
total = 1
"#;
    assert_eq!(
        faults(text),
        [
            "listen",
            "database",
            "public_url",
            "hold_seconds",
            "hold_extension_seconds",
            "limits.units_per_visitor",
            "admission",
            "admission.refresh_seconds",
            "admission.issuer",
            "admission.audience",
            "admission.leeway_seconds",
            "payments.test_delay_ms",
            "payments.webhook_secret",
            "payments.reconcile_seconds",
            "products[0].id",
            "products[0].name",
            "products[0].price_minor",
            "products[0].currency",
            "products[0].total",
            "products[0].max_quantity",
            "products[2].id",
        ]
    );
}

#[test]
fn units_are_numbered_or_named_each_once() {
    let with = |more: &str| GOOD.replace("total = 250", &format!("total = 2\n{more}"));
    let units =
        |more: &str| RawConfig::from_toml(&with(more)).unwrap().check().unwrap().products[0].stock.clone();
    let named = |labels: [&str; 2]| SeedStock::Units(labels.map(str::to_owned).into());
    assert_eq!(units(""), SeedStock::Count(2));
    assert_eq!(units("kind = \"units\""), named(["1", "2"]));
    assert_eq!(units("kind = \"units\"\nlabels = [\"B-7\", \"Ä 1\"]"), named(["B-7", "Ä 1"]));
    for bad in [
        "labels = [\"a\", \"b\"]",
        "kind = \"units\"\nlabels = [\"a\"]",
        "kind = \"units\"\nlabels = [\"a\", \"a\"]",
        "kind = \"units\"\nlabels = [\"a\", \" b\"]",
        "kind = \"units\"\nlabels = [\"a\", \"\"]",
        "kind = \"units\"\nlabels = [\"a\", \"b\\n\"]",
    ] {
        assert_eq!(faults(&with(bad)), ["products[0].labels"], "{bad}");
    }
    let many = GOOD.replace("total = 250", "total = 1000001\nkind = \"units\"");
    assert_eq!(faults(&many), ["products[0].total"]);
    let seats = RawConfig::from_toml(&with("kind = \"seats\"")).unwrap_err().to_string();
    assert!(seats.contains("must be `count` or `units`"), "{seats}");
}

#[test]
fn key_sources_are_one_and_reachable() {
    let url = "jwks_url = \"http://127.0.0.1:8080/.well-known/jwks.json\"";
    assert_eq!(faults(&GOOD.replace(url, &format!("{url}\njwks_file = \"keys.json\""))), ["admission"]);
    assert_eq!(faults(&GOOD.replace(url, "jwks_url = \"ftp://shop.example/jwks\"")), ["admission.jwks_url"]);
    assert_eq!(faults(&GOOD.replace(url, "jwks_url = \"/jwks\"")), ["admission.jwks_url"]);
}

#[test]
fn public_urls_name_a_host_and_nothing_else() {
    for bad in
        ["shop.example", "https://", "https://a@shop.example", "https://shop.example/x", "ftp://shop.example"]
    {
        assert_eq!(
            faults(
                &GOOD
                    .replace("\"https://shop.example\"\n\n[admission]", &format!("\"{bad}\"\n\n[admission]"))
            ),
            ["public_url"],
            "{bad}"
        );
    }
}

#[test]
fn unknown_members_are_refused_with_their_line() {
    let error = RawConfig::from_toml(&GOOD.replace("total = 250", "totl = 250")).unwrap_err().to_string();
    assert!(error.contains("totl") && error.contains("line 19"), "{error}");
}

#[test]
fn the_examples_in_the_documentation_are_good() {
    let source = include_str!("../config.rs");
    let example: String = source
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .skip_while(|line| !line.contains("```toml"))
        .skip(1)
        .take_while(|line| !line.contains("```"))
        .map(|line| format!("{}\n", line.trim_start().replace("whsec_…", "whsec_0123456789abcdef")))
        .collect();
    RawConfig::from_toml(&example).unwrap().check().unwrap();
    let page = include_str!("../../../docs/reservations.md");
    let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let example = example.replace("whsec_…", "whsec_0123456789abcdef");
    RawConfig::from_toml(&example).unwrap().check().unwrap();
    // Those that go with it.
    let others = page.split("```toml").skip(2).filter_map(|rest| rest.split("```").next());
    let more: String = others.filter(|one| one.contains("[outbox]") || one.contains("[notify]")).collect();
    let config = RawConfig::from_toml(&format!("{example}{more}")).unwrap().check().unwrap();
    assert!(config.outbox.sinks().len() == 2 && config.notify.is_some());
}

const STRIPE: &str = r#"
provider = "stripe"
[payments.stripe]
secret_key = "sk_test_0123456789"
webhook_secrets = ["whsec_0123456789abcdef"]
"#;

#[test]
fn a_stripe_account_needs_its_secrets_and_nothing_of_the_test_provider() {
    let with = |from: &str, to: &str| {
        let stripe = STRIPE.replace(from, to);
        let text = GOOD.replace("webhook_secret = \"whsec_0123456789abcdef\"", &stripe);
        let checked = RawConfig::from_toml(&text).and_then(RawConfig::check);
        checked.err().into_iter().flat_map(|error| error.0).map(|fault| fault.field).collect::<Vec<String>>()
    };
    assert_eq!(with("", ""), Vec::<String>::new());
    assert_eq!(with("\"stripe\"", "\"test\""), ["payments.stripe"]);
    assert_eq!(with("sk_test", "pk_test"), ["payments.stripe.secret_key"]);
    assert_eq!(with("[\"whsec_0123456789abcdef\"]", "[]"), ["payments.stripe.webhook_secrets"]);
    assert_eq!(with("abcdef\"]", "abcdef\", \"short\"]"), ["payments.stripe.webhook_secrets"]);
    let base = |url: &str| with("secret_key", &format!("base_url = \"{url}\"\nsecret_key"));
    for good in ["https://stripe.example", "http://127.0.0.1:1/", "http://[::1]:1", "http://localhost:1"] {
        assert_eq!(base(good), Vec::<String>::new(), "{good}");
    }
    for bad in
        ["http://stripe.example", "https://stripe.example/v1", "ftp://x", "", "https://a@stripe.example"]
    {
        assert_eq!(base(bad), ["payments.stripe.base_url"], "{bad}");
    }
    assert_eq!(
        with("webhook_secrets", "at_once = [\"ideal\", \"i deal\"]\nwebhook_secrets"),
        ["payments.stripe.at_once"]
    );
    for (written, field) in [
        ("webhook_secret = \"whsec_0123456789abcdef\"", "payments.webhook_secret"),
        ("test_delay_ms = 1", "payments.test_delay_ms"),
        ("test_database = \"p.db\"", "payments.test_database"),
    ] {
        assert_eq!(with("[payments.stripe]", &format!("{written}\n[payments.stripe]")), [field]);
    }
    let shown = format!(
        "{:?}",
        RawConfig::from_toml(&GOOD.replace("webhook_secret = \"whsec_0123456789abcdef\"", STRIPE))
    );
    assert!(!shown.contains("sk_test"), "{shown}");
}

const OUTBOX: &str = r#"
[outbox]
redis_url = "rediss://user:hunter2@redis.example:6379/1"
stream = "events"
[[outbox.webhooks]]
name = "warehouse"
url = "https://warehouse.example/events?key=1"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
[[outbox.webhooks]]
name = "here"
url = "http://127.0.0.1:9000/"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]
[notify]
smtp_url = "smtp://user:hunter2@mail.example?tls=required"
from = "Shop <orders@shop.example>"
"#;

#[test]
fn sinks_have_names_addresses_and_secrets() {
    let with = |from: &str, to: &str| {
        assert!(OUTBOX.contains(from), "{from}");
        RawConfig::from_toml(&format!("{GOOD}{}", OUTBOX.replacen(from, to, 1))).and_then(RawConfig::check)
    };
    let config = with("", "").unwrap();
    assert_eq!(config.outbox.sinks(), ["redis", "webhook:warehouse", "webhook:here"]);
    assert_eq!((config.outbox.tries, config.outbox.webhooks[1].secrets.len()), (80, 2));
    let notify = config.notify.as_ref().unwrap();
    assert_eq!((notify.dead_stream.as_str(), notify.shop.as_str()), ("events:dead", "https://shop.example"));
    let written = format!("{config:?}");
    assert!(!written.contains("hunter2") && !written.contains("MfKQ9r8"), "{written}");
    assert!(RawConfig::from_toml(GOOD).unwrap().check().unwrap().outbox.sinks().is_empty());
    let secret = "[\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]";
    for (from, to, field) in [
        ("rediss://", "https://", "outbox.redis_url"),
        ("\"events\"", "\"my events\"", "outbox.stream"),
        ("[outbox]", "[outbox]\ntries = 0", "outbox.tries"),
        ("\"here\"", "\"warehouse\"", "outbox.webhooks[1].name"),
        ("\"here\"", "\"Not here\"", "outbox.webhooks[1].name"),
        ("https://warehouse", "http://warehouse", "outbox.webhooks[0].url"),
        ("https://warehouse", "https://ann@warehouse", "outbox.webhooks[0].url"),
        ("?key=1", "#key", "outbox.webhooks[0].url"),
        (secret, "[]", "outbox.webhooks[0].secrets"),
        (secret, "[\"whsec_0123456789abcdef\"]", "outbox.webhooks[0].secrets"),
        (secret, &format!("{secret}\ntimeout_seconds = 0"), "outbox.webhooks[0].timeout_seconds"),
        ("?tls=required", "", "notify.smtp_url"),
        ("?tls=required", "?tls=opportunistic", "notify.smtp_url"),
        ("smtp://", "http://", "notify.smtp_url"),
        ("Shop <orders@shop.example>", "Shop", "notify.from"),
        ("[notify]", "[notify]\ntries = 0", "notify.tries"),
        ("[notify]", "[notify]\nretry_seconds = 0", "notify.retry_seconds"),
        ("[notify]", "[notify]\ngroup = \"\"", "notify.group"),
        ("redis_url = \"rediss://user:hunter2@redis.example:6379/1\"", "", "notify"),
    ] {
        let fields: Vec<String> =
            with(from, to).unwrap_err().0.into_iter().map(|fault| fault.field).collect();
        assert_eq!(fields, [field], "{from} -> {to}");
    }
}

/// What is wrong with `GOOD` after a change.
fn mends(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    RawConfig::from_toml(&GOOD.replacen(from, to, 1)).and_then(RawConfig::check).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_read_is_named_by_its_place_and_not_shown() {
    let secret = "webhook_secret = \"whsec_0123456789abcdef\"";
    for (to, said) in [
        ("webhook_secret = whsec_gazelle", "line 12, column 18: string values must be quoted"),
        ("webhook_secret = \"whsec_gazelle", "line 12, column 32: invalid basic string"),
        (
            "webhook_secret = [\"whsec_gazelle\"]",
            "webhook_secret: line 12, column 18: must be text in quotes, and is a list",
        ),
        (
            "reconcile_seconds = \"gazelle, expected \"",
            "reconcile_seconds: line 12, column 21: must be a whole number, 0 or more, without quotes, and is text in quotes",
        ),
        (
            "reconcile_seconds = -7",
            "reconcile_seconds: line 12, column 21: must be a whole number, 0 or more",
        ),
        ("provider = \"gazelle\"", "provider: line 12, column 12: must be `test` or `stripe`"),
        (
            "stripe = { secret_key = \"a\", webhook_secrets = \"gazelle\" }",
            "webhook_secrets: line 12, column 48: must be a list in square brackets, and is text in quotes",
        ),
        ("webhook_secret = \"gazelle\"\nwebhook_secret = \"gazelle\"", "line 13, column 1: duplicate key"),
    ] {
        let refused = mends(secret, to);
        assert!(refused.contains(said) && !refused.contains("gazelle"), "{refused}");
    }
}

#[test]
fn what_is_missing_is_to_be_added() {
    assert!(mends("audience = \"sneaker\"", "").contains("`audience` is missing; add it"));
}

#[test]
fn addresses_are_such_as_can_be_asked() {
    for (from, to, said) in [
        ("http://127.0.0.1:8080/", "http://127.0.0.1:99999/", "admission.jwks_url"),
        ("http://127.0.0.1:8080/", "http://gazelle:gazelle@127.0.0.1/", "admission.jwks_url"),
        (
            "public_url = \"https://shop.example\"",
            "public_url = \"https://shop.example:99999\"",
            "public_url",
        ),
        ("\"origin.db\"", "\"postgres:/gazelle\"", "database"),
        ("\"origin.db\"", "\"postgres://a:gazelle@h:99999/d\"", "invalid port"),
        ("\"origin.db\"", "\"postgres://a:gazelle@h/d?sslmode=verify-ful\"", "verify-ful"),
        ("\"origin.db\"", "\"postgres://a@h/d?sslmod=verify-full&pasword=gazelle\"", "?sslmod=…"),
        (
            "[[products]]",
            "[outbox]\nredis_url = \"rediss://:gazelle@h/#insecure\"\n[[products]]",
            "#insecure",
        ),
        (
            "[[products]]",
            "[[outbox.webhooks]]\nname = \"a\"\nurl = \"https://h:99999/gazelle\"\nsecrets = []\n[[products]]",
            "outbox.webhooks[0].url",
        ),
    ] {
        let refused = mends(from, to);
        assert!(refused.contains(said) && !refused.contains("gazelle"), "{refused}");
    }
}

#[test]
fn names_are_such_as_can_be_kept_and_shown() {
    for name in [" ", "a ", "a\\nb", "a\\u0000b"] {
        assert!(mends("\"Night Runner\"", &format!("\"{name}\"")).contains("products[0].name"), "{name}");
    }
    let described = |text: &str| format!("\"Night Runner\"\ndescription = \"{text}\"");
    assert!(mends("\"Night Runner\"", &described("a\\u0000b")).contains("products[0].description"));
    let lines = GOOD.replace("\"Night Runner\"", &described("a\\nb"));
    assert!(RawConfig::from_toml(&lines).and_then(RawConfig::check).is_ok());
    for claim in ["issuer = \"https://shop.example\"", "audience = \"sneaker\""] {
        let name = claim.split(' ').next().unwrap();
        assert!(mends(claim, &format!("{name} = \" \"")).contains(&format!("admission.{name}")));
    }
}
