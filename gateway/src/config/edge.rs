//! `[edge]`: whether the module that edges run decides here, too.

use std::sync::Arc;

use super::read::Section;
use super::report::Fault;
use crate::edge::decider::Decides;
use crate::edge::trial;
use crate::keys::Keys;

enum Mode {
    Native,
    Module,
    Shadow,
}

/// A module is compiled and tried with the keys: what loads here can start.
pub(super) fn read(section: Section<'_>, keys: Option<&Keys>) -> Option<Decides> {
    let mode = section.or("mode", Mode::Native, |item| match item.text()? {
        "native" => Ok(Mode::Native),
        "module" => Ok(Mode::Module),
        "shadow" => Ok(Mode::Shadow),
        text => Err(Fault::new(format!("{text:?} is no mode"), "write \"native\", \"module\" or \"shadow\"")),
    });
    let decides = match mode {
        Mode::Native => {
            // Named and not used: it may be for later.
            section.has("module");
            Some(Decides::Native)
        }
        Mode::Module | Mode::Shadow => {
            let guest = section.need("module", "name the module's file, or set mode = \"native\"", |item| {
                let guest = trial::read(&item.path()?)?;
                if let Some(keys) = keys {
                    trial::run(&guest, keys)?;
                }
                Ok(Arc::new(guest))
            });
            guest.map(if matches!(mode, Mode::Module) { Decides::Module } else { Decides::Shadow })
        }
    };
    section.finish();
    decides
}
