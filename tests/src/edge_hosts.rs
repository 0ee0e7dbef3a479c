//! The real edge hosts (workerd, Envoy, Traefik, …), as `scripts/edge-hosts.sh` installs them: each a child process
//! on a free port, in a folder of its own that holds its configuration.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::ports::Port;
use crate::process::Process;

/// The hosts, by the names that [`binary`] takes.
pub const HOSTS: [&str; 11] = [
    "deno",
    "edge-runtime",
    "envoy",
    "haproxy",
    "nginx",
    "node",
    "traefik",
    "varnish",
    "viceroy",
    "wasmtime",
    "workerd",
];

/// The list of hosts that the conformance run may go without.
const UNAVAILABLE: &str = include_str!("../conformance/unavailable.txt");

/// A running host. It and its folder end with this value.
#[derive(Debug)]
pub struct EdgeHost {
    process: Process,
    port: Port,
    folder: TempDir,
}

/// What a host is started with. Its working folder is the one that its files are in.
#[derive(Debug, Default)]
pub struct Launch {
    files: Vec<(PathBuf, Vec<u8>)>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// A host that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    host: String,
    listed: Option<&'static str>,
}

/// The folder that the hosts are installed in, one folder each: `$ROPELINE_HOSTS`, else `~/.cache/ropeline/hosts`.
///
/// # Panics
/// When neither that variable nor `HOME` is set.
pub fn folder() -> PathBuf {
    match std::env::var_os("ROPELINE_HOSTS") {
        Some(folder) => folder.into(),
        None => Path::new(&std::env::var_os("HOME").expect("HOME")).join(".cache/ropeline/hosts"),
    }
}

/// The program that starts `host`, one of [`HOSTS`]. For `edge-runtime`, which is a library, that is Node with the
/// library's packages to `require`; `jose` is the same for that package.
///
/// # Errors
/// [`Missing`] when it is not installed.
pub fn binary(host: &str) -> Result<PathBuf, Missing> {
    let path = folder().join("bin").join(host);
    // Follows the link, so that one to a package that has been removed counts as missing.
    if path.exists() {
        Ok(path)
    } else {
        Err(Missing { host: host.to_owned(), listed: listed(UNAVAILABLE, host) })
    }
}

/// What there is of a host; nothing, which is said, where it is missing and the list permits that.
///
/// # Panics
/// When it is missing and the list does not name it.
pub fn permitted<T>(started: Result<T, Missing>) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(missing) if missing.permitted().is_some() => {
            eprintln!("skipped: {missing}");
            None
        }
        Err(missing) => panic!("{missing}"),
    }
}

/// Why `host` cannot be had, where the list says so.
fn listed<'a>(list: &'a str, host: &str) -> Option<&'a str> {
    list.lines()
        .filter_map(|line| line.split_once(char::is_whitespace))
        .find_map(|(name, reason)| (name == host).then(|| reason.trim()))
}

// === impl Launch ===

impl Launch {
    /// No files, arguments or variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a file, in folders below the host's own where `path` names some.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), contents.into()));
        self
    }

    /// Adds a copy of the file `from`.
    ///
    /// # Panics
    /// When it cannot be read.
    #[must_use]
    pub fn copy(self, path: impl Into<PathBuf>, from: &Path) -> Self {
        let contents = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        self.file(path, contents)
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<S: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

// === impl EdgeHost ===

impl EdgeHost {
    /// Starts `host` with what `launch` makes of the address it has to listen on and of its folder, and waits until
    /// it takes connections there.
    ///
    /// # Errors
    /// [`Missing`] when it is not installed.
    ///
    /// # Panics
    /// When it ends instead, or takes too long; its log is printed then.
    pub async fn start(
        host: &str,
        launch: impl FnOnce(SocketAddr, &Path) -> Launch,
    ) -> Result<Self, Missing> {
        let program = binary(host)?;
        let folder = tempfile::tempdir().expect("a folder for the host");
        let port = Port::free();
        let launch = launch(port.address(), folder.path());
        for (path, contents) in launch.files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a path in the folder")).expect("its folder");
            fs::write(path, contents).expect("a file for the host");
        }
        let mut command = Command::new(program);
        command.args(launch.arguments).envs(launch.environment).current_dir(folder.path());
        let mut process = Process::spawn(host, command, folder.path());
        process.listening(port.address()).await;
        Ok(Self { process, port, folder })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its address of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.port.address())
    }

    /// Its working folder, with its files and its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Asks it to stop (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// When it is still running after `limit`.
    pub async fn stop(&mut self, limit: Duration) -> ExitStatus {
        self.process.stop(limit).await
    }
}

// === impl Missing ===

impl Missing {
    /// Why the run may go without it, when `tests/conformance/unavailable.txt` names it.
    pub fn permitted(&self) -> Option<&str> {
        self.listed
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.listed {
            Some(reason) => write!(formatter, "{} is not installed: {reason}", self.host),
            None => write!(
                formatter,
                "{} is not installed; scripts/edge-hosts.sh installs it, and only a line in \
                 tests/conformance/unavailable.txt lets a run go without it",
                self.host
            ),
        }
    }
}

impl std::error::Error for Missing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_hosts_and_why() {
        let list = "# comment\nspin  no package has it\nnginx-wasm\n";
        assert_eq!(listed(list, "spin"), Some("no package has it"));
        assert_eq!(listed(list, "nginx"), None);
        assert_eq!(listed(list, "nginx-wasm"), None, "a line without a reason permits nothing");
    }

    #[test]
    fn a_host_that_is_missing_is_skipped_only_where_the_list_says_so() {
        let missing = |listed| Missing { host: "spin".to_owned(), listed };
        assert_eq!(permitted(Ok(7)), Some(7));
        assert_eq!(permitted::<()>(Err(missing(Some("no package has it")))), None);
        let failure = std::panic::catch_unwind(|| permitted::<()>(Err(missing(None)))).unwrap_err();
        let text = failure.downcast::<String>().unwrap();
        assert!(text.contains("spin is not installed; scripts/edge-hosts.sh"), "{text}");
    }

    #[test]
    fn a_missing_host_says_what_installs_it() {
        let missing = binary("no such host").unwrap_err();
        assert_eq!(missing.permitted(), None);
        assert!(missing.to_string().contains("scripts/edge-hosts.sh"), "{missing}");
    }
}
