//! `[operator]`: who may run the sales.

use super::files;
use super::read::Section;
use super::report::Fault;
use super::secret::OperatorToken;

/// Who may run the sales.
#[derive(Debug, Clone)]
pub struct OperatorAccess {
    /// The bearer token of every operator call.
    pub token: OperatorToken,
    /// `/metrics` answers without the token.
    pub metrics_open: bool,
}

const MEND: &str = "name a file in operator.token_file (`ropeline keygen operator-token` makes one), \
                    or an environment variable in operator.token_env";

pub(super) fn read(section: Section<'_>) -> Option<OperatorAccess> {
    let metrics_open = section.or("metrics_open", false, |item| item.bool());
    let from_file = section.try_get("token_file", |item| {
        let path = item.path()?;
        let bytes = files::read_secret(&path, 4_096)?;
        let token = OperatorToken::parse(&String::from_utf8_lossy(&bytes))?;
        Ok((token, files::readable_by_others(&path)))
    });
    let from_env = section.try_get("token_env", |item| {
        let name = item.text()?;
        files::variable(name)?;
        let value = (section.around.env)(name).ok_or_else(|| {
            Fault::new(format!("the environment variable {name} is not set"), format!("export {name}=…"))
        })?;
        OperatorToken::parse(&value)
    });
    let token = match (from_file, from_env) {
        (Ok(Some(_)), Ok(Some(_))) => {
            section.fault(
                "token_env",
                Fault::new("two tokens are named", "keep token_file or token_env, not both"),
            );
            None
        }
        (Ok(Some((token, open))), Ok(None)) => {
            if let Some(fault) = open {
                section.warn("token_file", fault);
            }
            Some(token)
        }
        (Ok(None), Ok(Some(token))) => Some(token),
        (Ok(None), Ok(None)) => {
            section.missing("token_file", MEND);
            None
        }
        // Noted where it was read.
        (Err(()), _) | (_, Err(())) => None,
    };
    section.finish();
    Some(OperatorAccess { token: token?, metrics_open })
}
