//! Words that an operator writes and visitors read.

use std::fmt;

/// A character that plain text has no place for.
///
/// Control characters (Unicode category Cc, NUL and line breaks among them) are shown by nobody alike. Embeddings,
/// overrides and isolates (Unicode Annex 9, section 2) make text read in another order than it is written, and reach
/// beyond it where they are not closed: the page marks the direction of what it shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// The character.
    pub character: char,
    /// Which of the text's characters it is, from 1.
    pub number: usize,
}

/// The first character of a text that must not be shown to visitors, if any.
#[must_use]
pub fn misplaced(text: &str) -> Option<Misplaced> {
    let turns = |character| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut characters = (1..).zip(text.chars());
    let found = characters.find(|(_, character)| character.is_control() || turns(*character));
    found.map(|(number, character)| Misplaced { character, number })
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, number } = *self;
        let kind =
            if character.is_control() { "a control character" } else { "it turns the text's direction" };
        write!(f, "without character {number}, U+{:04X} ({kind})", u32::from(character))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_every_script_are_plain_and_nothing_that_hides_or_turns_them_is() {
        for plain in [
            "",
            "Back at 10:30 – sorry!",
            "Gleich geht’s weiter",
            "عدنا بعد قليل\u{200f}",
            "すぐ戻ります",
            "👟",
        ] {
            assert_eq!(misplaced(plain), None, "{plain:?}");
        }
        for code in (0..0x20).chain(0x7f..0xa0).chain(0x202a..=0x202e).chain(0x2066..=0x2069) {
            let character = char::from_u32(code).unwrap();
            let found = misplaced(&format!("é{character}x"));
            assert_eq!(found, Some(Misplaced { character, number: 2 }), "U+{code:04X}");
        }
    }

    #[test]
    fn what_is_misplaced_is_named() {
        let words = |text| misplaced(text).unwrap().to_string();
        assert_eq!(words("a\nb"), "without character 2, U+000A (a control character)");
        assert_eq!(words("ab\u{202e}c"), "without character 3, U+202E (it turns the text's direction)");
    }
}
