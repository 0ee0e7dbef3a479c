//! Another server takes the place of the one that had the sale, and does not know what it was told last.

use ropeline_test_redis::{Cluster, Durable, Sentinel, Server};
use ropeline_tests::gateway::Servers;
use tokio::task::block_in_place;

use crate::SALE;
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lacks_the_last_second_becomes_master_and_nobody_loses_the_place() {
    let mut master = Server::start(Durable::Never);
    let replica = master.replica(Durable::Never);
    let sentinel = Sentinel::watch(&master, 1);
    let servers = Servers::Sentinel { address: sentinel.url(), service: sentinel.service().to_owned() };
    let mut stage = Stage::open(2, servers).await;
    block_in_place(|| master.leave_behind(&replica));
    stage.more(5).await;
    stage.a_while(1_000).await;
    println!("the master is killed");
    block_in_place(|| {
        master.kill();
        replica.thaw();
        sentinel.wait_for(&replica);
    });
    stage.more(20).await;
    println!("the old master comes back");
    block_in_place(|| master.again());
    stage.more(20).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_the_cluster_is_killed_and_its_replica_lacks_the_last_second() {
    let mut cluster = Cluster::start(3, Durable::Never);
    let holder = cluster.holder(&format!("{{rl:{SALE}}}"));
    let replica = cluster.replica(holder);
    let mut stage = Stage::open(2, Servers::Cluster(cluster.urls())).await;
    block_in_place(|| cluster.masters()[holder].leave_behind(&replica));
    stage.more(5).await;
    stage.a_while(1_000).await;
    println!("the master is killed");
    block_in_place(|| {
        cluster.master(holder).kill();
        replica.thaw();
        cluster.wait_for(&replica, holder);
    });
    stage.more(20).await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_master_of_the_cluster_is_killed_and_comes_back_empty() {
    let mut cluster = Cluster::start(3, Durable::Never);
    let mut stage = Stage::open(2, Servers::Cluster(cluster.urls())).await;
    for number in 0..3 {
        stage.a_while(1_500).await;
        println!("master {number} is killed, and comes back empty");
        block_in_place(|| cluster.master(number).kill());
        stage.a_while(1_000).await;
        block_in_place(|| cluster.master(number).again());
        stage.more(10).await;
    }
    stage.end().await;
}
