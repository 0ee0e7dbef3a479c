use alloc::borrow::Cow;
use alloc::string::String;
use core::borrow::Borrow;

use ropeline_token::{AdmissionClaims, Authentic, Expect, KeySet, Refusal};
use thiserror::Error;

use crate::cookie;
use crate::header::{self, Field};
use crate::host;
use crate::navigation::is_navigation;
use crate::path::{self, PathError};
use crate::policy::{Gate, OtherStatus, PageStatus, Policy, SalePolicy};

#[cfg(test)]
mod tests;

/// The parts of a request that count.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// `Host` or `:authority`, with or without port.
    pub host: &'a str,
    /// Path and query, as sent.
    pub target: &'a str,
    /// All fields in the order received.
    pub headers: &'a [Field<'a>],
}

/// Checks admission tokens: a [`KeySet`], or a cache of tokens already verified in front of one.
pub trait Authenticate {
    /// A verified token, or a shared one.
    type Admission: Borrow<Authentic<AdmissionClaims>>;

    /// Checks form, key and signature, as [`KeySet::admission`] does.
    ///
    /// # Errors
    /// The token is not an authentic admission token.
    fn admission(&self, token: &str) -> Result<Self::Admission, Refusal>;
}

impl Authenticate for KeySet {
    type Admission = Authentic<AdmissionClaims>;

    fn admission(&self, token: &str) -> Result<Self::Admission, Refusal> {
        Self::admission(self, token)
    }
}

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a, A> {
    /// It goes to the shop.
    Forward(Forward<'a, A>),
    /// Its visitor waits in the room of a sale.
    Wait(Wait<'a>),
    /// It is malformed; nobody gets to see it.
    Reject(Rejection),
    /// It is a call to the gateway itself, at this path (one spelling, no query).
    Api(Cow<'a, str>),
}

/// A request that goes to the shop. Before it does, every field that [`header::is_barred`] is removed from it, and
/// [`Admission::headers`] are set. Of its answer the shopper gets what [`crate::response`] leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward<'a, A> {
    /// Path in one spelling, and query as sent. Borrowed when the request has it already.
    pub target: Cow<'a, str>,
    /// The sale that protects the path, if one does.
    pub sale: Option<&'a SalePolicy>,
    /// The visitor's admission to that sale. Without one the request is not protected: there is no sale, its gate is
    /// open, or the path is one that passes by.
    pub admission: Option<Admission<'a, A>>,
}

/// A token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission<'a, A> {
    token: &'a str,
    authentic: A,
}

impl<'a, A> Admission<'a, A> {
    /// A token that was accepted elsewhere, by this very function in another build.
    #[must_use]
    pub const fn accepted(token: &'a str, authentic: A) -> Self {
        Self { token, authentic }
    }
}

impl<A: Borrow<Authentic<AdmissionClaims>>> Admission<'_, A> {
    /// The token as sent.
    #[must_use]
    pub const fn token(&self) -> &str {
        self.token
    }

    /// What it says.
    #[must_use]
    pub fn claims(&self) -> &AdmissionClaims {
        self.authentic.borrow().unaccepted()
    }

    /// The fields to set for the shop.
    #[must_use]
    pub fn headers(&self) -> [(&'static str, &str); 3] {
        let claims = &self.claims().claims;
        [(header::ADMISSION, self.token), (header::SALE, &claims.aud), (header::VISITOR, &claims.sub)]
    }
}

/// A request whose visitor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'a> {
    /// Whose room.
    pub sale: &'a SalePolicy,
    /// Why the request was not admitted.
    pub refusal: Refusal,
    /// Whether the room itself is the answer: a browser navigates here. Otherwise a problem document is.
    pub page: bool,
}

impl Wait<'_> {
    /// The status of the answer. With 401 goes a `WWW-Authenticate` field (RFC 9110, section 15.5.2).
    #[must_use]
    pub const fn status(&self) -> u16 {
        if self.page {
            PageStatus::code(self.sale.page_status)
        } else {
            OtherStatus::code(self.sale.other_status)
        }
    }
}

/// Why a request is refused outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("{}", self.text())]
pub enum Rejection {
    /// The method is TRACE, which sends back what proxies add and scripts must not see.
    MethodRefused,
    /// No host, or none that could be one.
    HostInvalid,
    /// The target is not a path of visible ASCII.
    TargetInvalid,
    /// Servers disagree about what the path names.
    PathAmbiguous,
}

impl Rejection {
    /// Every rejection.
    pub const ALL: [Self; 4] =
        [Self::MethodRefused, Self::HostInvalid, Self::TargetInvalid, Self::PathAmbiguous];

    /// The rejection of this name.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rejection| rejection.code() == code)
    }

    /// What is wrong, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::MethodRefused => "the method is not allowed",
            Self::HostInvalid => "the host is not valid",
            Self::TargetInvalid => "the target is not valid",
            Self::PathAmbiguous => "the path can be read in more than one way",
        }
    }

    /// The stable name of this rejection.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::MethodRefused => "method_refused",
            Self::HostInvalid => "host_invalid",
            Self::TargetInvalid => "target_invalid",
            Self::PathAmbiguous => "path_ambiguous",
        }
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(self) -> u16 {
        if matches!(self, Self::MethodRefused) { 405 } else { 400 }
    }
}

/// Where edges and shops fetch the key set (RFC 8615). The gateway answers there, whatever a sale protects.
pub const JWKS_PATH: &str = "/.well-known/jwks.json";

/// Decides on a request at `now` (Unix seconds).
pub fn decide<'a, K: Authenticate>(
    request: &Request<'a>,
    policy: &'a Policy,
    keys: &K,
    now: u64,
) -> Verdict<'a, K::Admission> {
    if request.method.eq_ignore_ascii_case("trace") {
        return Verdict::Reject(Rejection::MethodRefused);
    }
    let Some(host) = host::name(request.host) else { return Verdict::Reject(Rejection::HostInvalid) };
    let (raw_path, query) = path::split_query(request.target);
    if !query.unwrap_or_default().bytes().all(|byte| byte > b' ' && byte != 0x7F) {
        return Verdict::Reject(Rejection::TargetInvalid);
    }
    let path = match path::normalise(raw_path) {
        Ok(path) => path,
        Err(PathError::Invalid) => return Verdict::Reject(Rejection::TargetInvalid),
        Err(PathError::Ambiguous) => return Verdict::Reject(Rejection::PathAmbiguous),
    };
    if policy.api_prefix.covers(&path, false) || path.canonical == JWKS_PATH {
        return Verdict::Api(path.canonical);
    }

    let sale = policy.sale_for(host, &path);
    let target = match &path.canonical {
        Cow::Borrowed(_) => Cow::Borrowed(request.target),
        Cow::Owned(canonical) => Cow::Owned(with_query(canonical, query)),
    };
    let forward = |admission| Verdict::Forward(Forward { target, sale, admission });
    let Some(sale) = sale else { return forward(None) };
    let reads = matches!(request.method, "GET" | "HEAD");
    if reads && sale.bypass.iter().any(|rule| rule.covers(&path)) {
        return forward(None);
    }
    match admission(request, policy, sale, keys, now) {
        Ok(admission) => forward(Some(admission)),
        Err(_) if sale.gate == Gate::Open => forward(None),
        Err(refusal) => Verdict::Wait(Wait { sale, refusal, page: is_navigation(request.headers) }),
    }
}

fn admission<'a, K: Authenticate>(
    request: &Request<'a>,
    policy: &Policy,
    sale: &SalePolicy,
    keys: &K,
    now: u64,
) -> Result<Admission<'a, K::Admission>, Refusal> {
    let cookie = cookie::admission(sale.sale.as_str(), policy.secure_cookies);
    let token = presented(request.headers, header::ADMISSION, &cookie)?.ok_or(Refusal::Missing)?;
    let authentic = keys.admission(token)?;
    let expect = Expect {
        issuer: &policy.issuer,
        audience: sale.sale.as_str(),
        min_epoch: sale.epoch,
        leeway: policy.leeway,
    };
    authentic.borrow().accept(&expect, now)?;
    Ok(Admission { token, authentic })
}

/// The token a request presents for one purpose, in a field (apps) or in a cookie (browsers).
///
/// # Errors
/// [`Refusal::Ambiguous`] if it presents two, unless field and cookie agree; [`Refusal::Malformed`] if it is not text.
pub fn presented<'a>(
    headers: &'a [Field<'a>],
    field: &'static str,
    cookie: &str,
) -> Result<Option<&'a str>, Refusal> {
    let mut fields = header::values(headers, field);
    let (field, second) = (fields.next().map(<[u8]>::trim_ascii), fields.next());
    let cookie = cookie::find(headers, cookie).map_err(|_| Refusal::Ambiguous)?;
    let token = match (field, cookie) {
        _ if second.is_some() => return Err(Refusal::Ambiguous),
        (Some(field), Some(cookie)) if field != cookie => return Err(Refusal::Ambiguous),
        (Some(token), _) | (None, Some(token)) => token,
        (None, None) => return Ok(None),
    };
    core::str::from_utf8(token).map(Some).map_err(|_| Refusal::Malformed)
}

fn with_query(path: &str, query: Option<&str>) -> String {
    let mut target = String::from(path);
    if let Some(query) = query {
        target.push('?');
        target.push_str(query);
    }
    target
}
