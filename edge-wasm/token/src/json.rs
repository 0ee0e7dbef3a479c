//! A strict JSON reader (RFC 8259) and a writer, for tokens, key sets and policies.
//!
//! Stricter than the RFC asks: a member repeated in one object is an error at any depth, lone surrogates are errors,
//! and nesting, members and therefore time are bounded. Numbers that are not plain integers from 0 to 2^64−1 are read,
//! kept as text and equal to no integer.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

mod members;
#[cfg(test)]
mod tests;
mod writer;

pub use members::{MemberError, Members};
pub use writer::{Writer, decimal};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 16;

/// How many members one object may have. It keeps the search for repeated members cheap.
pub const MAX_MEMBERS: usize = 64;

/// Why a text is not taken as JSON. Offsets are in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JsonError {
    /// The text is not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Where the first invalid sequence starts.
        at: usize,
    },
    /// The text breaks the grammar.
    #[error("not JSON at byte {at}")]
    Syntax {
        /// Where the grammar was broken.
        at: usize,
    },
    /// A member occurs twice in one object.
    #[error("a member is repeated at byte {at}")]
    Repeated {
        /// Where the second member's value starts.
        at: usize,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("nested too deep at byte {at}")]
    TooDeep {
        /// Where the limit was passed.
        at: usize,
    },
    /// More than [`MAX_MEMBERS`] in one object.
    #[error("too many members at byte {at}")]
    TooManyMembers {
        /// Where the limit was passed.
        at: usize,
    },
}

/// A JSON value. Strings are borrowed from the text unless they hold escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number written as a plain integer from 0 to 2^64−1, without sign, fraction, exponent or leading zero.
    Integer(u64),
    /// Any other number, as written.
    OtherNumber(&'a str),
    /// A string, escapes resolved.
    Text(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// The integer, if it is one.
    #[must_use]
    pub const fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The object, if it is one.
    #[must_use]
    pub const fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// An object whose member names all differ, in the order written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    /// The member's value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// Names and values in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.members.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// How many members there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Reads one JSON value that fills the whole text.
///
/// # Errors
/// Any departure from RFC 8259 or from the limits of this module.
pub fn parse(text: &[u8]) -> Result<Value<'_>, JsonError> {
    let text = core::str::from_utf8(text).map_err(|error| JsonError::NotUtf8 { at: error.valid_up_to() })?;
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.syntax()) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    const fn syntax(&self) -> JsonError {
        JsonError::Syntax { at: self.at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn slice(&self, from: usize, to: usize) -> Result<&'a str, JsonError> {
        self.text.get(from..to).ok_or_else(|| self.syntax())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, expected: u8) -> Result<(), JsonError> {
        if self.take(expected) { Ok(()) } else { Err(self.syntax()) }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, JsonError> {
        for expected in word.bytes() {
            self.expect(expected)?;
        }
        Ok(value)
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        match self.peek() {
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(JsonError::TooDeep { at: self.at }),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax()),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.expect(b'{')?;
        let mut members: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Value::Object(Object { members }));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            if members.iter().any(|(member, _)| *member == name) {
                return Err(JsonError::Repeated { at: self.at });
            }
            if members.len() >= MAX_MEMBERS {
                return Err(JsonError::TooManyMembers { at: self.at });
            }
            let value = self.value(depth)?;
            members.push((name, value));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Value::Object(Object { members }));
            }
            self.expect(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value<'a>, JsonError> {
        self.expect(b'[')?;
        let mut elements = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Value::Array(elements));
        }
        loop {
            self.skip_space();
            elements.push(self.value(depth)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Value::Array(elements));
            }
            self.expect(b',')?;
        }
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.syntax()) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let start = self.at;
        let negative = self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut plain = !negative;
        if self.take(b'.') {
            plain = false;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            plain = false;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let text = self.slice(start, self.at)?;
        let integer = if plain { text.parse().ok() } else { None };
        Ok(integer.map_or(Value::OtherNumber(text), Value::Integer))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"')?;
        let mut resolved: Option<String> = None;
        let mut start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let tail = self.slice(start, self.at)?;
                    self.at += 1;
                    return Ok(match resolved {
                        None => Cow::Borrowed(tail),
                        Some(mut text) => {
                            text.push_str(tail);
                            Cow::Owned(text)
                        }
                    });
                }
                Some(b'\\') => {
                    let before = self.slice(start, self.at)?;
                    self.at += 1;
                    let text = resolved.get_or_insert_default();
                    text.push_str(before);
                    let character = self.escape()?;
                    text.push(character);
                    start = self.at;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.syntax()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.syntax()),
        };
        self.at += 1;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        let scalar = match first {
            0xD800..=0xDBFF => {
                self.expect(b'\\')?;
                self.expect(b'u')?;
                let second = self.hex4()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(self.syntax());
                }
                0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            other => other,
        };
        char::from_u32(scalar).ok_or_else(|| self.syntax())
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            value = value << 4 | digit.ok_or_else(|| self.syntax())?;
            self.at += 1;
        }
        Ok(value)
    }
}
