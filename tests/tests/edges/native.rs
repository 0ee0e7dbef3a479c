//! This build itself.

use std::collections::BTreeMap;

use ropeline_edge::{Act, Field, Settings};
use ropeline_tests::conformance::vectors::Vectors;
use serde_json::Value;

use crate::{VECTORS, with_request};

/// The settings of the vectors, by name.
pub(crate) fn settings(vectors: &Vectors) -> BTreeMap<&str, Settings> {
    let read = |name: &str, document: &Value| {
        let settings = Settings::from_json(document.to_string().as_bytes());
        settings.unwrap_or_else(|refused| panic!("{name}: {refused}"))
    };
    vectors.settings.iter().map(|(name, document)| (name.as_str(), read(name, document))).collect()
}

#[test]
fn every_vector_gets_the_plan_that_its_maker_expects() {
    let (vectors, settings) = (&*VECTORS, settings(&VECTORS));
    let mut wrong = Vec::new();
    for case in &vectors.cases {
        with_request(case, |request| {
            let plan = settings[case.settings.as_str()].plan(request, vectors.time(case));
            let found: Value = serde_json::from_str(&plan.to_json()).expect("JSON");
            if found != case.expect.plan() {
                wrong.push(format!("{}\n  found    {found}\n  expected {}", case.name, case.expect.plan()));
            }
            let gone = gone(&plan.act, request.headers);
            if gone != case.expect.gone {
                wrong.push(format!("{}: gone are {gone:?}, and not {:?}", case.name, case.expect.gone));
            }
        });
    }
    let total = vectors.cases.len();
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("conformance: native: {total} of {total} agree");
}

/// The fields that an upstream does not get to see, as the request spells them.
fn gone(act: &Act<'_>, headers: &[Field<'_>]) -> Vec<String> {
    let Act::Forward(forward) = act else { return Vec::new() };
    let mut gone: Vec<_> = headers.iter().map(|(name, _)| (*name).to_owned()).collect();
    gone.retain(|name| forward.removes(name));
    gone.dedup();
    gone
}
