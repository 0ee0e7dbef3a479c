//! Whether the tables are those that this program works with, whichever database keeps them.

use sqlx::migrate::{Migrate, Migrator};

use super::OpenError;

/// Looks at tables that are there, before they are brought up to date.
///
/// # Errors
/// When they are not this program's, or a newer one's.
pub(super) async fn refuse_foreign(
    migrations: &Migrator,
    connection: &mut impl Migrate,
) -> Result<(), OpenError> {
    let table = migrations.table_name.as_ref();
    if let Some(version) = connection.dirty_version(table).await? {
        return Err(OpenError::Unfit(format!(
            "migration {version} came to nothing half way; restore a backup"
        )));
    }
    for applied in connection.list_applied_migrations(table).await? {
        let version = applied.version;
        let Some(known) = migrations.iter().find(|known| known.version == version) else {
            return Err(OpenError::Unfit(format!(
                "the tables are of a newer ropeline-origin (migration {version}); run that one"
            )));
        };
        if applied.checksum != known.checksum {
            return Err(OpenError::Unfit(format!(
                "migration {version} was another one when it was run; these are not this program's tables"
            )));
        }
    }
    Ok(())
}

/// Looks at tables that are there and are to be used as they are.
///
/// # Errors
/// As [`refuse_foreign`], and when they are of an older program, with `mend` as what to do about it.
pub(super) async fn refuse_other(
    migrations: &Migrator,
    connection: &mut impl Migrate,
    mend: &str,
) -> Result<(), OpenError> {
    refuse_foreign(migrations, connection).await?;
    let applied = connection.list_applied_migrations(migrations.table_name.as_ref()).await?;
    if migrations.iter().any(|known| !applied.iter().any(|applied| applied.version == known.version)) {
        return Err(OpenError::Unfit(format!("the tables are of an older ropeline-origin; {mend}")));
    }
    Ok(())
}
