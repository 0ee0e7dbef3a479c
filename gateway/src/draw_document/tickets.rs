//! Holds tickets against a draw: each alone, and all of them against each other. One ticket shows little of what an
//! operator did; a few, from people who do not know each other, show whether numbers were moved.

use std::collections::HashMap;

use ropeline_queue::draw::Shuffle;
use ropeline_queue::types::MAX_ARRIVALS;
use ropeline_queue::{Arrival, Lane, Place, SaleId, UnixMillis};
use ropeline_token::{Claims, Expect, KeySet, Leeway, Refusal};

use super::Drawn;
use crate::config::units::rfc3339;

/// A token that is not against the draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It fits the draw.
    Placed(Placed),
    /// It let its visitor in while the queue's store was away, as a sale may: it bears no number, and took nobody's place.
    Unqueued,
}

/// A ticket that fits the draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its number.
    pub arrival: Arrival,
    /// The place that follows from the draw.
    pub place: Place,
}

/// A token whose signature is good, and that names a number.
struct Read {
    subject: String,
    arrival: u64,
    /// What an admission token says, which is signed as well; none: a ticket.
    told: Option<u64>,
    /// When its visitor joined, in Unix seconds; an admission token does not say.
    joined_at: Option<u64>,
}

/// Checks tickets, and admission tokens, which name their place; what is found of each, in their order. Their times do
/// not count: a ticket keeps its place after it has expired.
pub fn check(drawn: &Drawn, sale: &SaleId, keys: &KeySet, tokens: &[String]) -> Vec<Result<Found, String>> {
    let read: Vec<_> = tokens.iter().map(|token| read(sale, keys, token.trim())).collect();
    // Many may have been let in without a number: it is none that they could share.
    let against = contradictions(&read);
    let shuffles: Vec<_> = (0..).map_while(Lane::at).map_while(|lane| drawn.shuffle_of(lane)).collect();
    let shuffles: Vec<_> = shuffles.into_iter().map(|shuffle| shuffle.prepare()).collect();
    let one = |(at, read): (usize, Result<Option<Read>, String>)| {
        let Some(read) = read? else { return Ok(Found::Unqueued) };
        let arrival = Arrival(read.arrival);
        let Some(shuffle) = shuffles.get(arrival.lane().index()) else {
            return Err(format!("{} is of a lane that the sale does not have", named(arrival)));
        };
        let place = shuffle.place(arrival);
        if let Some(joined_at) = read.joined_at {
            belongs(drawn, arrival, joined_at)?;
        }
        if let Some(told) = read.told.filter(|told| *told != place.0) {
            let (told, place) = (Place(told).number(), place.number());
            let arrival = named(arrival);
            return Err(format!("{arrival} was let in at place {told}, by the draw it has place {place}"));
        }
        match against.get(&at) {
            Some(why) => Err(why.clone()),
            None => Ok(Found::Placed(Placed { arrival, place })),
        }
    };
    read.into_iter().enumerate().map(one).collect()
}

/// An arrival as people name it: a number, with the lane where it is not the first.
pub fn named(arrival: Arrival) -> String {
    match arrival.lane().index() {
        0 => format!("arrival {arrival}"),
        index => format!("arrival {} of lane {}", arrival.number(), index + 1),
    }
}

/// None for a token that bears no number.
fn read(sale: &SaleId, keys: &KeySet, token: &str) -> Result<Option<Read>, String> {
    let refused = |refusal: Refusal| format!("refused ({}): {refusal}", refusal.code());
    match (keys.ticket(token), keys.admission(token)) {
        (Ok(ticket), _) => {
            let claims = ticket.unaccepted().claims.clone();
            ticket.accept(&expect(&claims, sale), claims.nbf).map_err(refused)?;
            let joined_at = Some(claims.iat);
            Ok(Some(Read { subject: claims.sub, arrival: claims.arrival, told: None, joined_at }))
        }
        (_, Ok(admission)) => {
            let (claims, place) = (admission.unaccepted().claims.clone(), admission.unaccepted().place);
            admission.accept(&expect(&claims, sale), claims.nbf).map_err(refused)?;
            if (claims.arrival, place) == (MAX_ARRIVALS, MAX_ARRIVALS) {
                return Ok(None);
            }
            let (subject, arrival) = (claims.sub, claims.arrival);
            Ok(Some(Read { subject, arrival, told: Some(place), joined_at: None }))
        }
        (Err(refusal), Err(_)) => Err(refused(refusal)),
    }
}

/// Which sale counts; when does not, so each is looked at in its own first second.
fn expect<'a>(claims: &'a Claims, sale: &'a SaleId) -> Expect<'a> {
    Expect { issuer: &claims.iss, audience: sale.as_str(), min_epoch: 0, leeway: Leeway::default() }
}

/// Who is drawn and who joined before the closing must be the same people. Tickets tell the second alone, so one of the
/// closing's own second may be on either side.
fn belongs(drawn: &Drawn, arrival: Arrival, joined_at: u64) -> Result<(), String> {
    let size = drawn.shuffle_of(arrival.lane()).map_or(0, Shuffle::size);
    let is_drawn = arrival.number() < u64::from(size);
    let arrival = named(arrival);
    let second = UnixMillis(joined_at.saturating_mul(1_000));
    let (joined, closes) = (rfc3339(second.0), rfc3339(drawn.closes_at.0));
    if is_drawn && second >= drawn.closes_at {
        return Err(format!(
            "{arrival} is among those drawn, and joined at {joined}, after the draw closed at {closes}"
        ));
    }
    if !is_drawn && second.plus(999) < drawn.closes_at {
        return Err(format!(
            "{arrival} is not among those drawn, and joined at {joined}, before the draw closed at {closes}"
        ));
    }
    Ok(())
}

/// What tickets say against each other, by the index of the one it is said of: numbers are given in order of joining,
/// each once, and a visitor's stays the same.
fn contradictions(read: &[Result<Option<Read>, String>]) -> HashMap<usize, String> {
    let mut against = HashMap::new();
    let mut good: Vec<_> =
        read.iter().enumerate().filter_map(|(at, read)| Some((at, read.as_ref().ok()?.as_ref()?))).collect();
    good.sort_by_key(|(_, read)| (read.arrival, read.joined_at));
    for pair in good.windows(2) {
        let ((first, one), (second, two)) = (pair[0], pair[1]);
        if one.arrival == two.arrival && one.subject != two.subject {
            let arrival = named(Arrival(two.arrival));
            let words = format!("{arrival} is also ticket {}'s, of another visitor", first + 1);
            against.insert(second, words);
        }
    }
    let mut latest: Option<(usize, u64, u64)> = None;
    for (at, Read { arrival, joined_at, .. }) in &good {
        let Some(joined_at) = *joined_at else { continue };
        // Each lane counts on its own.
        latest = latest.filter(|(_, lower, _)| Arrival(*lower).lane() == Arrival(*arrival).lane());
        match latest {
            Some((other, lower, then)) if joined_at < then => {
                let (arrival, lower) = (named(Arrival(*arrival)), named(Arrival(lower)));
                let words = format!(
                    "{arrival} joined at {}, before {lower} of ticket {} did at {}: numbers were moved",
                    rfc3339(joined_at.saturating_mul(1_000)),
                    other + 1,
                    rfc3339(then.saturating_mul(1_000))
                );
                against.insert(*at, words);
            }
            _ => latest = Some((*at, *arrival, joined_at)),
        }
    }
    let mut joined = HashMap::new();
    for (at, Read { subject, arrival, joined_at, .. }) in &good {
        let Some(joined_at) = joined_at else { continue };
        // Who goes over to another lane has a number there, too.
        let lane = Arrival(*arrival).lane();
        match joined.insert((subject.as_str(), joined_at, lane), (*at, *arrival)) {
            Some((other, before)) if before != *arrival => {
                let (arrival, before) = (named(Arrival(*arrival)), named(Arrival(before)));
                let words = format!(
                    "{arrival} is of the same visitor and second as {before} of ticket {}: one number was \
                     exchanged for another",
                    other + 1
                );
                against.insert(*at, words);
            }
            _ => {}
        }
    }
    against
}
