//! Cloudflare's own runtime, with the files of `cdn-config/cloudflare`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Missing};
use ropeline_tests::guests::workerd;

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
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let host = EdgeHost::start("workerd", |address, _| workerd(address, gateway, shop, settings));
        Ok(host.await?.into())
    }
}

#[tokio::test]
async fn workerd_does_as_every_edge_does() {
    run(&Workerd).await;
}
