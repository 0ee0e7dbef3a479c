//! What is wrong with a configuration, said so that the reader can mend it.

use std::fmt;
use std::ops::Range;

/// One thing wrong, or worth a warning, at one place of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The dotted key, for example `sale[0].pace.every`; empty for a fault of the file as a whole.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)?;
        if !self.mend.is_empty() {
            write!(f, "\n    mend: {}", self.mend)?;
        }
        Ok(())
    }
}

/// Every problem of one configuration file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    /// The file's name as given, for the head of each line.
    pub file: String,
    /// The problems; at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{}:{problem}", self.file)?;
        }
        let n = self.problems.len();
        write!(f, "{n} {} in {}", if n == 1 { "problem" } else { "problems" }, self.file)
    }
}

/// What is wrong with a value, before anybody knows where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

impl Fault {
    /// A fault in the words of `what`, with the way out in `mend`.
    pub fn new(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), mend: mend.into() }
    }
}

/// Line and column (both from 1, columns in characters) of a byte offset.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

/// Problems and warnings as they are collected, with the text that gives them their lines.
pub(super) struct Collector<'t> {
    text: &'t str,
    problems: std::cell::RefCell<Vec<Problem>>,
    warnings: std::cell::RefCell<Vec<Problem>>,
}

impl<'t> Collector<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: Vec::new().into(), warnings: Vec::new().into() }
    }

    fn at(&self, span: &Range<usize>, key: &str, fault: Fault) -> Problem {
        let (line, column) = position(self.text, span.start);
        Problem { line, column, key: key.to_owned(), what: fault.what, mend: fault.mend }
    }

    pub(super) fn line(&self, span: &Range<usize>) -> usize {
        position(self.text, span.start).0
    }

    pub(super) fn problem(&self, span: &Range<usize>, key: &str, fault: Fault) {
        self.problems.borrow_mut().push(self.at(span, key, fault));
    }

    pub(super) fn warn(&self, span: &Range<usize>, key: &str, fault: Fault) {
        self.warnings.borrow_mut().push(self.at(span, key, fault));
    }

    /// The problems and the warnings, each in the order of the file and without repetitions.
    pub(super) fn finish(self) -> (Vec<Problem>, Vec<Problem>) {
        let sorted = |list: std::cell::RefCell<Vec<Problem>>| {
            let mut list = list.into_inner();
            list.sort();
            list.dedup();
            list
        };
        (sorted(self.problems), sorted(self.warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_survive_any_offset() {
        let text = "a = 1\nß = \"é\"\n";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 6), (2, 1));
        assert_eq!(position(text, 8), (2, 2));
        assert_eq!(position(text, 7), (2, 1), "inside a character: its start");
        assert_eq!(position(text, 9_999), (3, 1));
    }
}
