//! Deno, with the files of `cdn-config/deno-netlify`.

use std::fs;
use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Launch, Missing};
use ropeline_tests::guests::{deployed, set, with_package};

use crate::traffic::{InPlace, Silent, course};

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
        let main = deployed("deno-netlify/main.js");
        Ok(start(&main, settings, gateway, shop).await?.into())
    }
}

async fn start(
    main: &str,
    settings: &str,
    gateway: SocketAddr,
    shop: SocketAddr,
) -> Result<EdgeHost, Missing> {
    EdgeHost::start("deno", |address, folder| {
        with_package(Launch::new())
            .file("main.js", main)
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
    })
    .await
}

#[tokio::test]
async fn deno_does_as_every_edge_does() {
    run(&Deno).await;
}

#[tokio::test]
async fn deno_serves_on_whatever_changes_and_whoever_is_away() {
    let main =
        set(&deployed("deno-netlify/main.js"), "server(module)", "server(module, { everySeconds: 1 })");
    course("deno", Silent::GivenUp, |settings, gateway, shop| async move {
        let host = start(&main, &settings, gateway, shop).await?;
        Ok(InPlace::new(host, |folder, settings| {
            let next = folder.join("next.json");
            fs::write(&next, settings).expect("a file");
            fs::rename(next, folder.join("settings.json")).expect("it takes the other's place");
        }))
    })
    .await;
}
