//! The waiting room's page: one template, rendered for everyone or for one visitor, and its script and stylesheet.
//!
//! [`Room::prepare`] makes the page that is the same for everyone, compressed beforehand; a gateway keeps it and serves
//! it from memory. [`Room::personal`] renders the same page with one visitor's standing in it, for browsers without
//! JavaScript. Neither page carries a script or style of its own, so [`CONTENT_SECURITY_POLICY`] can be strict.

mod assets;
mod input;
mod prepared;
mod slots;
mod template;
#[cfg(test)]
mod tests;
mod texts;

pub use input::{Barrier, Reader, RoomBeacon, RoomInput, Standing, Uninvited};
pub(crate) use prepared::names_tag;
pub use prepared::{Encoding, Prepared, Representation, Selected};
pub use texts::Language;

use assets::Assets;
use input::State;
use prepared::Effort;
use slots::{Page, Slot};
use template::Template;
use texts::Texts;

/// `Content-Type` of the page.
pub const CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// `Content-Security-Policy` of the page: its own script and style, calls to its own host, forms to its own host, in
/// nobody's frame. The image source is for the empty icon that keeps a crowd from asking the shop for `/favicon.ico`.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The room cannot be built: a fault in the embedded files, found at start.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// A text file is not what the page needs.
    #[error("texts of language {language}: {source}")]
    Texts {
        /// Its language tag.
        language: &'static str,
        /// What is wrong.
        source: Box<toml::de::Error>,
    },
    /// A text file cannot be handed to the script.
    #[error("texts as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The template names something that is not there.
    #[error("template: unknown slot near {0:?}")]
    Slot(&'static str),
}

/// The page's template, texts and assets, ready to render.
#[derive(Debug)]
pub struct Room {
    template: Template<Slot>,
    english: Words,
    assets: Assets,
}

#[derive(Debug)]
struct Words {
    texts: Texts,
    json: String,
}

impl Room {
    /// Reads the embedded template, texts and assets. Takes some tens of milliseconds: once, at start.
    ///
    /// # Errors
    /// When one of them is faulty, which a test excludes.
    pub fn new() -> Result<Self, RoomError> {
        let template = Template::parse(include_str!("../../room/template.html"), Slot::named)
            .map_err(RoomError::Slot)?;
        Ok(Self { template, english: Words::load(Language::English)?, assets: Assets::new() })
    }

    /// The page for everyone. Costs a few milliseconds of compression: not for the request path.
    #[must_use]
    pub fn prepare(&self, input: &RoomInput, language: Language) -> Prepared {
        let reader = Reader { return_to: &input.entry_url, accept_language: None, lane: None, barrier: None };
        let html = self.render(input, &Standing::Outside, &reader, language);
        Prepared::new(CONTENT_TYPE, html.into_bytes(), Effort::Quick)
    }

    /// The page for one visitor, never to be cached by anyone.
    #[must_use]
    pub fn personal(
        &self,
        input: &RoomInput,
        standing: &Standing,
        reader: &Reader<'_>,
        language: Language,
    ) -> Vec<u8> {
        self.render(input, standing, reader, language).into_bytes()
    }

    /// The asset of this name (`room.<hash>.js`, `room.<hash>.css`), to be served as immutable.
    #[must_use]
    pub fn asset(&self, name: &str) -> Option<&Prepared> {
        self.assets.get(name)
    }

    fn render(
        &self,
        input: &RoomInput,
        standing: &Standing,
        reader: &Reader<'_>,
        language: Language,
    ) -> String {
        let words = match language {
            Language::English => &self.english,
        };
        let state = State::of(input.phase, input.draw_closes_at.is_some(), standing);
        let page = Page::new(input, standing, state, reader, language, words, &self.assets);
        self.template.render(|slot| page.value(slot))
    }
}

impl Words {
    fn load(language: Language) -> Result<Self, RoomError> {
        let texts = Texts::load(language)
            .map_err(|source| RoomError::Texts { language: language.tag(), source: Box::new(source) })?;
        let json = serde_json::to_string(&texts)?;
        Ok(Self { texts, json })
    }
}
