//! The clock of a process, which a test can step: libfaketime, loaded into it, reads the difference from a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Postgres;

/// Where Debian puts the library, for processes of one thread and of many.
const FOLDERS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/aarch64-linux-gnu/faketime",
    "/usr/lib/faketime",
    "/usr/lib64/faketime",
];

/// A clock that any number of processes go by. Only the time of day is stepped, never the time that pauses and time-outs
/// are measured in.
///
/// What a process does in a signal's handler while it waits shows it the machine's time all the same. PostgreSQL looks there
/// whether a time-out is over: as long as the clock is an hour ahead, none ever is, as if the clock were set back by an
/// hour after each was set; and as long as it is behind, all are at the first that comes to an end.
#[derive(Clone, Debug)]
pub struct Clock {
    file: PathBuf,
}

// === impl Clock ===

impl Clock {
    /// A clock that is kept in `file` and shows the machine's time.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        let clock = Self { file };
        clock.step(0);
        clock
    }

    /// Sets it so many seconds ahead of the machine's (behind it, when negative), at once and for processes that run.
    pub fn step(&self, seconds: i64) {
        // Renamed into place, so that it is never read half written.
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{seconds:+}\n")).expect("the clock's file");
        fs::rename(&next, &self.file).expect("the clock's file");
    }

    /// Makes a process that is about to be started go by it.
    pub fn wear(&self, command: &mut Command, threads: bool) {
        let name = if threads { "libfaketimeMT.so.1" } else { "libfaketime.so.1" };
        let found =
            FOLDERS.map(|folder| PathBuf::from(folder).join(name)).into_iter().find(|path| path.exists());
        let library = found.expect("libfaketime is not installed; `scripts/setup.sh test` installs it");
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

impl Postgres {
    /// Sets the server's clock so many seconds ahead of the machine's (behind it, when negative), at once and while it
    /// runs. The server must have been started by [`Postgres::start_with_clock`].
    pub fn step_clock(&self, seconds: i64) {
        Clock { file: self.clock() }.step(seconds);
    }

    /// Starts a server whose clock can be stepped.
    pub fn start_with_clock() -> Self {
        Self::start_in_with_clock(&std::env::temp_dir())
    }

    /// The same, where [`Postgres::start_in`] puts it.
    pub fn start_in_with_clock(place: &Path) -> Self {
        let mut server = Self::start_in(place, &[]);
        server.stop();
        server.step_clock(0);
        server.launch();
        server
    }

    pub(crate) fn with_clock(&self, command: &mut Command) {
        if self.clock().exists() {
            Clock { file: self.clock() }.wear(command, false);
        }
    }

    fn clock(&self) -> PathBuf {
        self.socket().join("clock")
    }
}
