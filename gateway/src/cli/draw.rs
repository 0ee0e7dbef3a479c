//! `ropeline draw verify`.

use std::io::Write;

use clap::{Args, Subcommand};
use ropeline_queue::Arrival;
use ropeline_token::{Claims, Expect, KeySet, Leeway};

use super::{Done, Failure, fetch};
use crate::draw_document::{DrawDocument, Outcome};

#[derive(Debug, Subcommand)]
pub(super) enum Draw {
    /// Recomputes a draw from its public document: signatures, promise, commitment, number, seed, and the places of
    /// given tickets.
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
    /// A ticket whose place to compute; may be given many times.
    #[arg(long = "ticket", value_name = "TOKEN")]
    tickets: Vec<String>,
}

impl Draw {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        match self {
            Self::Verify(verify) => verify.run(out),
        }
    }
}

impl Verify {
    fn run(self, out: &mut dyn Write) -> Done {
        let jwks = match self.jwks {
            Some(jwks) => jwks,
            None => default_jwks(&self.document)?,
        };
        let keys = fetch::keys(&jwks)?;
        let document: DrawDocument =
            serde_json::from_slice(&fetch::bytes(&self.document)?).map_err(|error| {
                Failure::Found(format!("{} is no document of a draw: {error}", self.document))
            })?;

        writeln!(out, "draw of the sale {}", document.sale)?;
        let verification = document.verify(&keys);
        for check in &verification.checks {
            let (word, text) = match &check.outcome {
                Outcome::Good(text) => ("good", text.as_str()),
                Outcome::Bad(text) => ("BAD", text.as_str()),
                Outcome::Pending(text) => ("not yet", *text),
            };
            // Text out of a document is escaped: it cannot move a terminal's cursor.
            writeln!(out, "{word:7} {}: {}", check.name, text.escape_debug())?;
        }
        if !verification.is_good() {
            return Err(Failure::Found("the draw is not as promised".to_owned()));
        }
        let Some(shuffle) = verification.shuffle else {
            return if self.tickets.is_empty() {
                Ok(())
            } else {
                Err(Failure::Found("places are not known yet: the draw has not been made".to_owned()))
            };
        };
        let mut all_good = true;
        for (number, ticket) in (1..).zip(&self.tickets) {
            match ticket_claims(&keys, ticket, &document) {
                Ok(claims) => writeln!(
                    out,
                    "good    ticket {number}: arrival {} has place {}",
                    claims.arrival,
                    shuffle.place(Arrival(claims.arrival))
                )?,
                Err(why) => {
                    all_good = false;
                    writeln!(out, "BAD     ticket {number}: {why}")?;
                }
            }
        }
        if all_good { Ok(()) } else { Err(Failure::Found("not every ticket is good".to_owned())) }
    }
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

/// A ticket's claims. Its signature and sale count here; a ticket keeps its place after it has expired.
fn ticket_claims(keys: &KeySet, ticket: &str, document: &DrawDocument) -> Result<Claims, String> {
    let ticket =
        keys.ticket(ticket.trim()).map_err(|refusal| format!("refused ({}): {refusal}", refusal.code()))?;
    let issued = ticket.unaccepted().claims.clone();
    let expect = Expect {
        issuer: &issued.iss,
        audience: document.sale.as_str(),
        min_epoch: 0,
        leeway: Leeway::default(),
    };
    match ticket.accept(&expect, issued.nbf) {
        Ok(accepted) => Ok(accepted.claims.clone()),
        Err(refusal) => Err(format!("refused ({}): {refusal}", refusal.code())),
    }
}
