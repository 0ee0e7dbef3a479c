//! What the shopper gets to see of the shop's answer.
//!
//! What the shop tells the queue is taken off. An answer to somebody who was admitted is for its visitor alone, whatever
//! the shop says of shared caches: the same address answers everybody else with the room.

use crate::header;

/// The `Cache-Control` of an answer behind an admission, unless the shop is as strict itself.
pub const PERSONAL: &str = "private, no-cache";

/// Fields that some shared cache obeys before `Cache-Control` (RFC 9213 and its forerunners), in lower case.
pub const FOR_SHARED_CACHES: [&str; 4] = ["edge-control", "expires", "surrogate-control", "x-accel-expires"];

/// How the names of others end that are obeyed so, such as `Cloudflare-CDN-Cache-Control`.
pub const FOR_SHARED_CACHES_END: &str = "cdn-cache-control";

/// Whether a field of the shop's answer must not reach the shopper.
#[must_use]
pub fn is_removed(name: &str, admitted: bool) -> bool {
    header::is_ours(name) || (admitted && speaks_to_shared_caches(name))
}

fn speaks_to_shared_caches(name: &str) -> bool {
    let (name, end) = (name.as_bytes(), FOR_SHARED_CACHES_END.as_bytes());
    let tail = name.len().checked_sub(end.len()).and_then(|from| name.get(from..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
        || FOR_SHARED_CACHES.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// Whether an answer with these `Cache-Control` lines is kept by no shared cache (RFC 9111, section 3).
#[must_use]
pub fn is_personal<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut personal, mut shared) = (false, false);
    for directive in lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        // With a list of fields, `private` speaks of those alone.
        personal |= (is("private") || is("no-store")) && name.len() == directive.len();
        // Where the second is understood, `no-store` beside it is not obeyed (RFC 9111, section 5.2.2.3).
        shared |= is("public") || is("must-understand") || is("s-maxage");
    }
    personal && !shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_the_queue_or_for_shared_caches_is_removed() {
        for name in ["Ropeline-Stock", "ropeline_lease"] {
            assert!(is_removed(name, false) && is_removed(name, true), "{name}");
        }
        for name in ["Expires", "CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "X-Accel-Expires"] {
            assert!(is_removed(name, true) && !is_removed(name, false), "{name}");
        }
        for name in ["Cache-Control", "ETag", "Content-Type", "X-Expires", "", "cdn-cache-controls"] {
            assert!(!is_removed(name, true), "{name}");
        }
    }

    #[test]
    fn an_answer_is_personal_if_no_shared_cache_may_keep_it() {
        let personal = |lines: &[&str]| is_personal(lines.iter().map(|line| line.as_bytes()));
        for lines in [
            &["private"][..],
            &["max-age=60, Private"],
            &["no-store"],
            &["max-age=1", "no-store"],
            &["private,max-age=9"],
        ] {
            assert!(personal(lines), "{lines:?}");
        }
        for lines in [
            &[][..],
            &["public, max-age=60"],
            &["max-age=9"],
            &["no-cache"],
            &["s-maxage=5, private"],
            &["private", "PUBLIC"],
            &["private=\"set-cookie\""],
            &["no-store, must-understand"],
            &["privately"],
        ] {
            assert!(!personal(lines), "{lines:?}");
        }
    }
}
