//! `ropeline keygen`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use clap::{Args, ValueEnum};
use ropeline_token::SigningKey;

use super::{Done, Failure};
use crate::keys::{KeyState, Purpose};

/// Makes signing keys and secrets, and prints the lines for the configuration. Existing files are never touched.
#[derive(Debug, Args)]
pub(super) struct Keygen {
    /// What to make; all four that every gateway needs when nothing is named.
    kinds: Vec<Kind>,
    /// The folder for the files; it is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "keys")]
    dir: PathBuf,
    /// The file's name in the folder, for a single kind: `--name ticket-2.jwk` makes the next key of a rotation.
    #[arg(long, value_name = "NAME", value_parser = file_name)]
    name: Option<String>,
}

fn file_name(text: &str) -> Result<String, String> {
    let is_name = Path::new(text).file_name().is_some_and(|name| name == text);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("it is no name of a file; --dir says in which folder".to_owned())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The key that signs tickets and draws.
    Ticket,
    /// The key that signs admission tokens.
    Admission,
    /// The secret that signs visitor cookies.
    VisitorSecret,
    /// The operator's bearer token.
    OperatorToken,
    /// The key that signs invitations to lanes. It belongs where invitations are made; the gateway gets the public part,
    /// in a file of its own.
    Invitation,
}

/// What everybody may know of a key.
struct Public {
    kid: String,
    jwk: String,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Ticket, Self::Admission, Self::VisitorSecret, Self::OperatorToken];

    fn file_name(self) -> &'static str {
        match self {
            Self::Ticket => "ticket.jwk",
            Self::Admission => "admission.jwk",
            Self::VisitorSecret => "visitor.secret",
            Self::OperatorToken => "operator.token",
            Self::Invitation => "invitation.jwk",
        }
    }

    /// What a key is for; a secret has no other use than its own.
    fn purpose(self) -> Option<Purpose> {
        match self {
            Self::Ticket => Some(Purpose::Ticket),
            Self::Admission => Some(Purpose::Admission),
            Self::Invitation => Some(Purpose::Invitation),
            Self::VisitorSecret | Self::OperatorToken => None,
        }
    }

    /// What goes into the file, and the public part if it is a key.
    fn make(self) -> Result<(String, Option<Public>), Failure> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("no random numbers: {error}"))?;
        let Some(purpose) = self.purpose() else {
            return Ok((Base64UrlUnpadded::encode_string(&seed), None));
        };
        let key = SigningKey::from_seed(seed);
        let marked = |jwk: &str| purpose.write_into(jwk).context("a key's JWK");
        let public = Public { kid: key.kid().to_owned(), jwk: marked(&key.public_key().to_jwk())? };
        Ok((marked(&key.to_private_jwk())?, Some(public)))
    }

    /// The table and the line of the configuration that name the file.
    fn config_line(self, path: &Path, state: KeyState) -> (&'static str, String) {
        // A basic string of TOML escapes as JSON does what can stand in a path.
        let path = serde_json::Value::from(path.display().to_string());
        match self {
            Self::Ticket => ("keys", format!("ticket = [{{ path = {path}, state = \"{state}\" }}]")),
            Self::Admission => ("keys", format!("admission = [{{ path = {path}, state = \"{state}\" }}]")),
            Self::VisitorSecret => ("visitor", format!("cookie_secrets = [{path}]")),
            Self::OperatorToken => ("operator", format!("token_file = {path}")),
            Self::Invitation => ("keys", format!("invitation = [{path}]")),
        }
    }

    /// The file with the public part alone, where the gateway gets no more.
    fn public_file(self, path: &Path) -> Option<PathBuf> {
        (self == Self::Invitation).then(|| path.with_extension("public.jwk"))
    }
}

impl Keygen {
    /// One of each kind, in the folder `dir`.
    #[cfg(feature = "demo")]
    pub(super) fn all(dir: PathBuf) -> Self {
        Self { kinds: Vec::new(), dir, name: None }
    }

    pub(super) fn run(self, out: &mut dyn Write) -> Done {
        let kinds = if self.kinds.is_empty() { Kind::ALL.to_vec() } else { self.kinds };
        if self.name.is_some() && kinds.len() != 1 {
            return Err(Failure::Found(
                "--name needs exactly one kind, for example: ropeline keygen ticket --name ticket-2.jwk"
                    .to_owned(),
            ));
        }
        let name = |kind: Kind| self.name.clone().unwrap_or_else(|| kind.file_name().to_owned());
        let files: Vec<(Kind, PathBuf)> =
            kinds.into_iter().map(|kind| (kind, self.dir.join(name(kind)))).collect();
        // Looked at beforehand, so that one file in the way does not leave half of a set behind.
        let public = files.iter().filter_map(|(kind, path)| kind.public_file(path));
        let paths: Vec<PathBuf> = files.iter().map(|(_, path)| path.clone()).chain(public).collect();
        if let Some((_, path)) = paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)) {
            return Err(Failure::Found(format!(
                "{} would be made twice: name each kind once",
                path.display()
            )));
        }
        if let Some(path) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(Failure::Found(format!(
                "{} exists and is not overwritten: tokens it signed would be worthless. \
                 Choose another --dir or --name, or move it away.",
                path.display()
            )));
        }
        std::fs::create_dir_all(&self.dir).with_context(|| format!("cannot make {}", self.dir.display()))?;
        // A file with a name of its own is the next key beside one that signs.
        let state = if self.name.is_some() { KeyState::Publish } else { KeyState::Sign };
        let mut last_table = "";
        for (kind, path) in files {
            let (text, public) = kind.make()?;
            write_private(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
            let named = kind.public_file(&path);
            if let (Some(file), Some(public)) = (&named, &public) {
                std::fs::write(file, format!("{}\n", public.jwk))
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
            let kid = public.map(|public| format!("   # kid {}", public.kid)).unwrap_or_default();
            let (table, line) = kind.config_line(named.as_ref().unwrap_or(&path), state);
            if table != last_table {
                writeln!(out, "[{table}]")?;
                last_table = table;
            }
            writeln!(out, "{line}{kid}")?;
        }
        Ok(())
    }
}

/// Writes a new file that only its owner can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
