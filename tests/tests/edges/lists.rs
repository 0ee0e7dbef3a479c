//! What a shopper may not say to a shop, and what of the shop's answer no shopper gets: every copy of these lists is
//! the decision's own.

use ropeline_decision::{header, response};
use ropeline_tests::guests::deployed;

/// The texts between apostrophes, from `start` to the bracket that closes the list.
fn quoted(text: &str, start: &str) -> Vec<String> {
    let (_, list) = text.split_once(start).expect("the list begins");
    let (list, _) = list.split_once(']').expect("the list ends");
    list.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_packages_lists_are_the_decisions() {
    let handler = include_str!("../../../edge-wasm/js/handler.js");
    assert_eq!(quoted(handler, "const BARRED = ["), header::BARRED);
    let beginnings = format!("/^({})/", header::BARRED_BEGINNINGS.join("|"));
    assert!(handler.contains(&beginnings), "{beginnings}");
    let shared = response::FOR_SHARED_CACHES.join("|");
    let shared = format!("/^({shared}|.*{})$/i", response::FOR_SHARED_CACHES_END);
    assert!(handler.contains(&shared), "{shared}");
    assert!(handler.contains(&format!("'{}'", response::PERSONAL)));
}

#[test]
fn hosts_that_ask_the_gateway_take_off_what_the_gateway_would() {
    let haproxy = deployed("haproxy/haproxy.cfg");
    let varnish = deployed("varnish/default.vcl").to_ascii_lowercase();
    let nginx = deployed("nginx/ropeline-server.conf").to_ascii_lowercase();
    let jwt = deployed("envoy-jwt-authn/envoy.yaml");
    let mut missing = Vec::new();
    for name in header::BARRED {
        let lines = [
            (&haproxy, format!("http-request del-header ^{}$ -m reg", name.replace('-', "[-_]"))),
            (&varnish, format!("unset req.http.{name};")),
            (&varnish, format!("unset req.http.{};", name.replace('-', "_"))),
            (&nginx, format!("proxy_set_header {name} \"\";")),
            (&jwt, format!("- remove: {name}\n")),
        ];
        missing.extend(lines.into_iter().filter(|(text, line)| !text.contains(line)).map(|(_, line)| line));
    }
    for beginning in header::BARRED_BEGINNINGS {
        let line = format!("http-request del-header ^{} -m reg", beginning.replace('-', "[-_]"));
        if !haproxy.contains(&line) {
            missing.push(line);
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
