use std::fs;
use std::process::{Child, Stdio};

use crate::Postgres;

#[test]
fn what_was_committed_outlives_a_kill_and_what_was_not_does_not() {
    let mut server = Postgres::start();
    server.create("shop");
    server.psql("shop", "CREATE TABLE kept (it int)");
    server.psql("shop", "INSERT INTO kept VALUES (1)");
    server.kill();
    server.launch();
    assert_eq!(server.psql("shop", "SELECT it FROM kept"), "1\n");
    assert_eq!(server.psql("shop", "SHOW fsync"), "on\n");
}

/// What still holds the shared memory of a killed server keeps the next one from starting.
#[test]
fn a_server_starts_again_as_soon_as_it_is_killed_whatever_it_was_at() {
    let mut server = Postgres::start();
    server.psql("postgres", "CREATE TABLE written (it int)");
    for _ in 0..5 {
        let writes = "DO $$ BEGIN LOOP INSERT INTO written VALUES (1); COMMIT; END LOOP; END $$";
        let write = || server.client("postgres", writes).stderr(Stdio::null()).spawn().unwrap();
        let writers: Vec<Child> = (0..10).map(|_| write()).collect();
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'";
        while server.psql("postgres", busy) != "10\n" {}
        let children = server.running.as_ref().unwrap().children();
        server.kill();
        for child in children {
            let stat =
                fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap_or_default();
            assert!(
                stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X'])),
                "alive: {stat}"
            );
        }
        server.launch();
        for mut writer in writers {
            assert!(!writer.wait().unwrap().success(), "its server was killed");
        }
    }
}

#[test]
fn the_clock_steps_both_ways_under_a_running_server() {
    let server = Postgres::start_with_clock();
    let now = || -> i64 {
        let said = server.psql("postgres", "SELECT extract(epoch FROM clock_timestamp())::bigint");
        said.trim().parse().unwrap()
    };
    let here = now();
    server.step_clock(3_600);
    assert!((3_590..3_700).contains(&(now() - here)));
    server.step_clock(-3_600);
    assert!((-3_700..-3_500).contains(&(now() - here)));
}

#[test]
fn a_standby_follows_and_takes_over() {
    let mut primary = Postgres::start();
    primary.create("shop");
    let standby = primary.standby();
    assert_eq!(standby.psql("postgres", "SELECT pg_is_in_recovery()"), "t\n");
    primary.kill();
    standby.promote();
    assert_eq!(standby.psql("shop", "SELECT pg_is_in_recovery()"), "f\n");
}
