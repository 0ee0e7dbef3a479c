//! `ropeline draw verify`.

use std::io::Write;

use clap::{Args, Subcommand};

use super::{Done, Failure, fetch};
use crate::draw_document::tickets::{self, Found, Placed};
use crate::draw_document::{DrawDocument, Outcome};

#[derive(Debug, Subcommand)]
pub(super) enum Draw {
    /// Recomputes a draw from its public documents: signatures, promise, number of arrivals, the beacon's round or the
    /// revealed secret, seed, and the places of given tickets.
    ///
    /// `good` is as promised and can be recomputed by anybody; `TRUST` is not against the promise, but rests on the
    /// operator's word; `BAD` is against it, and makes the exit code 1.
    Verify(Verify),
}

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The document of the draw: a file, an address (…/sales/SALE/draw), or `-` for standard input.
    document: String,
    /// The shop's key set: a file or an address. For a document from an address, its server's
    /// /.well-known/jwks.json when not given.
    #[arg(long, value_name = "FILE|URL")]
    jwks: Option<String>,
    /// A ticket whose place to compute, or an admission token, whose place is then compared; may be given many times.
    #[arg(long = "ticket", value_name = "TOKEN")]
    tickets: Vec<String>,
    /// Many of them: one a line; empty lines and those that begin with # are passed over.
    #[arg(long = "tickets", value_name = "FILE|URL")]
    list: Option<String>,
    /// A copy of this draw's document that was kept from before, best from before the draw was made; may be given many
    /// times. What it says must still be so.
    #[arg(long = "earlier", value_name = "FILE|URL")]
    earlier: Vec<String>,
}

impl Draw {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        match self {
            Self::Verify(verify) => verify.run(out),
        }
    }
}

/// Longest list of tickets, in bytes: some half a million.
const MAX_LIST: usize = 256 << 20;

impl Verify {
    fn run(self, out: &mut dyn Write) -> Done {
        let jwks = match &self.jwks {
            Some(jwks) => jwks.clone(),
            None => default_jwks(&self.document)?,
        };
        let keys = fetch::keys(&jwks)?;
        let document = document(&self.document)?;
        let earlier =
            self.earlier.iter().map(|source| self::document(source)).collect::<Result<Vec<_>, _>>()?;
        let mut tickets = self.tickets;
        if let Some(list) = &self.list {
            let text = fetch::up_to(list, MAX_LIST)?;
            let text = String::from_utf8_lossy(&text);
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            tickets.extend(lines.map(str::to_owned));
        }

        writeln!(out, "draw of the sale {}", document.sale)?;
        let verification = document.verify(&keys, &earlier);
        for check in &verification.checks {
            let (word, text) = match &check.outcome {
                Outcome::Good(text) => ("good", text.as_str()),
                Outcome::Trusted(text) => ("TRUST", text.as_str()),
                Outcome::Bad(text) => ("BAD", text.as_str()),
                Outcome::Pending(text) => ("not yet", *text),
            };
            // Text out of a document is escaped: it cannot move a terminal's cursor.
            writeln!(out, "{word:7} {}: {}", check.name, text.escape_debug())?;
        }
        if !verification.is_good() {
            return Err(Failure::Found("the draw is not as promised".to_owned()));
        }
        let Some(drawn) = &verification.drawn else {
            return if tickets.is_empty() {
                Ok(())
            } else {
                Err(Failure::Found("places are not known yet: the draw has not been made".to_owned()))
            };
        };
        let mut all_good = true;
        for (number, found) in (1..).zip(tickets::check(drawn, &document.sale, &keys, &tickets)) {
            match found {
                Ok(Found::Placed(Placed { arrival, place })) => {
                    let (arrival, place) = (tickets::named(arrival), place.number());
                    writeln!(out, "good    ticket {number}: {arrival} has place {place}")?;
                }
                Ok(Found::Unqueued) => {
                    let words = "let in without a number, as the sale does while its store is away; that it was is the operator's word";
                    writeln!(out, "TRUST   ticket {number}: {words}")?;
                }
                Err(why) => {
                    all_good = false;
                    writeln!(out, "BAD     ticket {number}: {}", why.escape_debug())?;
                }
            }
        }
        if all_good { Ok(()) } else { Err(Failure::Found("not every ticket is good".to_owned())) }
    }
}

fn document(source: &str) -> Result<DrawDocument, Failure> {
    serde_json::from_slice(&fetch::bytes(source)?)
        .map_err(|error| Failure::Found(format!("{source} is no document of a draw: {error}")))
}

fn default_jwks(document: &str) -> Result<String, Failure> {
    let address = fetch::is_address(document).then(|| reqwest::Url::parse(document).ok()).flatten();
    let address = address.and_then(|address| address.join("/.well-known/jwks.json").ok());
    address.map(String::from).ok_or_else(|| {
        Failure::Found(
            "name the shop's key set: --jwks https://shop.example/.well-known/jwks.json".to_owned(),
        )
    })
}
