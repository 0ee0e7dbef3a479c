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
