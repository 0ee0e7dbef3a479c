//! Connections that keep the books' promises, and the refusal of a server that cannot.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{Migrate, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

use crate::store::OpenError;

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations/postgres");

/// Numbers compare as the versions do: 140000 is 14.0.
const OLDEST: i32 = 140_000;
/// Connections for everything but claims.
const CONNECTIONS: u32 = 16;
/// How long a connection is waited for.
const ACQUIRE: Duration = Duration::from_secs(5);

/// What sessions call themselves whose transactions are short.
pub(super) const APPLICATION: &str = "ropeline-origin";
/// The same of those who set up tables and stock, which may take long.
pub(super) const SETTING_UP: &str = "ropeline-origin setup";

/// Set for every session, whatever the server, the database or the role has as its own.
///
/// Nothing that is done here lasts: who waits longer for a lock waits for somebody who is stuck, and whoever is stuck in a
/// transaction is taken to be dead, so that the others can go on. These go by the server's time of day; for when that is
/// set back there is [`super::overtime`]. Plans are those for large tables, since a plan made
/// while a table was empty would outlive the first thousands of rows.
const SESSION: [(&str, &str); 12] = [
    ("synchronous_commit", "on"),
    ("default_transaction_isolation", "read committed"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("statement_timeout", "60s"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("tcp_user_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
];

/// An address of a database as something to connect by.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, OpenError> {
    Ok(PgConnectOptions::from_str(url)?.application_name(SETTING_UP))
}

/// The same, for sessions as they have to be.
pub(super) fn session(options: PgConnectOptions) -> PgConnectOptions {
    options.application_name(APPLICATION).options(SESSION)
}

/// A pool of such sessions.
pub(super) async fn pool(options: PgConnectOptions) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        // Whatever is lost is retried, so asking first would be a round trip for nothing.
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

/// Brings the schema up to date.
pub(super) async fn migrate(options: &PgConnectOptions) -> Result<(), OpenError> {
    let mut connection = options.connect().await?;
    refuse_server(&mut connection).await?;
    MIGRATIONS.run(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Refuses a server, a role or a schema that would break the books' promises, saying how to mend it.
pub(super) async fn check(options: &PgConnectOptions) -> Result<(), OpenError> {
    // As everybody else gets it, to see what is set for them.
    let mut plain = options.connect().await?;
    refuse_server(&mut plain).await?;
    refuse_forgetful(&mut plain).await?;
    refuse_schema(&mut plain).await?;
    plain.close().await?;
    let mut own = session(options.clone()).connect().await?;
    refuse_isolation(&mut own).await?;
    own.close().await?;
    Ok(())
}

async fn setting(connection: &mut PgConnection, name: &str) -> Result<String, sqlx::Error> {
    sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await
}

async fn refuse_server(connection: &mut PgConnection) -> Result<(), OpenError> {
    let version: i32 = sqlx::query_scalar("SELECT current_setting('server_version_num')::int4")
        .fetch_one(&mut *connection)
        .await?;
    if version < OLDEST {
        return Err(OpenError::Unfit(format!(
            "the server is PostgreSQL {}; upgrade it to 14 or later",
            setting(connection, "server_version").await?
        )));
    }
    let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut *connection).await?;
    if standby {
        return Err(OpenError::Unfit(
            "the server is a standby, which takes no changes; give the address of the primary".to_owned(),
        ));
    }
    if setting(connection, "transaction_read_only").await? != "off" {
        return Err(OpenError::Unfit(
            "the server lets this role read alone; set default_transaction_read_only = off for it".to_owned(),
        ));
    }
    Ok(())
}

/// What is committed has to outlive a crash. `synchronous_commit` is set for each session of ours, but whoever chose
/// another value has to learn that it does not count, and every other client of these tables goes by it.
async fn refuse_forgetful(connection: &mut PgConnection) -> Result<(), OpenError> {
    for name in ["fsync", "full_page_writes"] {
        if setting(connection, name).await? != "on" {
            return Err(OpenError::Unfit(format!(
                "{name} is off, so a crash loses what was sold; set it to on in postgresql.conf"
            )));
        }
    }
    let (commit, source): (String, String) =
        sqlx::query_as("SELECT setting, source FROM pg_settings WHERE name = 'synchronous_commit'")
            .fetch_one(&mut *connection)
            .await?;
    if matches!(commit.as_str(), "off" | "local") {
        let mend = match source.as_str() {
            "database" => "ALTER DATABASE … RESET synchronous_commit",
            "user" | "database user" => "ALTER ROLE … RESET synchronous_commit",
            _ => "set it to on in postgresql.conf",
        };
        return Err(OpenError::Unfit(format!(
            "synchronous_commit is {commit}, so a crash loses what was sold (set by: {source}); {mend}"
        )));
    }
    Ok(())
}

async fn refuse_schema(connection: &mut PgConnection) -> Result<(), OpenError> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !there {
        return Err(OpenError::Unfit(
            "the database has no tables yet; run `ropeline-origin migrate`".to_owned(),
        ));
    }
    let table = MIGRATIONS.table_name.as_ref();
    if let Some(version) = connection.dirty_version(table).await? {
        return Err(OpenError::Unfit(format!(
            "migration {version} came to nothing half way; restore a backup"
        )));
    }
    let applied = connection.list_applied_migrations(table).await?;
    if let Some(newer) = applied.iter().find(|applied| !MIGRATIONS.version_exists(applied.version)) {
        return Err(OpenError::Unfit(format!(
            "the tables are of a newer ropeline-origin (migration {}); run that one",
            newer.version
        )));
    }
    for migration in MIGRATIONS.iter() {
        match applied.iter().find(|applied| applied.version == migration.version) {
            None => {
                return Err(OpenError::Unfit(
                    "the tables are of an older ropeline-origin; run `ropeline-origin migrate`".to_owned(),
                ));
            }
            Some(applied) if applied.checksum != migration.checksum => {
                return Err(OpenError::Unfit(format!(
                    "migration {} was another one when it was run; these are not this program's tables",
                    migration.version
                )));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A proxy in between may pass over what a session asks for.
pub(super) async fn refuse_isolation(connection: &mut PgConnection) -> Result<(), OpenError> {
    for (name, wanted) in [("transaction_isolation", "read committed"), ("synchronous_commit", "on")] {
        let found = setting(connection, name).await?;
        if found != wanted {
            return Err(OpenError::Unfit(format!(
                "{name} is {found:?} for sessions that ask for {wanted:?}; a connection pooler in between has to pass \
                 the `options` of a session on"
            )));
        }
    }
    Ok(())
}
