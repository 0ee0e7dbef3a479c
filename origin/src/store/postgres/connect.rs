//! Connections that keep the books' promises, and the refusal of a server that cannot.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

use crate::store::OpenError;
use crate::store::schema::{refuse_foreign, refuse_other};

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

/// What may stand behind the `?` of an address, as libpq has it. The driver passes over what it does not know, so that a slip
/// of the pen in `sslmode` would leave the connection unprotected.
const PARAMETERS: [&str; 17] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];

/// What is wrong with an address, nothing secret in it.
pub(super) fn check_address(url: &str) -> Result<(), String> {
    let parsed = reqwest::Url::parse(url).map_err(|error| {
        format!(
            "is no address of a PostgreSQL database ({error}); \"postgres://user:password@host/database\" is"
        )
    })?;
    for (key, _) in parsed.query_pairs() {
        if !PARAMETERS.contains(&&*key) && !key.starts_with("options[") {
            return Err(format!("has ?{key}=…, which means nothing; known are {}", PARAMETERS.join(", ")));
        }
    }
    PgConnectOptions::from_str(url).map(drop).map_err(|error| error.to_string())
}

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
    if has_tables(&mut connection).await? {
        refuse_foreign(&MIGRATIONS, &mut connection).await.map_err(denied)?;
    }
    MIGRATIONS.run(&mut connection).await.map_err(|error| denied(error.into()))?;
    connection.close().await?;
    Ok(())
}

/// Says what to do where a role lacks the right to migrate.
fn denied(error: OpenError) -> OpenError {
    match &error {
        OpenError::Migrate(MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _))
            if is_denied(cause) =>
        {
            let said = cause.as_database_error().map_or("", |error| error.message());
            OpenError::Unfit(format!(
                "this role may not make or change the tables ({said}); have their owner migrate, or GRANT CREATE ON SCHEMA \
                 public TO the role"
            ))
        }
        _ => error,
    }
}

/// What the role has to read and write.
const OWN: [&str; 10] = [
    "_sqlx_migrations",
    "buckets",
    "idempotency_keys",
    "outbox",
    "payment_events",
    "products",
    "purchases",
    "reservations",
    "unit_places",
    "units",
];

/// Whether the role lacks a right (`insufficient_privilege`).
fn is_denied(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "42501")
}

/// The role has to read and write the tables, which may be another's.
async fn refuse_rights(connection: &mut PgConnection) -> Result<(), OpenError> {
    let lacking: Option<(String, String)> = sqlx::query_as(
        "SELECT current_user::text, c.relname::text FROM pg_class c
         WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('_sqlx_migrations'))
         AND CASE WHEN c.relname = '_sqlx_migrations' THEN NOT has_table_privilege(c.oid, 'SELECT')
             WHEN c.relkind = 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                 AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
             WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE')
             ELSE false END
         AND c.relname = ANY ($1) ORDER BY 2 LIMIT 1",
    )
    .bind(OWN)
    .fetch_optional(connection)
    .await?;
    let Some((role, name)) = lacking else { return Ok(()) };
    Err(OpenError::Unfit(format!(
        "the role {role:?} may not read and write {name}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES, and USAGE ON ALL \
         SEQUENCES, IN SCHEMA public TO it, or give the role that migrated"
    )))
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
    if !has_tables(connection).await? {
        return Err(OpenError::Unfit(
            "the database has no tables yet; run `ropeline-origin migrate`".to_owned(),
        ));
    }
    refuse_rights(connection).await?;
    refuse_other(&MIGRATIONS, connection, "run `ropeline-origin migrate`").await
}

async fn has_tables(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(connection).await
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
