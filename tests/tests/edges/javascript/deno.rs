//! Deno, with the files of `cdn-config/deno-netlify`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, with_package};

struct Deno;

impl EdgeUnderTest for Deno {
    fn name(&self) -> &str {
        "deno"
    }

    fn traits(&self) -> HostTraits {
        use RawForm::*;

        HostTraits {
            alters: [DotSegments, Backslash, UrlCharacters, Target, Host, Method, RepeatedField, FieldBytes]
                .into(),
            keeps_host: false,
            ..HostTraits::default()
        }
    }

    async fn start(&self, settings: &str, gateway: SocketAddr, shop: SocketAddr) -> Result<Running, Missing> {
        let host = EdgeHost::start("deno", |address, folder| {
            with_package(Launch::new())
                .file("main.js", deployed("deno-netlify/main.js"))
                .file("settings.json", settings)
                .variable("DENO_DIR", folder.join("deno"))
                .variable("GATEWAY", format!("http://{gateway}"))
                .variable("SHOP", format!("http://{shop}"))
                .variable("ROPELINE_SETTINGS", "settings.json")
                .arguments(["serve", "--no-prompt", "--allow-read=."])
                .arguments(["--allow-env=GATEWAY,SHOP,ROPELINE_SETTINGS".to_owned()])
                .arguments([format!("--allow-net={gateway},{shop}")])
                .arguments(["--host".to_owned(), address.ip().to_string()])
                .arguments(["--port".to_owned(), address.port().to_string(), "main.js".to_owned()])
        });
        Ok(host.await?.into())
    }
}

#[tokio::test]
async fn deno_does_as_every_edge_does() {
    run(&Deno).await;
}
