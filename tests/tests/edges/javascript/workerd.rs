//! Cloudflare's own runtime, with the files of `cdn-config/cloudflare`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, set};

struct Workerd;

impl EdgeUnderTest for Workerd {
    fn name(&self) -> &str {
        "workerd"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::*;

        HostTraits {
            alters: [
                DotSegments,
                Backslash,
                UrlCharacters,
                Target,
                Host,
                Method,
                RepeatedCookie,
                RepeatedField,
                FieldBytes,
            ]
            .into(),
            keeps_host: true,
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let host = EdgeHost::start("workerd", |address, _| launch(address, gateway, shop, settings));
        Ok(host.await?.into())
    }
}

fn launch(address: SocketAddr, gateway: SocketAddr, shop: SocketAddr, settings: &str) -> Launch {
    let mut config = deployed("cloudflare/local.capnp");
    for (placeholder, value) in
        [("127.0.0.1:8787", address), ("127.0.0.1:8080", gateway), ("127.0.0.1:8081", shop)]
    {
        config = set(&config, placeholder, &value.to_string());
    }
    super::package(Launch::new())
        .file("local.capnp", config)
        .file("worker.js", deployed("cloudflare/worker.js"))
        .file("local-cache.js", deployed("cloudflare/local-cache.js"))
        .file("settings.json", settings)
        .arguments(["serve", "local.capnp"])
}

#[tokio::test]
async fn workerd_does_as_every_edge_does() {
    run(&Workerd).await;
}
