//! Cloudflare's own runtime, with the files of `cdn-config/cloudflare`.

use std::net::SocketAddr;

use ropeline_tests::conformance::{EdgeUnderTest, HostTraits, RawForm, Running, run};
use ropeline_tests::edge_hosts::{EdgeHost, Missing};
use ropeline_tests::guests::{deployed, set, workerd, workerd_config};

use crate::traffic::{InPlace, Silent, Store, course};

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

/// With settings in a namespace of KV, as on Cloudflare: a service that the runtime asks for a key's value.
#[tokio::test]
async fn workerd_serves_on_whatever_changes_and_whoever_is_away() {
    let worker =
        set(&deployed("cloudflare/worker.js"), "worker(module)", "worker(module, { everySeconds: 1 })");
    course("workerd", Silent::GivenUp, |settings, gateway, shop| async move {
        let store = Store::open(settings.clone()).await;
        let kv = format!("(name = \"kv\", external = (address = \"{}\", http = ())),", store.address());
        let cache = "(name = \"cache\", worker = .cache),";
        let host = EdgeHost::start("workerd", |address, _| {
            let config = workerd_config(address, gateway, shop);
            let config = set(&config, cache, &format!("{cache}\n{kv}"));
            let config = set(
                &config,
                "(name = \"ROPELINE_SETTINGS\", text = embed \"settings.json\")",
                "(name = \"ROPELINE_KV\", kvNamespace = \"kv\")",
            );
            workerd(address, gateway, shop, &settings).file("local.capnp", config).file("worker.js", worker)
        });
        Ok(InPlace::new(host.await?, move |_, settings| store.put(settings)))
    })
    .await;
}
