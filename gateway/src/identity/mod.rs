//! Who a visitor is: the shop's own account where it has one, else a signed first-party cookie.

mod accounts;
mod visitor_cookie;

use http::HeaderValue;
use ropeline_decision::{cookie, header};

pub use accounts::{AccountKeysError, AccountRefusal, AccountRules, Accounts};
pub use visitor_cookie::{IssueVisitorError, VisitorCookies};

use crate::config::AccountSource;
use crate::cookies::CookieStyle;

/// How long a browser keeps the visitor cookie: 400 days, the most that browsers allow.
const COOKIE_LIFE_S: u64 = 400 * 24 * 3600;

/// How long it keeps the name of somebody who has not joined: a day.
const NEWCOMER_LIFE_S: u64 = 24 * 3600;

/// A header field of a request, as [`ropeline_decision`] takes it.
pub type Field<'a> = header::Field<'a>;

/// A visitor, as tickets name it.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The `sub` of its tokens.
    pub subject: String,
    /// Set when the visitor is new: what its browser is to keep.
    pub new_cookie: Option<HeaderValue>,
    /// The signed value of the cookie, for apps that keep it themselves.
    pub credential: Option<String>,
}

/// Why nobody could be made out.
#[derive(Debug, thiserror::Error)]
pub enum Unidentified {
    /// The request carries nothing that names a visitor.
    #[error("the request names no visitor")]
    Nobody,
    /// Several cookies of one name: one of them may be planted.
    #[error("several cookies of one name")]
    Ambiguous,
    /// The shop's account token is not valid.
    #[error(transparent)]
    Account(#[from] AccountRefusal),
    /// No new visitor can be made now.
    #[error(transparent)]
    Issue(#[from] IssueVisitorError),
}

/// Makes out visitors.
pub struct Identifier {
    cookies: VisitorCookies,
    cookie_name: String,
    style: CookieStyle,
    accounts: Option<(AccountSource, Accounts)>,
}

impl Identifier {
    /// With `accounts`, only they count; else the signed cookie.
    #[must_use]
    pub fn new(
        cookies: VisitorCookies,
        style: CookieStyle,
        accounts: Option<(AccountSource, Accounts)>,
    ) -> Self {
        Self { cookies, cookie_name: cookie::visitor(style.secure), style, accounts }
    }

    /// The shop's accounts, where it has them.
    #[must_use]
    pub fn accounts(&self) -> Option<&Accounts> {
        self.accounts.as_ref().map(|(_, accounts)| accounts)
    }

    /// The visitor a request comes from, if it says so.
    ///
    /// # Errors
    /// When it names nobody, or not exactly one, or an account that is not valid.
    pub fn known(&self, fields: &[Field<'_>]) -> Result<Visitor, Unidentified> {
        if let Some((source, accounts)) = &self.accounts {
            let token = account_token(source, fields)?.ok_or(Unidentified::Nobody)?;
            let subject = accounts.subject(token)?;
            return Ok(Visitor { subject, new_cookie: None, credential: None });
        }
        let offered = match header::values(fields, header::VISITOR).next() {
            Some(value) => Some(value),
            None => cookie::find(fields, &self.cookie_name).map_err(|_| Unidentified::Ambiguous)?,
        };
        let subject = offered
            .and_then(|value| std::str::from_utf8(value).ok())
            .and_then(|value| self.cookies.recognise(value))
            .ok_or(Unidentified::Nobody)?;
        Ok(Visitor { subject: subject.to_owned(), new_cookie: None, credential: None })
    }

    /// The visitor a request comes from, or a new one: the newcomer that a page has named, or else somebody whom nobody
    /// has seen before.
    ///
    /// # Errors
    /// As [`Self::known`]; with accounts, nobody is made up.
    pub fn known_or_new(&self, fields: &[Field<'_>]) -> Result<Visitor, Unidentified> {
        match self.known(fields) {
            Err(Unidentified::Nobody) if self.accounts.is_none() => {
                let (subject, value) = match self.newcomer(fields) {
                    Some((subject, value)) => (subject.to_owned(), value.to_owned()),
                    None => self.cookies.issue()?,
                };
                let new_cookie = self.style.set(&self.cookie_name, &value, COOKIE_LIFE_S);
                Ok(Visitor { subject, new_cookie, credential: Some(value) })
            }
            other => other,
        }
    }

    /// What a page gives somebody who has no name yet, so that several joins at once, from forms above all, are one
    /// visitor's. It is a cookie of its own: of pages asked for at once each names a newcomer, and the last one to arrive
    /// must not make a stranger of a visitor who has joined meanwhile.
    pub fn welcome(&self, fields: &[Field<'_>]) -> Option<HeaderValue> {
        let nobody = matches!(self.known(fields), Err(Unidentified::Nobody));
        if !nobody || self.accounts.is_some() || self.newcomer(fields).is_some() {
            return None;
        }
        let (_, value) = self.cookies.issue().ok()?;
        self.newcomer_cookie(&value)
    }

    /// The cookie by which a visitor of this credential who was made up just now is known the next time, until they join. As
    /// [`Self::welcome`] it takes the place of no visitor who has joined.
    #[must_use]
    pub fn newcomer_cookie(&self, credential: &str) -> Option<HeaderValue> {
        self.style.set(&cookie::newcomer(self.style.secure), credential, NEWCOMER_LIFE_S)
    }

    /// The newcomer a request comes from: its name, and the cookie's value.
    fn newcomer<'a>(&self, fields: &'a [Field<'a>]) -> Option<(&'a str, &'a str)> {
        let value = cookie::find(fields, &cookie::newcomer(self.style.secure)).ok()??;
        let value = std::str::from_utf8(value).ok()?;
        Some((self.cookies.recognise(value)?, value))
    }
}

fn account_token<'a>(
    source: &'a AccountSource,
    fields: &'a [Field<'a>],
) -> Result<Option<&'a str>, Unidentified> {
    let value = match source {
        AccountSource::Cookie(name) => cookie::find(fields, name).map_err(|_| Unidentified::Ambiguous)?,
        AccountSource::Header(name) => {
            let mut values = header::values(fields, name.as_str());
            let first = values.next();
            if values.next().is_some() {
                return Err(Unidentified::Ambiguous);
            }
            first
        }
    };
    let Some(value) = value else { return Ok(None) };
    let text = std::str::from_utf8(value).map_err(|_| AccountRefusal::Malformed)?.trim();
    let bearer =
        text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer ")).and_then(|_| text.get(7..));
    Ok(Some(bearer.unwrap_or(text).trim()))
}
