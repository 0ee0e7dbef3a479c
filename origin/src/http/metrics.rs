//! The books as metrics, in Prometheus' text format 0.0.4.

use std::fmt::Write;

use axum::extract::State;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::request::Flavour;
use super::{App, respond};
use crate::answer::Answer;
use crate::model::ProductAudit;
use crate::store::Backlog;

/// `GET /metrics`
#[utoipa::path(get, path = "/metrics", tag = "operator",
    responses((status = 200, description = "The books as metrics of Prometheus.", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let (Ok(audit), Ok(backlog)) = (app.store.audit().await, app.store.backlog().await) else {
        return respond::answer(Flavour::Program, &Answer::unavailable());
    };
    let mut response = Response::new((text(&audit.products) + &events(&backlog)).into());
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// Products' ids are letters, digits and dashes, so that they stand as they are.
fn text(products: &[ProductAudit]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, lines: &dyn Fn(&ProductAudit) -> Vec<(String, i64)>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP ropeline_origin_{name} {help}\n# TYPE ropeline_origin_{name} gauge");
        for product in products {
            for (labels, value) in lines(product) {
                let _ =
                    writeln!(text, "ropeline_origin_{name}{{product=\"{}\"{labels}}} {value}", product.id);
            }
        }
    };
    family("units", "Units of a product by where they are.", &|product| {
        let states = [("available", product.available), ("held", product.held), ("sold", product.sold)];
        states.into_iter().map(|(state, units)| (format!(",state=\"{state}\""), units)).collect()
    });
    family("units_total", "Units there are of a product.", &|product| vec![(String::new(), product.total)]);
    family("balanced", "1 while the books of a product add up, else 0.", &|product| {
        vec![(String::new(), i64::from(product.balanced))]
    });
    family("stopped", "1 while the sale of a product is stopped, else 0.", &|product| {
        vec![(String::new(), i64::from(product.stopped))]
    });
    text
}

/// What waits in the outbox. Sinks' names are letters, digits, dashes and colons.
fn events(backlog: &[Backlog]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, value: &dyn Fn(&Backlog) -> String| {
        let _ = writeln!(text, "# HELP ropeline_origin_{name} {help}\n# TYPE ropeline_origin_{name} gauge");
        for one in backlog {
            let _ = writeln!(text, "ropeline_origin_{name}{{sink=\"{}\"}} {}", one.sink, value(one));
        }
    };
    family("outbox_waiting", "Events that a sink is still to be told.", &|one| one.waiting.to_string());
    family("outbox_oldest_seconds", "Age of the oldest event that a sink is still to be told.", &|one| {
        format!("{}.{:03}", one.oldest_ms / 1_000, one.oldest_ms % 1_000)
    });
    family("outbox_dead", "Events that are not tried any more until they are resent.", &|one| {
        one.dead.to_string()
    });
    text
}
