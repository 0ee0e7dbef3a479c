//! The files of a server: made once by `initdb`, then copied.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// Whom the server runs as, when that is somebody else than the test.
static OWNER: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
    rustix::process::geteuid().is_root().then(|| {
        let id = |flag| {
            let out = run(Command::new("id").args([flag, "postgres"]));
            out.trim().parse().expect("a number from `id`")
        };
        (id("-u"), id("-g"))
    })
});

/// Where the server's programs are: on the path, or where Debian puts them.
pub(crate) fn program(name: &str) -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<_> = std::env::split_paths(&path).collect();
        let mut debian: Vec<_> = fs::read_dir("/usr/lib/postgresql")
            .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
            .unwrap_or_default();
        debian.sort();
        folders.extend(debian.into_iter().rev());
        let found = folders.into_iter().find(|folder| folder.join("initdb").exists());
        let found = found.expect("PostgreSQL is not installed; `scripts/setup.sh test` installs it");
        // A link on the path leads to the folder that has all of them.
        let program = fs::canonicalize(found.join("initdb")).expect("initdb");
        program.parent().expect("a folder").to_owned()
    });
    FOLDER.join(name)
}

/// Runs a command to its end and returns what it wrote.
///
/// # Panics
/// When it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let (said, erred) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?} failed: {said}{erred}");
    said.into_owned()
}

/// Makes a command run as the server's user.
pub(crate) fn as_owner(command: &mut Command) {
    if let Some((user, group)) = *OWNER {
        command.uid(user).gid(group);
    }
}

/// An empty folder of the server's user.
pub(crate) fn folder() -> TempDir {
    folder_in(&std::env::temp_dir())
}

fn folder_in(place: &Path) -> TempDir {
    let folder = tempfile::Builder::new().prefix("ropeline-postgres-").tempdir_in(place).expect("a folder");
    give(folder.path());
    folder
}

/// A folder in `place` with the files of a fresh server in `data`.
pub(crate) fn create(place: &Path) -> TempDir {
    let template = template();
    let folder = folder_in(place);
    let data = folder.path().join("data");
    run(Command::new("cp").arg("-R").arg(template).arg(&data));
    if OWNER.is_some() {
        run(Command::new("chown").arg("-R").arg("--reference").arg(folder.path()).arg(&data));
    }
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("chmod");
    folder
}

/// `initdb` takes as long as many a test, so it is run once for a build.
fn template() -> PathBuf {
    let version = run(Command::new(program("postgres")).arg("--version"));
    let version: String = version.chars().filter(char::is_ascii_alphanumeric).collect();
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let template = built.join(format!("template-{version}"));
    if !template.exists() {
        let folder = folder();
        let data = folder.path().join("data");
        let mut initdb = Command::new(program("initdb"));
        initdb.arg("-D").arg(&data).args(["--no-sync", "--auth=trust", "--username=postgres"]);
        initdb.args(["--encoding=UTF8", "--locale=C"]).current_dir(folder.path());
        as_owner(&mut initdb);
        run(&mut initdb);
        let made = tempfile::tempdir_in(built).expect("a folder beside the test");
        run(Command::new("cp").arg("-R").arg(&data).arg(made.path()));
        // Fails when another test was quicker: then its template serves.
        let moved = fs::rename(made.path().join("data"), &template);
        assert!(moved.is_ok() || template.exists(), "{moved:?}");
    }
    template
}

/// Makes a file or folder the server's user's.
pub(crate) fn give(path: &Path) {
    if let Some((user, group)) = *OWNER {
        chown(path, Some(user), Some(group)).expect("chown");
    }
}
