//! The loader alone in Node, whose clock is the vectors': every one of them, to the byte.

use std::fs;
use std::process::Command;

use ropeline_tests::conformance::generate;
use ropeline_tests::edge_hosts::{binary, permitted};
use ropeline_tests::guests::javascript_module;
use serde_json::Value;

/// A time like any other.
const NOW: u64 = 1_800_000_000;

#[test]
fn the_module_in_node_plans_as_every_edge_does() {
    let Some(node) = permitted(binary("node")) else { return };
    let vectors = generate(NOW);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("vectors.json");
    fs::write(&file, serde_json::to_string(&vectors).expect("JSON")).expect("a file");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/edges/javascript/plans.mjs");
    let output = Command::new(node).arg(script).arg(javascript_module()).arg(&file).output().expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plans: Vec<Value> = serde_json::from_slice(&output.stdout).expect("plans");
    assert_eq!(plans.len(), vectors.cases.len());
    let wrong: Vec<_> = (vectors.cases.iter().zip(&plans))
        .filter(|(case, found)| {
            found["plan"] != case.expect.plan() || found["gone"] != serde_json::json!(case.expect.gone)
        })
        .map(|(case, found)| format!("{}\n  found    {found}\n  expected {:?}", case.name, case.expect))
        .collect();
    let total = vectors.cases.len();
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
    eprintln!("conformance: node: {total} of {total} agree");
}
