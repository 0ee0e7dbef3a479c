//! How long each unsettled purchase is left alone between two times that the payment service is asked about it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// After the first time; each pause is twice the one before.
const SHORTEST: Duration = Duration::from_secs(1);
/// A bank that has not decided is asked about this often, however long it takes: what is set aside runs out after days.
const LONGEST: Duration = Duration::from_secs(60);
/// Purchases asked about in one round, so that a long list does not keep what is at its end from its turn.
const A_ROUND: usize = 1_000;

/// Who has been asked about how often, and when next. What is lost with the process is asked about at once after it.
#[derive(Debug, Default)]
pub(crate) struct Patience(HashMap<String, (u32, Instant)>);

// === impl Patience ===

impl Patience {
    /// Those of `unsettled` that are to be asked about at `now`, and will not be again before their next pause is over.
    /// Purchases that are not unsettled any more are forgotten.
    pub(crate) fn due(&mut self, unsettled: Vec<String>, now: Instant) -> Vec<String> {
        let mut before = std::mem::take(&mut self.0);
        let mut due = Vec::new();
        for id in unsettled {
            let (times, next) = before.remove(&id).unwrap_or((0, now));
            if next > now || due.len() == A_ROUND {
                self.0.insert(id, (times, next));
                continue;
            }
            let pause = SHORTEST.saturating_mul(1 << times.min(10)).min(LONGEST);
            self.0.insert(id.clone(), (times.saturating_add(1), now + pause));
            due.push(id);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_what_is_settled_is_forgotten() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        let mut asked = Vec::new();
        for second in 0..300 {
            let due = patience.due(vec!["a".into()], start + Duration::from_secs(second));
            asked.extend(due.iter().map(|_| second));
        }
        assert_eq!(asked, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        assert!(patience.due(vec![], start).is_empty());
        assert_eq!(patience.due(vec!["a".into()], start), ["a"], "it is as if never asked about");
    }

    #[test]
    fn a_long_list_is_gone_through_in_rounds() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        let all: Vec<String> = (0..2_500).map(|n| n.to_string()).collect();
        let rounds: Vec<usize> = (0..4).map(|_| patience.due(all.clone(), now).len()).collect();
        assert_eq!(rounds, [1_000, 1_000, 500, 0]);
    }
}
