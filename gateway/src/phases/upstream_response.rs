//! The shop's answer: what it tells the queue is heard and taken off, and what is personal is kept from caches.

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, SET_COOKIE};
use pingora::http::ResponseHeader;

use ropeline_decision::response;

use crate::feedback::{self, Heard};
use crate::gateway::Gateway;
use crate::phases::context::Context;

/// Hears the shop, keeps what is personal from shared caches, and notes how the shop is doing.
pub(super) fn filter(
    gateway: &Gateway,
    response: &mut ResponseHeader,
    context: &mut Context,
) -> pingora::Result<()> {
    let load = feedback::load(&response.headers);
    let heard = hear(response)?;
    let answered = if response.status.is_informational() { None } else { context.forwarded_at.take() };
    if let Some(at) = answered {
        gateway.metrics.upstream(response.status.as_u16(), at.elapsed());
    }
    let Some(admitted) = &context.admitted else { return Ok(()) };
    keep_from_shared_caches(response)?;
    if !response.status.is_informational() {
        for cookie in context.cookies.drain(..) {
            response.append_header(SET_COOKIE, cookie)?;
        }
    }
    if let Some(at) = answered {
        admitted.sale.observe(!response.status.is_server_error(), super::elapsed_ms(at));
    }
    if let Some(percent) = load {
        admitted.sale.hear_load(percent);
    }
    gateway.feedback.tell(&admitted.sale.id, admitted.arrival, heard);
    Ok(())
}

/// Reads the queue's headers and takes every `Ropeline-*` off: the public is not told.
pub(super) fn hear(response: &mut ResponseHeader) -> pingora::Result<Heard> {
    let heard =
        Heard { lease: feedback::lease(&response.headers), stock: feedback::stock(&response.headers) };
    remove(response, false);
    Ok(heard)
}

/// An answer behind an admission is for its visitor alone.
pub(super) fn keep_from_shared_caches(response: &mut ResponseHeader) -> pingora::Result<()> {
    if !response::is_personal(response.headers.get_all(CACHE_CONTROL).iter().map(HeaderValue::as_bytes)) {
        response.insert_header(CACHE_CONTROL, response::PERSONAL)?;
    }
    remove(response, true);
    Ok(())
}

fn remove(response: &mut ResponseHeader, admitted: bool) {
    let removed = |name: &&HeaderName| response::is_removed(name.as_str(), admitted);
    let removed: Vec<_> = response.headers.keys().filter(removed).cloned().collect();
    for name in &removed {
        response.remove_header(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::{LeaseReport, StockReport};

    fn response(pairs: &[(&'static str, &'static str)]) -> ResponseHeader {
        let mut response = ResponseHeader::build(200, None).unwrap();
        for (name, value) in pairs {
            response.append_header(*name, *value).unwrap();
        }
        response
    }

    #[test]
    fn what_the_shop_tells_the_queue_is_heard_and_not_passed_on() {
        let mut answer =
            response(&[("Ropeline-Stock", "3; held=2"), ("Ropeline-Lease", "hold"), ("X-A", "b")]);
        let heard = hear(&mut answer).unwrap();
        assert_eq!(heard.stock, Some(StockReport { available: 3, held: Some(2) }));
        assert_eq!(heard.lease, Some(LeaseReport::Hold));
        assert_eq!(answer.headers.len(), 1);
    }

    #[test]
    fn no_shared_cache_may_keep_an_answer_behind_an_admission() {
        for cache_control in [&["public, max-age=60"][..], &["s-maxage=5, private"], &[], &["max-age=9"]] {
            let pairs: Vec<_> = cache_control.iter().map(|value| ("Cache-Control", *value)).collect();
            let mut answer = response(&pairs);
            for name in ["CDN-Cache-Control", "Cloudflare-CDN-Cache-Control", "X-Accel-Expires"] {
                answer.append_header(name, "max-age=60").unwrap();
            }
            keep_from_shared_caches(&mut answer).unwrap();
            assert_eq!(answer.headers.get("cache-control").unwrap(), "private, no-cache");
            assert_eq!(answer.headers.len(), 1, "{:?}", answer.headers);
        }
        let mut answer = response(&[("Cache-Control", "private, max-age=60")]);
        keep_from_shared_caches(&mut answer).unwrap();
        assert_eq!(answer.headers.get("cache-control").unwrap(), "private, max-age=60");
    }
}
