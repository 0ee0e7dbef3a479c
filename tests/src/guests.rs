//! The edges as WebAssembly modules, and the files that an operator deploys them with.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::edge_hosts::Launch;

/// The project's folder.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project").to_owned()
}

/// Builds a guest, if it is not built already, as it is shipped, and says where the module is.
///
/// # Panics
/// When it cannot be built.
pub fn guest(package: &str, target: &str, profile: &str) -> PathBuf {
    let built = Command::new(project().join("scripts/guest.sh"))
        .args([package, target, profile])
        .output()
        .expect("scripts/guest.sh");
    assert!(built.status.success(), "{package}: {}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).expect("a path").trim_end().into()
}

/// A file of a deployment, by its path below `cdn-config`.
///
/// # Panics
/// When there is none.
pub fn deployed(path: &str) -> String {
    let path = project().join("cdn-config").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `text` with what stands there for a value replaced by that value.
///
/// # Panics
/// When it does not stand there, or more than once.
pub fn set(text: &str, placeholder: &str, value: &str) -> String {
    assert_eq!(text.matches(placeholder).count(), 1, "{placeholder} stands once in\n{text}");
    text.replace(placeholder, value)
}

/// A file of a deployment with addresses in place of those that stand in it.
///
/// # Panics
/// When there is no such file, or one of these does not stand in it, or more than once.
pub fn addressed(path: &str, addresses: &[(&str, SocketAddr)]) -> String {
    let put = |text: String, (placeholder, address): &(&str, SocketAddr)| {
        set(&text, placeholder, &address.to_string())
    };
    addresses.iter().fold(deployed(path), put)
}

/// The module in the JavaScript package.
///
/// # Panics
/// When it cannot be built.
pub fn javascript_module() -> PathBuf {
    guest("ropeline-edge-abi", "wasm32-unknown-unknown", "abi")
}

/// Adds the JavaScript package and its module, in the folder `ropeline`.
///
/// # Panics
/// When they cannot be read or built.
#[must_use]
pub fn with_package(launch: Launch) -> Launch {
    let package = project().join("edge-wasm/js");
    let files = fs::read_dir(&package).expect("the package").map(|file| file.expect("a file").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "js" || extension == "json"))
        .fold(launch, |launch, file| {
            let name = file.file_name().expect("a name");
            launch.copy(Path::new("ropeline").join(name), &file)
        })
        .copy("ropeline/ropeline_edge.wasm", &javascript_module())
}

/// The configuration of `cdn-config/cloudflare` for workerd.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn workerd_config(address: SocketAddr, gateway: SocketAddr, shop: SocketAddr) -> String {
    addressed(
        "cloudflare/local.capnp",
        &[("127.0.0.1:8787", address), ("127.0.0.1:8080", gateway), ("127.0.0.1:8081", shop)],
    )
}

/// What starts workerd with the files of `cdn-config/cloudflare`.
///
/// # Panics
/// When they cannot be read or built.
#[must_use]
pub fn workerd(address: SocketAddr, gateway: SocketAddr, shop: SocketAddr, settings: &str) -> Launch {
    with_package(Launch::new())
        .file("local.capnp", workerd_config(address, gateway, shop))
        .file("worker.js", deployed("cloudflare/worker.js"))
        .file("local-cache.js", deployed("cloudflare/local-cache.js"))
        .file("settings.json", settings)
        .arguments(["serve", "local.capnp"])
}
