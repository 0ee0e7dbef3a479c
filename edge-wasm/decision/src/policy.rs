use alloc::string::String;
use alloc::vec::Vec;

use ropeline_token::Leeway;
use ropeline_token::json::{JsonError, MemberError};
use thiserror::Error;

use crate::fold::fold;
use crate::host;
use crate::path::{self, Path};

#[cfg(test)]
mod tests;
mod text;

/// Why a policy, or a part of one, is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The text is not strict JSON.
    #[error("the policy is not JSON: {0}")]
    Json(#[from] JsonError),
    /// A member is missing or of the wrong type.
    #[error("{member}: missing, or not {wanted}")]
    Member {
        /// The member's name.
        member: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A member that no policy has: a misspelling must not open a gate.
    #[error("{member}: no such member")]
    UnknownMember {
        /// The member's name.
        member: String,
    },
    /// Not 1 to 40 of `a-z`, `0-9` and `-`.
    #[error("sale {0:?}: not 1 to 40 of a-z, 0-9 and -")]
    SaleName(String),
    /// Two sales have the same name.
    #[error("sale {0:?} occurs twice")]
    SaleRepeated(String),
    /// Not a path that a request can have.
    #[error("path {0:?}: not an absolute path, or one that can be read in two ways")]
    PathPattern(String),
    /// Not a host name or address.
    #[error("host {0:?}: not a host name")]
    Host(String),
    /// Not a path pattern and not `*.` with an extension.
    #[error("bypass {0:?}: not a path and not an extension such as *.css")]
    Bypass(String),
}

impl From<MemberError> for PolicyError {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::Invalid { member, wanted } => Self::Member { member, wanted },
            MemberError::Unknown { member } => Self::UnknownMember { member },
        }
    }
}

/// The name of a sale: 1 to 40 of `a-z`, `0-9` and `-`. It goes into cookie names as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaleName(String);

impl SaleName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`PolicyError::SaleName`].
    pub fn parse(name: &str) -> Result<Self, PolicyError> {
        let sound = (1..=40).contains(&name.len())
            && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if sound { Ok(Self(name.into())) } else { Err(PolicyError::SaleName(name.into())) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path, or a path and everything below it, by segments: `/sale` covers `/sale`, `/sale/` and `/sale/7`, not `/sales`.
///
/// Written `/sale` with everything below, `=/sale` alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// As [`Path::plain`].
    plain: String,
    below: bool,
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PolicyError::PathPattern`].
    pub fn parse(pattern: &str) -> Result<Self, PolicyError> {
        let (text, below) = pattern.strip_prefix('=').map_or((pattern, true), |text| (text, false));
        let refused = || PolicyError::PathPattern(pattern.into());
        if text.bytes().any(|byte| byte == b'?') {
            return Err(refused());
        }
        match path::normalise(text) {
            Ok(Path { parameters: false, plain, .. }) => Ok(Self { plain: plain.into_owned(), below }),
            _ => Err(refused()),
        }
    }

    /// Whether the path is covered; with `ignore_case`, in whatever case its letters are.
    #[must_use]
    pub fn covers(&self, path: &Path<'_>, ignore_case: bool) -> bool {
        let rest = if ignore_case {
            strip_prefix_ignoring_case(&path.plain, &self.plain)
        } else {
            path.plain.strip_prefix(self.plain.as_str())
        };
        rest.is_some_and(|rest| rest.is_empty() || self.below && rest.starts_with('/'))
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    for expected in prefix.chars() {
        let found = rest.next()?;
        if fold(found) != fold(expected) {
            return None;
        }
    }
    Some(rest.as_str())
}

/// A host name without port, compared without case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Checks a host name; a port is refused.
    ///
    /// # Errors
    /// [`PolicyError::Host`].
    pub fn parse(host: &str) -> Result<Self, PolicyError> {
        match host::name(host) {
            Some(name) if name == host => Ok(Self(name.to_ascii_lowercase())),
            _ => Err(PolicyError::Host(host.into())),
        }
    }

    /// The name, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a sale protects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// On this host only, or on every one.
    pub host: Option<HostName>,
    /// These paths.
    pub path: PathPattern,
}

/// What a sale's routes cover but does not wait: things a waiting page itself may need.
///
/// Only `GET` and `HEAD` pass by, only paths without parameters, and only in the very case written: where routes are
/// taken widely, exceptions are taken narrowly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// Paths, written as [`PathPattern`].
    Path(PathPattern),
    /// Files whose name ends so, written `*.css`; here case does not matter.
    Extension(String),
}

impl Bypass {
    /// Reads a bypass rule.
    ///
    /// # Errors
    /// [`PolicyError::Bypass`] or [`PolicyError::PathPattern`].
    pub fn parse(rule: &str) -> Result<Self, PolicyError> {
        let Some(name) = rule.strip_prefix('*') else {
            return PathPattern::parse(rule).map(Self::Path);
        };
        let extension = name.strip_prefix('.').unwrap_or_default();
        let sound = !extension.is_empty()
            && extension
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
        if sound { Ok(Self::Extension(extension.into())) } else { Err(PolicyError::Bypass(rule.into())) }
    }

    /// Whether the path passes by.
    #[must_use]
    pub fn covers(&self, path: &Path<'_>) -> bool {
        if path.parameters {
            return false;
        }
        match self {
            Self::Path(pattern) => pattern.covers(path, false),
            Self::Extension(extension) => {
                let slash = path.plain.bytes().rposition(|byte| byte == b'/');
                let file = slash.and_then(|slash| path.plain.get(slash + 1..)).unwrap_or(&path.plain);
                // A dot and at least one byte before it: `.css` alone is a name, not an extension.
                let start = file.len().checked_sub(extension.len() + 1).filter(|start| *start > 0);
                // `/x.css/` names a directory.
                let tail =
                    start.and_then(|start| file.get(start..)).filter(|_| !path.canonical.ends_with('/'));
                tail.and_then(|tail| tail.strip_prefix('.'))
                    .is_some_and(|tail| tail.eq_ignore_ascii_case(extension))
            }
        }
    }
}

/// Whether a sale holds its visitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Only who has an admission token goes forward.
    Queue,
    /// Everybody goes forward: the sale is not protected now.
    Open,
}

/// The status of the room when it stands in for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageStatus {
    /// 200
    #[default]
    Ok,
    /// 202
    Accepted,
    /// 429
    TooManyRequests,
    /// 503
    ServiceUnavailable,
}

impl PageStatus {
    /// From the number.
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            200 => Some(Self::Ok),
            202 => Some(Self::Accepted),
            429 => Some(Self::TooManyRequests),
            503 => Some(Self::ServiceUnavailable),
            _ => None,
        }
    }

    /// As a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Accepted => 202,
            Self::TooManyRequests => 429,
            Self::ServiceUnavailable => 503,
        }
    }
}

/// The status of the problem document that answers whatever is not a navigation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherStatus {
    /// 401
    #[default]
    Unauthorized,
    /// 429
    TooManyRequests,
}

impl OtherStatus {
    /// From the number.
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            401 => Some(Self::Unauthorized),
            429 => Some(Self::TooManyRequests),
            _ => None,
        }
    }

    /// As a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::TooManyRequests => 429,
        }
    }
}

/// What an edge must know of one sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalePolicy {
    /// Its name: the `aud` of its tokens.
    pub sale: SaleName,
    /// The oldest epoch whose tokens still hold.
    pub epoch: u32,
    /// Whether it holds its visitors.
    pub gate: Gate,
    /// What it protects.
    pub routes: Vec<Route>,
    /// Whether `/Sale` is protected where `/sale` is. True unless the shop tells them apart.
    pub ignore_case: bool,
    /// What passes by all the same.
    pub bypass: Vec<Bypass>,
    /// The status of the room in place of a page.
    pub page_status: PageStatus,
    /// The status of any other answer to somebody who must wait.
    pub other_status: OtherStatus,
}

/// Everything [`crate::decide()`] must know beside keys and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The `iss` of tokens that are taken.
    pub issuer: String,
    /// How far clocks may differ.
    pub leeway: Leeway,
    /// Where the gateway's own calls live, such as `/api/v1/queue`. Never protected.
    pub api_prefix: PathPattern,
    /// Whether cookies bear the `__Host-` prefix: when shoppers come over TLS.
    pub secure_cookies: bool,
    /// The sales. A path that several protect belongs to the one that names it most closely.
    pub sales: Vec<SalePolicy>,
}

impl Policy {
    /// The sale that protects the path on this host (as [`host::name`] gives it): the longest pattern, then the one with
    /// a host, then the first.
    #[must_use]
    pub fn sale_for(&self, host: &str, path: &Path<'_>) -> Option<&SalePolicy> {
        let mut best: Option<((usize, bool), &SalePolicy)> = None;
        for sale in &self.sales {
            for route in &sale.routes {
                let here = route.host.as_ref().is_none_or(|name| name.as_str().eq_ignore_ascii_case(host));
                if !here || !route.path.covers(path, sale.ignore_case) {
                    continue;
                }
                let closeness = (route.path.plain.len(), route.host.is_some());
                if best.is_none_or(|(known, _)| closeness > known) {
                    best = Some((closeness, sale));
                }
            }
        }
        best.map(|(_, sale)| sale)
    }
}
