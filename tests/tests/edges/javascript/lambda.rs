//! Lambda@Edge, with the files of `cdn-config/lambda-edge`: the handler in Node, with CloudFront played around it.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, set, with_package};

use crate::traffic::{InPlace, Silent, Store, course};

struct Lambda;

impl EdgeUnderTest for Lambda {
    fn name(&self) -> &str {
        "lambda-edge"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::*;

        HostTraits {
            alters: [EmptyQuery, Target, Host, Method, FieldBytes].into(),
            keeps_host: true,
            hides_failures: true,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let index = deployed("lambda-edge/index.mjs");
        Ok(start(&index, settings, gateway, shop).await?.into())
    }
}

async fn start(
    index: &str,
    settings: &str,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Result<EdgeHost, Missing> {
    EdgeHost::start("node", |address, _| {
        with_package(Launch::new())
            .file("index.mjs", set(index, "https://gateway.shop.example", &format!("http://{gateway}")))
            .file("settings.json", settings)
            .file("cloudfront.mjs", include_str!("cloudfront.mjs"))
            .arguments([
                "cloudfront.mjs".to_owned(),
                address.to_string(),
                gateway.to_string(),
                shop.to_string(),
            ])
    })
    .await
}

#[tokio::test]
async fn lambda_edge_does_as_every_edge_does() {
    run(&Lambda).await;
}

#[tokio::test]
async fn lambda_edge_serves_on_whatever_changes_and_whoever_is_away() {
    course("lambda-edge", Silent::GivenUp, |settings, gateway, shop| async move {
        let store = Store::open(settings.clone()).await;
        let fetched =
            format!("async () => (await fetch('http://{}/')).text(), everySeconds: 1", store.address());
        let packed = "() => readFile(beside('./settings.json'), 'utf8')";
        let index = set(&deployed("lambda-edge/index.mjs"), packed, &fetched);
        let host = start(&index, &settings, gateway, shop).await?;
        Ok(InPlace::new(host, move |_, settings| store.put(settings)))
    })
    .await;
}
