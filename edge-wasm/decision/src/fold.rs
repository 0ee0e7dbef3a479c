//! Letter case, for shops that ignore it in paths.
//!
//! Of Unicode's letters with two cases this knows those of the Latin (with its accents, Vietnamese included), Greek,
//! Cyrillic and Armenian alphabets, in which paths are written. The whole table would be a tenth of an edge's module.
//! Where two letters share a fold without being one, more is held than need be, never less.

/// One and the same character for both cases of a letter.
pub(crate) fn fold(character: char) -> char {
    let code = u32::from(character);
    let folded = match code {
        // Letters that share a capital or a small form with one that lies elsewhere.
        0x130 | 0x131 => 0x69,
        0x17F => 0x73,
        0x212A => 0x6B,
        0xB5 => 0x3BC,
        0x2126 => 0x3C9,
        0x212B => 0xE5,
        0x1E9B => 0x1E61,
        0x1E9E => 0xDF,
        // A to Z, and alphabets that repeat themselves at a distance.
        0x41..=0x5A | 0xC0..=0xD6 | 0xD8..=0xDE | 0x391..=0x3A1 | 0x3A3..=0x3AB | 0x410..=0x42F => code + 32,
        0x400..=0x40F => code + 80,
        0x531..=0x556 => code + 48,
        0x388..=0x38A => code + 37,
        0x386 => 0x3AC,
        0x38C => 0x3CC,
        0x38E | 0x38F => code + 63,
        0x3C2 => 0x3C3,
        0x178 => 0xFF,
        // Pairs of which the even or the odd one is the capital.
        0x100..=0x137
        | 0x14A..=0x177
        | 0x460..=0x481
        | 0x48A..=0x4BF
        | 0x4D0..=0x52F
        | 0x1E00..=0x1E95
        | 0x1EA0..=0x1EFF => code | 1,
        0x139..=0x148 | 0x179..=0x17E | 0x4C1..=0x4CE => (code + 1) | 1,
        0x4C0 => 0x4CF,
        _ => code,
    };
    char::from_u32(folded).unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::fold;

    /// Against the standard library's tables. Left out: letters whose other form is two characters, and archaic Greek.
    #[test]
    fn both_cases_of_a_letter_fold_to_one() {
        let blocks = [0x41..=0x17F, 0x386..=0x3CE, 0x400..=0x556, 0x1E00..=0x1EFF, 0x2126..=0x212B];
        let mut letters = 0;
        for letter in blocks.into_iter().flatten().filter_map(char::from_u32) {
            let lower: Vec<char> = letter.to_lowercase().collect();
            let upper: Vec<char> = letter.to_uppercase().collect();
            for other in [lower, upper] {
                if let [other] = other[..] {
                    assert_eq!(fold(letter), fold(other), "{letter} {other}");
                    letters += usize::from(letter != other);
                }
            }
        }
        assert!(letters > 800, "{letters}");
    }

    #[test]
    fn what_a_shop_may_take_for_an_ascii_letter_folds_to_it() {
        for (letter, ascii) in [('\u{17f}', 's'), ('\u{212a}', 'k'), ('\u{130}', 'i'), ('\u{131}', 'i')] {
            assert_eq!(fold(letter), ascii, "{letter}");
        }
    }

    #[test]
    fn different_ascii_letters_stay_different() {
        for one in ' '..='~' {
            for two in ' '..='~' {
                assert_eq!(fold(one) == fold(two), one.eq_ignore_ascii_case(&two), "{one} {two}");
            }
        }
    }
}
