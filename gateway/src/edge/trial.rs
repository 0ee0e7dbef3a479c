//! Tries a module before it is relied on.

use std::path::Path;

use ropeline_decision::{Policy, Request, header};
use ropeline_edge::Upstream;

use super::export::Exporter;
use super::guest::Guest;
use crate::config::{Fault, files};
use crate::keys::Keys;

/// Largest module that is read, in bytes. The core has less than a hundred thousand.
const MAX_MODULE: u64 = 16 << 20;

/// A moment: any will do.
const NOW: u64 = 1_800_000_000;

/// Reads a module and compiles it.
///
/// # Errors
/// There is none, or it cannot be run here.
pub fn read(path: &Path) -> Result<Guest, Fault> {
    let bytes = files::read(path, MAX_MODULE)?;
    Guest::compile(&bytes).map_err(|error| {
        Fault::new(
            format!("{}: {error}", path.display()),
            "name the module that `cargo build -p ropeline-edge-abi` makes in edge-wasm/ (README: At the edge)",
        )
    })
}

/// Has the module do all that it ever does, with these keys, and compares it with this build.
///
/// # Errors
/// It fails, or does something else.
pub fn run(guest: &Guest, keys: &Keys) -> Result<(), Fault> {
    let policy = Policy::from_json(
        br#"{"issuer":"trial","api_prefix":"/api/v1/queue","secure_cookies":false,
            "sales":[{"sale":"trial","epoch":0,"gate":"queue","routes":[{"path":"/trial"}]}]}"#,
    );
    let broken =
        |error: &dyn std::fmt::Display| Fault::new(format!("this build is broken: {error}"), "build it anew");
    let exporter = Exporter::new(keys).map_err(|error| broken(&error))?;
    let policy = policy.map_err(|error| broken(&error))?;
    let settings = exporter.settings(policy).map_err(|error| broken(&error))?.sending_to(Upstream::Shop);
    let failed = |error: super::Failed| Fault::new(format!("the module: {error}"), REBUILD);
    guest.configure(&settings.to_json()).map_err(failed)?;
    let token = exporter.known_answer().as_bytes();
    let headers: [&[header::Field<'_>]; 2] = [&[(header::ADMISSION, token)], &[]];
    for (target, headers) in [("/trial", headers[0]), ("//other?a", headers[1]), ("/a%2fb", headers[1])] {
        let request = Request { method: "GET", host: "shop.example", target, headers };
        let plan = guest.plan(&request, NOW).map_err(failed)?;
        if plan != settings.plan(&request, NOW).to_json() {
            return Err(Fault::new("the module decides otherwise than this build", REBUILD));
        }
    }
    Ok(())
}

const REBUILD: &str =
    "build module and gateway from the same release; `ropeline edge test` says where it differs";
