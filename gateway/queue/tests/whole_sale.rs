//! A scaled-down sale, from the first join to sold out, with every invariant checked on the way.

mod simulation;

use simulation::{Scenario, run};

#[test]
fn a_sale_of_twenty_thousand_keeps_every_promise() {
    for seed in 1..=3 {
        let report = run(Scenario { visitors: 20_000, seed })
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!((11_900..=12_000).contains(&report.drawn) && report.late_called > 0, "{report}");
        assert!(report.foretold > 1_000, "{report}");
        assert!(report.memory.iter().all(|memory| memory.core_bytes < 40_000), "{report}");
    }
}
