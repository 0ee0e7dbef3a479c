//! Reads a TOML tree key by key: each value is parsed into its type where it is read, every fault is noted
//! with its line, and reading goes on, so that one run shows all that is wrong.

use std::cell::RefCell;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use ropeline_queue::UnixMillis;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::{Collector, Fault};
use super::units;

/// Width of `::ffff:0:0/96`, whose addresses stand for those of IPv4.
const MAPPED_WIDTH: u8 = 96;

/// Where relative paths start, where environment variables come from, and what time it is.
pub struct Surroundings<'a> {
    /// The folder of the configuration file.
    pub base: &'a Path,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Warnings of what is over look at this.
    pub now: UnixMillis,
}

/// One table of the file, and what has been asked of it.
pub(super) struct Section<'a> {
    table: Option<&'a DeTable<'a>>,
    span: Range<usize>,
    path: String,
    known: RefCell<Vec<&'static str>>,
    pub(super) notes: &'a Collector<'a>,
    pub(super) around: &'a Surroundings<'a>,
}

/// One value with its place.
pub(super) struct Item<'a> {
    value: &'a DeValue<'a>,
    base: &'a Path,
}

// === impl Section ===

impl<'a> Section<'a> {
    pub(super) fn root(
        table: &'a Spanned<DeTable<'a>>,
        notes: &'a Collector<'a>,
        around: &'a Surroundings<'a>,
    ) -> Self {
        Self {
            table: Some(table.get_ref()),
            span: 0..0,
            path: String::new(),
            known: RefCell::default(),
            notes,
            around,
        }
    }

    /// True when the file has this table at all.
    pub(super) fn present(&self) -> bool {
        self.table.is_some()
    }

    /// The table's own dotted key.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The dotted key of `key` in this table.
    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn find(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.borrow_mut().push(key);
        let found = self.table?.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(found.1)
    }

    /// The span of a key's value, or of the table where the key is missing.
    fn place(&self, key: &str) -> Range<usize> {
        let table = self.table.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key));
        table.map_or_else(|| self.span.clone(), |(_, value)| value.span())
    }

    /// The line of a key's value, or of the table where the key is missing.
    pub(super) fn line(&self, key: &str) -> usize {
        self.notes.line(&self.place(key))
    }

    /// Notes a fault at `key`.
    pub(super) fn fault(&self, key: &str, fault: Fault) {
        self.notes.problem(&self.place(key), &self.key(key), fault);
    }

    /// True when the table has `key`, right or wrong.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Notes that `key` is missing, with `mend` as the way out.
    pub(super) fn missing(&self, key: &'static str, mend: &str) {
        self.known.borrow_mut().push(key);
        self.notes.problem(&self.span, &self.key(key), Fault::new("is missing", mend));
    }

    /// Notes a warning at `key`.
    pub(super) fn warn(&self, key: &str, fault: Fault) {
        self.notes.warn(&self.place(key), &self.key(key), fault);
    }

    /// The value of `key`: `Ok(None)` when it is not there, `Err(())` when it is wrong (and has been noted).
    #[allow(
        clippy::result_unit_err,
        reason = "the fault is already noted; what is left is that there was one"
    )]
    pub(super) fn try_get<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&Item<'a>) -> Result<T, Fault>,
    ) -> Result<Option<T>, ()> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match parse(&Item { value: value.get_ref(), base: self.around.base }) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(fault) => {
                self.notes.problem(&value.span(), &self.key(key), fault);
                Err(())
            }
        }
    }

    /// The value of `key`, or `None` when it is missing or wrong.
    pub(super) fn get<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&Item<'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        self.try_get(key, parse).ok().flatten()
    }

    /// The value of `key`, or `default` when it is missing (or wrong, and noted).
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&Item<'a>) -> Result<T, Fault>,
    ) -> T {
        self.get(key, parse).unwrap_or(default)
    }

    /// The value of `key`; that it is missing is noted, with `mend` as the way out.
    pub(super) fn need<T>(
        &self,
        key: &'static str,
        mend: &str,
        parse: impl FnOnce(&Item<'a>) -> Result<T, Fault>,
    ) -> Option<T> {
        let found = self.try_get(key, parse);
        if let Ok(None) = found {
            self.missing(key, mend);
        }
        found.ok().flatten()
    }

    /// The entries of a list with their own places, every wrong one noted; `None` when the list is missing or
    /// anything in it is wrong.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        parse: impl Fn(&Item<'a>) -> Result<T, Fault>,
    ) -> Option<Vec<T>> {
        let value = self.find(key)?;
        let DeValue::Array(array) = value.get_ref() else {
            let item = Item { value: value.get_ref(), base: self.around.base };
            self.notes.problem(
                &value.span(),
                &self.key(key),
                item.wrong("a list", "it in brackets: [\"…\"]"),
            );
            return None;
        };
        let read = array.iter().enumerate().map(|(at, value)| {
            let parsed = parse(&Item { value: value.get_ref(), base: self.around.base });
            parsed
                .map_err(|fault| self.notes.problem(&value.span(), &self.key(&format!("{key}[{at}]")), fault))
        });
        let read: Vec<Result<T, ()>> = read.collect();
        read.into_iter().collect::<Result<_, _>>().ok()
    }

    fn child(&self, path: String, value: Option<&'a Spanned<DeValue<'a>>>) -> Section<'a> {
        let table = value.and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let fault = Fault::new(
                    format!("is {}, not a table", type_name(other)),
                    format!("write it as [{path}]"),
                );
                self.notes.problem(&value.span(), &path, fault);
                None
            }
        });
        Section {
            table,
            span: value.map_or_else(|| self.span.clone(), Spanned::span),
            path,
            known: RefCell::default(),
            notes: self.notes,
            around: self.around,
        }
    }

    /// The table under `key`; an empty one when it is missing.
    pub(super) fn table(&self, key: &'static str) -> Section<'a> {
        let value = self.find(key);
        self.child(self.key(key), value)
    }

    /// The array of tables under `key`: empty when it is missing, `None` when it is something else.
    pub(super) fn tables(&self, key: &'static str) -> Option<Vec<Section<'a>>> {
        let path = self.key(key);
        let Some(value) = self.find(key) else { return Some(Vec::new()) };
        let DeValue::Array(array) = value.get_ref() else {
            let what = format!("is {}, not a list of tables", type_name(value.get_ref()));
            self.notes.problem(
                &value.span(),
                &path,
                Fault::new(what, format!("write each one as [[{path}]]")),
            );
            return None;
        };
        let sections = array.iter().enumerate();
        Some(sections.map(|(at, value)| self.child(format!("{path}[{at}]"), Some(value))).collect())
    }

    /// Notes every key that nobody asked for, with the nearest known one.
    pub(super) fn finish(self) {
        let known = self.known.borrow();
        for (name, _) in self.table.into_iter().flatten() {
            let key = name.get_ref().as_ref();
            if known.contains(&key) {
                continue;
            }
            let mend = match nearest(key, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("remove it; known here: {}", known.join(", ")),
            };
            self.notes.problem(&name.span(), &self.key(key), Fault::new("is not a known key", mend));
        }
    }
}

// === impl Item ===

impl<'a> Item<'a> {
    fn wrong(&self, wanted: &str, example: &str) -> Fault {
        Fault::new(format!("is {}, not {wanted}", type_name(self.value)), format!("write {example}"))
    }

    pub(super) fn text(&self) -> Result<&'a str, Fault> {
        match self.value {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.wrong("text", "it in quotation marks")),
        }
    }

    /// The member of a table that has no other.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        let table = self.value.as_table().filter(|table| table.len() == 1)?;
        let (_, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some(Item { value: value.get_ref(), base: self.base })
    }

    pub(super) fn bool(&self) -> Result<bool, Fault> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong("true or false", "true or false, without quotation marks"))
    }

    pub(super) fn duration(&self) -> Result<Duration, Fault> {
        match self.value {
            DeValue::Integer(number) => Err(Fault::new(
                format!("{number} has no unit"),
                format!("write \"{number}s\" for seconds, \"{number}ms\" for milliseconds"),
            )),
            DeValue::String(text) => units::duration(text),
            _ => Err(self.wrong("a duration", "for example \"5s\"")),
        }
    }

    /// A duration from `min` to `max`, both allowed.
    pub(super) fn duration_in(&self, min: Duration, max: Duration) -> Result<Duration, Fault> {
        let value = self.duration()?;
        if value < min || value > max {
            return Err(Fault::new(
                format!("{} is out of range", units::spelt(value)),
                format!("give a time from {} to {}", units::spelt(min), units::spelt(max)),
            ));
        }
        Ok(value)
    }

    pub(super) fn size(&self) -> Result<u64, Fault> {
        match self.value {
            DeValue::Integer(number) => {
                Err(Fault::new(format!("{number} has no unit"), format!("write \"{number}B\" for bytes")))
            }
            DeValue::String(text) => units::size(text),
            _ => Err(self.wrong("a size", "for example \"64KiB\"")),
        }
    }

    /// A size in bytes from `min` to `max`, both allowed.
    pub(super) fn size_in(&self, min: u64, max: u64) -> Result<u64, Fault> {
        let value = self.size()?;
        if value < min || value > max {
            return Err(Fault::new(
                format!("{value} bytes are out of range"),
                format!("give a size from {min}B to {max}B"),
            ));
        }
        Ok(value)
    }

    /// A time as Unix milliseconds, from a TOML date-time or from text.
    pub(super) fn time(&self) -> Result<u64, Fault> {
        match self.value {
            DeValue::Datetime(datetime) => units::unix_millis(datetime),
            DeValue::String(text) => units::time(text),
            _ => Err(self.wrong("a time", "for example \"2026-11-27T10:00:00+01:00\"")),
        }
    }

    /// A whole number from `min` to `max`, both allowed.
    pub(super) fn number<T>(&self, min: T, max: T) -> Result<T, Fault>
    where
        T: TryFrom<i128> + PartialOrd + Display + Copy,
    {
        let DeValue::Integer(number) = self.value else {
            return Err(self.wrong("a whole number", "digits without quotation marks"));
        };
        let parsed = i128::from_str_radix(number.as_str(), number.radix()).ok();
        let fits =
            parsed.and_then(|value| T::try_from(value).ok()).filter(|value| *value >= min && *value <= max);
        fits.ok_or_else(|| {
            Fault::new(format!("{number} is out of range"), format!("give a number from {min} to {max}"))
        })
    }

    /// Text that parses into `T`.
    pub(super) fn parsed<T: FromStr>(&self, what: &str, example: &str) -> Result<T, Fault> {
        let text = self.text()?;
        text.parse().map_err(|_| Fault::new(format!("{text:?} is not {what}"), format!("write {example}")))
    }

    /// A network, or an address alone; what lies behind its width is dropped. One of IPv4-mapped IPv6 addresses is the
    /// IPv4 network that they stand for, as addresses are looked at (RFC 4291, section 2.5.5.2).
    pub(super) fn network(&self) -> Result<IpNet, Fault> {
        let text = self.text()?;
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map_err(|_| {
            Fault::new(
                format!("{text:?} is not a network"),
                "write an address or a prefix, for example \"10.0.0.0/8\"",
            )
        })?;
        let IpNet::V6(six) = network else { return Ok(network.trunc()) };
        let Some(four) = six.addr().to_ipv4_mapped() else { return Ok(network.trunc()) };
        let width = six.prefix_len().checked_sub(MAPPED_WIDTH);
        let four = width.and_then(|width| Ipv4Net::new(four, width).ok()).ok_or_else(|| {
            Fault::new(
                format!(
                    "{text:?} is wider than ::ffff:0:0/{MAPPED_WIDTH}, all of IPv4 written as IPv6: no network is meant by that"
                ),
                "write the IPv4 network itself, for example \"10.0.0.0/8\"",
            )
        })?;
        Ok(IpNet::V4(four.trunc()))
    }

    /// A path; a relative one starts at the folder of the configuration file.
    pub(super) fn path(&self) -> Result<PathBuf, Fault> {
        let text = self.text()?;
        if text.is_empty() || text.contains('\0') {
            return Err(Fault::new(format!("{text:?} is not a path"), "name a file"));
        }
        Ok(self.base.join(text))
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The known key a mistyped one most likely meant: at most a third of its letters away.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|name| (distance(key, name), *name));
    let (distance, name) = distances.min()?;
    (distance <= name.len().max(3) / 3).then_some(name)
}

/// Levenshtein distance, for keys of a few letters.
fn distance(left: &str, right: &str) -> usize {
    // Keys are short; a long one is no typing mistake and must not cost quadratic time.
    if left.len() > 64 {
        return usize::MAX;
    }
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
