use alloc::string::String;
use core::fmt::Write as _;

/// Writes JSON without space, members in the order given. The caller pairs begins with ends.
#[derive(Debug, Default)]
pub struct Writer {
    out: String,
    separate: bool,
}

impl Writer {
    /// An empty text.
    #[must_use]
    pub const fn new() -> Self {
        Self { out: String::new(), separate: false }
    }

    /// The text written so far.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    fn begin(&mut self, bracket: char) {
        self.comma();
        self.out.push(bracket);
        self.separate = false;
    }

    fn end(&mut self, bracket: char) {
        self.out.push(bracket);
        self.separate = true;
    }

    fn comma(&mut self) {
        if self.separate {
            self.out.push(',');
        }
        self.separate = true;
    }

    /// `{`
    pub fn begin_object(&mut self) {
        self.begin('{');
    }

    /// `}`
    pub fn end_object(&mut self) {
        self.end('}');
    }

    /// `[`
    pub fn begin_array(&mut self) {
        self.begin('[');
    }

    /// `]`
    pub fn end_array(&mut self) {
        self.end(']');
    }

    /// A member's name; its value is written next.
    pub fn name(&mut self, name: &str) {
        self.text(name);
        self.out.push(':');
        self.separate = false;
    }

    /// A string.
    pub fn text(&mut self, text: &str) {
        self.comma();
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\0'..='\u{1f}' => {
                    let _ = write!(self.out, "\\u{:04x}", u32::from(character));
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    /// An integer.
    pub fn integer(&mut self, value: u64) {
        self.comma();
        // Writing to a String cannot fail.
        let _ = write!(self.out, "{value}");
    }

    /// A truth value.
    pub fn boolean(&mut self, value: bool) {
        self.comma();
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// `null`
    pub fn null(&mut self) {
        self.comma();
        self.out.push_str("null");
    }
}
