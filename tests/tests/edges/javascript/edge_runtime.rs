//! Vercel's edge runtime, with the files of `cdn-config/vercel`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, with_package};

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
        let host = EdgeHost::start("edge-runtime", |address, _| {
            with_package(Launch::new())
                .file("middleware.js", deployed("vercel/middleware.js"))
                .file("serve.cjs", include_str!("vercel.cjs"))
                .variable("GATEWAY", format!("http://{gateway}"))
                .variable("SHOP", format!("http://{shop}"))
                .variable("ROPELINE_SETTINGS", settings)
                .arguments(["--experimental-vm-modules".to_owned(), "--no-warnings".to_owned()])
                .arguments(["serve.cjs".to_owned(), address.port().to_string()])
        });
        Ok(host.await?.into())
    }
}

#[tokio::test]
async fn edge_runtime_does_as_every_edge_does() {
    run(&EdgeRuntime).await;
}
