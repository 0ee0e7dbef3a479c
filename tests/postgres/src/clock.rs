//! The server's clock, which a test can step: libfaketime, loaded into the server, reads the difference from a file.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Postgres;

/// Where Debian puts the library.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

impl Postgres {
    /// Sets the server's clock so many seconds ahead of the machine's (behind it, when negative), at once and while it
    /// runs. The server must have been started by [`Postgres::start_with_clock`].
    pub fn step_clock(&self, seconds: i64) {
        // Renamed into place, so that it is never read half written.
        let next = self.socket().join("clock.next");
        fs::write(&next, format!("{seconds:+}\n")).expect("the clock's file");
        fs::rename(&next, self.clock()).expect("the clock's file");
    }

    /// Starts a server whose clock can be stepped.
    pub fn start_with_clock() -> Self {
        let mut server = Self::start();
        server.stop();
        server.step_clock(0);
        server.launch();
        server
    }

    pub(crate) fn with_clock(&self, command: &mut Command) {
        if !self.clock().exists() {
            return;
        }
        let library = LIBRARIES.into_iter().find(|path| fs::exists(path).unwrap_or_default());
        let library = library.expect("libfaketime is not installed; `scripts/setup.sh test` installs it");
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", self.clock())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    fn clock(&self) -> PathBuf {
        self.socket().join("clock")
    }
}
