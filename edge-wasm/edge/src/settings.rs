use alloc::string::String;

use ropeline_decision::{Gate, Policy, PolicyError};
use ropeline_token::json::{self, JsonError, MemberError, Members, Writer};
use ropeline_token::{KeySet, KeySetError, Refusal};
use thiserror::Error;

#[cfg(test)]
mod tests;

/// The form of the document that [`Settings::from_json`] reads.
const VERSION: u64 = 1;

/// Why settings are refused. What was in force before stays.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The text is not strict JSON.
    #[error("the settings are not JSON: {0}")]
    Json(#[from] JsonError),
    /// A member is missing or of the wrong type.
    #[error("{member}: missing, or not {wanted}")]
    Member {
        /// The member's name.
        member: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A member that no settings have: a misspelling must not open a gate.
    #[error("{member}: no such member")]
    UnknownMember {
        /// The member's name.
        member: String,
    },
    /// They were exported for another release of this module.
    #[error("version: these settings are for another release; export them anew with this one's gateway")]
    Version,
    /// The policy is refused.
    #[error("policy: {0}")]
    Policy(#[from] PolicyError),
    /// The key set is refused.
    #[error("keys: {0}")]
    Keys(#[from] KeySetError),
    /// The token that must verify with these keys does not: the keys, or this build, are broken.
    #[error("known_answer: {0}")]
    KnownAnswer(Refusal),
}

impl SettingsError {
    /// The stable name of this error, for hosts that cannot afford its text. `ropeline edge check` tells the rest.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "settings_not_json",
            Self::Member { .. } => "settings_member_invalid",
            Self::UnknownMember { .. } => "settings_member_unknown",
            Self::Version => "settings_version_unknown",
            Self::Policy(_) => "settings_policy_invalid",
            Self::Keys(_) => "settings_keys_invalid",
            Self::KnownAnswer(_) => "settings_known_answer_refused",
        }
    }
}

impl From<MemberError> for SettingsError {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::Invalid { member, wanted } => Self::Member { member, wanted },
            MemberError::Unknown { member } => Self::UnknownMember { member },
        }
    }
}

/// Who gets what is sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upstream {
    /// The gateway, which checks again. Requests are sent as they came: it knows more of a visitor than an edge does.
    #[default]
    Gateway,
    /// The shop itself. It is told who was admitted, in fields that nobody else can set.
    Shop,
}

impl Upstream {
    /// As a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Shop => "shop",
        }
    }
}

/// What holds when the settings have not been renewed in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PastExpiry {
    /// Nobody passes a protected path: a revoked token or a withdrawn key might still be believed.
    #[default]
    Closed,
    /// Everybody passes.
    Open,
}

impl PastExpiry {
    /// As a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) at: u64,
    pub(crate) then: PastExpiry,
}

/// What an edge must know, exported by the gateway. Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) policy: Policy,
    /// The same policy with all gates open.
    pub(crate) open: Policy,
    pub(crate) keys: KeySet,
    pub(crate) upstream: Upstream,
    pub(crate) expiry: Option<Expiry>,
    known_answer: Option<String>,
}

impl Settings {
    /// Settings without an end, for an edge in front of the gateway.
    #[must_use]
    pub fn new(policy: Policy, keys: KeySet) -> Self {
        let mut open = policy.clone();
        open.sales.iter_mut().for_each(|sale| sale.gate = Gate::Open);
        Self { policy, open, keys, upstream: Upstream::default(), expiry: None, known_answer: None }
    }

    /// The same settings for an edge that sends on to `upstream`.
    #[must_use]
    pub fn sending_to(self, upstream: Upstream) -> Self {
        Self { upstream, ..self }
    }

    /// The same settings, relied on only before `at` (Unix seconds).
    #[must_use]
    pub fn until(self, at: u64, then: PastExpiry) -> Self {
        Self { expiry: Some(Expiry { at, then }), ..self }
    }

    /// The same settings with an admission token of one of the keys, whatever it says. Whoever reads the settings
    /// verifies it, so that a broken build is known, and the curve warm, before the first shopper comes.
    ///
    /// # Errors
    /// [`SettingsError::KnownAnswer`] if it does not verify.
    pub fn knowing(self, token: String) -> Result<Self, SettingsError> {
        self.keys.admission(&token).map_err(SettingsError::KnownAnswer)?;
        Ok(Self { known_answer: Some(token), ..self })
    }

    /// Verifies the known answer, where there is one, for whoever read them with [`Self::from_json_unproven`].
    ///
    /// # Errors
    /// [`SettingsError::KnownAnswer`] if it does not verify.
    pub fn prove(&self) -> Result<(), SettingsError> {
        let Some(token) = &self.known_answer else { return Ok(()) };
        self.keys.admission(token).map(drop).map_err(SettingsError::KnownAnswer)
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The admission keys.
    #[must_use]
    pub const fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// Who gets what is sent on.
    #[must_use]
    pub const fn upstream(&self) -> Upstream {
        self.upstream
    }

    /// Whether a token is known that must verify.
    #[must_use]
    pub const fn has_known_answer(&self) -> bool {
        self.known_answer.is_some()
    }

    /// What holds from [`Self::expires_at`] on.
    #[must_use]
    pub fn past_expiry(&self) -> PastExpiry {
        self.expiry.map(|expiry| expiry.then).unwrap_or_default()
    }

    /// Until when the settings are relied on, in Unix seconds.
    #[must_use]
    pub fn expires_at(&self) -> Option<u64> {
        self.expiry.map(|expiry| expiry.at)
    }

    /// Reads what [`Self::to_json`] writes. Unknown members are refused.
    ///
    /// # Errors
    /// The first thing that is not right.
    pub fn from_json(text: &[u8]) -> Result<Self, SettingsError> {
        let mut settings = Self::from_json_unproven(text)?;
        match settings.known_answer.take() {
            None => Ok(settings),
            Some(token) => settings.knowing(token),
        }
    }

    /// The same, but the known answer is not verified: for hosts that make a new instance for each request, where it
    /// would cost every request a second verification and spare none of them the first.
    ///
    /// # Errors
    /// The first thing that is not right.
    pub fn from_json_unproven(text: &[u8]) -> Result<Self, SettingsError> {
        let document = json::parse(text)?;
        let known = ["version", "policy", "keys", "send_to", "expires_at", "past_expiry", "known_answer"];
        let members = Members::new(&document, "settings", &known)?;
        if members.required_integer("version")? != VERSION {
            return Err(SettingsError::Version);
        }
        let policy = Policy::from_value(members.value("policy")?)?;
        let keys = KeySet::from_value(members.value("keys")?)?;
        let upstream = match members.text("send_to")? {
            None | Some("gateway") => Upstream::Gateway,
            Some("shop") => Upstream::Shop,
            Some(_) => return Err(member("send_to", "gateway or shop")),
        };
        let then = match members.text("past_expiry")? {
            None | Some("closed") => PastExpiry::Closed,
            Some("open") => PastExpiry::Open,
            Some(_) => return Err(member("past_expiry", "closed or open")),
        };
        let expiry = members.integer("expires_at")?;
        let known_answer = members.text("known_answer")?.map(String::from);
        let expiry = expiry.map(|at| Expiry { at, then });
        Ok(Self { expiry, known_answer, ..Self::new(policy, keys).sending_to(upstream) })
    }

    /// The settings as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut writer = Writer::new();
        writer.begin_object();
        writer.name("version");
        writer.integer(VERSION);
        writer.name("policy");
        self.policy.write(&mut writer);
        writer.name("keys");
        self.keys.write(&mut writer);
        writer.name("send_to");
        writer.text(self.upstream.as_str());
        if let Some(expiry) = self.expiry {
            writer.name("expires_at");
            writer.integer(expiry.at);
            writer.name("past_expiry");
            writer.text(expiry.then.as_str());
        }
        if let Some(token) = &self.known_answer {
            writer.name("known_answer");
            writer.text(token);
        }
        writer.end_object();
        writer.finish()
    }
}

const fn member(member: &'static str, wanted: &'static str) -> SettingsError {
    SettingsError::Member { member, wanted }
}
