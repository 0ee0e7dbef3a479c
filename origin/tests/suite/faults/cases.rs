//! Hard cases that need processes, each by itself.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use ropeline_payment_service::{PaymentService, Plan};
use serde_json::{Value, json};

use super::disk::SmallDisk;
use super::goods::{Goods, Kind, Ware};
use super::world::{Store, Surroundings, World};
use crate::common::{Gate, Said, client, read};
use crate::receivers::Receiver;
use crate::stripe::{ACCOUNT, CARD, CONFIRMED};

/// Nodes in front of a database, and a payment service.
struct Stage {
    world: World,
    service: PaymentService,
    _receiver: Receiver,
    gate: Gate,
    client: reqwest::Client,
}

impl Stage {
    async fn build(store: Store, place: &std::path::Path, plan: Plan, total: i64) -> Self {
        let gate = Gate::new(7);
        let goods = Goods(vec![Ware { id: "runner", kind: Kind::Count, total, price: 18_900, most: 3 }]);
        let service = PaymentService::start(plan, ACCOUNT).await.unwrap();
        let receiver = Receiver::start().await;
        let around = Surroundings {
            gate: &gate,
            goods: &goods,
            payment_service: &service.base_url(),
            receiver: &receiver.base,
            hold: 300,
            timeout: 20,
        };
        let world = tokio::task::block_in_place(|| World::build(store, place, &around));
        Self { world, service, _receiver: receiver, gate, client: client() }
    }

    /// `None`: no answer came.
    async fn post(&self, node: usize, visitor: &str, key: &str, path: &str, body: &Value) -> Option<Said> {
        let request = self
            .client
            .request(Method::POST, format!("{}{path}", self.world.nodes[node].base()))
            .header("ropeline-admission", self.gate.token(visitor))
            .header("idempotency-key", key)
            .json(body);
        Some(read(request.send().await.ok()?).await)
    }

    async fn reserve(&self, node: usize, visitor: &str, quantity: i64) -> Option<Said> {
        let body = json!({ "quantity": quantity });
        self.post(node, visitor, "hold", "/products/runner/reservations", &body).await
    }

    /// Repeats a call until it is neither lost nor refused for now.
    async fn insist(&self, node: usize, visitor: &str, key: &str, path: &str, body: &Value) -> Said {
        for _ in 0..600 {
            match self.post(node, visitor, key, path, body).await {
                Some(said) if said.body["retry_after_s"].is_null() => return said,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
        panic!("{visitor} never had an answer to {path}\n{}", self.world.logs());
    }

    async fn audit(&self, node: usize) -> Value {
        let url = format!("{}/audit", self.world.nodes[node].base());
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_one_key_different_bodies_and_the_first_dies() {
    // So slow that the first node is in the middle of it, however slow this is itself.
    let slow = Plan { delayed: 1_000, delay: Duration::from_secs(36_000), seed: 3, ..Plan::calm() };
    let mut stage = Stage::build(Store::Postgres, &std::env::temp_dir(), slow, 100).await;
    let held = stage.reserve(0, "ann", 1).await.unwrap();
    let pay = held.body["links"]["purchases"].as_str().unwrap().to_owned();
    let (card, other) = (json!({ "payment_method": CARD }), json!({ "payment_method": CONFIRMED }));
    let (first, claims) = {
        let stage = &stage;
        let books = async {
            let mut books = stage.world.books().await;
            while books.purchases().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Another body under the same key, while the first is at it and alive.
            let reused = stage.post(1, "ann", "pay", &pay, &other).await.unwrap();
            assert_eq!((reused.status.as_u16(), reused.code()), (422, "idempotency_key_reused"));
            let same = stage.post(1, "ann", "pay", &pay, &card).await.unwrap();
            assert_eq!((same.status.as_u16(), same.code()), (409, "request_in_flight"), "{}", same.text);
            // And two bodies under one new key at the very same time.
            let claims = (0..20).map(|number| {
                let visitor = format!("v{number}");
                async move {
                    let (one, two) =
                        tokio::join!(stage.reserve(0, &visitor, 1), stage.reserve(1, &visitor, 2));
                    (visitor, one, two)
                }
            });
            let claims = join_all(claims).await;
            stage.world.nodes[0].strike();
            claims
        };
        tokio::join!(stage.post(0, "ann", "pay", &pay, &card), books)
    };
    stage.world.nodes[0].kill();
    assert!(first.is_none(), "the first node was to die before it answered: {first:?}");
    for (visitor, one, two) in claims {
        let mut codes = [&one, &two].map(|said| said.as_ref().unwrap().code());
        codes.sort_unstable();
        assert_eq!(codes, ["", "idempotency_key_reused"], "{visitor}: one of the two");
    }
    stage.service.change(Plan::calm());
    let reused = stage.post(1, "ann", "pay", &pay, &other).await.unwrap();
    assert_eq!((reused.status.as_u16(), reused.code()), (422, "idempotency_key_reused"), "still");
    let sold = stage.insist(1, "ann", "pay", &pay, &card).await;
    assert_eq!((sold.status.as_u16(), &sold.body["state"]), (201, &json!("sold")), "{}", sold.text);
    let charged: u32 = stage.service.payments().iter().map(|payment| payment.captured).sum();
    assert_eq!(charged, 1);
    let audit = stage.audit(1).await;
    assert_eq!((&audit["balanced"], &audit["products"][0]["sold"]), (&json!(true), &json!(1)), "{audit}");
}

/// Shoppers keep coming until there is no room for their holds. None of them is told of a hold that is not written, and
/// once there is room again, the same calls are served.
async fn fill_and_clear(store: Store, megabytes: u32) {
    let Some(disk) = SmallDisk::mount(megabytes) else {
        println!("passed over: a disk cannot be mounted here, which takes root");
        return;
    };
    let mut stage = Stage::build(store, disk.path(), Plan::calm(), 1_000_000).await;
    let before = stage.reserve(0, "before", 1).await.unwrap();
    assert_eq!(before.status, 201, "{}", before.text);
    disk.fill();
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    for round in 0_u32.. {
        assert!(round < 200, "the disk never was full");
        if store == Store::Postgres {
            // What a server on a small disk runs out of first is room for its log.
            stage.world.try_sql("SELECT pg_switch_wal()");
        }
        let wishes = (0..32).map(|number| {
            let (stage, visitor) = (&stage, format!("v{round}-{number}"));
            async move {
                let said = stage.reserve(0, &visitor, 1).await;
                (visitor, said)
            }
        });
        for (visitor, said) in join_all(wishes).await {
            match said.map(|said| (said.status.as_u16(), said)) {
                Some((201, said)) => held.push((visitor, said)),
                Some((503, said)) => {
                    assert_eq!(said.code(), "unavailable");
                    refused.push(visitor);
                }
                other => panic!("{visitor} was answered {other:?}\n{}", stage.world.logs()),
            }
        }
        if !refused.is_empty() {
            break;
        }
        disk.fill();
    }
    disk.clear();
    if store == Store::Postgres {
        // It gave up, as it should; whoever watches over it starts it again.
        stage.world.kill_server();
        tokio::task::block_in_place(|| stage.world.launch_server());
    }
    let wish = json!({ "quantity": 1 });
    let path = "/products/runner/reservations";
    for visitor in &refused {
        let said = stage.insist(0, visitor, "hold", path, &wish).await;
        assert_eq!(said.status, 201, "{}", said.text);
    }
    for (visitor, told) in held.iter().chain([&("before".to_owned(), before)]) {
        let said = stage.insist(0, visitor, "hold", path, &wish).await;
        assert_eq!((said.status, &said.body), (told.status, &told.body), "{visitor} was told something else");
    }
    let paid = {
        let last = stage.insist(0, "last", "hold", path, &wish).await;
        let pay = last.body["links"]["purchases"].as_str().unwrap();
        stage.insist(0, "last", "pay", pay, &json!({ "payment_method": CARD })).await
    };
    assert_eq!((paid.status.as_u16(), &paid.body["state"]), (201, &json!("sold")), "{}", paid.text);
    let audit = stage.audit(0).await;
    assert_eq!(audit["balanced"], true, "{audit}");
    // Before the disk goes.
    drop(stage);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_sqlite_sells_nothing_that_is_not_written() {
    fill_and_clear(Store::Sqlite, 16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_postgres_sells_nothing_that_is_not_written() {
    fill_and_clear(Store::Postgres, 200).await;
}
