//! The edges as WebAssembly modules, and the files that an operator deploys them with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folder.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project").to_owned()
}

/// Builds a guest, if it is not built already, as it is shipped, and says where the module is.
///
/// # Panics
/// When it cannot be built.
pub fn guest(package: &str, target: &str, profile: &str) -> PathBuf {
    let workspace = project().join("edge-wasm");
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            package,
            "--target",
            target,
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(&folder)
        .current_dir(&workspace)
        .output()
        .expect("cargo");
    assert!(built.status.success(), "{package}: {}", String::from_utf8_lossy(&built.stderr));
    folder.join(target).join(profile).join(package.replace('-', "_")).with_extension("wasm")
}

/// A file of a deployment, by its path below `cdn-config`.
///
/// # Panics
/// When there is none.
pub fn deployed(path: &str) -> String {
    let path = project().join("cdn-config").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `text` with what stands there for a value replaced by that value.
///
/// # Panics
/// When it does not stand there, or more than once.
pub fn set(text: &str, placeholder: &str, value: &str) -> String {
    assert_eq!(text.matches(placeholder).count(), 1, "{placeholder} stands once in\n{text}");
    text.replace(placeholder, value)
}
