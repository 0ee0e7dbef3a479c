//! Reads a module's plan as the verdict that it follows from, and tells verdicts apart.

use std::borrow::{Borrow, Cow};
use std::fmt;

use ropeline_decision::{
    Admission, Authenticate, Forward, Policy, Rejection, Request, SalePolicy, Verdict, Wait, cookie, header,
    path, presented,
};
use ropeline_token::{AdmissionClaims, Authentic, Refusal};
use serde::Deserialize;
use thiserror::Error;

#[cfg(test)]
mod tests;

/// A plan as `ropeline_edge::Plan::to_json` writes it: what the verdict can be told from.
#[derive(Deserialize)]
struct Plan {
    act: String,
    kind: String,
    sale: Option<String>,
    code: Option<String>,
    target: Option<String>,
    #[serde(default)]
    set: Vec<(String, String)>,
}

/// A plan that this build would not have made, whatever the request: the part that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the module's plan cannot be: its {0} is none of this release's")]
pub(super) struct Strange(&'static str);

/// The verdict that a plan for an edge in front of the shop follows from.
///
/// # Errors
/// It follows from none.
pub(super) fn verdict<'a, K: Authenticate>(
    plan: &str,
    request: &Request<'a>,
    policy: &'a Policy,
    keys: &K,
) -> Result<Verdict<'a, K::Admission>, Strange> {
    let plan: Plan = serde_json::from_str(plan).map_err(|_| Strange("form"))?;
    let code = plan.code.as_deref();
    let sale = match plan.sale.as_deref() {
        None => None,
        Some(name) => {
            let known = policy.sales.iter().find(|sale| sale.sale.as_str() == name);
            Some(known.ok_or(Strange("sale"))?)
        }
    };
    match (plan.kind.as_str(), sale) {
        ("api", None) => {
            let (path, _) = path::split_query(request.target);
            let path = path::normalise(path).map_err(|_| Strange("kind"))?;
            Ok(Verdict::Api(path.canonical))
        }
        ("reject", None) => code.and_then(Rejection::from_code).map(Verdict::Reject).ok_or(Strange("code")),
        ("wait", Some(sale)) => {
            let refusal = code.and_then(Refusal::from_code).ok_or(Strange("code"))?;
            Ok(Verdict::Wait(Wait { sale, refusal, page: plan.act != "answer" }))
        }
        ("forward", sale) => {
            let target = plan.target.ok_or(Strange("target"))?;
            let target =
                if target == request.target { Cow::Borrowed(request.target) } else { Cow::Owned(target) };
            let token = plan.set.iter().find(|(name, _)| name == header::ADMISSION);
            let admission = match (token, sale) {
                (None, _) => None,
                (Some((_, token)), Some(sale)) => Some(admission(token, request, policy, sale, keys)?),
                (Some(_), None) => return Err(Strange("sale")),
            };
            Ok(Verdict::Forward(Forward { target, sale, admission }))
        }
        _ => Err(Strange("kind")),
    }
}

/// The token that the module accepted. It must be the request's own, and an authentic one: what it says of its visitor
/// is believed from here on.
fn admission<'a, K: Authenticate>(
    token: &str,
    request: &Request<'a>,
    policy: &Policy,
    sale: &SalePolicy,
    keys: &K,
) -> Result<Admission<'a, K::Admission>, Strange> {
    let cookie = cookie::admission(sale.sale.as_str(), policy.secure_cookies);
    let sent = presented(request.headers, header::ADMISSION, &cookie).ok().flatten();
    let sent = sent.filter(|sent| *sent == token).ok_or(Strange("token"))?;
    Ok(Admission::accepted(sent, keys.admission(sent).map_err(|_| Strange("token"))?))
}

/// What counts of a verdict, free of the request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    kind: &'static str,
    sale: Option<String>,
    code: Option<&'static str>,
    page: bool,
    target: Option<String>,
    token: Option<String>,
}

impl Outcome {
    pub(super) fn of<A: Borrow<Authentic<AdmissionClaims>>>(verdict: &Verdict<'_, A>) -> Self {
        let nothing = Self { kind: "", sale: None, code: None, page: false, target: None, token: None };
        let name = |sale: &SalePolicy| sale.sale.as_str().to_owned();
        match verdict {
            Verdict::Api(path) => Self { kind: "api", target: Some(path.to_string()), ..nothing },
            Verdict::Reject(rejection) => Self { kind: "reject", code: Some(rejection.code()), ..nothing },
            Verdict::Wait(wait) => Self {
                kind: "wait",
                sale: Some(name(wait.sale)),
                code: Some(wait.refusal.code()),
                page: wait.page,
                ..nothing
            },
            Verdict::Forward(forward) => Self {
                kind: "forward",
                sale: forward.sale.map(name),
                target: Some(forward.target.to_string()),
                token: forward.admission.as_ref().map(|admission| admission.token().to_owned()),
                ..nothing
            },
        }
    }

    /// The names of what differs.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("kind", self.kind != other.kind),
            ("sale", self.sale != other.sale),
            ("code", self.code != other.code),
            ("page", self.page != other.page),
            ("target", self.target != other.target),
            ("token", self.token != other.token),
        ];
        parts.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// For the log: nothing that a visitor sent.
impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind)?;
        for part in [self.sale.as_deref(), self.code, self.token.as_ref().map(|_| "admitted")] {
            write!(formatter, " {}", part.unwrap_or("-"))?;
        }
        Ok(())
    }
}
