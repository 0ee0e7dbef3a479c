//! What the servers say of themselves.

use redis::{Script, Value};

use super::RedisStore;
use super::link::COMMANDS_MEND;
use crate::StoreError;

/// The first release whose scripts do what the store's need.
const OLDEST: u32 = 7;

/// What the store asks for, in its scripts and beside them. `EVAL` and `EVALSHA` are asked for to find that out.
const COMMANDS: [&str; 21] = [
    "INFO", "TIME", "HMGET", "HGET", "HSET", "HDEL", "HINCRBY", "HGETALL", "LLEN", "LRANGE", "RPUSH", "LPOP",
    "SETRANGE", "SET", "GET", "MGET", "DEL", "UNLINK", "EXISTS", "SADD", "SMEMBERS",
];

impl RedisStore {
    /// Asks the servers whether they are fit to keep a queue, and answers with what is wrong with them and how to mend it;
    /// nothing where all is well.
    ///
    /// # Errors
    /// [`StoreError::Denied`] when they do not take this gateway's word for who it is, or do not know how it asks; [`StoreError::Unavailable`] when they
    /// cannot be asked.
    pub async fn examine(&self) -> Result<Vec<String>, StoreError> {
        // First, for it is short: a server that does not know who asks hears out nothing long.
        let answer: Value = self.shared.link.ask(&redis::cmd("INFO")).await?;
        let mut found = Vec::new();
        let missing = self.commands_missing().await?;
        if !missing.is_empty() {
            found.push(format!("the server does not know {}: {COMMANDS_MEND}", missing.join(", ")));
        }
        let alone = self.shared.checkpoint.is_none();
        texts(&answer, &mut |info| faults(info, alone, &mut found));
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Of all that the store asks for, what one of the servers does not know.
    async fn commands_missing(&self) -> Result<Vec<String>, StoreError> {
        let text = include_str!("scripts/known.lua");
        let digest = Script::new(text).get_hash().to_owned();
        let mut missing = Vec::new();
        for (command, script) in [("EVAL", text), ("EVALSHA", &digest)] {
            let mut ask = redis::cmd(command);
            ask.arg(script).arg(0).arg(&COMMANDS);
            let answer = self.shared.link.ask_each(&ask).await?;
            texts(&answer, &mut |name| missing.push(name.to_owned()));
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }
}

/// Every text in an answer: one server gives one, a cluster one for each node.
fn texts(answer: &Value, look: &mut impl FnMut(&str)) {
    match answer {
        Value::BulkString(bytes) => look(&String::from_utf8_lossy(bytes)),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => look(text),
        Value::Array(values) | Value::Set(values) => values.iter().for_each(|value| texts(value, look)),
        Value::Map(pairs) => pairs.iter().for_each(|(_, value)| texts(value, look)),
        _ => {}
    }
}

/// What is wrong with the server that gives this `INFO`. `alone`: what it loses is written down nowhere else.
fn faults(info: &str, alone: bool, found: &mut Vec<String>) {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if let Some(version) = field("redis_version")
        && version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .is_some_and(|major: u32| major < OLDEST)
    {
        found.push(format!("the server is Redis {version}; install Redis {OLDEST} or later"));
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        found.push(format!(
            "the server forgets what it likes when memory runs short (maxmemory-policy {policy}), places in the queue, \
             too; set maxmemory-policy noeviction"
        ));
    }
    if alone && field("aof_enabled") == Some("0") {
        found.push(
            "the server writes nothing down (appendonly no), and no checkpoint is named: after a restart numbers could be \
             given twice; name store.checkpoint, or set appendonly yes and appendfsync always"
                .to_owned(),
        );
    }
}

#[cfg(test)]
mod tests {
    use ropeline_queue::{RawDefinition, SaleId};
    use ropeline_test_redis::{Cluster, Durable, Server};

    use super::*;
    use crate::redis::tests::fixture::settings;
    use crate::redis::tests::secure::rights;
    use crate::{QueueStore, RedisCheckpoint, RedisServers, RedisSettings};

    fn found(version: &str, policy: &str) -> Vec<String> {
        let mut found = Vec::new();
        let info = format!(
            "# Server\r\nredis_version:{version}\r\n# Memory\r\nmaxmemory_policy:{policy}\r\n\
             # Persistence\r\naof_enabled:1\r\n"
        );
        faults(&info, true, &mut found);
        found
    }

    #[test]
    fn an_old_server_and_one_that_forgets_are_told_with_a_way_out() {
        assert_eq!(found("7.0.15", "noeviction"), Vec::<String>::new());
        assert_eq!(found("10.1.0", "noeviction"), Vec::<String>::new());
        assert!(found("6.2.14", "noeviction")[0].contains("install Redis 7"));
        assert!(found("7.4.1", "allkeys-lru")[0].contains("set maxmemory-policy noeviction"));
        assert_eq!(found("6.0.0", "volatile-ttl").len(), 2);
    }

    fn store(servers: RedisServers) -> RedisStore {
        RedisStore::open(&settings(servers)).unwrap()
    }

    #[tokio::test]
    async fn a_server_that_writes_nothing_down_is_enough_beside_a_checkpoint_alone() {
        let server = Server::start(Durable::Never);
        let alone = settings(RedisServers::Single(server.url()));
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Some(RedisCheckpoint::Folder(folder.path().to_path_buf()));
        let beside = RedisSettings { checkpoint, ..alone.clone() };
        let found = RedisStore::open(&alone).unwrap().examine().await.unwrap();
        assert!(found.len() == 1 && found[0].contains("appendonly yes"), "{found:?}");
        assert_eq!(RedisStore::open(&beside).unwrap().examine().await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn real_servers_are_asked_and_each_node_of_a_cluster() {
        let server = Server::start(Durable::Always);
        let one = store(RedisServers::Single(server.url()));
        assert_eq!(one.examine().await.unwrap(), Vec::<String>::new());
        server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        assert_eq!(one.examine().await.unwrap().len(), 1);

        let cluster = Cluster::start(3, Durable::Always);
        let all = store(RedisServers::Cluster(cluster.urls()));
        assert_eq!(all.examine().await.unwrap(), Vec::<String>::new());
        cluster.masters()[2].ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
        assert!(all.examine().await.unwrap()[0].contains("volatile-ttl"));
    }

    #[tokio::test]
    async fn a_server_that_lacks_a_command_is_told_with_its_name_and_a_way_out() {
        let rights = rights();
        let needed: Vec<_> = rights.split(' ').filter_map(|right| right.strip_prefix('+')).collect();
        let listed: Vec<_> =
            ["EVALSHA", "EVAL"].iter().chain(&COMMANDS).map(|name| name.to_lowercase()).collect();
        assert_eq!(listed, needed, "the documented rights are those of other commands");
        for name in needed {
            let server = Server::start_with(Durable::Always, &["--rename-command", name, ""]);
            let found = match store(RedisServers::Single(server.url())).examine().await {
                Ok(found) => found.join("; "),
                Err(StoreError::Denied { reason }) => reason,
                Err(error) => panic!("{name}: {error}"),
            };
            let named = found.contains(&name.to_uppercase());
            assert!(named && found.contains("remove that rename-command"), "{name}: {found}");
        }
    }

    #[test]
    fn a_store_outlives_the_runtime_of_whoever_called_it_first() {
        let server = Server::start(Durable::Never);
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let home =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let store = store(RedisServers::Single(server.url())).living_on(home.handle().clone());
        let sale: SaleId = "drop".parse().unwrap();
        let first = runtime();
        first.block_on(async {
            let definition = RawDefinition::new(sale.clone(), 1).check().unwrap();
            store.create(definition, [7; 32]).await.unwrap();
            store.view(&sale).await.unwrap();
        });
        drop(first);
        runtime().block_on(store.view(&sale)).unwrap();
    }
}
