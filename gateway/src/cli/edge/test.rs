//! `ropeline edge test`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use base64ct::{Base64, Encoding as _};
use clap::Args;
use ropeline_edge::{Field, Request};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::{Done, Failure};
use crate::config::{Fault, files};
use crate::edge::{Guest, trial};

/// The vectors of this release.
#[cfg(feature = "edge-module")]
const VECTORS: &str = include_str!("../../../../tests/conformance/vectors.json");
/// No module is run, so none is compared.
#[cfg(not(feature = "edge-module"))]
const VECTORS: &str = "";

/// Largest file of vectors, in bytes.
const MAX_VECTORS: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(in crate::cli) struct Test {
    /// The module, as `cargo build -p ropeline-edge-abi` makes it in edge-wasm/.
    #[arg(long, value_name = "FILE")]
    module: PathBuf,
    /// The requests and what must come of them [default: this release's own, tests/conformance/vectors.json].
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
}

/// The file of vectors, as far as a module is asked.
#[derive(Deserialize)]
struct Vectors {
    now: u64,
    settings: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    settings: String,
    now: Option<u64>,
    method: String,
    host: String,
    target: String,
    headers: Vec<(String, FieldValue)>,
    expect: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FieldValue {
    Text(String),
    Bytes { base64: String },
}

impl Test {
    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let told = |fault: Fault| Failure::Found(format!("{}; {}", fault.what, fault.mend));
        let guest = trial::read(&self.module).map_err(told)?;
        let text = match &self.vectors {
            None => VECTORS.as_bytes().to_vec(),
            Some(path) => files::read(path, MAX_VECTORS).map_err(told)?,
        };
        let vectors: Vectors = serde_json::from_slice(&text)
            .map_err(|error| Failure::Found(format!("these are no conformance vectors: {error}")))?;
        compare(&guest, &vectors, out)
    }
}

fn compare(guest: &Guest, vectors: &Vectors, out: &mut dyn Write) -> Done {
    let (mut agree, mut differ) = (0_usize, 0_usize);
    for (name, settings) in &vectors.settings {
        let refused = guest.configure(&settings.to_string()).err();
        let mut here = 0_usize;
        for case in vectors.cases.iter().filter(|case| case.settings == *name) {
            let differences = match &refused {
                Some(error) => vec![format!("the settings {name}: {error}")],
                None => ask(guest, case, case.now.unwrap_or(vectors.now))?,
            };
            if differences.is_empty() {
                agree += 1;
                here += 1;
                continue;
            }
            differ += 1;
            writeln!(out, "{}", case.name)?;
            for difference in differences {
                writeln!(out, "    {difference}")?;
            }
        }
        writeln!(out, "{name}: {here} agree")?;
    }
    if let Some(case) = vectors.cases.iter().find(|case| !vectors.settings.contains_key(&case.settings)) {
        return Err(Failure::Found(format!("{}: there are no settings {}", case.name, case.settings)));
    }
    let total = vectors.cases.len();
    if differ > 0 || total == 0 {
        return Err(Failure::Found(format!("{differ} of {total} differ")));
    }
    writeln!(out, "{agree} of {total} agree")?;
    Ok(())
}

/// What differs between the module's plan and the one that must come.
fn ask(guest: &Guest, case: &Case, now: u64) -> Result<Vec<String>, Failure> {
    let fields = case.headers.iter().map(|(name, value)| Ok((name.as_str(), value.bytes()?)));
    let fields: Vec<(&str, Vec<u8>)> = fields.collect::<Result<_, Failure>>()?;
    let headers: Vec<Field<'_>> = fields.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    let request = Request { method: &case.method, host: &case.host, target: &case.target, headers: &headers };
    let plan = match guest.plan(&request, now) {
        Ok(plan) => plan,
        Err(error) => return Ok(vec![error.to_string()]),
    };
    let Ok(plan) = serde_json::from_str::<Map<String, Value>>(&plan) else {
        return Ok(vec![format!("no plan: {plan:?}")]);
    };
    // What must not reach the upstream is no part of a plan.
    let expected = |name: &str| case.expect.get(name).filter(|_| name != "gone");
    let names = case.expect.keys().filter(|name| *name != "gone").chain(plan.keys());
    let mut names: Vec<&String> = names.filter(|name| expected(name) != plan.get(*name)).collect();
    names.sort();
    names.dedup();
    let word = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let difference =
        |name: &String| format!("{name}: {} in place of {}", word(plan.get(name)), word(expected(name)));
    Ok(names.into_iter().map(difference).collect())
}

impl FieldValue {
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Bytes { base64 } => Base64::decode_vec(base64)
                .map_err(|error| Failure::Found(format!("{base64:?} is not base64: {error}"))),
        }
    }
}
