use alloc::string::String;

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
                    self.out.push_str("\\u00");
                    for digit in [u32::from(character) >> 4, u32::from(character) & 0xF] {
                        self.out.extend(char::from_digit(digit, 16));
                    }
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    /// An integer.
    pub fn integer(&mut self, value: u64) {
        self.comma();
        self.out.push_str(&decimal(value));
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

/// An integer in digits. The formatter would be a twentieth of an edge's module.
#[must_use]
pub fn decimal(value: u64) -> String {
    let mut divisor = 1;
    while value / divisor >= 10 {
        divisor *= 10;
    }
    let mut digits = String::new();
    while divisor > 0 {
        digits.extend(u32::try_from(value / divisor % 10).ok().and_then(|digit| char::from_digit(digit, 10)));
        divisor /= 10;
    }
    digits
}
