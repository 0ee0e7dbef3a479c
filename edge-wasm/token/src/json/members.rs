use alloc::string::String;

use super::{Object, Value};

/// Why an object's members are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberError {
    /// One is missing or of the wrong type.
    Invalid {
        /// Its name.
        member: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// One that nobody knows: a misspelling must not pass for a default.
    Unknown {
        /// Its name.
        member: String,
    },
}

/// Reads an object whose members are all known. A getter for each type, and none for any: an edge's module has every
/// one that is made of a generic one.
#[derive(Clone, Copy, Debug)]
pub struct Members<'v, 'a>(&'v Object<'a>);

impl<'v, 'a> Members<'v, 'a> {
    /// The members of `value`, which the document has as `member`.
    ///
    /// # Errors
    /// It is no object, or has a member that is not among `known`.
    pub fn new(value: &'v Value<'a>, member: &'static str, known: &[&str]) -> Result<Self, MemberError> {
        let Some(object) = value.as_object() else {
            return Err(MemberError::Invalid { member, wanted: "an object" });
        };
        for (name, _) in object.iter() {
            if !known.contains(&name) {
                return Err(MemberError::Unknown { member: name.into() });
            }
        }
        Ok(Self(object))
    }

    /// Whatever it is.
    ///
    /// # Errors
    /// There is none.
    pub fn value(&self, member: &'static str) -> Result<&'v Value<'a>, MemberError> {
        self.0.get(member).ok_or(MemberError::Invalid { member, wanted: "an object" })
    }

    /// A string, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, member: &'static str) -> Result<Option<&'v str>, MemberError> {
        match self.0.get(member) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(MemberError::Invalid { member, wanted: "a string" }),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// It is missing or something else.
    pub fn required_text(&self, member: &'static str) -> Result<&'v str, MemberError> {
        self.text(member)?.ok_or(MemberError::Invalid { member, wanted: "a string" })
    }

    /// An integer, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn integer(&self, member: &'static str) -> Result<Option<u64>, MemberError> {
        match self.0.get(member) {
            None => Ok(None),
            Some(Value::Integer(integer)) => Ok(Some(*integer)),
            Some(_) => Err(MemberError::Invalid { member, wanted: "a whole number" }),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// It is missing or something else.
    pub fn required_integer(&self, member: &'static str) -> Result<u64, MemberError> {
        self.integer(member)?.ok_or(MemberError::Invalid { member, wanted: "a whole number" })
    }

    /// A truth value, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn boolean(&self, member: &'static str) -> Result<Option<bool>, MemberError> {
        match self.0.get(member) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(MemberError::Invalid { member, wanted: "true or false" }),
        }
    }

    /// The elements of an array, if it is there.
    ///
    /// # Errors
    /// It is something else.
    pub fn array(&self, member: &'static str) -> Result<Option<&'v [Value<'a>]>, MemberError> {
        match self.0.get(member) {
            None => Ok(None),
            Some(Value::Array(elements)) => Ok(Some(elements)),
            Some(_) => Err(MemberError::Invalid { member, wanted: "an array" }),
        }
    }

    /// The elements of an array.
    ///
    /// # Errors
    /// It is missing or something else.
    pub fn required_array(&self, member: &'static str) -> Result<&'v [Value<'a>], MemberError> {
        self.array(member)?.ok_or(MemberError::Invalid { member, wanted: "an array" })
    }
}
