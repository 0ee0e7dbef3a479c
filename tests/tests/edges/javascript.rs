//! The hosts that run JavaScript, each with the folder that `scripts/edge-folder.sh` puts together for it.

use std::fs;
use std::path::{Path, PathBuf};

use ropeline_tests::edge_hosts::Launch;
use ropeline_tests::guests::guest;

mod deno;
mod edge_runtime;
mod lambda;
mod node;
mod workerd;

/// The module that the package holds.
fn module() -> PathBuf {
    guest("ropeline-edge-abi", "wasm32-unknown-unknown", "abi")
}

/// Adds the package and its module, in the folder `ropeline`.
fn package(launch: Launch) -> Launch {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge-wasm/js");
    let files = fs::read_dir(&package).expect("the package").map(|file| file.expect("a file").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "js" || extension == "json"))
        .fold(launch, |launch, file| {
            let name = file.file_name().expect("a name");
            launch.copy(Path::new("ropeline").join(name), &file)
        })
        .copy("ropeline/ropeline_edge.wasm", &module())
}
