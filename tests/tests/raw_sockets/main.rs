//! Malformed and ambiguous requests over raw sockets: each is answered or closed, and none reaches the shop.
//!
//! The shop in these tests keeps every byte it is sent. Requests go to a path that no sale protects unless a test
//! says otherwise, so that nothing but their own fault stands between them and the shop.

mod bodies;
mod headers;
mod lines;
mod slow;
mod targets;

use std::time::Duration;

use ropeline_tests::gateway::{Gateway, Sale, Settings};
use ropeline_tests::raw::{self, Outcome, Raw, Response};
use ropeline_tests::shop::{BODY, Shop};

/// An outcome that takes longer than this is no outcome.
const LIMIT: Duration = Duration::from_secs(15);

/// A request, and the name of what is wrong with it.
type Case<'a> = (&'a str, &'a [u8]);

/// A gateway between a raw client and a recording shop. It protects `/sale`.
struct Front {
    gateway: Gateway,
    shop: Shop,
}

impl Front {
    async fn start() -> Self {
        Self::with(|settings| settings).await
    }

    async fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let shop = Shop::open().await;
        let settings = Settings::new(shop.address()).set("limits", "request_timeout", "\"2s\"").set(
            "limits",
            "keepalive",
            "\"5s\"",
        );
        let gateway = Gateway::start(change(settings), &[Sale::new("drop", &["/sale"])]).await;
        Self { gateway, shop }
    }

    async fn connect(&self) -> Raw {
        Raw::connect(self.gateway.address()).await
    }

    async fn exchange(&self, bytes: &[u8]) -> Outcome {
        raw::exchange(self.gateway.address(), bytes, LIMIT).await
    }

    /// Gives the gateway time to read what was sent. Should it read later, it reads more at once, which it must take
    /// no better.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// A faultless request gets through: without it, a gateway that forwards nothing at all would pass.
    async fn forwards(&self) {
        // In no certain order: the gateway has several connections to the shop.
        let seen = || {
            let lines: Vec<_> = self.shop.requests().into_iter().map(|request| request.line).collect();
            (lines.len(), lines.iter().filter(|line| *line == "GET /free HTTP/1.1").count())
        };
        let (all, free) = seen();
        let answer = self.exchange(b"GET /free HTTP/1.1\r\nHost: shop.test\r\n\r\n").await.answer();
        assert_eq!((answer.status, answer.text().as_str()), (200, BODY));
        assert_eq!(seen(), (all + 1, free + 1));
    }

    /// Each of `cases` is answered with an error or closed, and not one byte of it reaches the shop.
    async fn refuses(&self, cases: &[Case<'_>]) {
        self.keeps_out(cases, |answer| answer.status >= 400, || self.shop.bytes().concat()).await;
    }

    /// Each of `cases` is answered with an error or closed, and the shop never gets a whole request out of it. For
    /// faults in a body, whose head may be on its way when they come to light.
    async fn never_completes(&self, cases: &[Case<'_>]) {
        let whole =
            || self.shop.requests().into_iter().flat_map(|request| request.line.into_bytes()).collect();
        self.keeps_out(cases, |answer| answer.status >= 400, whole).await;
    }

    /// Each of `cases` is answered by the gateway itself or closed, and not one byte of it reaches the shop.
    async fn does_not_forward(&self, cases: &[Case<'_>]) {
        self.keeps_out(cases, |answer| answer.text() != BODY, || self.shop.bytes().concat()).await;
    }

    async fn keeps_out(
        &self,
        cases: &[Case<'_>],
        right: impl Fn(&Response) -> bool,
        at_shop: impl Fn() -> Vec<u8>,
    ) {
        let mut faults = Vec::new();
        for (name, bytes) in cases {
            let before = at_shop().len();
            match self.exchange(bytes).await {
                Outcome::Answer(answer) if right(&answer) => {}
                Outcome::Answer(answer) => faults.push(format!("{name}: answered {}", answer.status)),
                Outcome::Closed(_) => {}
                Outcome::Silence(_) => faults.push(format!("{name}: neither answered nor closed")),
            }
            let after = at_shop();
            if after.len() > before {
                faults.push(format!("{name}: reached the shop: {}", after.escape_ascii()));
            }
        }
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        self.forwards().await;
    }
}
