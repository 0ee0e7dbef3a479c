//! What a sale guards: the part of a definition that only a gateway understands.

use ropeline_decision::path::{self, Path};
use ropeline_decision::{Bypass, HostName, JWKS_PATH, OtherStatus, PageStatus, PathPattern};
use ropeline_queue::{FieldError, Protect, SaleId};

/// Checks what a sale guards, where shoppers reach the queue under `api_prefix`. Used for the file and for what an
/// operator sends; every fault there is.
pub fn check_protect(protect: &Protect, api_prefix: &str) -> Vec<FieldError> {
    let routes = protect.routes.iter().filter_map(|text| route(text, api_prefix));
    let mut faults: Vec<_> = routes.map(|message| FieldError { field: "protect.routes", message }).collect();
    let mut add = |field, message: String| faults.push(FieldError { field, message });
    for text in &protect.bypass {
        if let Some(message) = bypass(text) {
            add("protect.bypass", message);
        }
    }
    for host in &protect.hosts {
        if HostName::parse(host).is_err() {
            add("protect.hosts", format!("{host:?} must be a host name without scheme and port"));
        }
    }
    if PageStatus::from_code(protect.page_status).is_none() {
        add("protect.page_status", format!("{} must be 200, 202, 429 or 503", protect.page_status));
    }
    if OtherStatus::from_code(protect.other_status).is_none() {
        add("protect.other_status", format!("{} must be 401 or 429", protect.other_status));
    }
    faults
}

/// What to do where two sales have one route.
pub const ROUTES_APART: &str = "give each sale paths of its own, or hosts of its own";

/// What a sale guards, and what the sale is called to whoever wrote it.
pub struct Guarded {
    /// The sale.
    pub sale: SaleId,
    /// What it guards.
    pub protect: Protect,
    /// Where it stands.
    pub place: String,
}

/// The routes of a sale that one of `others` has on the same host, in words: of two sales that name a path equally closely,
/// the one whose id comes first in the alphabet gets all who come there, and the other nobody. With `one_host` all hosts are
/// the same. Used for the file and for what an operator sends.
pub fn routes_of_others(sale: &SaleId, protect: &Protect, one_host: bool, others: &[Guarded]) -> Vec<String> {
    let takes = |route: &str, other: &Guarded| {
        let (path, alone) = as_looked_at(route);
        other.protect.routes.iter().any(|theirs| {
            let (their_path, their_alone) = as_looked_at(theirs);
            // One that has the path alone leaves all below it to the other.
            let (first, second) =
                if other.sale < *sale { (their_alone, alone) } else { (alone, their_alone) };
            path == their_path && (second || !first)
        })
    };
    let on_same_host = |other: &&Guarded| one_host || share_a_host(&protect.hosts, &other.protect.hosts);
    let taken = protect.routes.iter().filter_map(|route| {
        let other = others.iter().filter(on_same_host).find(|other| takes(route, other))?;
        let first = (&other.sale).min(sale);
        let place = &other.place;
        Some(format!("{route:?} is a route of {place} too: all who come there wait for \"{first}\""))
    });
    taken.collect()
}

/// The path of a route, and whether it is without all below it.
fn as_looked_at(route: &str) -> (String, bool) {
    let path = route.trim_start_matches('=').trim_end_matches('/').to_ascii_lowercase();
    (path, route.starts_with('='))
}

/// A sale that names no host has what others leave to it.
fn share_a_host(hosts: &[String], others: &[String]) -> bool {
    (hosts.is_empty() && others.is_empty())
        || hosts.iter().any(|host| others.iter().any(|other| host.eq_ignore_ascii_case(other)))
}

fn route(text: &str, api_prefix: &str) -> Option<String> {
    let Ok(pattern) = PathPattern::parse(text) else {
        return Some(format!(
            "{text:?} must be a path: \"/sale\" with all below it, \"=/sale\" alone; one way to read it only"
        ));
    };
    let path = spelling(text).ok()?;
    overlap(text, &pattern, &path, api_prefix).or_else(|| respelt(text, &path))
}

fn bypass(text: &str) -> Option<String> {
    if Bypass::parse(text).is_err() {
        return Some(format!(
            "{text:?} must be a path such as \"/sale/images\" or an extension such as \"*.css\""
        ));
    }
    respelt(text, &spelling(text).ok()?)
}

/// The path of a pattern that has been parsed; an extension has none.
fn spelling(pattern: &str) -> Result<Path<'_>, path::PathError> {
    path::normalise(pattern.strip_prefix('=').unwrap_or(pattern))
}

/// A path is guarded in its one spelling. Written otherwise, what it says and what it does are two things.
fn respelt(text: &str, path: &Path<'_>) -> Option<String> {
    let (exact, written) = text.strip_prefix('=').map_or(("", text), |written| ("=", written));
    let one = path.canonical.as_ref();
    (one != written).then(|| format!("{text:?} is read as \"{exact}{one}\": write that, if it is meant"))
}

/// The gateway answers its own paths before it looks at any sale: a route there guards nothing, and one around them
/// guards less than it says. Only the whole shop, `/`, is understood to be without them.
fn overlap(text: &str, pattern: &PathPattern, path: &Path<'_>, api_prefix: &str) -> Option<String> {
    let covers = |outer: &str, inner: &Path<'_>| {
        PathPattern::parse(outer).is_ok_and(|outer| outer.covers(inner, true))
    };
    if covers(api_prefix, path) {
        return Some(format!(
            "{text:?} lies under queue.api_prefix, {api_prefix:?}, where the gateway itself answers: \
             name a path of the shop's, or give the gateway another queue.api_prefix"
        ));
    }
    if covers(&format!("={JWKS_PATH}"), path) {
        return Some(format!(
            "{text:?} is where the gateway itself answers with its keys: name a path of the shop's"
        ));
    }
    let prefix = path::normalise(api_prefix).ok()?;
    (!path.plain.is_empty() && pattern.covers(&prefix, true)).then(|| {
        format!(
            "{text:?} covers queue.api_prefix, {api_prefix:?}, which is never guarded: name the paths beside it, or \
             give the gateway a queue.api_prefix outside"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of one route where the queue is reached under `/api/queue`.
    fn said(route: &str) -> String {
        let protect = Protect { routes: vec![route.to_owned()], ..Protect::default() };
        let faults = check_protect(&protect, "/api/queue");
        faults.into_iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect()
    }

    #[test]
    fn a_route_on_the_gateways_own_paths_guards_nothing_and_is_refused() {
        for route in ["/api/queue", "/api/queue/", "=/api/queue", "/api/queue/join", "/API/Queue/x"] {
            assert!(said(route).contains("lies under queue.api_prefix"), "{route}: {}", said(route));
        }
        for route in ["/api", "/API/", "/api/"] {
            assert!(said(route).contains("covers queue.api_prefix"), "{route}: {}", said(route));
        }
        assert!(said("/.well-known/jwks.json").contains("its keys"), "{}", said("/.well-known/jwks.json"));
        for route in ["/", "=/api", "/apiary", "/api/queues", "/api/shop", "/.well-known", "/sale/"] {
            assert_eq!(said(route), "", "{route}");
        }
    }

    #[test]
    fn a_path_that_is_read_otherwise_than_written_is_refused_with_the_way_to_write_it() {
        for (route, read) in [
            ("/../x", "\"/x\""),
            ("/a/./b", "\"/a/b\""),
            ("/a/b/..", "\"/a/\""),
            ("//x", "\"/x\""),
            ("/%73ale", "\"/sale\""),
            ("/caf%c3%a9", "\"/caf%C3%A9\""),
            ("=/x//y", "\"=/x/y\""),
            ("/..", "\"/\""),
        ] {
            assert!(said(route).contains(&format!("is read as {read}")), "{route}: {}", said(route));
            let bypass = Protect { bypass: vec![route.to_owned()], ..Protect::default() };
            let faults = check_protect(&bypass, "/api/queue");
            assert_eq!((faults.len(), faults[0].field), (1, "protect.bypass"), "{route}");
        }
        // Spelt one way, the same path would be refused as the gateway's own.
        assert!(said("/x/../api/queue").contains("lies under queue.api_prefix"));
        for route in ["/caf%C3%A9", "/a.b", "/.hidden", "/~x"] {
            assert_eq!(said(route), "", "{route}");
        }
    }

    #[test]
    fn statuses_are_those_that_a_policy_knows() {
        let protect = Protect { page_status: 404, other_status: 403, ..Protect::default() };
        let fields: Vec<_> = check_protect(&protect, "/q").into_iter().map(|fault| fault.field).collect();
        assert_eq!(fields, ["protect.page_status", "protect.other_status"]);
    }
}
