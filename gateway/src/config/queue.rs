//! `[queue]`: what all sales share.

use std::time::Duration;

use ropeline_queue::LONGEST_TICK_MS;
use ropeline_token::Leeway;

use super::read::Section;
use super::report::Fault;

/// What all sales share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// The path under which shoppers reach the queue; starts with `/` and does not end with one.
    pub api_prefix: String,
    /// The `iss` of every token.
    pub issuer: String,
    /// How far clocks may differ.
    pub leeway: Leeway,
    /// How often each sale is moved on; at most [`LONGEST_TICK_MS`], on which the paces of sales rest.
    pub tick_every: Duration,
}

pub(super) fn read(section: Section<'_>) -> QueueSettings {
    let settings = QueueSettings {
        api_prefix: section.or("api_prefix", "/api/v1/queue".to_owned(), |item| {
            let text = item.text()?;
            let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
            let segment = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(unreserved);
            let valid = text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(segment));
            if !valid || text.len() > 200 {
                return Err(Fault::new(
                    format!("{text:?} is not a path prefix"),
                    "start with / and end without one, of letters, digits and - . _ ~ only",
                ));
            }
            Ok(text.to_owned())
        }),
        issuer: section.or("issuer", "ropeline".to_owned(), |item| {
            let text = item.text()?;
            if text.is_empty()
                || text.len() > 255
                || text.trim() != text
                || text.chars().any(char::is_control)
            {
                return Err(Fault::new(
                    format!("{text:?} is not an issuer"),
                    "write 1 to 255 plain characters, for example the shop's address",
                ));
            }
            Ok(text.to_owned())
        }),
        leeway: section.or("leeway", Leeway::default(), |item| {
            let leeway = item.duration_in(Duration::ZERO, Duration::from_secs(Leeway::MAX_SECONDS))?;
            if leeway.subsec_nanos() != 0 {
                return Err(Fault::new("is not whole seconds", "write for example \"5s\""));
            }
            Leeway::from_seconds(leeway.as_secs())
                .map_err(|error| Fault::new(error.to_string(), "write \"5s\""))
        }),
        tick_every: section.or("tick_every", Duration::from_millis(LONGEST_TICK_MS), |item| {
            item.duration_in(Duration::from_millis(20), Duration::from_millis(LONGEST_TICK_MS))
        }),
    };
    section.finish();
    settings
}
