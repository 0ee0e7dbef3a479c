//! Real processes: started, watched, killed by their id, and never left behind.

use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::net::TcpStream;

use crate::wait::PATIENCE;

/// How much of a log is printed when a test fails.
const LOG_TAIL: usize = 16_000;

/// The path of one of this workspace's binaries, in the target folder that the running test was built into.
///
/// # Panics
/// When it has not been built.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join(name);
    assert!(path.exists(), "{} is not built; `make bins` builds it", path.display());
    path
}

/// A running process. Killed when dropped; then, if the test is failing, the end of its log is printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with no standard input. What it writes goes to `folder/NAME.log`, after what an earlier
    /// process of that name wrote there.
    pub fn start<S: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        folder: &Path,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().copied());
        Self::spawn(name, command, folder)
    }

    /// The same for a command that is set up already.
    pub fn spawn(name: &str, mut command: Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log).expect("a log file");
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle on the log"))
            .stderr(out)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", command.get_program().display()));
        Self { name: name.to_owned(), child, log }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has of the machine's memory, in bytes.
    pub fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("a running process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line on memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib * 1_024
    }

    /// All it has written so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).expect("the log file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it takes connections on `address`.
    ///
    /// # Panics
    /// When it ends first, or takes too long.
    pub async fn listening(&mut self, address: SocketAddr) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(address).await.is_err() {
            if let Some(status) = self.child.try_wait().expect("its status") {
                panic!("{} ended before it listened on {address}: {status}", self.name);
            }
            assert!(Instant::now() < deadline, "{} does not listen on {address}", self.name);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// True while it runs.
    pub fn running(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// Kills it at once (SIGKILL): it gets no chance to save anything.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Asks it to stop (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// When it is still running after `limit`.
    pub async fn stop(&mut self, limit: Duration) -> ExitStatus {
        self.terminate();
        self.ended(limit).await
    }

    /// Asks it to stop (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Halts it (SIGSTOP), and returns once the last of its threads has stopped: the system still takes connections for
    /// it, and nobody answers them.
    ///
    /// # Panics
    /// When it has ended.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let id = Pid::from_child(&self.child);
        retry_on_intr(|| waitid(WaitId::Pid(id), WaitIdOptions::STOPPED))
            .unwrap_or_else(|error| panic!("{} does not stop: {error}", self.name));
    }

    /// Lets it go on after [`Self::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it is still running after `limit`.
    pub async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                return status;
            }
            assert!(Instant::now() < deadline, "{} still runs after {limit:?}", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).unwrap_or_else(|error| panic!("{} takes no signal: {error}", self.name));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read(&self.log).unwrap_or_default();
            let tail = &log[log.len().saturating_sub(LOG_TAIL)..];
            eprintln!(
                "--- {} wrote:\n{}\n--- end of {}",
                self.name,
                String::from_utf8_lossy(tail),
                self.name
            );
        }
    }
}
