//! Targets and hosts: every spelling of a protected path is protected, and what can be read in two ways is refused.

use super::Generator;
use super::settings::{BUSY, CAFE, DROP, EXACT, GATEWAY, HOST, HOSTED, IDLE, OUTLET, SHOP, Sale, VIP};

pub(super) fn add(generator: &mut Generator) {
    protected(generator);
    unprotected(generator);
    refused(generator);
    queries(generator);
    hosts(generator);
}

/// Spelling, the one spelling that is forwarded, and whose it is.
fn protected(generator: &mut Generator) {
    let spellings: [(&str, &str, &Sale); 46] = [
        ("/sale", "/sale", &DROP),
        ("/sale/", "/sale/", &DROP),
        ("/sale/7", "/sale/7", &DROP),
        ("/sale/7/", "/sale/7/", &DROP),
        ("/SALE/7", "/SALE/7", &DROP),
        ("/sAlE", "/sAlE", &DROP),
        ("//sale", "/sale", &DROP),
        ("///sale///7", "/sale/7", &DROP),
        ("/./sale", "/sale", &DROP),
        ("/sale/.", "/sale/", &DROP),
        ("/sale/./7", "/sale/7", &DROP),
        ("/sale/x/..", "/sale/", &DROP),
        ("/sale/x/../7", "/sale/7", &DROP),
        ("/free/../sale", "/sale", &DROP),
        ("/../sale", "/sale", &DROP),
        ("/../../../sale/7", "/sale/7", &DROP),
        ("/free/%2e%2e/sale", "/sale", &DROP),
        ("/free/%2E./sale", "/sale", &DROP),
        ("/%2e/sale", "/sale", &DROP),
        ("/%73ale", "/sale", &DROP),
        ("/s%61l%65/%37", "/sale/7", &DROP),
        ("/%53ALE", "/SALE", &DROP),
        ("/sale;jsessionid=1", "/sale;jsessionid=1", &DROP),
        ("/sale;a=b/7;c", "/sale;a=b/7;c", &DROP),
        ("/sale%3Ba", "/sale%3Ba", &DROP),
        ("/sale%3ba/7", "/sale%3Ba/7", &DROP),
        ("/sale/%7e%2d%5f", "/sale/~-_", &DROP),
        ("/sale/a%20b", "/sale/a%20b", &DROP),
        ("/sale/a+b", "/sale/a+b", &DROP),
        ("/sale/100%25", "/sale/100%25", &DROP),
        ("/sale/...", "/sale/...", &DROP),
        ("/sale/.hidden", "/sale/.hidden", &DROP),
        ("/sale/%c3%bc", "/sale/%C3%BC", &DROP),
        ("/sale/%F0%9F%91%9F", "/sale/%F0%9F%91%9F", &DROP),
        ("/sale/a:b@c!$&'()*,=", "/sale/a:b@c!$&'()*,=", &DROP),
        ("/sale/vip", "/sale/vip", &VIP),
        ("/sale/VIP/1", "/sale/VIP/1", &VIP),
        ("/sale/./vip/", "/sale/vip/", &VIP),
        ("/preview", "/preview", &VIP),
        ("/preview/", "/preview/", &VIP),
        ("/Preview;x", "/Preview;x", &VIP),
        ("/busy/1", "/busy/1", &BUSY),
        ("/also/busy", "/also/busy", &BUSY),
        ("/also//busy/1", "/also/busy/1", &BUSY),
        ("/Exact/1", "/Exact/1", &EXACT),
        ("/caf%c3%a9%20noir/1", "/caf%C3%A9%20noir/1", &CAFE),
    ];
    for (target, canonical, sale) in spellings {
        let draft = generator.get(&SHOP, format!("path: {target} waits"), target).page();
        generator.add(draft.waits(sale, "token_missing"));
        let token = generator.token(sale);
        let draft = generator.get(&SHOP, format!("path: {target} is admitted"), target).token(token.clone());
        generator.add(draft.jose(sale, true).admitted(sale, canonical, &token));
    }
    for target in ["/CAF%C3%89%20NOIR", "/Caf%c3%89%20Noir/2"] {
        let draft = generator.get(&SHOP, format!("path: {target}, letters beyond ASCII"), target).page();
        generator.add(draft.waits(&CAFE, "token_missing"));
    }
}

fn unprotected(generator: &mut Generator) {
    let spellings: [(&str, &str, Option<&Sale>); 26] = [
        ("/", "/", None),
        ("//", "/", None),
        ("/..", "/", None),
        ("/free", "/free", None),
        ("/free//x/./y/../z", "/free/x/z", None),
        ("/sales", "/sales", None),
        ("/sale-archive", "/sale-archive", None),
        ("/sale.html", "/sale.html", None),
        ("/a/sale", "/a/sale", None),
        ("/sale/../free", "/free", None),
        ("/sale/vip/../../free", "/free", None),
        ("/preview/1", "/preview/1", None),
        ("/exact", "/exact", None),
        ("/EXACT/1", "/EXACT/1", None),
        ("/hosted", "/hosted", None),
        ("/also", "/also", None),
        ("/outlet", "/outlet", Some(&OUTLET)),
        ("/Outlet//1", "/Outlet/1", Some(&OUTLET)),
        ("/sale/assets/app.js", "/sale/assets/app.js", Some(&DROP)),
        ("/sale/./assets", "/sale/assets", Some(&DROP)),
        ("/sale/info", "/sale/info", Some(&DROP)),
        ("/sale/info/", "/sale/info/", Some(&DROP)),
        ("/sale/style.css", "/sale/style.css", Some(&DROP)),
        ("/sale/x/STYLE.CSS", "/sale/x/STYLE.CSS", Some(&DROP)),
        ("/sale/x.tar.gz", "/sale/x.tar.gz", Some(&DROP)),
        ("/api/v1/queues", "/api/v1/queues", None),
    ];
    for (target, canonical, sale) in spellings {
        for settings in [&SHOP, &GATEWAY] {
            let draft =
                generator.get(settings, format!("path: {target} passes to the {}", settings.to), target);
            generator.add(draft.page().passes(sale, canonical));
        }
    }
    // Where routes are taken widely, exceptions are taken narrowly.
    for target in [
        "/sale/assets;x/app.js",
        "/sale/Assets/app.js",
        "/sale/assetsx",
        "/sale/info/more",
        "/sale/style.css/",
        "/sale/style.css/more",
        "/sale/style.css;x",
        "/sale/.css",
        "/sale/stylecss",
        "/sale/x.gz",
        "/sale/assets/../7",
    ] {
        let draft = generator.get(&SHOP, format!("path: {target} does not pass by"), target).page();
        generator.add(draft.waits(&DROP, "token_missing"));
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let draft = generator.get(&SHOP, format!("path: {method} does not pass by"), "/sale/assets/app.js");
        generator.add(draft.method(method).waits(&DROP, "token_missing"));
    }
    for target in ["/", "/sale", "/sale/vip/1"] {
        let draft = generator.get(&IDLE, format!("path: {target} where there is no sale"), target).page();
        generator.add(draft.passes(None, target));
    }
}

fn refused(generator: &mut Generator) {
    let ambiguous = [
        "/sale%2f7",
        "/free%2F..%2Fsale",
        "/%2fsale",
        "/sale%5c7",
        "/free%5C..%5Csale",
        "/sale\\7",
        "\\sale",
        "/free\\..\\sale",
        "/sale/%00",
        "/sale%00",
        "/sale/%0a",
        "/sale/%0D%0Ax",
        "/sale/%1f",
        "/sale/%7f",
        "/sale/%c2%85",
        "/sale/%",
        "/sale/%7",
        "/sale/%zz",
        "/sale/%-1",
        "/sale/%u0073",
        "/sale/%2573",
        "/%2573ale",
        "/%252e%252e/sale",
        "/sale/%25%37%33",
        "/sale/%c0%af",
        "/sale/%C0%AE%C0%AE/",
        "/sale/%ff",
        "/sale/%c3",
        "/sale/%ed%a0%80",
        "/sale/..;/7",
        "/free/..;x=y/sale",
        "/free/.;/sale",
        "/free/%2e%2e;/sale",
        "/;/sale",
        "/sale/;x/7",
    ];
    for target in ambiguous {
        let invalid = target.starts_with('\\');
        let draft = generator.get(&SHOP, format!("path: {target} is refused"), target).page();
        generator.add(draft.rejected(if invalid { "target_invalid" } else { "path_ambiguous" }));
    }
    // A token makes no path any clearer.
    let token = generator.token(&DROP);
    for target in ["/sale%2f7", "/sale/..%5c7"] {
        let draft = generator.get(&SHOP, format!("path: {target} is refused with a token, too"), target);
        generator.add(draft.token(token.clone()).rejected("path_ambiguous"));
    }
    for target in ["*", "sale", "?a=b", "http://shop.example/sale", "/sale#x", "/sale?a#b"] {
        if target == "/sale?a#b" {
            continue;
        }
        let draft = generator.get(&SHOP, format!("path: {target:?} is no path"), target).page();
        generator.add(draft.rejected("target_invalid"));
    }
}

fn queries(generator: &mut Generator) {
    let token = generator.token(&DROP);
    for query in [
        "",
        "a=b",
        "a=b&c=d%20e&a=%zz",
        "?",
        "x=/../%2f%5c;",
        "next=https://shop.example/sale%3Fa",
        "a=b?c=d",
        "q=%00",
        "a[]=1&b={x}|y",
        "'\"<>`^",
    ] {
        let target = format!("/sale//7?{query}");
        let draft = generator.get(&SHOP, format!("query: {query:?} is kept"), &target).token(token.clone());
        generator.add(draft.jose(&DROP, true).admitted(&DROP, &format!("/sale/7?{query}"), &token));
    }
    // Nothing in a query is a path.
    let draft =
        generator.get(&SHOP, "query: a protected path in it protects nothing", "/free?x=/sale/../sale");
    generator.add(draft.page().passes(None, "/free?x=/sale/../sale"));
    for status in ["302", "404", "500"] {
        let target = format!("/sale/7?answer-with={status}");
        let draft = generator.get(&SHOP, format!("answer: {status} of the shop's is the visitor's"), &target);
        generator.add(draft.token(token.clone()).jose(&DROP, true).admitted(&DROP, &target, &token));
        let target = format!("/free?answer-with={status}");
        let draft =
            generator.get(&GATEWAY, format!("answer: {status} of the gateway's is the visitor's"), &target);
        generator.add(draft.page().passes(None, &target));
    }
}

fn hosts(generator: &mut Generator) {
    for host in [
        "SHOP.example",
        "shop.example:8443",
        "shop.example.",
        "Shop.Example.:80",
        "other.example",
        "localhost",
        "127.0.0.1:8080",
        "a-b.c_d.example",
        "[::1]:8080",
    ] {
        let draft = generator.get(&SHOP, format!("host: {host} has what every host has"), "/sale").host(host);
        generator.add(draft.page().waits(&DROP, "token_missing"));
    }
    for host in [HOST, "ONLY.example", "only.example:8443", "only.example.", "Only.Example.:443"] {
        let draft =
            generator.get(&SHOP, format!("host: {host} has a sale of its own"), "/hosted/1").host(host);
        generator.add(draft.page().waits(&HOSTED, "token_missing"));
        // Of two routes that are equally long, the one with a host is closer.
        let token = generator.token(&HOSTED);
        let draft = generator.get(&SHOP, format!("host: {host} shares a path"), "/sale/1").host(host);
        generator.add(draft.token(token.clone()).jose(&HOSTED, true).admitted(&HOSTED, "/sale/1", &token));
    }
    for host in ["only.example.evil.example", "xonly.example", "www.only.example"] {
        let draft = generator.get(&SHOP, format!("host: {host} is another"), "/hosted/1").host(host);
        generator.add(draft.page().passes(None, "/hosted/1"));
    }
    for host in [
        "",
        ".",
        "..",
        "a..b",
        "shop example",
        "shop%2eexample",
        "user@shop.example",
        "shop.example/sale",
        "shop.example:http",
        "shop.example:80:80",
        "shop.example:65536",
        "[::1",
        "[]",
        "::1",
        "shop.example,only.example",
        "shop.example\\x",
        "only.example:80@shop.example",
    ] {
        let draft = generator.get(&SHOP, format!("host: {host:?} is none"), "/hosted/1").host(host);
        generator.add(draft.page().rejected("host_invalid"));
    }
    let label = "a".repeat(64);
    let draft =
        generator.get(&SHOP, "host: a label of 64 bytes is none", "/free").host(&format!("{label}.example"));
    generator.add(draft.page().rejected("host_invalid"));
    let long = vec!["a".repeat(60); 5].join(".");
    let draft = generator.get(&SHOP, "host: a name of more than 253 bytes is none", "/free").host(&long);
    generator.add(draft.page().rejected("host_invalid"));
}
