# The Worker on this machine, with Cloudflare's own runtime: workerd serve local.capnp
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "edge", worker = .edge),
    (name = "cache", worker = .cache),
    # The one value to set: where the gateway is.
    (name = "gateway", external = (address = "127.0.0.1:8080", http = ())),
    # Asked by settings with `send_to: shop` alone.
    (name = "shop", external = (address = "127.0.0.1:8081", http = ())),
  ],
  sockets = [(name = "http", address = "127.0.0.1:8787", http = (), service = "edge")],
);

const edge :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "ropeline/cloudflare.js", esModule = embed "ropeline/cloudflare.js"),
    (name = "ropeline/edge.js", esModule = embed "ropeline/edge.js"),
    (name = "ropeline/handler.js", esModule = embed "ropeline/handler.js"),
    (name = "ropeline/rooms.js", esModule = embed "ropeline/rooms.js"),
    (name = "ropeline/settings.js", esModule = embed "ropeline/settings.js"),
    (name = "ropeline/unreachable.js", esModule = embed "ropeline/unreachable.js"),
    (name = "ropeline/ropeline_edge.wasm", wasm = embed "ropeline/ropeline_edge.wasm"),
  ],
  bindings = [
    (name = "ROPELINE_SETTINGS", text = embed "settings.json"),
    (name = "GATEWAY", service = "gateway"),
    (name = "SHOP", service = "shop"),
  ],
  cacheApiOutbound = "cache",
  compatibilityDate = "2026-11-01",
);

# What `caches.default` is, on this machine.
const cache :Workerd.Worker = (
  modules = [(name = "local-cache.js", esModule = embed "local-cache.js")],
  compatibilityDate = "2026-11-01",
);
