// Deno: `deno serve`, and Deno Deploy.

import { Edge } from './edge.js';
import { Handler, reach } from './handler.js';
import { fetched } from './settings.js';

/** The default export of a file for `deno serve`. */
export function server(module, options = {}) {
  const handler = new Handler(new Edge(module), options);
  const env = (name) => Deno.env.get(name);
  const settings = stored(env('ROPELINE_SETTINGS'));
  const upstreams = { gateway: env('GATEWAY'), shop: env('SHOP') };
  const cache = globalThis.caches ? caches.open('ropeline-rooms').catch(() => null) : null;
  return {
    async fetch(request, info) {
      const { host, protocol } = new URL(request.url);
      return handler.fetch(
        request,
        reach({
          upstreams,
          settings,
          cache: await cache,
          client: info.remoteAddr?.hostname,
          host: request.headers.get('host') ?? host,
          proto: protocol.slice(0, -1),
          // The process outlives the request.
          waitUntil: (promise) => void promise,
          shared: true,
        }),
      );
    },
  };
}

// Settings themselves, an address that has them, or a file.
function stored(where) {
  return /^(\s*\{|https?:)/.test(where ?? '{') ? fetched(where) : () => Deno.readTextFile(where);
}
