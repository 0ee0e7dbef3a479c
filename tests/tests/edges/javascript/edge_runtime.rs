//! Vercel's edge runtime, with the files of `cdn-config/vercel`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, set, with_package};

use crate::traffic::{InPlace, Silent, Store, course};

struct EdgeRuntime;

impl EdgeUnderTest for EdgeRuntime {
    fn name(&self) -> &str {
        "edge-runtime"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::*;

        HostTraits {
            alters: [
                DotSegments,
                Backslash,
                EmptyQuery,
                UrlCharacters,
                Target,
                Host,
                Method,
                RepeatedField,
                FieldBytes,
            ]
            .into(),
            keeps_host: false,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let middleware = deployed("vercel/middleware.js");
        Ok(start(&middleware, settings, gateway, shop).await?.into())
    }
}

async fn start(
    middleware: &str,
    settings: &str,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Result<EdgeHost, Missing> {
    EdgeHost::start("edge-runtime", |address, _| {
        with_package(Launch::new())
            .file("middleware.js", middleware)
            .file("serve.cjs", include_str!("vercel.cjs"))
            .variable("GATEWAY", format!("http://{gateway}"))
            .variable("SHOP", format!("http://{shop}"))
            .variable("ROPELINE_SETTINGS", settings)
            .arguments(["--experimental-vm-modules".to_owned(), "--no-warnings".to_owned()])
            .arguments(["serve.cjs".to_owned(), address.port().to_string()])
    })
    .await
}

#[tokio::test]
async fn edge_runtime_does_as_every_edge_does() {
    run(&EdgeRuntime).await;
}

#[tokio::test]
async fn edge_runtime_serves_on_whatever_changes_and_whoever_is_away() {
    let middleware = set(
        &deployed("vercel/middleware.js"),
        "middleware(module)",
        "middleware(module, { everySeconds: 1 })",
    );
    course("edge-runtime", Silent::GivenUp, |settings, gateway, shop| async move {
        let store = Store::open(settings).await;
        let host = start(&middleware, &format!("http://{}/", store.address()), gateway, shop).await?;
        Ok(InPlace::new(host, move |_, settings| store.put(settings)))
    })
    .await;
}
