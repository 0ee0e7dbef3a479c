//! A disk so small that it is soon full.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A disk in memory.
#[derive(Debug)]
pub(super) struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None`: whoever runs the tests may not mount anything.
    pub(super) fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = run(
            &["mount", "-t", "tmpfs", "-o", &format!("size={megabytes}m"), "ropeline-test"],
            folder.path(),
        ) && run(&["chmod", "0777"], folder.path());
        mounted.then_some(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until nothing more can be.
    pub(super) fn fill(&self) {
        let path = self.ballast();
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let mut size = 1 << 20;
        // The last byte, too.
        while size > 0 {
            if file.write(&vec![7; size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Gives it back.
    pub(super) fn clear(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.0.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whatever is still open on it goes on until it is closed.
        run(&["umount", "--lazy"], self.0.path());
    }
}

/// As root, or as whom `sudo` makes root without asking.
fn run(command: &[&str], path: &Path) -> bool {
    let sudo: &[&str] =
        if rustix::process::geteuid().is_root() { &[] } else { &["sudo", "--non-interactive"] };
    let words: Vec<&str> = sudo.iter().chain(command).copied().collect();
    let done = Command::new(words[0]).args(&words[1..]).arg(path).output();
    done.is_ok_and(|done| done.status.success())
}
