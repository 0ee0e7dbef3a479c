//! `ropeline check`.

use std::io::Write;
use std::path::Path;

use super::{Done, Failure};
use crate::config::Config;

pub(super) fn run(path: &Path, out: &mut dyn Write) -> Done {
    let config = Config::load(path).map_err(|report| Failure::Found(report.to_string()))?;
    let file = path.display();
    for warning in &config.warnings {
        writeln!(out, "{file}:{warning}")?;
    }
    let sales: Vec<_> = config.sales.iter().map(|sale| sale.id.as_str()).collect();
    let sales = if sales.is_empty() { "none".to_owned() } else { sales.join(", ") };
    let warnings = match config.warnings.len() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        n => format!(", {n} warnings"),
    };
    writeln!(out, "{file} is good{warnings}. Shop: {}. Sales: {sales}.", config.upstream.address)?;
    Ok(())
}
