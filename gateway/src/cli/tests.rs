//! Command lines as a person types them, and what they print.

use std::fs;
use std::path::Path;

use ropeline_queue::{DrawState, DrawView, Manifest, Promise, RawDefinition, Source, UnixMillis, draw};
use ropeline_token::{AdmissionClaims, Claims, KeySet, SigningKey, TicketClaims};
use tempfile::TempDir;

use super::*;
use crate::draw_document::DrawDocument;
use crate::operator::tests::{TOKEN, start};

/// Runs a command line; what it printed, and its failure with its exit code.
fn ropeline(arguments: &[&str]) -> (String, Result<(), (u8, String)>) {
    let cli =
        Cli::try_parse_from([&["ropeline"], arguments].concat()).unwrap_or_else(|error| panic!("{error}"));
    let mut out = Vec::new();
    let done = carry_out(cli.command, &mut out);
    let failure =
        |failure: Failure| (if matches!(failure, Failure::Found(_)) { 1 } else { 3 }, failure.to_string());
    (String::from_utf8(out).unwrap(), done.map_err(failure))
}

#[track_caller]
fn good(arguments: &[&str]) -> String {
    let (out, done) = ropeline(arguments);
    assert_eq!(done, Ok(()), "{arguments:?} printed {out}");
    out
}

#[track_caller]
fn bad(arguments: &[&str], code: u8, words: &str) -> String {
    let (out, done) = ropeline(arguments);
    let (found, text) = done.expect_err("nothing was wrong");
    assert_eq!(found, code, "{text}");
    assert!(text.contains(words), "{text}");
    out
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory as _;
    Cli::command().debug_assert();
}

#[test]
fn what_keygen_makes_and_prints_makes_a_configuration_that_check_finds_good() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let printed = good(&["keygen", "--dir", text(&keys)]);
    let ticket = SigningKey::from_jwk(&fs::read(keys.join("ticket.jwk")).unwrap()).unwrap();
    assert!(printed.contains(&format!("# kid {}", ticket.kid())), "{printed}");
    #[cfg(unix)]
    for entry in fs::read_dir(&keys).unwrap() {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    let config =
        format!("[listen]\nshop = [\"127.0.0.1:0\"]\n[upstream]\naddress = \"127.0.0.1:1\"\n{printed}");
    let file = folder.path().join("ropeline.toml");
    fs::write(&file, &config).unwrap();
    assert!(good(&["check", "-c", text(&file)]).contains("is good"));

    fs::write(&file, config.replace("127.0.0.1:1", "nowhere").replace("\"sign\"", "\"sgn\"")).unwrap();
    let (out, done) = ropeline(&["check", "-c", text(&file)]);
    let (code, report) = done.unwrap_err();
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        report.contains("ropeline.toml:4:11: upstream.address") && report.contains("3 problems"),
        "{report}"
    );
}

#[test]
fn a_gateway_whose_address_is_taken_does_not_touch_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let printed = good(&["keygen", "--dir", text(&folder.path().join("keys"))]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let file = folder.path().join("ropeline.toml");
    for (shop, operator, key) in [
        (taken.to_string(), "127.0.0.1:0".to_owned(), "listen.shop: cannot listen"),
        ("127.0.0.1:0".to_owned(), taken.to_string(), "listen.operator: cannot listen"),
    ] {
        let config = format!(
            "[listen]\nshop = [\"{shop}\"]\noperator = \"{operator}\"\n[upstream]\naddress = \"127.0.0.1:1\"\n{printed}\
             [store]\npath = \"queue.redb\"\n[[sale]]\nid = \"drop\"\nmax_active = 1\n"
        );
        fs::write(&file, config).unwrap();
        bad(&["serve", "-c", text(&file)], 3, key);
        assert!(!folder.path().join("queue.redb").exists(), "{key}");
    }
}

#[test]
fn a_gateway_that_cannot_speak_tls_does_not_touch_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let printed = good(&["keygen", "--dir", text(&folder.path().join("keys"))]);
    let file = folder.path().join("ropeline.toml");
    let config = format!(
        "[listen]\nshop = [\"127.0.0.1:0\"]\noperator = \"127.0.0.1:0\"\n\
         tls = {{ certificate = \"c.pem\", private_key = \"k.pem\" }}\n\
         [upstream]\naddress = \"127.0.0.1:1\"\n{printed}\
         [store]\npath = \"queue.redb\"\n[[sale]]\nid = \"drop\"\nmax_active = 1\n"
    );
    fs::write(&file, config).unwrap();
    let made = || rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let (one, other) = (made(), made());
    let cut = "-----BEGIN CERTIFICATE-----\n";
    let key = |made: &rcgen::CertifiedKey<rcgen::KeyPair>| made.signing_key.serialize_pem();
    for (chain, key, said) in [
        (cut.to_owned(), key(&one), "listen.tls.certificate"),
        (one.cert.pem(), "-----BEGIN PRIVATE KEY-----\n".to_owned(), "listen.tls.private_key"),
        (one.cert.pem(), key(&other), "the private key that belongs to it"),
    ] {
        fs::write(folder.path().join("c.pem"), chain).unwrap();
        fs::write(folder.path().join("k.pem"), key).unwrap();
        bad(&["serve", "-c", text(&file)], 3, said);
        assert!(!folder.path().join("queue.redb").exists(), "{said}");
    }
}

#[test]
fn keygen_overwrites_nothing_and_leaves_no_half_set() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    fs::write(folder.path().join("visitor.secret"), "mine").unwrap();
    bad(&["keygen", "--dir", dir], 1, "visitor.secret exists and is not overwritten");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read(folder.path().join("visitor.secret")).unwrap(), b"mine");
    good(&["keygen", "ticket", "--dir", dir]);
    let next = good(&["keygen", "ticket", "--dir", dir, "--name", "ticket-2.jwk"]);
    assert!(next.contains("ticket-2.jwk\", state = \"publish\""), "{next}");
    bad(&["keygen", "--dir", dir, "--name", "x"], 1, "exactly one kind");
    let made = fs::read_dir(folder.path()).unwrap().count();
    bad(&["keygen", "admission", "admission", "--dir", dir], 1, "admission.jwk would be made twice");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), made);
    for name in ["", ".", "..", "../x.jwk", "x/"] {
        let line = ["ropeline", "keygen", "admission", "--dir", dir, "--name", name];
        let error = Cli::try_parse_from(line).expect_err(name);
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains("no name of a file"), "{error}");
    }
}

#[test]
fn invite_signs_what_a_gateway_with_the_public_key_takes() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    let printed = good(&["keygen", "invitation", "--dir", dir]);
    assert!(
        printed.starts_with("[keys]\ninvitation = [\"") && printed.contains("invitation.public.jwk\"]"),
        "{printed}"
    );
    bad(&["keygen", "invitation", "--dir", dir], 1, "exists and is not overwritten");
    let public = fs::read(folder.path().join("invitation.public.jwk")).unwrap();
    let keys = KeySet::new([ropeline_token::PublicKey::from_jwk(&public).unwrap()]).unwrap();
    let file = folder.path().join("invitation.jwk");
    let invite = |more: &[&str]| {
        good(&[&["invite", "--sale", "drop", "--lane", "members", "--key", text(&file)], more].concat())
    };
    let codes = invite(&["--count", "3", "--valid", "1h"]);
    let claims: Vec<_> = codes.lines().map(|line| keys.invitation(line).unwrap()).collect();
    let names: std::collections::BTreeSet<_> = claims.iter().map(|claims| &claims.jti).collect();
    assert_eq!(names.len(), 3, "two invitations of one name");
    assert!(
        claims.iter().all(|claims| claims.aud == "drop" && claims.lane == "members" && claims.sub.is_none())
    );
    let link = "https://shop.example/sale?size=42";
    let links = invite(&["--for", "a", "--for", "b", "--link", link]);
    let subjects = links.lines().map(|line| {
        let code = line.strip_prefix("https://shop.example/sale?size=42&invitation=").unwrap();
        keys.invitation(code).unwrap().sub.unwrap()
    });
    assert!(subjects.eq(["a", "b"]), "{links}");
    let missing = ["invite", "--sale", "drop", "--lane", "members", "--key", "none"];
    bad(&missing, 3, "cannot read none");
    for (link, lead, tail) in [
        ("https://shop.example/sale#size", "https://shop.example/sale?invitation=", "#size"),
        ("https://shop.example/sale?a=%20b#x?y", "https://shop.example/sale?a=%20b&invitation=", "#x?y"),
        ("https://shop.example/sale?", "https://shop.example/sale?invitation=", ""),
        ("https://shop.example", "https://shop.example/?invitation=", ""),
    ] {
        let printed = invite(&["--link", link]);
        let code = printed.trim_end().strip_prefix(lead).and_then(|rest| rest.strip_suffix(tail));
        keys.invitation(code.unwrap_or_else(|| panic!("{printed}"))).unwrap();
    }
}

#[test]
fn invite_refuses_what_could_never_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let dir = text(folder.path());
    good(&["keygen", "ticket", "admission", "invitation", "--dir", dir]);
    let with = |name: &str| {
        let file = folder.path().join(name);
        let (out, done) = ropeline(&["invite", "--sale", "drop", "--lane", "members", "--key", text(&file)]);
        done.map(|()| out)
    };
    assert!(with("invitation.jwk").is_ok());
    fs::write(folder.path().join("mute.jwk"), SigningKey::from_seed([1; 32]).to_private_jwk()).unwrap();
    for (name, said) in [
        ("ticket.jwk", "is for \"ticket\""),
        ("admission.jwk", "is for \"admission\""),
        ("mute.jwk", "adding \"ropeline\":\"invitation\" to its JWK is enough"),
        ("invitation.public.jwk", "private part"),
    ] {
        let (code, told) = with(name).expect_err(name);
        assert!(code == 1 && told.contains(said), "{name}: {code} {told}");
    }
    for wrong in [
        ["--valid", "0s"],
        ["--valid", "59s"],
        ["--link", "not a url"],
        ["--link", "/sale"],
        ["--link", "mailto:a@shop.example"],
        ["--link", "https://shop.example/?invitation=x"],
    ] {
        let line = [&["ropeline", "invite", "--sale", "drop", "--lane", "members"][..], &wrong[..]].concat();
        let error = Cli::try_parse_from(line).expect_err(wrong[1]);
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}

fn claims(exp: u64) -> Claims {
    Claims {
        iss: "shop".into(),
        aud: "drop".into(),
        sub: "visitor".into(),
        jti: "j".into(),
        iat: 1_700_000_000,
        nbf: 1_700_000_000,
        exp,
        epoch: 2,
        arrival: 7,
    }
}

/// A folder with a key set, and the key that signed what the tests verify.
fn signed() -> (TempDir, String, SigningKey) {
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::from_seed([5; 32]);
    let jwks = folder.path().join("jwks.json");
    fs::write(&jwks, KeySet::new([key.public_key()]).unwrap().to_jwks()).unwrap();
    let jwks = text(&jwks).to_owned();
    (folder, jwks, key)
}

#[test]
fn inspect_shows_a_token_and_says_that_it_trusts_nothing() {
    let key = SigningKey::from_seed([5; 32]);
    let token = key.sign_ticket(&TicketClaims { claims: claims(4_000_000_000) }).unwrap();
    let out = good(&["token", "inspect", &token]);
    assert!(out.starts_with("NOT VERIFIED"), "{out}");
    assert!(out.contains("ropeline-ticket+jwt") && out.contains("2023-11-14T22:13:20Z"), "{out}");
    bad(&["token", "inspect", "a.b"], 1, "three parts");
    bad(&["token", "inspect", "!.e30.x"], 1, "header is not base64url");
    bad(&["token", "inspect", "e30.e3.x"], 1, "payload is not");
    bad(&["token", "inspect", &"a".repeat(4_000)], 1, "longer than");
}

#[test]
fn verify_takes_both_kinds_and_names_the_refusal() {
    let (_folder, jwks, key) = signed();
    let ticket = key.sign_ticket(&TicketClaims { claims: claims(4_000_000_000) }).unwrap();
    let admission = key.sign_admission(&AdmissionClaims { claims: claims(4_000_000_000), place: 3 }).unwrap();
    let expired = key.sign_ticket(&TicketClaims { claims: claims(1_700_000_001) }).unwrap();
    let verify = |token: &str, more: &[&str]| {
        let base = ["token", "verify", token, "--jwks", &jwks, "--issuer", "shop", "--sale", "drop"];
        ropeline(&[&base, more].concat())
    };
    let refused = |token: &str, more: &[&str], code: &str| {
        let (_, done) = verify(token, more);
        let (exit, text) = done.unwrap_err();
        assert!(exit == 1 && text.contains(&format!("({code})")), "{text}");
    };
    assert!(verify(&ticket, &[]).0.starts_with("good: ticket for drop, epoch 2"));
    let (out, _) = verify(&admission, &["--epoch", "2"]);
    assert!(out.contains("admission token") && out.contains("place   3"), "{out}");
    refused(&expired, &[], "token_expired");
    refused(&ticket, &["--epoch", "3"], "epoch_outdated");
    refused("x", &[], "token_malformed");
    let forged =
        SigningKey::from_seed([6; 32]).sign_ticket(&TicketClaims { claims: claims(4_000_000_000) }).unwrap();
    refused(&forged, &[], "key_unknown");
    assert!(verify(&ticket, &["--leeway", "61"]).1.is_err());
    bad(
        &["token", "verify", &ticket, "--jwks", &jwks, "--issuer", "other", "--sale", "drop"],
        1,
        "(issuer_refused)",
    );
    bad(
        &["token", "verify", &ticket, "--jwks", "none", "--issuer", "shop", "--sale", "drop"],
        3,
        "cannot read none",
    );
}

#[test]
fn draw_verify_recomputes_places_and_finds_a_wrong_secret() {
    let (folder, jwks, key) = signed();
    let secret = [9; 32];
    let manifest = Manifest {
        sale: "drop".parse().unwrap(),
        closes_at: UnixMillis(1_700_000_060_000),
        randomness: Promise::Secret { commitment: draw::commitment(&secret) },
        lanes: Vec::new(),
    };
    let seed = draw::seed(manifest.canonical().as_bytes(), 100, &secret);
    let source = Some(Source::Secret(secret));
    let view = DrawView {
        manifest,
        state: DrawState::Drawn { size: 100, seed },
        lanes: Vec::new(),
        frozen_at: None,
        source,
    };
    let document = DrawDocument::new(&key, &view).unwrap();
    let file = folder.path().join("draw.json");
    fs::write(&file, serde_json::to_string(&document).unwrap()).unwrap();
    let ticket = key.sign_ticket(&TicketClaims { claims: claims(1_700_000_001) }).unwrap();
    let out = good(&["draw", "verify", text(&file), "--jwks", &jwks, "--ticket", &ticket]);
    let place = draw::Shuffle::new(seed, 100).place(ropeline_queue::Arrival(7));
    assert!(out.contains(&format!("arrival 7 has place {place}")), "{out}");
    bad(&["draw", "verify", text(&file)], 1, "name the shop's key set");
    bad(&["draw", "verify", text(&file), "--jwks", &jwks, "--ticket", "x"], 1, "not every ticket");

    // Many tickets in a file, and a document that was kept from before.
    let list = folder.path().join("tickets");
    fs::write(&list, format!("# two of them\n{ticket}\n\n{ticket}\n")).unwrap();
    let early = DrawDocument { secret: None, seed: None, ..document.clone() };
    let kept = folder.path().join("kept.json");
    fs::write(&kept, serde_json::to_string(&early).unwrap()).unwrap();
    let verify = ["draw", "verify", text(&file), "--jwks", &jwks, "--earlier", text(&kept)];
    let out = good(&[&verify[..], &["--tickets", text(&list)]].concat());
    assert!(out.contains("good    ticket 2: arrival 7") && out.contains("good    earlier copy: "), "{out}");
    let other = Manifest { closes_at: UnixMillis(1_700_000_060_001), ..view.manifest.clone() };
    let other = DrawView { manifest: other, state: DrawState::Collecting, source: None, ..view };
    let other = DrawDocument::new(&key, &other).unwrap();
    fs::write(&kept, serde_json::to_string(&other).unwrap()).unwrap();
    let out = bad(&verify, 1, "not as promised");
    assert!(out.contains("BAD     earlier copy: the manifest was replaced"), "{out}");

    let cheat = DrawDocument { secret: Some("00".repeat(32)), ..document };
    fs::write(&file, serde_json::to_string(&cheat).unwrap()).unwrap();
    let out = bad(&["draw", "verify", text(&file), "--jwks", &jwks], 1, "not as promised");
    assert!(out.contains("BAD     secret: "), "{out}");
    fs::write(&file, "{}").unwrap();
    bad(&["draw", "verify", text(&file), "--jwks", &jwks], 1, "no document of a draw");
}

#[test]
fn sales_are_run_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = runtime.block_on(start(false));
    let token = folder.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let keys = folder.path().join("keys");
    good(&["keygen", "ticket", "admission", "visitor-secret", "--dir", text(&keys)]);
    let config = |max_active: u32| {
        let file = folder.path().join("ropeline.toml");
        let text = format!(
            "[listen]\nshop = [\"127.0.0.1:0\"]\noperator = \"{}\"\n[upstream]\naddress = \"127.0.0.1:1\"\n\
             [keys]\nticket = [{{ path = \"keys/ticket.jwk\", state = \"sign\" }}]\n\
             admission = [{{ path = \"keys/admission.jwk\", state = \"sign\" }}]\n\
             [visitor]\ncookie_secrets = [\"keys/visitor.secret\"]\n[operator]\ntoken_file = \"token\"\n\
             [[sale]]\nid = \"drop\"\nmax_active = {max_active}\n[[sale]]\nid = \"other\"\nmax_active = 1\n",
            running.address
        );
        fs::write(&file, text).unwrap();
        file
    };
    let file = config(5);
    let sale = |arguments: &[&str]| good(&[&["sale", "-c", text(&file)], arguments].concat());

    assert_eq!(sale(&["create", "drop"]), "created drop (open)\n");
    bad(&["sale", "-c", text(&file), "create", "drop"], 1, "(sale_exists)");
    bad(&["sale", "-c", text(&file), "create", "none"], 1, "has no sale \"none\"");
    assert_eq!(sale(&["apply"]), "unchanged drop (open)\ncreated other (open)\n");
    config(6);
    assert_eq!(sale(&["apply", "drop"]), "changed drop (open)\n");
    assert_eq!(sale(&["list"]).lines().count(), 3);
    assert!(sale(&["show", "drop"]).contains("0 of 6 active"));
    assert!(
        sale(&["change", "drop", "--pace", "100/1s+50", "--max-active", "7"])
            .contains("100 per 1000 ms, at most 50")
    );
    assert!(sale(&["change", "drop", "--pace", "9/2s"]).contains("9 every 2000 ms"));
    let closes = sale(&["change", "drop", "--closes-at", "2040-01-01T00:00:00Z"]);
    assert!(closes.contains("closes at      2040-01-01T00:00:00Z"), "{closes}");
    assert!(!sale(&["change", "drop", "--closes-at", "none"]).contains("closes at"));
    assert!(sale(&["pause", "drop", "--reason", "Back soon", "--in", "de=Gleich"]).contains("\"Back soon\""));
    assert!(sale(&["resume", "drop"]).contains("phase          open"));
    assert!(sale(&["admit", "drop", "3", "--lease", "5m"]).contains("0 called"));
    assert!(sale(&["revoke", "drop"]).contains("epoch 1"));
    assert!(sale(&["sold-out", "drop"]).contains("sold_out"));
    assert!(sale(&["restock", "drop"]).contains("phase          open"));
    let shown: serde_json::Value = serde_json::from_str(&sale(&["--json", "show", "drop"])).unwrap();
    assert_eq!(shown["definition"]["max_active"], 7);
    assert!(sale(&["close", "drop"]).contains("closed"));
    bad(&["sale", "-c", text(&file), "open", "drop"], 1, "(sale_closed)");

    let mut drawn = RawDefinition::new("drawn".parse().unwrap(), 5);
    drawn.joins_open_at = Some(UnixMillis(2_000_000_000_000));
    runtime.block_on(running.store.create(drawn.check().unwrap(), [7; 32])).unwrap();
    let soon = ["change", "drawn", "--joins-open-at", "2039-01-01T00:00:00Z", "--draw-closes-at"];
    assert!(!sale(&[&soon[..], &["2040-01-01T00:00:00Z"]].concat()).contains("draw by"));
    let drawn = sale(&["change", "drawn", "--draw-beacon", "drand-quicknet"]);
    assert!(drawn.contains("of drand-quicknet, which comes at 2040-01-01T00:00:30Z\n"), "{drawn}");
    assert!(drawn.contains("draw trust     beacon"), "{drawn}");
    let drawn = sale(&["change", "drawn", "--draw-round", "172061900", "--draw-fallback", "true"]);
    assert!(drawn.contains("round 172061900 of drand-quicknet") && drawn.contains("by a secret"), "{drawn}");
    let by_secret = ["draw", "drawn", "--use-secret", "--reason", "No relay has it."];
    bad(&[&["sale", "-c", text(&file)], &by_secret[..]].concat(), 1, "(not_drawing)");
    let dull = ["sale", "-c", text(&file), "draw", "drawn", "--use-secret", "--reason", " "];
    bad(&dull, 1, "A reason has 1 to 200 characters");
    assert!(sale(&["change", "drawn", "--draw-beacon", "none"]).contains("draw trust     operator"));
    assert!(!sale(&["change", "drawn", "--draw-closes-at", "none"]).contains("draw trust"));

    let operator = format!("http://{}", running.address);
    let by_hand = ["sale", "--operator", &operator, "--token-file", text(&token), "open", "other"];
    assert!(good(&by_hand).contains("phase          open"));
    let wrong = folder.path().join("wrong");
    fs::write(&wrong, TOKEN.replace('9', "8")).unwrap();
    bad(
        &["sale", "--operator", &operator, "--token-file", text(&wrong), "list"],
        1,
        "(operator_token_wrong)",
    );
    let free = ropeline_test_ports::Port::free();
    let nobody = format!("http://{}", free.address());
    bad(
        &["sale", "--operator", &nobody, "--token-file", text(&token), "list"],
        3,
        "cannot reach the operator listener",
    );
}

#[test]
fn a_wrong_argument_is_told_before_anything_is_sent() {
    for arguments in [
        &["sale", "change", "drop"][..],
        &["sale", "change", "drop", "--pace", "5"],
        &["sale", "change", "drop", "--opens-at", "tomorrow"],
        &["sale", "admit", "drop", "0"],
        &["sale", "pause", "drop"],
        &["sale", "pause", "drop", "--reason", "x", "--in", "de"],
        &["sale", "open", "NOT A SALE"],
        &["sale", "draw", "drop", "--reason", "x"],
        &["sale", "draw", "drop", "--use-secret"],
        &["sale", "change", "drop", "--draw-beacon", "random.org"],
        &["token", "verify", "x"],
    ] {
        assert!(Cli::try_parse_from([&["ropeline"], arguments].concat()).is_err(), "{arguments:?}");
    }
}

/// A command line to a gateway that runs, from a thread that may wait for it.
async fn asked(arguments: Vec<String>) -> (String, Result<(), (u8, String)>) {
    tokio::task::spawn_blocking(move || ropeline(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_for_an_edge_are_written_in_its_form_and_checked() {
    let running = start(false).await;
    let folder = tempfile::tempdir().unwrap();
    let (token, file) = (folder.path().join("operator.token"), folder.path().join("settings"));
    fs::write(&token, TOKEN).unwrap();
    let export = |more: &[&str]| {
        let operator = format!("http://{}", running.address);
        let all = ["edge", "export", "--operator", &operator, "--token-file", text(&token)];
        all.iter().chain(more).map(|argument| (*argument).to_owned()).collect::<Vec<_>>()
    };
    for cdn in ["cloudflare", "fastly", "wasmtime-serve"] {
        let (printed, done) = asked(export(&["--for", cdn, "--out", text(&file)])).await;
        assert_eq!((printed.as_str(), done), ("", Ok(())), "{cdn}");
        let (shown, done) = ropeline(&["edge", "check", text(&file)]);
        assert_eq!(done, Ok(()), "{cdn}: {shown}");
        assert!(shown.contains("none: nothing is protected") && shown.contains("for ever"), "{shown}");
    }
    // The tests' gateway believes it is 2027.
    let (printed, done) =
        asked(export(&["--for", "envoy", "--expires-in", "1h", "--past-expiry", "open"])).await;
    assert_eq!(done, Ok(()));
    fs::write(&file, printed.replace("1800003600", "1700000000")).unwrap();
    bad(&["edge", "check", text(&file)], 1, "until 2023-11-14T22:13:20Z; since then everybody passes");
    fs::write(&file, printed.replace("\"past_expiry\"", "\"past_expire\"")).unwrap();
    bad(&["edge", "check", text(&file)], 1, "(settings_member_unknown): past_expire: no such member");

    let template = folder.path().join("template");
    for (cdn, around) in [("envoy", r#"{"value": "SETTINGS"}"#), ("traefik", "settings: |\n  SETTINGS\n")] {
        fs::write(&template, around).unwrap();
        let (filled, done) = asked(export(&["--for", cdn, "--template", text(&template)])).await;
        assert_eq!(done, Ok(()), "{cdn}");
        let document = match cdn {
            "envoy" => serde_json::from_str::<serde_json::Value>(&filled).unwrap()["value"]
                .as_str()
                .unwrap()
                .to_owned(),
            _ => filled.lines().nth(1).unwrap().trim().to_owned(),
        };
        assert!(ropeline_edge::Settings::from_json(document.as_bytes()).is_ok(), "{cdn}: {filled}");
    }
    fs::write(&template, "none").unwrap();
    let (_, done) = asked(export(&["--for", "envoy", "--template", text(&template)])).await;
    assert!(done.clone().is_err_and(|(_, text)| text.contains("exactly once")), "{done:?}");

    fs::write(&file, "settings: |\n  {\"version\":1}\n").unwrap();
    bad(&["edge", "check", text(&file)], 1, "without --template");
    // It would go on for ever with what is refused each time.
    let (_, done) =
        asked(export(&["--for", "envoy", "--expires-in", "59s", "--out", text(&file), "--every", "1s"]))
            .await;
    assert!(done.clone().is_err_and(|(code, text)| code == 1 && text.contains("60s at least")), "{done:?}");
    let (_, done) = asked(export(&["--for", "envoy", "--expires-in", "1"])).await;
    assert!(done.clone().is_err_and(|(code, text)| code == 1 && text.contains("not a duration")), "{done:?}");
    let unknown =
        Cli::try_parse_from(["ropeline", "edge", "export", "--for", "nginx"]).unwrap_err().to_string();
    assert!(unknown.contains("cloudflare") && unknown.contains("wasmtime-serve"), "{unknown}");
}
