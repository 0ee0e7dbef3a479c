//! `[visitor]`: who queues.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;

use super::files;
use super::insecure::Insecure;
use super::read::Section;
use super::report::Fault;
use super::secret::CookieSecret;

/// Who queues: the shop's own account where it has one, else a signed first-party cookie.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The first signs, all verify: a secret is changed by putting a new one in front. At least one.
    pub cookie_secrets: Vec<CookieSecret>,
    /// The shop's accounts.
    pub account: Option<Account>,
}

/// The shop's own signed-in visitors: a JWT that the shop issues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Where the token stands in a request.
    pub source: AccountSource,
    /// Where the shop's public keys are.
    pub jwks: KeySource,
    /// How often the keys are read again.
    pub refresh_every: Duration,
    /// The `iss` asked for.
    pub issuer: String,
    /// The `aud` asked for.
    pub audience: String,
    /// The claim that names the visitor.
    pub claim: String,
    /// Accepted signature algorithms; at least one, never a symmetric one.
    pub algorithms: Vec<AccountAlgorithm>,
}

/// Where an account's token stands in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountSource {
    /// In this cookie.
    Cookie(String),
    /// In this header, with or without `Bearer `.
    Header(HeaderName),
}

/// Where a key set is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// An `http` or `https` address.
    Url(String),
}

/// A signature algorithm of the shop's tokens (RFC 7518 section 3.1, RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountAlgorithm {
    /// Ed25519.
    EdDsa,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

impl AccountAlgorithm {
    const ALL: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    /// The name in a token's `alg`.
    pub fn name(self) -> &'static str {
        match self {
            Self::EdDsa => "EdDSA",
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
        }
    }
}

const SECRETS_MEND: &str = "name the file, for example cookie_secrets = [\"keys/visitor.secret\"] (`ropeline keygen visitor-secret` makes one)";

pub(super) fn read(section: Section<'_>, insecure: Insecure) -> Option<Visitor> {
    let cookie_secrets = cookie_secrets(&section);
    let account_section = section.table("account");
    let account =
        if account_section.present() { account(&account_section, insecure).map(Some) } else { Some(None) };
    account_section.finish();
    section.finish();
    Some(Visitor { cookie_secrets: cookie_secrets?, account: account? })
}

fn cookie_secrets(section: &Section<'_>) -> Option<Vec<CookieSecret>> {
    let key = "cookie_secrets";
    if !section.has(key) {
        section.missing(key, SECRETS_MEND);
        return None;
    }
    let read = section.list(key, |item| {
        let path = item.path()?;
        let bytes = files::read_secret(&path, 4_096)?;
        let secret = CookieSecret::parse(&String::from_utf8_lossy(&bytes))?;
        Ok((secret, files::readable_by_others(&path)))
    })?;
    if read.is_empty() {
        section.fault(key, Fault::new("is empty", SECRETS_MEND));
        return None;
    }
    let keep = |(secret, open): (CookieSecret, Option<Fault>)| {
        if let Some(fault) = open {
            section.warn(key, fault);
        }
        secret
    };
    Some(read.into_iter().map(keep).collect())
}

fn account(section: &Section<'_>, insecure: Insecure) -> Option<Account> {
    let source = account_source(section);
    let jwks = section.need("jwks", "name the file or the address of the shop's key set", |item| {
        let text = item.text()?;
        if text.starts_with("https://") || (text.starts_with("http://") && insecure.account_keys_over_http) {
            let url = reqwest::Url::parse(text).map_err(|error| {
                Fault::new(format!("{text:?} is not an address: {error}"), "write https://host/path")
            })?;
            return Ok(KeySource::Url(url.into()));
        }
        if text.contains("://") {
            return Err(Fault::new(
                format!("{text:?} is not fetched over https: anyone on the way could replace the keys"),
                "use https, a file, or (for http) set insecure.account_keys_over_http = true",
            ));
        }
        let path = item.path()?;
        files::read(&path, 1 << 20).map(|_| KeySource::File(path))
    });
    let refresh_every = section.or("refresh_every", Duration::from_secs(300), |item| {
        item.duration_in(Duration::from_secs(10), Duration::from_secs(86_400))
    });
    let text = |item: &super::read::Item<'_>| match item.text()? {
        "" => Err(Fault::new("is empty", "write the value the shop's tokens carry")),
        text => Ok(text.to_owned()),
    };
    let issuer = section.need("issuer", "write the `iss` of the shop's tokens", text);
    let audience = section.need("audience", "write the `aud` of the shop's tokens", text);
    let claim = section.or("claim", "sub".to_owned(), text);
    let algorithms = if section.has("algorithms") {
        let known = || AccountAlgorithm::ALL.map(AccountAlgorithm::name).join(", ");
        let listed = section.list("algorithms", |item| {
            let text = item.text()?;
            AccountAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| {
                Fault::new(format!("{text:?} is not accepted"), format!("choose from {}", known()))
            })
        });
        if listed.as_ref().is_some_and(Vec::is_empty) {
            section.fault("algorithms", Fault::new("is empty", format!("choose from {}", known())));
        }
        listed
    } else {
        Some(AccountAlgorithm::ALL.to_vec())
    };
    Some(Account {
        source: source?,
        jwks: jwks?,
        refresh_every,
        issuer: issuer?,
        audience: audience?,
        claim,
        algorithms: algorithms?,
    })
}

fn account_source(section: &Section<'_>) -> Option<AccountSource> {
    let cookie = section.try_get("cookie", |item| {
        let name = item.text()?;
        // A token of RFC 9110 section 5.6.2, as RFC 6265 section 4.1.1 asks of cookie names.
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(valid) {
            return Err(Fault::new(
                format!("{name:?} is not a cookie name"),
                "write the cookie's name alone",
            ));
        }
        Ok(name.to_owned())
    });
    let header = section.try_get("header", |item| {
        item.parsed::<HeaderName>("a header name", "for example \"authorization\"")
    });
    match (cookie, header) {
        (Ok(Some(cookie)), Ok(None)) => Some(AccountSource::Cookie(cookie)),
        (Ok(None), Ok(Some(header))) => Some(AccountSource::Header(header)),
        (Ok(Some(_)), Ok(Some(_))) => {
            section.fault("header", Fault::new("two sources are named", "keep cookie or header, not both"));
            None
        }
        (Ok(None), Ok(None)) => {
            section
                .missing("cookie", "say where the token is: cookie = \"name\" or header = \"authorization\"");
            None
        }
        (Err(()), _) | (_, Err(())) => None,
    }
}
