//! A shared cache between edge and gateway, as greedy as HTTP allows: whatever is personal and may be kept would be
//! somebody else's next.

use std::fs;
use std::net::SocketAddr;

use ropeline_tests::edge_hosts::{EdgeHost, Launch, permitted};

/// It takes no heed of cookies, keeps answers that set some, and those that say nothing of caches (RFC 9111, sections 3
/// and 4.2.2).
const CONFIGURATION: &str = r"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    client_body_temp_path temporary-body;
    proxy_temp_path temporary-proxy;
    fastcgi_temp_path temporary-fastcgi;
    uwsgi_temp_path temporary-uwsgi;
    scgi_temp_path temporary-scgi;
    log_format line '$upstream_cache_status $request_uri';
    access_log cache.log line;
    proxy_cache_path kept keys_zone=kept:1m;
    server {
        listen ADDRESS;
        location / {
            proxy_pass http://GATEWAY;
            proxy_http_version 1.1;
            proxy_set_header Connection '';
            proxy_set_header Host $http_host;
            proxy_cache kept;
            proxy_cache_key $http_host$request_uri;
            proxy_cache_lock on;
            proxy_cache_valid 200 203 204 300 301 308 404 405 410 414 501 10m;
            proxy_ignore_headers Set-Cookie;
        }
    }
}
";

/// The cache. It ends with this value.
pub(crate) struct Cache(EdgeHost);

/// A request that it answered.
pub(crate) struct Asked {
    pub(crate) path: String,
    /// Whether the answer was one that it had kept.
    pub(crate) hit: bool,
}

impl Cache {
    pub(crate) async fn before(gateway: SocketAddr) -> Option<Self> {
        let host = EdgeHost::start("nginx", |address, folder| {
            let text = CONFIGURATION.replace("ADDRESS", &address.to_string());
            Launch::new().file("nginx.conf", text.replace("GATEWAY", &gateway.to_string())).arguments([
                "-p",
                &format!("{}/", folder.display()),
                "-e",
                "stderr",
                "-c",
                "nginx.conf",
            ])
        });
        Some(Self(permitted(host.await)?))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// All that it was asked so far, except for what was still on its way.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let log = fs::read_to_string(self.0.folder().join("cache.log")).unwrap();
        let asked = log.lines().map(|line| {
            let (status, target) = line.split_once(' ').unwrap();
            let path = target.split('?').next().unwrap_or_default().to_owned();
            Asked { path, hit: !matches!(status, "-" | "MISS" | "EXPIRED" | "BYPASS") }
        });
        asked.collect()
    }

    /// What it was asked for `path`.
    pub(crate) fn asked_for(&self, path: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|asked| asked.path == path);
        asked
    }
}
