// Cloudflare Workers, and workerd.

import { Edge } from './edge.js';
import { Handler } from './handler.js';
import { fetched } from './settings.js';

const KEY = 'settings';

/** The default export of a Worker. */
export function worker(module, options = {}) {
  // workerd decodes header values from UTF-8.
  const handler = new Handler(new Edge(module, { headers: 'text' }), options);
  return {
    fetch(request, env, context) {
      const url = addressOf(request);
      // It must not come as far as to a room that others wait for.
      if (!url) return new Response('Bad request\n', { status: 400, headers: { 'cache-control': 'no-store' } });
      return handler.fetch(request, reach(request, url, env, context, options));
    },
  };
}

// workerd makes addresses of any `Host`, and some are none.
function addressOf({ url }) {
  try {
    return new URL(url);
  } catch {
    return null;
  }
}

function reach(request, url, env, context, { everySeconds = 30 }) {
  const waitUntil = (promise) => context.waitUntil(promise);
  return {
    settings: stored(env, everySeconds),
    waitUntil,
    headerText: (value) => value,
    // Nothing under a protected address is kept, whatever the shop says of it.
    send(to, target, init, guarded) {
      if (to === 'shop') introduce(request, url, init.headers);
      // The gateway goes by `Host`.
      else init.headers.delete('x-forwarded-host');
      return send(env, url.origin, to, target, guarded ? { ...init, cache: 'no-store' } : init);
    },
    room: {
      cache: caches.default,
      waitUntil,
      shared: true,
      send: (path, headers, signal) => send(env, url.origin, 'gateway', path, { headers, redirect: 'manual', signal }),
    },
  };
}

// A namespace of Workers KV, or a variable: settings themselves, or an address that has them.
function stored(env, everySeconds) {
  const { ROPELINE_KV: namespace, ROPELINE_SETTINGS: variable } = env;
  // KV keeps an answer for 30 seconds at least.
  if (namespace) return () => namespace.get(KEY, { cacheTtl: Math.max(30, everySeconds) });
  return fetched(variable);
}

async function send(env, origin, to, target, init) {
  const upstream = to === 'shop' ? env.SHOP : env.GATEWAY;
  const address = origin + target;
  // The shopper's address goes along, and with it `Host`; where to connect is said aside.
  let answer;
  if (typeof upstream?.fetch === 'function') answer = await upstream.fetch(address, init);
  else if (upstream) answer = await fetch(address, { ...init, cf: { resolveOverride: upstream } });
  else answer = await fetch(address, init);
  // Cloudflare answers in place of an origin that cannot be reached.
  if (answer.status === 530 || (answer.status >= 520 && answer.status <= 526)) {
    throw new Error(`the ${to} cannot be reached: ${answer.status}`);
  }
  return answer;
}

// Who asks, to a shop. Cloudflare has written it over whatever the shopper said, and tells origins in `CF-Connecting-IP`
// what it finds in `X-Real-IP`.
function introduce(request, url, headers) {
  const client = request.headers.get('cf-connecting-ip');
  if (client) for (const name of ['x-forwarded-for', 'x-real-ip']) headers.set(name, client);
  headers.set('x-forwarded-proto', url.protocol.slice(0, -1));
}
