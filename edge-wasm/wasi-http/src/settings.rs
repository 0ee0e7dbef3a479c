//! The settings, which may change while an instance lives.

use alloc::string::String;
use alloc::vec::Vec;

use ropeline_edge::{Settings, SettingsError};
use wasip2::clocks::monotonic_clock;
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::environment::complain;

/// How long the settings of a file are relied on before it is read again, in nanoseconds. Instances side by side may
/// differ for so long.
const FRESH_NS: u64 = 1_000_000_000;

/// How much of a file is read at once, in bytes.
const PIECE: u64 = 64 * 1024;

/// Where the settings are.
pub(crate) enum Source {
    /// They are this text.
    Text(String),
    /// In a file of this name, in the first folder that the host grants.
    File(String),
}

/// What this instance knows of the settings.
pub(crate) struct Known {
    settings: Option<Settings>,
    /// What was read last, whether it was taken or refused.
    text: Vec<u8>,
    /// When that was, by the monotonic clock.
    read_at: Option<u64>,
    /// Whether the known answer has been verified.
    proven: bool,
}

impl Known {
    pub(crate) const fn nothing() -> Self {
        Self { settings: None, text: Vec::new(), read_at: None, proven: false }
    }

    /// The settings as they are now. `None` when there are none that hold, or have ever been in this instance's life.
    ///
    /// The known answer is verified at an instance's second request: where each request has an instance of its own, it
    /// would cost every one of them a second verification.
    pub(crate) fn current(&mut self, source: &Source) -> Option<&Settings> {
        let now = monotonic_clock::now();
        let Some(read_at) = self.read_at else {
            self.read(source, now, Settings::from_json_unproven);
            return self.settings.as_ref();
        };
        if !self.proven {
            self.proven = true;
            if let Some(Err(refused)) = self.settings.as_ref().map(Settings::prove) {
                self.settings = None;
                self.complain(refused.code());
            }
        }
        if matches!(source, Source::File(_)) && now.saturating_sub(read_at) >= FRESH_NS {
            self.read(source, now, Settings::from_json);
        }
        self.settings.as_ref()
    }

    /// Reads the settings again. What is refused, or cannot be read, changes nothing.
    fn read(&mut self, source: &Source, now: u64, parse: fn(&[u8]) -> Result<Settings, SettingsError>) {
        self.read_at = Some(now);
        let text = match source {
            Source::Text(text) => Some(text.clone().into_bytes()),
            Source::File(name) => contents(name),
        };
        let Some(text) = text else { return self.complain("the file of the settings cannot be read") };
        if text == self.text {
            return;
        }
        match parse(&text) {
            Ok(settings) => self.settings = Some(settings),
            Err(refused) => self.complain(refused.code()),
        }
        self.text = text;
    }

    fn complain(&self, code: &str) {
        complain(if self.settings.is_some() { "the settings before stay" } else { "nobody passes" }, code);
    }
}

fn contents(name: &str) -> Option<Vec<u8>> {
    let (folder, _) = preopens::get_directories().into_iter().next()?;
    let file = folder.open_at(PathFlags::empty(), name, OpenFlags::empty(), DescriptorFlags::READ).ok()?;
    let mut text = Vec::new();
    loop {
        let (piece, end) = file.read(PIECE, u64::try_from(text.len()).ok()?).ok()?;
        text.extend_from_slice(&piece);
        if end {
            return Some(text);
        }
    }
}
