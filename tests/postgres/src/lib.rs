//! A real PostgreSQL server for tests and benchmarks, in a folder of its own and reached by a socket in it, so that any
//! number run side by side. Its commits are as durable as in production: `fsync` is on.
//!
//! Everything waits for the server and none of it is async: a test calls it where nothing else has to go on.
//!
//! PostgreSQL refuses to run as root; started by root, it runs as the system's user `postgres`.

#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "whatever goes wrong in here is a failure of the test that called, and is printed with its output"
)]

mod clock;
mod cluster;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use clock::Clock;

/// How long the server may take to start or to stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// How much of the log is printed when a test fails.
const LOG_TAIL: usize = 16_000;

/// A server. It and all it stored end with this value.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    running: Option<Running>,
}

/// The server's first process, and a shell that ends it should the test be killed.
#[derive(Debug)]
struct Running {
    postmaster: Child,
    watcher: Child,
}

// === impl Postgres ===

impl Postgres {
    /// Starts a server as it is installed.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these lines in its `postgresql.conf`.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_in(&std::env::temp_dir(), settings)
    }

    /// The same, with all of its files in a folder of its own in `place`, which its user must be able to get to.
    pub fn start_in(place: &Path, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::make_in(place, settings);
        server.launch();
        server
    }

    /// The files of a server that is not started yet.
    fn make_in(place: &Path, settings: &[(&str, &str)]) -> Self {
        let server = Self { folder: cluster::create(place), running: None };
        let socket = server.folder.path().display().to_string();
        server.configure(&[("listen_addresses", ""), ("unix_socket_directories", &socket), ("fsync", "on")]);
        server.configure(settings);
        server
    }

    /// A streaming standby of this server, which follows it and can be promoted.
    pub fn standby(&self) -> Self {
        let folder = cluster::folder();
        let data = folder.path().join("data");
        let mut backup = Command::new(cluster::program("pg_basebackup"));
        backup
            .args(["--pgdata", data.to_str().unwrap(), "--write-recovery-conf", "--checkpoint=fast"])
            .args(["--host", self.folder.path().to_str().unwrap(), "--username=postgres"])
            .current_dir(folder.path());
        cluster::as_owner(&mut backup);
        cluster::run(&mut backup);
        let mut server = Self { folder, running: None };
        let socket = server.folder.path().display().to_string();
        server.configure(&[("unix_socket_directories", &socket)]);
        server.launch();
        server
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.psql("postgres", "SELECT pg_promote(true, 60)");
    }

    /// Creates an empty database and gives its address.
    pub fn create(&self, database: &str) -> String {
        self.psql("postgres", &format!("CREATE DATABASE {database}"));
        self.url(database)
    }

    /// The address of a database, as `database` in the reservation service's configuration.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@localhost/{database}?host={}", self.folder.path().display())
    }

    /// Runs SQL and returns what it selects: a line for each row, `|` between columns.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        cluster::run(&mut self.client(database, sql))
    }

    /// Runs SQL that the server may refuse, or not live through; whether it did it.
    pub fn try_psql(&self, database: &str, sql: &str) -> bool {
        let out = self.client(database, sql).output().expect("psql starts");
        out.status.success()
    }

    fn client(&self, database: &str, sql: &str) -> Command {
        let mut client = Command::new(cluster::program("psql"));
        client
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
            .args(["--host", self.folder.path().to_str().unwrap(), "--username=postgres"])
            .args(["--dbname", database, "--command", sql]);
        client
    }

    /// Adds lines to `postgresql.conf`; they count from the next start.
    pub fn configure(&self, settings: &[(&str, &str)]) {
        let path = self.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&path).expect("postgresql.conf");
        for (name, value) in settings {
            writeln!(text, "{name} = '{value}'").unwrap();
        }
        fs::write(&path, text).expect("postgresql.conf");
    }

    /// Kills every process of the server at once (SIGKILL), as a power cut would end them.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // Stopped first, or it would start over by itself when its children die.
        let postmaster = running.pid();
        kill_process(postmaster, Signal::STOP).expect("SIGSTOP");
        await_stop(postmaster);
        let children = running.children();
        for &child in &children {
            // Fails only for one that ended by itself.
            let _ = kill_process(child, Signal::KILL);
        }
        for child in children {
            // One that still has the shared memory keeps the next server from starting.
            await_end(child);
        }
        kill_process(postmaster, Signal::KILL).expect("SIGKILL");
        running.postmaster.wait().expect("its end");
        running.dismiss();
    }

    /// Kills the one process (SIGKILL) that serves the connection of this `pg_backend_pid()`. The server ends all the
    /// others and recovers, as after any crash of its own.
    pub fn kill_backend(&self, id: i32) {
        let pid = Pid::from_raw(id).expect("a process id");
        let running = self.running.as_ref().expect("a running server");
        assert!(running.children().contains(&pid), "{id} is no process of this server");
        kill_process(pid, Signal::KILL).expect("SIGKILL");
    }

    /// Stops every process of the server where it is (SIGSTOP), until [`Postgres::resume`]. Returns once they have stopped.
    pub fn pause(&self) {
        let running = self.running.as_ref().expect("a running server");
        kill_process(running.pid(), Signal::STOP).expect("SIGSTOP");
        // From here on no child is added.
        await_stop(running.pid());
        for child in running.children() {
            // Fails only for one that ended by itself.
            let _ = kill_process(child, Signal::STOP);
            await_stop(child);
        }
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        let running = self.running.as_ref().expect("a running server");
        for process in running.children().into_iter().chain([running.pid()]) {
            // Fails only for one that ended by itself.
            let _ = kill_process(process, Signal::CONT);
        }
    }

    /// Stops the server in good order.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.end(Signal::INT);
    }

    /// Starts it again after [`Postgres::kill`] or [`Postgres::stop`].
    ///
    /// # Panics
    /// When it runs already.
    pub fn launch(&mut self) {
        assert!(self.running.is_none(), "the server runs already");
        let log = self.folder.path().join("log");
        let out = File::options().create(true).append(true).open(log).expect("a log file");
        let mut command = Command::new(cluster::program("postgres"));
        command.arg("-D").arg(self.data()).stdin(Stdio::null());
        command.stdout(out.try_clone().expect("a second handle on the log")).stderr(out);
        self.with_clock(&mut command);
        cluster::as_owner(&mut command);
        let postmaster = command.spawn().expect("postgres starts");
        let watcher = Command::new("sh")
            .args(["-c", "read -r line; kill -QUIT \"$1\"", "sh", &postmaster.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        self.running = Some(Running { postmaster, watcher });
        self.await_ready();
    }

    /// The folder with the socket: `host` of a connection.
    pub fn socket(&self) -> &Path {
        self.folder.path()
    }

    fn await_ready(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ready = Command::new(cluster::program("pg_isready"))
                .args(["--quiet", "--username=postgres", "--host", self.folder.path().to_str().unwrap()])
                .status()
                .expect("pg_isready");
            if ready.success() {
                return;
            }
            let running = self.running.as_mut().expect("a started server");
            if let Some(status) = running.postmaster.try_wait().expect("its status") {
                panic!("postgres ended before it was ready: {status}\n{}", self.log_tail());
            }
            assert!(Instant::now() < deadline, "postgres is not ready\n{}", self.log_tail());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL)..]).into_owned()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // The quickest end that still gives its shared memory back.
            running.end(Signal::QUIT);
        }
        if std::thread::panicking() {
            eprintln!("--- postgres wrote:\n{}\n--- end of postgres", self.log_tail());
        }
    }
}

// === impl Running ===

/// Waits until a process that was sent SIGSTOP has stopped, or has ended by itself. These have one thread each.
fn await_stop(process: Pid) {
    await_state(process, &['T', 'Z', 'X']);
}

/// Waits until a process that was sent SIGKILL has ended.
fn await_end(process: Pid) {
    await_state(process, &['Z', 'X']);
}

/// Waits until a process is in one of these states, or is gone.
fn await_state(process: Pid, states: &[char]) {
    let deadline = Instant::now() + PATIENCE;
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    // "ID (NAME) STATE …": the name is the process's own, and may hold anything.
    while let Some(state) =
        fs::read_to_string(&path).ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next())
    {
        if states.contains(&state) {
            return;
        }
        assert!(Instant::now() < deadline, "process {} is in state {state}", process.as_raw_nonzero());
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.postmaster)
    }

    fn children(&self) -> Vec<Pid> {
        let id = self.postmaster.id();
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    fn end(&mut self, signal: Signal) {
        // A paused server hears nothing else.
        for pid in self.children().into_iter().chain([self.pid()]) {
            let _ = kill_process(pid, Signal::CONT);
        }
        let _ = kill_process(self.pid(), signal);
        let deadline = Instant::now() + PATIENCE;
        while self.postmaster.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > deadline {
                let _ = self.postmaster.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.dismiss();
    }

    fn dismiss(&mut self) {
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}
