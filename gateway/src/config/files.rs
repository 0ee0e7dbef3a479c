//! Files a configuration names: read within bounds, and their permissions looked at.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::report::Fault;

/// The path for people to read, unless it may be the secret itself, written where its file was to be named: a name without
/// an extension, or an address.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let is_address = text.contains("://") || text.contains('@') || text.contains(":/");
    if is_address || path.extension().is_none() { "what is named here".to_owned() } else { text }
}

/// Checks that it can be the name of an environment variable, and not what was to be in it.
pub(super) fn variable(name: &str) -> Result<(), Fault> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if is_name && !name.is_empty() {
        return Ok(());
    }
    Err(Fault::new(
        "is not the name of an environment variable",
        "name one of capitals, digits and _, and set that to the value",
    ))
}

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
/// When it is missing, unreadable, no regular file, or longer.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, Fault> {
    read_as(path, max, &path.display().to_string())
}

/// The same of a file with a secret, which may have been written where the file was to be named.
pub(super) fn read_secret(path: &Path, max: u64) -> Result<Vec<u8>, Fault> {
    read_as(path, max, &shown(path))
}

fn read_as(path: &Path, max: u64, shown: &str) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: std::io::Error| {
        Fault::new(format!("cannot read {shown}: {error}"), "check the path and the file's owner")
    };
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Fault::new(format!("{shown} is not a file"), "name a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > max) {
        return Err(Fault::new(format!("{shown} is longer than {max} bytes"), "is it the right file?"));
    }
    Ok(bytes)
}

/// Checks that a PEM file has a block whose label ends in `label`.
pub(super) fn pem(path: &Path, label: &str) -> Result<(), Fault> {
    let bytes = read(path, 1 << 20)?;
    let text = String::from_utf8_lossy(&bytes);
    let found = text.lines().any(|line| {
        let inner = line.trim().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        inner.is_some_and(|inner| inner.ends_with(label))
    });
    if found {
        return Ok(());
    }
    Err(Fault::new(
        format!("{} has no PEM block {label}", path.display()),
        format!("name a PEM file with -----BEGIN {label}-----"),
    ))
}

/// A warning when group or others may read a file that holds a secret; `None` too when the file is not there.
#[cfg(unix)]
pub fn readable_by_others(path: &Path) -> Option<Fault> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        Fault::new(
            format!("{} can be read by others (mode {mode:03o})", path.display()),
            format!("chmod 600 {}", path.display()),
        )
    })
}

/// Permissions are not looked at on this system.
#[cfg(not(unix))]
pub fn readable_by_others(_path: &Path) -> Option<Fault> {
    None
}
