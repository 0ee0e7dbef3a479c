//! This build itself.

use std::collections::BTreeMap;

use ropeline_edge::{Act, Request, Settings};
use ropeline_tests::conformance::{generate, vectors};
use serde_json::Value;

/// A time like any other.
const NOW: u64 = 1_800_000_000;

#[test]
fn every_vector_gets_the_plan_that_its_maker_expects() {
    let vectors = generate(NOW);
    let settings: BTreeMap<&str, Settings> = (vectors.settings.iter())
        .map(|(name, document)| {
            let settings = Settings::from_json(document.to_string().as_bytes());
            (name.as_str(), settings.unwrap_or_else(|refused| panic!("{name}: {refused}")))
        })
        .collect();
    let mut wrong = Vec::new();
    for case in &vectors.cases {
        let fields = case.fields();
        let headers: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let request =
            Request { method: &case.method, host: &case.host, target: &case.target, headers: &headers };
        let plan = settings[case.settings.as_str()].plan(&request, vectors.time(case));
        let found: Value = serde_json::from_str(&plan.to_json()).expect("JSON");
        if found != case.expect.plan() {
            wrong.push(format!("{}\n  found    {found}\n  expected {}", case.name, case.expect.plan()));
        }
        let gone = gone(&plan.act, &headers);
        if gone != case.expect.gone {
            wrong.push(format!("{}: gone are {gone:?}, and not {:?}", case.name, case.expect.gone));
        }
    }
    let total = vectors.cases.len();
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("conformance: native: {total} of {total} agree");
}

/// The fields that an upstream does not get to see, as the request spells them.
fn gone(act: &Act<'_>, headers: &[(&str, &[u8])]) -> Vec<String> {
    let Act::Forward(forward) = act else { return Vec::new() };
    let mut gone: Vec<_> = headers.iter().map(|(name, _)| (*name).to_owned()).collect();
    gone.retain(|name| forward.removes(name));
    gone.dedup();
    gone
}

/// What was read is what was written.
#[test]
fn the_vectors_can_be_written_and_read_again() {
    let vectors = generate(NOW);
    let text = serde_json::to_string(&vectors).expect("JSON");
    assert_eq!(serde_json::from_str::<vectors::Vectors>(&text).expect("vectors"), vectors);
}
