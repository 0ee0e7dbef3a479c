//! What the operator does from the command line, beside a running service.

use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ropeline_origin::operator;
use ropeline_test_postgres::Postgres;
use serde_json::{Value, json};

use crate::common::{ISSUER, SALE, SECRET, Shop, said};
use crate::postgres;

/// The shop's configuration as a file.
pub(crate) fn write_config(shop: &Shop, path: &Path) {
    let mut text = format!(
        "listen = \"127.0.0.1:0\"\ndatabase = {:?}\npublic_url = \"https://shop.example\"\n\
         [admission]\njwks_file = {:?}\nissuer = {ISSUER:?}\naudience = {SALE:?}\n\
         [payments]\nwebhook_secret = {SECRET:?}\n",
        shop.raw.database,
        shop.raw.admission.jwks_file.as_ref().unwrap(),
    );
    if let Some(file) = &shop.raw.payments.test_database {
        text += &format!("test_database = {file:?}\n");
    }
    let total = shop.raw.products[0].total;
    text += &format!(
        "[[products]]\nid = \"runner\"\nname = \"The runner\"\nprice_minor = 18900\ncurrency = \"EUR\"\ntotal = {total}\n"
    );
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs a command with the configuration at `config`.
fn run(words: &[&str], config: &Path, input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(words)
        .arg("--config")
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn refused(words: &[&str], config: &Path, input: &str, why: &str) {
    let refused = run(words, config, input);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(said.contains(why), "{said}");
}

fn told(words: &[&str], config: &Path, input: &str) -> String {
    let done = run(words, config, input);
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

const GALA: &str = "id = \"gala\"\nname = \"Gala\"\nprice_minor = 4500\ncurrency = \"EUR\"\ntotal = 3\nkind = \"units\"\n\
                    labels = [\"A-1\", \"A-2\", \"B-1\"]\n";
const SOCKS: &str = "id = \"socks\"\nname = \"Socks\"\nprice_minor = 900\ncurrency = \"EUR\"\ntotal = 5\n";

/// Products of both kinds, put on sale while the service runs, and kept when it starts anew.
async fn products_come_and_stay(mut shop: Shop) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    for product in [GALA, SOCKS] {
        assert!(told(&["product", "add", "-"], &config, product).contains(": on sale"));
        refused(&["product", "add", "-"], &config, product, "is in the books already");
    }
    let runner = SOCKS.replace("socks", "runner");
    refused(&["product", "add", "-"], &config, &runner, "is in the configuration file");
    refused(&["product", "add", "-"], &config, &SOCKS.replace("EUR", "euro"), "product.currency");
    refused(&["product", "add", "-"], &config, "id = 7", "is no product");

    let body = json!({ "units": ["A-2"] });
    let seat = said(shop.post("ann", "seat", "/products/gala/reservations", &body)).await;
    assert_eq!((seat.status.as_u16(), &seat.body["units"]), (201, &json!(["A-2"])), "{}", seat.text);
    let pair = said(shop.post("ann", "pair", "/products/socks/reservations", &json!({}))).await;
    assert_eq!(pair.status.as_u16(), 201, "two products in one sale: {}", pair.text);
    shop.reopen().await;
    let kept = said(shop.get("ann", seat.body["links"]["self"].as_str().unwrap())).await;
    assert_eq!(kept.body["state"], "held", "{}", kept.text);

    let listed: Value = serde_json::from_str(&told(&["product", "list"], &config, "")).unwrap();
    let row = |id: &str| listed.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
    assert_eq!(
        (&row("runner")["in_file"], &row("gala")["in_file"]),
        (&json!(true), &json!(false)),
        "{listed}"
    );
    assert_eq!((&row("gala")["available"], &row("gala")["held"]), (&json!(2), &json!(1)), "{listed}");
    assert_eq!(row("socks")["total"], 5, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn products_are_added_beside_a_running_service() {
    Box::pin(products_come_and_stay(Shop::open(3).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn products_are_added_beside_a_running_service_on_postgres() {
    let (_server, url) = Box::pin(postgres::migrated()).await;
    Box::pin(products_come_and_stay(Shop::open_with(3, |raw| postgres::on(raw, &url)).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcile_settles_what_the_service_has_not_come_to() {
    // The service asks once an hour, and the bank decides in an hour, unless it is made to now.
    let shop = Shop::open_with(3, |raw| raw.payments.reconcile_seconds = 3_600).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let held = shop.held("ann").await;
    let silent = shop.pay("ann", "pay", &held, "test_silent").await;
    assert_eq!(silent.status.as_u16(), 202, "{}", silent.text);
    let id = silent.body["id"].as_str().unwrap();
    // Each reply to a change gets lost, so that it is asked about twice.
    for (before, after, settled) in [("authorising", "capturing", false), ("capturing", "sold", true)] {
        let line: Value = serde_json::from_str(told(&["reconcile"], &config, "").trim()).unwrap();
        let expected = json!({ "purchase": id, "before": before, "after": after, "settled": settled });
        assert_eq!(line, expected);
    }
    let seen = said(shop.get("ann", silent.header("location").unwrap())).await;
    assert_eq!(seen.body["state"], "sold", "{}", seen.text);
    assert_eq!(told(&["reconcile"], &config, ""), "", "nothing is left to do");
    assert_eq!(shop.stock().await, (2, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_says_what_it_did_and_every_command_says_what_is_wrong() {
    let shop = Shop::open(3).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    assert!(told(&["migrate"], &config, "").contains("nothing to do"));
    let text = std::fs::read_to_string(&config).unwrap();
    let gone = folder.path().join("gone.db");
    std::fs::write(&config, text.replace(shop.raw.database.to_str().unwrap(), gone.to_str().unwrap()))
        .unwrap();
    for words in [&["audit"][..], &["product", "list"], &["reconcile"]] {
        refused(words, &config, "", "database");
    }
    refused(&["product", "add", "-"], &config, SOCKS, "database");
    assert!(!gone.exists(), "books that are gone were taken for new");
    refused(&["audit"], &folder.path().join("none.toml"), "", "cannot be read");
}

/// Two operators at once, or one who is impatient: what the first one said stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_product_that_is_added_many_times_at_once_is_added_once() {
    let server = Postgres::start();
    let url = server.create("shop");
    for on_postgres in [false, true] {
        let mut shop = Shop::open(3).await;
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("origin.toml");
        if on_postgres {
            shop.close().await;
            postgres::on(&mut shop.raw, &url);
            operator::migrate(&shop.raw.clone().check().unwrap()).await.unwrap();
        }
        write_config(&shop, &config);
        let product = |total: usize| {
            format!(
                "id = \"late\"\nname = \"Late\"\nprice_minor = {total}\ncurrency = \"EUR\"\ntotal = {total}\n"
            )
        };
        let all: Vec<Output> = std::thread::scope(|scope| {
            let adding: Vec<_> = (1..=4)
                .map(|total| {
                    let (config, text) = (&config, product(total));
                    scope.spawn(move || run(&["product", "add", "-"], config, &text))
                })
                .collect();
            adding.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let added: Vec<usize> = (1..=4).filter(|total| all[total - 1].status.success()).collect();
        assert_eq!(added.len(), 1, "{all:?}");
        let listed: Value = serde_json::from_str(&told(&["product", "list"], &config, "")).unwrap();
        let late = listed.as_array().unwrap().iter().find(|one| one["id"] == "late").unwrap();
        assert_eq!(late["total"], added[0]);
        refused(&["product", "add", "-"], &config, &product(9), "is in the books already");
    }
}

#[tokio::test]
async fn a_sink_that_nobody_knows_is_a_slip_of_the_pen() {
    let shop = Shop::open(3).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    for words in [&["outbox", "list"][..], &["outbox", "resend", "--all-dead"]] {
        refused(
            &[words, &["--sink", "webhook:warehose"]].concat(),
            &config,
            "",
            "no sink \"webhook:warehose\"",
        );
        told(words, &config, "");
    }
}

#[tokio::test]
async fn books_of_another_version_are_left_alone_by_every_command() {
    let mut shop = Shop::open(3).await;
    shop.close().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let product = "id = \"late\"\nname = \"Late\"\nprice_minor = 1\ncurrency = \"EUR\"\ntotal = 1\n";
    let commands = [
        &["audit"][..],
        &["product", "list"],
        &["product", "add", "-"],
        &["reconcile"],
        &["outbox", "list"],
        &["outbox", "resend", "--all-dead"],
    ];
    let newer = "INSERT INTO _sqlx_migrations SELECT 99999999999999, 'later', installed_on, 1, checksum, 1
                 FROM _sqlx_migrations LIMIT 1";
    let older = "DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
    // The second ends what the first did, and one migration more.
    for (sql, why) in [(newer, "newer ropeline-origin"), (older, ""), (older, "older ropeline-origin")] {
        sqlx::query(sql).execute(&mut shop.books().await).await.unwrap();
        for words in commands.into_iter().filter(|_| !why.is_empty()) {
            refused(words, &config, product, why);
        }
        if why.starts_with("newer") {
            refused(&["serve"], &config, "", why);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_lacks_rights_is_told_which() {
    let server = Postgres::start();
    let url = server.create("shop");
    let mut shop = Shop::open(3).await;
    shop.close().await;
    postgres::on(&mut shop.raw, &url);
    let raw = shop.raw.clone();
    server.psql("shop", "CREATE ROLE weak LOGIN");
    let weak = |url: &str| {
        let mut raw = raw.clone();
        let more = if url.contains('?') { "&" } else { "?" };
        raw.database = format!("{url}{more}user=weak").into();
        raw.check().unwrap()
    };
    let refused = operator::migrate(&weak(&url)).await.unwrap_err().to_string();
    assert!(refused.contains("GRANT CREATE ON SCHEMA public") && !refused.contains(" at line "), "{refused}");
    operator::migrate(&raw.clone().check().unwrap()).await.unwrap();
    let refused = operator::audit(&weak(&url)).await.unwrap_err().to_string();
    assert!(
        refused.contains("\"weak\" may not read and write") && refused.contains("GRANT SELECT"),
        "{refused}"
    );
    server.psql(
        "shop",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO weak;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO weak",
    );
    assert!(operator::audit(&weak(&url)).await.unwrap().balanced);

    // What the server says comes without the line of its source where it says so.
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    shop.raw.database = format!("{url}{}user=gazelle", if url.contains('?') { "&" } else { "?" }).into();
    write_config(&shop, &config);
    let said = String::from_utf8(run(&["audit"], &config, "").stderr).unwrap();
    assert!(said.contains("role \"gazelle\" does not exist") && !said.contains(" at line "), "{said}");
}

#[test]
fn an_error_is_said_once_and_nothing_secret_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    std::fs::write(&config, "listen = 'x'\n[payments]\nwebhook_secret = whsec_gazelle\n").unwrap();
    let refused = run(&["serve"], &config, "");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said.contains("line 3, column 18: string values must be quoted") && !said.contains("gazelle"),
        "{said}"
    );

    let missing = folder.path().join("missing/shop.db");
    let text = format!(
        "listen = '127.0.0.1:0'\ndatabase = {missing:?}\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_url = 'http://127.0.0.1:9/'\nissuer = 'a'\naudience = 'a'\n\
         [payments]\nwebhook_secret = '{SECRET}'\n\
         [[products]]\nid = 'a'\nname = 'a'\nprice_minor = 1\ncurrency = 'EUR'\ntotal = 1\n"
    );
    std::fs::write(&config, text).unwrap();
    for words in [["serve"], ["audit"]] {
        let said = String::from_utf8(run(&words, &config, "").stderr).unwrap();
        assert!(said.contains("shop.db") && said.contains("folder"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_command_whose_output_is_read_no_further_ends_quietly() {
    let shop = Shop::open(1).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"));
    let done = command.args(["check", "--config"]).arg(&config).stdout(writer).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}

#[tokio::test]
async fn check_warns_of_what_works_and_had_better_not_be_left_so() {
    let shop = Shop::open(3).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("origin.toml");
    write_config(&shop, &config);
    let text = std::fs::read_to_string(&config).unwrap();
    let file = format!("jwks_file = {:?}", shop.raw.admission.jwks_file.as_ref().unwrap());
    assert!(text.contains(&file), "{text}");
    for (mode, keys, warnings) in [
        (0o600, file.as_str(), &[][..]),
        (0o600, "jwks_url = 'http://127.0.0.1:9/keys'", &[]),
        (0o600, "jwks_url = 'https://gate.example/keys'", &[]),
        (0o644, "jwks_url = 'http://gate.example/keys'", &["without TLS", "mode 0644"]),
    ] {
        std::fs::write(&config, text.replace(&file, keys)).unwrap();
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).unwrap();
        let checked = run(&["check"], &config, "");
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.success(), "{said}");
        assert_eq!(said.lines().count(), warnings.len(), "{said}");
        assert!(warnings.iter().all(|warning| said.contains(warning)), "{said}");
    }
}

/// A database that takes connections and says nothing: whoever started the service can end it all the same.
#[test]
fn a_service_that_cannot_start_can_be_stopped() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (config, jwks) = (folder.path().join("origin.toml"), folder.path().join("jwks.json"));
    std::fs::write(&jwks, crate::common::Gate::new(1).jwks()).unwrap();
    let text = format!(
        "listen = '127.0.0.1:0'\ndatabase = 'postgres://a@{}/a'\npublic_url = 'https://shop.example'\n\
         [admission]\njwks_file = {jwks:?}\nissuer = 'a'\naudience = 'a'\n\
         [payments]\nwebhook_secret = '{SECRET}'\ntest_database = {:?}\n\
         [[products]]\nid = 'a'\nname = 'a'\nprice_minor = 1\ncurrency = 'EUR'\ntotal = 1\n",
        silent.local_addr().unwrap(),
        folder.path().join("payments.db"),
    );
    std::fs::write(&config, text).unwrap();
    let mut service = Command::new(env!("CARGO_BIN_EXE_ropeline-origin"))
        .args(["serve", "--config"])
        .arg(&config)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _database = silent.accept().unwrap();
    assert!(Command::new("kill").arg(service.id().to_string()).status().unwrap().success());
    for _ in 0..1_200 {
        if let Some(status) = service.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    service.kill().unwrap();
    panic!("it did not stop");
}
