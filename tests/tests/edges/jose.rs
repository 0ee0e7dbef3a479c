//! The expectations themselves, against another implementation of JOSE.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ropeline_tests::edge_hosts::{binary, permitted};

use crate::VECTORS;

#[test]
fn another_implementation_of_jose_takes_what_is_admitted_and_refuses_the_rest() {
    let Some(node) = permitted(binary("jose")) else { return };
    let conformance = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let (script, vectors) = (conformance.join("jose/check.mjs"), conformance.join("vectors.json"));
    let output = Command::new(node).arg(script).arg(vectors).output().expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: BTreeMap<String, Option<String>> =
        serde_json::from_slice(&output.stdout).expect("what it says");

    let mut wrong = Vec::new();
    let mut stricter: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in &VECTORS.cases {
        let Some(jose) = &case.jose else { continue };
        let refusal = said.get(&case.name).unwrap_or_else(|| panic!("nothing said of {}", case.name));
        if refusal.is_none() != jose.accepts {
            wrong.push(format!("{}: {}", case.name, refusal.as_deref().unwrap_or("it takes the token")));
        }
        let admitted = case.expect.kind == "forward";
        match (&jose.stricter, jose.accepts, admitted) {
            (Some(reason), true, false) => stricter.entry(reason).or_default().push(&case.name),
            (None, accepts, admitted) if accepts == admitted => {}
            _ => wrong.push(format!("{}: another verdict than JOSE's, and no reason for it", case.name)),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("conformance: jose: {} of {} agree", said.len(), said.len());
    for (reason, cases) in stricter {
        eprintln!("  of these, {} are refused all the same: {reason}", cases.len());
    }
}
