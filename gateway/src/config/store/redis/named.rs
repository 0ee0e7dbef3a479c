//! What may hold a password, and so may stand in a file of its own or in the environment.

use crate::config::files;
use crate::config::read::Section;
use crate::config::report::Fault;

/// Longest such file or variable, in bytes.
const MAX: u64 = 16 << 10;

/// By which key something was found, and what; nothing where it is wrong, which has been noted.
pub(super) type Found<T> = (&'static str, Result<T, ()>);

/// The keys by which one thing may be named.
pub(super) struct Keys {
    /// It stands in the configuration itself.
    pub(super) plain: &'static str,
    /// The name of an environment variable that holds it.
    pub(super) env: &'static str,
    /// A file that holds it.
    pub(super) file: &'static str,
    /// How it begins.
    pub(super) example: &'static str,
}

// === impl Keys ===

impl Keys {
    /// What an environment variable and a file say, where the section names them. `secret`: it holds a password.
    pub(super) fn elsewhere<T>(
        &self,
        section: &Section<'_>,
        parse: impl Fn(&str) -> Result<T, Fault>,
        secret: impl Fn(&T) -> bool,
    ) -> Vec<Found<T>> {
        let from_env = section.try_get(self.env, |item| {
            let name = item.text()?;
            files::variable(name)?;
            let value = (section.around.env)(name).ok_or_else(|| {
                Fault::new(
                    format!("the environment variable {name} is not set"),
                    format!("export {name}={}", self.example),
                )
            })?;
            parse(&value)
        });
        let from_file = section.try_get(self.file, |item| {
            let path = item.path()?;
            let bytes = files::read_secret(&path, MAX)?;
            let read = parse(&String::from_utf8_lossy(&bytes))?;
            if let Some(fault) = files::readable_by_others(&path).filter(|_| secret(&read)) {
                section.warn(self.file, fault);
            }
            Ok(read)
        });
        let found = [(self.env, from_env.transpose()), (self.file, from_file.transpose())];
        found.into_iter().filter_map(|(key, read)| Some((key, read?))).collect()
    }

    /// The one thing that they name, and by which of them. `what`: what it is.
    pub(super) fn one<T>(
        &self,
        section: &Section<'_>,
        what: &str,
        parse: impl Fn(&str) -> Result<T, Fault>,
        secret: impl Fn(&T) -> bool,
    ) -> Result<Option<(&'static str, T)>, ()> {
        let plain = section.try_get(self.plain, |item| parse(item.text()?));
        if let Ok(Some(read)) = &plain
            && secret(read)
        {
            self.warn_of_password(section);
        }
        let elsewhere = self.elsewhere(section, parse, secret);
        let found = plain.transpose().map(|plain| (self.plain, plain)).into_iter().chain(elsewhere);
        let mut found = found.map(|(key, read)| Ok((key, read?))).collect::<Result<Vec<_>, ()>>()?;
        if let Some((key, _)) = found.get(1) {
            section.fault(key, Fault::new(format!("{what} is named twice"), "keep one of the keys"));
            return Err(());
        }
        Ok(found.pop())
    }

    /// Warns of a password in the configuration itself.
    pub(super) fn warn_of_password(&self, section: &Section<'_>) {
        let mend =
            format!("name a file in store.{} or an environment variable in store.{}", self.file, self.env);
        let what = "a password is in it, for everybody to read who may read this file";
        section.warn(self.plain, Fault::new(what, format!("{mend}, and write the address there")));
    }
}

pub(super) fn has_password(address: &str) -> bool {
    // That of a socket's address, and of a database's, may stand behind the question mark.
    let of = |url: reqwest::Url| {
        url.password().is_some() || url.query_pairs().any(|(name, _)| matches!(&*name, "pass" | "password"))
    };
    reqwest::Url::parse(address).is_ok_and(of)
}
