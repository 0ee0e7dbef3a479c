//! The room's script and stylesheet: named by what is in them, so that they may be cached for ever.

use super::prepared::{Effort, Prepared, content_hash};

/// In the order in which they depend on each other.
const MODULES: [&str; 3] = [
    include_str!("../../room/draw.mjs"),
    include_str!("../../room/state.mjs"),
    include_str!("../../room/room.mjs"),
];
const STYLE: &str = include_str!("../../room/room.css");

/// The assets a page refers to.
#[derive(Debug)]
pub(super) struct Assets {
    pub(super) script: Asset,
    pub(super) style: Asset,
}

#[derive(Debug)]
pub(super) struct Asset {
    pub(super) name: String,
    pub(super) content: Prepared,
}

impl Assets {
    pub(super) fn new() -> Self {
        let script = bundle(&MODULES);
        Self {
            script: Asset::new("js", "text/javascript; charset=utf-8", script),
            style: Asset::new("css", "text/css; charset=utf-8", STYLE.to_owned()),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Prepared> {
        [&self.script, &self.style].into_iter().find(|asset| asset.name == name).map(|asset| &asset.content)
    }
}

impl Asset {
    fn new(extension: &str, content_type: &'static str, content: String) -> Self {
        let name = format!("room.{}.{extension}", content_hash(content.as_bytes()));
        Self { name, content: Prepared::new(content_type, content.into_bytes(), Effort::Best) }
    }
}

/// Puts the modules into one file, because a crowd should ask once: `import` lines, the word `export` and lines that
/// are only comment are left out. The sources keep to one line per import and begin no line of code with `*` or `/`.
fn bundle(modules: &[&str]) -> String {
    let mut out = String::new();
    for line in modules.iter().flat_map(|module| module.lines()) {
        let code = line.trim_start();
        if code.is_empty() || code.starts_with("import ") || code.starts_with('*') || code.starts_with('/') {
            continue;
        }
        out.push_str(line.strip_prefix("export ").unwrap_or(line));
        out.push('\n');
    }
    out
}
