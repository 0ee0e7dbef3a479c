//! A body in chunks: RFC 9112, section 7.1.

use super::{Malformed, is_text, is_token};

/// Longest line before a chunk, its extensions included, in bytes. Pingora takes twice as much.
const LINE_LIMIT: usize = 4 << 10;

/// Longest trailer section, in bytes. Nothing of it goes to the shop.
const TRAILER_LIMIT: usize = 16 << 10;

/// Most digits in a chunk size: as many as fill 64 bits, leading zeros included.
const DIGITS: u8 = 16;

/// How far a body has come.
#[derive(Debug)]
pub(super) struct Chunks {
    step: Step,
    /// Of the chunk, or what is left of it.
    size: u64,
    /// How many more bytes the line, or the trailer section, may have.
    room: usize,
}

/// What may come next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Size { digits: u8 },
    // Of the extensions: *( BWS ";" BWS name [ BWS "=" BWS value ] )
    Semicolon,
    NameStart,
    Name,
    Equals,
    ValueStart,
    Value,
    Quoted,
    Escaped,
    ValueEnd,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    End,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { step: Step::Size { digits: 0 }, size: 0, room: LINE_LIMIT }
    }
}

impl Chunks {
    /// Reads on: what is left of `bytes` after the body, and whether the body has ended.
    pub(super) fn read<'a>(&mut self, mut bytes: &'a [u8]) -> Result<(&'a [u8], bool), Malformed> {
        while !matches!(self.step, Step::End) {
            bytes = if matches!(self.step, Step::Data) {
                let taken = usize::try_from(self.size).unwrap_or(usize::MAX).min(bytes.len());
                self.size = self.size.saturating_sub(u64::try_from(taken).unwrap_or(u64::MAX));
                if self.size == 0 {
                    self.step = Step::DataCr;
                }
                bytes.get(taken..).unwrap_or_default()
            } else if let [byte, rest @ ..] = bytes {
                self.room = self.room.checked_sub(1).ok_or(Malformed::Chunk)?;
                self.step = self.after(*byte).ok_or(Malformed::Chunk)?;
                rest
            } else {
                bytes
            };
            if bytes.is_empty() {
                break;
            }
        }
        Ok((bytes, matches!(self.step, Step::End)))
    }

    /// The step after a byte that is not data; `None` when it may not stand here.
    fn after(&mut self, byte: u8) -> Option<Step> {
        Some(match (self.step, byte) {
            (Step::Size { digits }, _) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16)?;
                self.size = self.size << 4 | u64::from(digit);
                Step::Size { digits: digits.checked_add(1).filter(|digits| *digits <= DIGITS)? }
            }
            (Step::Size { digits: 0 }, _) => return None,

            (Step::Size { .. } | Step::Name | Step::Value | Step::ValueEnd, b'\r') => Step::SizeLf,
            (
                Step::Size { .. }
                | Step::Semicolon
                | Step::Name
                | Step::Equals
                | Step::Value
                | Step::ValueEnd,
                b';',
            ) => Step::NameStart,
            (Step::Size { .. } | Step::Semicolon | Step::Value | Step::ValueEnd, b' ' | b'\t') => {
                Step::Semicolon
            }
            (Step::NameStart, b' ' | b'\t') => Step::NameStart,
            (Step::Name | Step::Equals, b'=') => Step::ValueStart,
            (Step::Name | Step::Equals, b' ' | b'\t') => Step::Equals,
            (Step::NameStart | Step::Name, _) if is_token(byte) => Step::Name,
            (Step::ValueStart, b' ' | b'\t') => Step::ValueStart,
            (Step::ValueStart, b'"') => Step::Quoted,
            (Step::ValueStart | Step::Value, _) if is_token(byte) => Step::Value,
            (Step::Quoted, b'"') => Step::ValueEnd,
            (Step::Quoted, b'\\') => Step::Escaped,
            (Step::Quoted | Step::Escaped, _) if is_text(byte) => Step::Quoted,

            (Step::SizeLf, b'\n') if self.size == 0 => {
                self.room = TRAILER_LIMIT;
                Step::TrailerStart
            }
            (Step::SizeLf, b'\n') => Step::Data,
            (Step::DataCr, b'\r') => Step::DataLf,
            (Step::DataLf, b'\n') => {
                *self = Self::default();
                self.step
            }

            (Step::TrailerStart, b'\r') => Step::LastLf,
            (Step::TrailerStart | Step::TrailerName, _) if is_token(byte) => Step::TrailerName,
            (Step::TrailerName, b':') => Step::TrailerValue,
            (Step::TrailerValue, b'\r') => Step::TrailerLf,
            (Step::TrailerValue, _) if is_text(byte) => Step::TrailerValue,
            (Step::TrailerLf, b'\n') => Step::TrailerStart,
            (Step::LastLf, b'\n') => Step::End,
            _ => return None,
        })
    }
}
