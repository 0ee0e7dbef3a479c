//! Tokens: sound ones, and every way in which one can be wrong.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::draft::Draft;
use super::settings::{DROP, LENIENT, PRECISE, SHOP, Sale, Setting};
use super::{AROUND, Generator, ISSUER};
use crate::conformance::tokens::{Claims, Key, encode, joined, split, with_high_s};

/// A longer token is refused unread.
const LONGEST: usize = 2_048;

/// A token that is refused.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// What is wrong with it.
    pub(super) name: String,
    pub(super) token: Vec<u8>,
    /// The code of its refusal.
    pub(super) code: &'static str,
    /// What JOSE says.
    pub(super) jose: Verdict,
}

/// What another implementation of JOSE says of a token that Ropeline refuses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Refuses,
    /// It takes it; why Ropeline does not.
    Accepts(&'static str),
}

use Verdict::{Accepts, Refuses};

const ONE_SPELLING: &str = "base64url has one spelling (RFC 4648, section 3.5)";
const HEADER_OF_THREE: &str = "the header has alg, kid and typ, and nothing else";
const REPEATED: &str = "members are not repeated";
const OWN_CLAIMS: &str = "every claim of a token must be there, and be sound";
const PLAIN_TEXTS: &str = "texts must fit into a header field";
const LENGTH: &str = "longer than a token may be";

// === impl Fault ===

impl Fault {
    /// The same request with this token.
    pub(super) fn on(&self, draft: Draft, sale: &Sale) -> Draft {
        match self.jose {
            Refuses => draft.jose(sale, false),
            Accepts(reason) => draft.stricter(sale, reason),
        }
    }
}

pub(super) fn add(generator: &mut Generator) {
    for fault in faults(generator, &DROP) {
        let draft =
            generator.get(&SHOP, format!("token: {}", fault.name), "/sale/7").token(fault.token.clone());
        generator.add(fault.on(draft, &DROP).waits(&DROP, fault.code));
    }
    sound(generator);
    borders(generator);
}

/// Tokens that are as unusual as they may be.
fn sound(generator: &mut Generator) {
    let claims = generator.claims(&DROP);
    let [spring, autumn] = &generator.keys;
    let payload = claims.to_json();
    let header = spring.header();
    let mut tokens = vec![
        ("as the gateway writes it".to_owned(), spring.token(&claims)),
        ("of the other key".to_owned(), autumn.token(&claims)),
        ("of a later epoch".to_owned(), spring.token(&Claims { epoch: DROP.epoch + 1, ..claims.clone() })),
        ("of the last epoch".to_owned(), spring.token(&Claims { epoch: u32::MAX.into(), ..claims.clone() })),
        ("issued long ago".to_owned(), spring.token(&Claims { iat: 0, nbf: 0, ..claims.clone() })),
        ("for as long as can be".to_owned(), spring.token(&Claims { exp: u64::MAX, ..claims.clone() })),
        ("alg Ed25519 (RFC 9864)".to_owned(), spring.sign(header.replace("EdDSA", "Ed25519"), &payload)),
        (
            "with space in its header".to_owned(),
            spring.sign(format!(" {{\t{}\r\n}} ", header.trim_matches(['{', '}'])), &payload),
        ),
        (
            "with escapes in its header".to_owned(),
            spring.sign(header.replace("alg", "\\u0061lg").replace("EdDSA", "Ed\\u0044SA"), &payload),
        ),
        ("with claims in another order".to_owned(), spring.sign(&header, backwards(&payload))),
        (
            "with claims that nobody knows".to_owned(),
            spring.sign(&header, more(&payload, r#","x":[{"a":null},1.5e3,-0,true]"#)),
        ),
    ];
    tokens.push(("of the greatest length".to_owned(), padded(spring, &payload, LONGEST)));
    for (name, token) in tokens {
        let draft = generator.get(&SHOP, format!("token: {name}"), "/sale/7").token(token.clone());
        generator.add(draft.jose(&DROP, true).admitted(&DROP, "/sale/7", &token));
    }
    for sub in ["a", "visit\u{f8}r \u{2603}", &"x".repeat(255), "a\"b\\c", "<script>, ; ="] {
        let token = generator.keys[0].token(&Claims { sub: sub.to_owned(), ..claims.clone() });
        let name = format!("token: of {} ({} bytes)", sub.get(..12).unwrap_or(sub), sub.len());
        let draft = generator.get(&SHOP, name, "/sale/7").token(token.clone());
        generator.add(draft.jose(&DROP, true).admitted_as(sub, &DROP, "/sale/7", &token));
    }
}

/// Every second about the beginning and the end of a token, with as much leeway as there may be, with the usual one
/// and with none.
fn borders(generator: &mut Generator) {
    let now = generator.now;
    let settings: [(&'static Setting, u64); 3] = [(&PRECISE, 0), (&SHOP, 5), (&LENIENT, 60)];
    for (setting, leeway) in settings {
        let start = generator.claims(&DROP);
        for (border, claims) in [
            ("nbf", Claims { iat: 0, nbf: now, exp: now + AROUND, ..start.clone() }),
            ("iat", Claims { iat: now, nbf: 0, exp: now + AROUND, ..start.clone() }),
            ("exp", Claims { iat: 0, nbf: 0, exp: now, ..start.clone() }),
        ] {
            let token = generator.keys[0].token(&claims);
            let at = if border == "exp" { now + leeway } else { now - leeway };
            for time in [at - 1, at, at + 1] {
                let offset = i128::from(time) - i128::from(now);
                let name = format!("token: {offset:+} s from its {border}, leeway {leeway} s");
                let draft = generator.get(setting, name, "/sale").at(time).token(token.clone());
                let holds = if border == "exp" { time < at } else { time >= at };
                generator.add(match (holds, border) {
                    (true, _) => draft.jose(&DROP, true).admitted(&DROP, "/sale", &token),
                    (false, "exp") => draft.jose(&DROP, false).waits(&DROP, "token_expired"),
                    (false, "iat") => {
                        draft.stricter(&DROP, "iat lies ahead").waits(&DROP, "token_not_yet_valid")
                    }
                    (false, _) => draft.jose(&DROP, false).waits(&DROP, "token_not_yet_valid"),
                });
            }
        }
    }
}

/// Every kind of refused token for `sale`.
pub(super) fn faults(generator: &mut Generator, sale: &Sale) -> Vec<Fault> {
    let claims = generator.claims(sale);
    let mut faults = Vec::new();
    let mut fault = |name: &str, code, jose, token: String| {
        faults.push(Fault { name: name.to_owned(), token: token.into_bytes(), code, jose });
    };
    let [spring, autumn] = &generator.keys;
    let (header, payload) = (spring.header(), claims.to_json());
    let token = spring.token(&claims);
    let (signed, signature) = split(&token);
    let (header_text, payload_text) = signed.split_once('.').expect("two segments");

    form(&mut fault, spring, &token);

    // The header.
    let of_header = |from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        spring.sign(header.replacen(from, to, 1), &payload)
    };
    let unsigned = format!(
        "{}.{payload_text}.",
        encode(br#"{"alg":"none","kid":"spring","typ":"ropeline-admission+jwt"}"#)
    );
    fault("alg none, without signature", "algorithm_refused", Refuses, unsigned);
    for algorithm in ["none", "eddsa", "EDDSA", "Ed448", "ES256", "RS256", "HS512", ""] {
        let token = of_header("EdDSA", algorithm);
        fault(&format!("alg {algorithm:?}, well signed"), "algorithm_refused", Refuses, token);
    }
    let text = format!("{}.{payload_text}", encode(header.replace("EdDSA", "HS256").as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(spring.x().as_bytes()).expect("any length");
    mac.update(text.as_bytes());
    let forged = format!("{text}.{}", encode(&mac.finalize().into_bytes()));
    fault("alg HS256 with the public key for a secret", "algorithm_refused", Refuses, forged);
    fault("alg is no text", "header_invalid", Refuses, of_header("\"EdDSA\"", "7"));
    fault("without alg", "header_invalid", Refuses, of_header("\"alg\":\"EdDSA\",", ""));
    fault("without kid", "header_invalid", Refuses, of_header("\"kid\":\"spring\",", ""));
    fault("without typ", "header_invalid", Refuses, of_header(",\"typ\":\"ropeline-admission+jwt\"", ""));
    for typ in ["ropeline-ticket+jwt", "ropeline-draw+jws", "JWT", "", "ropeline-admission+jwt "] {
        fault(&format!("typ {typ:?}"), "type_refused", Refuses, of_header("ropeline-admission+jwt", typ));
    }
    for typ in ["Ropeline-Admission+JWT", "application/ropeline-admission+jwt"] {
        let accepts = Accepts("typ is compared byte by byte, and never shortened");
        fault(&format!("typ {typ:?}"), "type_refused", accepts, of_header("ropeline-admission+jwt", typ));
    }
    for kid in ["winter", "Spring", "spring ", ""] {
        fault(&format!("kid {kid:?}"), "key_unknown", Refuses, of_header("\"spring\"", &format!("{kid:?}")));
    }
    for (name, member, jose) in [
        ("crit exp", r#","crit":["exp"],"exp":1"#, Refuses),
        ("crit empty", r#","crit":[]"#, Refuses),
        ("crit of an extension", r#","crit":["x"],"x":1"#, Refuses),
        ("crit b64, which is true", r#","crit":["b64"],"b64":true"#, Accepts(HEADER_OF_THREE)),
        ("crit b64, which is false", r#","crit":["b64"],"b64":false"#, Refuses),
        ("b64 false and no crit", r#","b64":false"#, Accepts(HEADER_OF_THREE)),
        ("cty", r#","cty":"JWT""#, Accepts(HEADER_OF_THREE)),
        ("jku", r#","jku":"https://evil.example/jwks.json""#, Accepts(HEADER_OF_THREE)),
        ("x5u", r#","x5u":"https://evil.example/cert""#, Accepts(HEADER_OF_THREE)),
        ("zip", r#","zip":"DEF""#, Accepts(HEADER_OF_THREE)),
        ("two algs", r#","alg":"EdDSA""#, Accepts(REPEATED)),
        ("two kids", r#","kid":"spring""#, Accepts(REPEATED)),
        ("two typs, the first of a ticket", r#","typ":"ropeline-ticket+jwt""#, Refuses),
        ("two algs, one spelled with an escape", r#","\u0061lg":"EdDSA""#, Accepts(REPEATED)),
    ] {
        let header = format!("{}{member}}}", header.trim_end_matches('}'));
        fault(&format!("header with {name}"), "header_invalid", jose, spring.sign(header, &payload));
    }
    let own = autumn.jwk();
    let jwk = format!(r#"{},"jwk":{own}}}"#, header.trim_end_matches('}'));
    fault("header with a key of its own", "header_invalid", Refuses, autumn.sign(jwk, &payload));
    for (name, text) in [
        ("is an array", r#"["EdDSA","spring","ropeline-admission+jwt"]"#),
        ("is null", "null"),
        ("is empty", ""),
        ("is cut off", r#"{"alg":"EdDSA","kid":"spring","typ":"#),
        ("is followed by more", r#"{"alg":"EdDSA","kid":"spring","typ":"ropeline-admission+jwt"}{}"#),
        ("has a comma too many", r#"{"alg":"EdDSA","kid":"spring","typ":"ropeline-admission+jwt",}"#),
        ("has single quotes", "{'alg':'EdDSA','kid':'spring','typ':'ropeline-admission+jwt'}"),
    ] {
        fault(&format!("header {name}"), "header_invalid", Refuses, spring.sign(text, &payload));
    }
    let marked = [b"\xEF\xBB\xBF", header.as_bytes()].concat();
    fault(
        "header behind a byte order mark",
        "header_invalid",
        Accepts("a byte order mark is not JSON (RFC 8259, section 8.1)"),
        spring.sign(marked, &payload),
    );

    // The signature.
    let resigned = |signature: [u8; 64]| format!("{signed}.{}", encode(&signature));
    let sound = spring.signature(signed);
    let (r, s): ([u8; 32], [u8; 32]) =
        (sound[..32].try_into().expect("32"), sound[32..].try_into().expect("32"));
    let invalid = "signature_invalid";
    fault("signed by another key under this key's name", invalid, Refuses, autumn.sign(&header, &payload));
    fault("signed by a stranger", invalid, Refuses, Key::new("spring", 9).token(&claims));
    fault("S raised by the order of the base point", invalid, Refuses, resigned(with_high_s(&sound)));
    fault("R of small order", invalid, Refuses, resigned(spring.sign_with_small_order(signed)));
    fault("R and S exchanged", invalid, Refuses, resigned(joined(&s, &r)));
    fault("a signature of zeros", invalid, Refuses, resigned([0; 64]));
    fault("a signature of ones", invalid, Refuses, resigned([0xFF; 64]));
    fault("S of zero", invalid, Refuses, resigned(joined(&r, &[0; 32])));
    let mut neutral = [0; 64];
    neutral[0] = 1;
    fault("R the neutral point and S zero", invalid, Refuses, resigned(neutral));
    for _ in 0..16 {
        let bit = generator.random.usize(..512);
        let mut flipped = sound;
        flipped[bit / 8] ^= 1 << (bit % 8);
        fault(&format!("bit {bit} of the signature flipped"), invalid, Refuses, resigned(flipped));
    }
    for (name, other) in [
        ("for longer", Claims { exp: claims.exp + 1, ..claims.clone() }),
        ("for another visitor", Claims { sub: "visitor-2".to_owned(), ..claims.clone() }),
        ("for a later epoch", Claims { epoch: claims.epoch / 2 + 1, ..claims.clone() }),
        ("for another sale", Claims { aud: "any".to_owned(), ..claims.clone() }),
    ] {
        let forged = format!("{header_text}.{}.{signature}", encode(other.to_json().as_bytes()));
        fault(&format!("rewritten {name}"), invalid, Refuses, forged);
    }
    let spaced = encode(header.replace(',', ", ").as_bytes());
    fault(
        "a header written otherwise than it was signed",
        invalid,
        Refuses,
        format!("{spaced}.{payload_text}.{signature}"),
    );
    fault(
        "a payload that is not base64url and was not signed",
        invalid,
        Refuses,
        format!("{header_text}.{payload_text}*.{signature}"),
    );
    fault("without payload", invalid, Refuses, format!("{header_text}..{signature}"));

    of_claims(&mut fault, spring, &claims);

    // What holds at another time or place.
    for (name, code, jose, other) in [
        (
            "of another issuer",
            "issuer_refused",
            Refuses,
            Claims { iss: "https://shop.example.evil.example".to_owned(), ..claims.clone() },
        ),
        (
            "of the issuer with a slash",
            "issuer_refused",
            Refuses,
            Claims { iss: format!("{ISSUER}/"), ..claims.clone() },
        ),
        (
            "of the issuer in capitals",
            "issuer_refused",
            Refuses,
            Claims { iss: ISSUER.to_uppercase(), ..claims.clone() },
        ),
        (
            "for another sale",
            "audience_refused",
            Refuses,
            Claims { aud: "another".to_owned(), ..claims.clone() },
        ),
        (
            "for the sale in capitals",
            "audience_refused",
            Refuses,
            Claims { aud: format!("{}X", sale.name.to_uppercase()), ..claims.clone() },
        ),
        (
            "that expired",
            "token_expired",
            Refuses,
            Claims { nbf: 1, exp: generator.now - AROUND, ..claims.clone() },
        ),
        (
            "that expired when time began",
            "token_expired",
            Refuses,
            Claims { iat: 0, nbf: 0, exp: 1, ..claims.clone() },
        ),
        (
            "that is not valid yet",
            "token_not_yet_valid",
            Refuses,
            Claims { nbf: generator.now + AROUND, exp: generator.now + 2 * AROUND, ..claims.clone() },
        ),
        (
            "that will be issued",
            "token_not_yet_valid",
            Accepts("iat lies ahead"),
            Claims { iat: generator.now + AROUND, exp: generator.now + 2 * AROUND, ..claims.clone() },
        ),
        (
            "that will be issued at the end of time",
            "token_not_yet_valid",
            Accepts("iat lies ahead"),
            Claims { iat: u64::MAX, ..claims.clone() },
        ),
    ] {
        fault(name, code, jose, spring.token(&other));
    }
    if let Some(epoch) = sale.epoch.checked_sub(1) {
        let revoked = spring.token(&Claims { epoch, ..claims });
        fault("that was revoked", "epoch_outdated", Accepts("epochs are Ropeline's own"), revoked);
    }
    faults.push(Fault {
        name: "bytes that are no text".to_owned(),
        token: [b"\xFF\xFE", token.as_bytes()].concat(),
        code: "token_malformed",
        jose: Refuses,
    });
    faults
}

/// Segments, their encoding and their length.
fn form(fault: &mut impl FnMut(&str, &'static str, Verdict, String), key: &Key, token: &str) {
    let (signed, signature) = split(token);
    let (header, payload) = signed.split_once('.').expect("two segments");
    let malformed = "token_malformed";
    for (name, text) in [
        ("a word", "token".to_owned()),
        ("a dot", ".".to_owned()),
        ("one segment", header.to_owned()),
        ("two segments", signed.to_owned()),
        ("four segments", format!("{token}.{signature}")),
        ("five segments", format!("{header}.{payload}..{payload}.{signature}")),
        ("without signature", format!("{signed}.")),
        ("behind the word Bearer", format!("Bearer {token}")),
        ("in quotation marks", format!("\"{token}\"")),
        ("with a space in its header", format!("{} {}.{payload}.{signature}", &header[..9], &header[9..])),
        ("with a signature of 63 bytes", format!("{signed}.{}", encode(&key.signature(signed)[..63]))),
        (
            "with a signature of 65 bytes",
            format!("{signed}.{}", encode(&[&key.signature(signed)[..], &[0]].concat())),
        ),
        ("with a signature of one character too many", format!("{token}A")),
        ("with a percent sign", format!("{header}%2E{payload}.{signature}")),
        ("JSON", format!(r#"{{"payload":"{payload}","signature":"{signature}"}}"#)),
    ] {
        fault(name, malformed, Refuses, text);
    }
    // Nothing is what no bytes are encoded to.
    fault("two dots", "header_invalid", Refuses, "..".to_owned());
    fault("without header", "header_invalid", Refuses, format!(".{payload}.{signature}"));
    fault("with its signature padded", malformed, Accepts(ONE_SPELLING), format!("{token}=="));
    fault(
        "with its header padded",
        malformed,
        Accepts(ONE_SPELLING),
        key.sign_text(&format!("{}.{payload}", in_four(&unpadded(&key.header())))),
    );
    let json = String::from_utf8(decode(payload)).expect("JSON");
    fault(
        "with its payload padded",
        malformed,
        Accepts(ONE_SPELLING),
        key.sign_text(&format!("{header}.{}", in_four(&unpadded(&json)))),
    );
    fault("with bits left over behind its signature", malformed, Accepts(ONE_SPELLING), left_over(token));
    let odd = left_over(&unpadded(&key.header()));
    fault(
        "with bits left over behind its header",
        malformed,
        Accepts(ONE_SPELLING),
        key.sign_text(&format!("{odd}.{payload}")),
    );
    let odd = left_over(&unpadded(&json));
    fault(
        "with bits left over behind its payload",
        malformed,
        Accepts(ONE_SPELLING),
        key.sign_text(&format!("{header}.{odd}")),
    );

    fault("one byte too long", "token_too_long", Accepts(LENGTH), beyond(key, &json, LONGEST + 1));
    fault("twice too long", "token_too_long", Accepts(LENGTH), beyond(key, &json, 2 * LONGEST));
    fault("too long, and nothing else", "token_too_long", Refuses, "A".repeat(LONGEST + 1));
}

/// Claims that are missing, of the wrong type or senseless, all well signed.
fn of_claims(fault: &mut impl FnMut(&str, &'static str, Verdict, String), key: &Key, claims: &Claims) {
    let (header, payload) = (key.header(), claims.to_json());
    let invalid = "claims_invalid";
    let changed = |from: &str, to: &str| {
        assert!(payload.contains(from), "{from} in {payload}");
        key.sign(&header, payload.replacen(from, to, 1))
    };
    let Claims { iss, aud, sub, iat, nbf, exp, epoch } = claims;
    let whole = [
        ("iss", format!("\"iss\":\"{iss}\","), Refuses),
        ("aud", format!("\"aud\":\"{aud}\","), Refuses),
        ("sub", format!("\"sub\":\"{sub}\","), Accepts(OWN_CLAIMS)),
        ("jti", format!("\"jti\":\"{aud}-{epoch}-12\","), Accepts(OWN_CLAIMS)),
        ("iat", format!("\"iat\":{iat},"), Accepts(OWN_CLAIMS)),
        ("nbf", format!("\"nbf\":{nbf},"), Accepts(OWN_CLAIMS)),
        ("exp", format!("\"exp\":{exp},"), Accepts(OWN_CLAIMS)),
        ("epoch", format!("\"epoch\":{epoch},"), Accepts(OWN_CLAIMS)),
        ("arrival", "\"arrival\":12,".to_owned(), Accepts(OWN_CLAIMS)),
        ("place", ",\"place\":5".to_owned(), Accepts(OWN_CLAIMS)),
    ];
    for (name, member, jose) in whole {
        fault(&format!("without {name}"), invalid, jose, changed(&member, ""));
        let twice = if name == "place" { member.repeat(2) } else { format!("{member}{member}") };
        fault(&format!("with two {name}"), invalid, Accepts(REPEATED), changed(&member, &twice));
    }
    for (name, from, to, jose) in [
        ("exp as text", format!(":{exp},"), format!(":\"{exp}\","), Refuses),
        ("nbf as text", format!("\"nbf\":{nbf},"), format!("\"nbf\":\"{nbf}\","), Refuses),
        ("exp with a fraction", format!(":{exp},"), format!(":{exp}.0,"), Accepts("times are whole seconds")),
        ("exp with an exponent", format!(":{exp},"), ":9e18,".to_owned(), Accepts("times are whole seconds")),
        ("exp below zero", format!(":{exp},"), ":-1,".to_owned(), Refuses),
        (
            "exp beyond 64 bits",
            format!(":{exp},"),
            ":18446744073709551616,".to_owned(),
            Accepts("times fit into 64 bits"),
        ),
        ("exp null", format!(":{exp},"), ":null,".to_owned(), Refuses),
        ("exp before nbf", format!("\"nbf\":{nbf},"), format!("\"nbf\":{},", exp + 1), Refuses),
        ("epoch below zero", format!("\"epoch\":{epoch}"), "\"epoch\":-1".to_owned(), Accepts(OWN_CLAIMS)),
        (
            "epoch beyond 32 bits",
            format!("\"epoch\":{epoch}"),
            "\"epoch\":4294967296".to_owned(),
            Accepts(OWN_CLAIMS),
        ),
        ("arrival true", "\"arrival\":12".to_owned(), "\"arrival\":true".to_owned(), Accepts(OWN_CLAIMS)),
        ("place as text", "\"place\":5".to_owned(), "\"place\":\"5\"".to_owned(), Accepts(OWN_CLAIMS)),
        ("place with a leading zero", "\"place\":5".to_owned(), "\"place\":05".to_owned(), Refuses),
        (
            "an array of audiences",
            format!("\"aud\":\"{aud}\""),
            format!("\"aud\":[\"{aud}\"]"),
            Accepts("a token is for one sale"),
        ),
        ("iss in an array", format!("\"iss\":\"{iss}\""), format!("\"iss\":[\"{iss}\"]"), Refuses),
        ("sub empty", format!("\"sub\":\"{sub}\""), "\"sub\":\"\"".to_owned(), Accepts(PLAIN_TEXTS)),
        (
            "sub with a line feed",
            format!("\"sub\":\"{sub}\""),
            "\"sub\":\"a\\nRopeline-Sale: b\"".to_owned(),
            Accepts(PLAIN_TEXTS),
        ),
        (
            "sub with a NUL",
            format!("\"sub\":\"{sub}\""),
            "\"sub\":\"a\\u0000b\"".to_owned(),
            Accepts(PLAIN_TEXTS),
        ),
        (
            "sub with a space in front",
            format!("\"sub\":\"{sub}\""),
            "\"sub\":\" a\"".to_owned(),
            Accepts(PLAIN_TEXTS),
        ),
        (
            "sub with half a character",
            format!("\"sub\":\"{sub}\""),
            "\"sub\":\"\\ud800\"".to_owned(),
            Accepts("half of a surrogate pair is no text"),
        ),
        (
            "sub of 256 bytes",
            format!("\"sub\":\"{sub}\""),
            format!("\"sub\":\"{}\"", "x".repeat(256)),
            Accepts(PLAIN_TEXTS),
        ),
        ("sub null", format!("\"sub\":\"{sub}\""), "\"sub\":null".to_owned(), Accepts(OWN_CLAIMS)),
        ("a bare control character", format!("\"sub\":\"{sub}\""), "\"sub\":\"a\tb\"".to_owned(), Refuses),
        ("a comment", format!("\"sub\":\"{sub}\","), format!("\"sub\":\"{sub}\",/**/"), Refuses),
        (
            "deep nesting",
            ",\"place\":5".to_owned(),
            format!(",\"place\":5,\"x\":{}{}", "[".repeat(40), "]".repeat(40)),
            Accepts("nesting is bounded"),
        ),
    ] {
        fault(&format!("with {name}"), invalid, jose, changed(&from, &to));
    }
    let many: String = (0..64).map(|number| format!(",\"{number}\":0")).collect();
    fault(
        "with too many claims",
        invalid,
        Accepts("members are bounded"),
        key.sign(&header, more(&payload, &many)),
    );
    for (name, text) in [
        ("an array", "[]"),
        ("null", "null"),
        ("a text", "\"claims\""),
        ("no JSON", "claims"),
        ("one brace", "{"),
    ] {
        fault(&format!("whose claims are {name}"), invalid, Refuses, key.sign(&header, text));
    }
    fault("without claims", invalid, Refuses, key.sign(&header, ""));
    fault(
        "whose claims have more behind them",
        invalid,
        Refuses,
        key.sign(&header, format!("{payload}{payload}")),
    );
}

// === Texts ===

/// The object with these members at its end.
fn more(object: &str, members: &str) -> String {
    format!("{}{members}}}", object.trim_end_matches('}'))
}

/// The object with its members in the opposite order; none of them holds a comma.
fn backwards(object: &str) -> String {
    let members: Vec<_> = object.trim_matches(['{', '}']).split(',').rev().collect();
    format!("{{{}}}", members.join(","))
}

/// A token of at most `length` bytes, and of as many as base64 allows.
fn padded(key: &Key, payload: &str, length: usize) -> String {
    let sized =
        |size: usize| key.sign(key.header(), more(payload, &format!(",\"pad\":\"{}\"", "p".repeat(size))));
    let size = (0..).take_while(|size| sized(*size).len() <= length).last().expect("a size that fits");
    sized(size)
}

/// A token of at least `length` bytes, and of as few as base64 allows.
fn beyond(key: &Key, payload: &str, length: usize) -> String {
    let sized =
        |size: usize| key.sign(key.header(), more(payload, &format!(",\"pad\":\"{}\"", "p".repeat(size))));
    let short = sized(0).len();
    let from = (length.saturating_sub(short) * 3 / 4).saturating_sub(4);
    (from..).map(sized).find(|token| token.len() >= length).expect("some size is enough")
}

/// base64url with what its padding would be.
fn in_four(segment: &str) -> String {
    let missing = (4 - segment.len() % 4) % 4;
    format!("{segment}{}", "=".repeat(missing))
}

/// JSON, with space at its end so that its base64url leaves bits over.
fn unpadded(json: &str) -> String {
    let spaces = (0..).find(|spaces| !(json.len() + spaces).is_multiple_of(3)).expect("one of two");
    encode(format!("{json}{}", " ".repeat(spaces)).as_bytes())
}

/// Another spelling of base64url for the same bytes, by the bits that are left over at its end.
fn left_over(text: &str) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = text.split_at(text.len() - 1);
    let at = alphabet.iter().position(|letter| last.as_bytes() == [*letter]).expect("base64url");
    format!("{rest}{}", char::from(alphabet[at + 1]))
}

fn decode(segment: &str) -> Vec<u8> {
    use base64ct::{Base64UrlUnpadded, Encoding};

    Base64UrlUnpadded::decode_vec(segment).expect("base64url")
}
