// Carries a plan out, on any host that speaks Fetch. The hosts' own files say how they reach others, and nothing else.

import { Keeper } from './settings.js';
import { inTime, Rooms } from './rooms.js';
import { unreachable } from './unreachable.js';

const RETRY_AFTER_S = '5';

/** One for each isolate: settings and rooms outlive a request. */
export class Handler {
  #edge;
  #keeper;
  #rooms;
  #now;
  #log;
  #told = null;

  constructor(edge, { everySeconds, now = Date.now, log = console.warn } = {}) {
    this.#edge = edge;
    this.#keeper = new Keeper(edge, { everySeconds, now, log });
    this.#rooms = new Rooms({ now });
    this.#now = now;
    this.#log = log;
  }

  /** What to do with a request; `null` when nobody may pass. */
  async plan(request, io) {
    await this.#keeper.ready(io.settings, io.waitUntil);
    return this.#edge.plan(request, this.#now() / 1000);
  }

  /** The answer to a request of the Fetch standard. */
  async fetch(request, io) {
    const target = targetOf(request.url);
    const host = request.headers.get('host') ?? new URL(request.url).host;
    const plan = await this.plan({ method: request.method, host, target, headers: request.headers }, io);
    const lacks = io.lacks?.(this.#edge.sendTo);
    if (lacks) {
      if (this.#told !== lacks) this.#log(`ropeline: nobody passes: ${lacks} is not set to an http: or https: address`);
      this.#told = lacks;
      return unreachable(request.method);
    }
    return plan?.act === 'forward' ? this.#forward(request, plan, io) : this.answer(request, plan, io);
  }

  /** The answer to a request that is not sent on. */
  async answer(request, plan, io) {
    if (plan?.act === 'answer') return made(request.method, plan.status, plan.headers, plan.body);
    if (plan?.act !== 'room') return unreachable(request.method);
    try {
      const language = request.headers.get('accept-language') ?? '';
      const room = await this.#rooms.get(plan.path, language, io.room);
      const headers = [...room.headers, ['cache-control', 'private, no-store']];
      if (plan.status >= 400) headers.push(['retry-after', RETRY_AFTER_S]);
      return made(request.method, plan.status, headers, room.body);
    } catch {
      return unreachable(request.method);
    }
  }

  async #forward(request, plan, io) {
    const headers = new Headers(request.headers);
    // In this order: nothing that a shopper says takes away what is set.
    io.strip?.(headers);
    if (plan.to === 'shop') {
      for (const name of [...headers.keys()]) if (isBarred(name) && !io.own?.includes(name)) headers.delete(name);
    }
    for (const [name, value] of plan.set) headers.set(name, io.headerText(value));
    const init = { method: request.method, headers, redirect: 'manual' };
    if (request.body) Object.assign(init, { body: request.body, duplex: 'half' });
    try {
      const send = (signal) => io.send(plan.to, plan.target, { ...init, signal }, plan.sale !== null);
      const answer = await (plan.kind === 'forward' ? send() : inTime(send));
      return plan.to === 'shop' ? mended(answer, plan.set.length > 0) : answer;
    } catch {
      return plan.room
        ? unreachable(request.method)
        : made(request.method, 502, [['content-type', 'text/plain'], ['cache-control', 'no-store']], 'Bad gateway\n');
    }
  }
}

// What a shopper may not say to a shop, as `header::BARRED` of the module's decision has it.
const BARRED = [
  'cf-connecting-ip',
  'client-ip',
  'fastly-client-ip',
  'forwarded',
  'forwarded-for',
  'true-client-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-envoy-original-path',
  'x-forwarded',
  'x-host',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-for',
  'x-original-forwarded-for',
  'x-original-host',
  'x-original-method',
  'x-original-uri',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
  'x-url-scheme',
];

/** Whether a shopper may not say this to a shop, as `header::is_barred` of the module's decision has it. */
export function isBarred(name) {
  const spelt = name.toLowerCase().replaceAll('_', '-');
  return /^(ropeline-|x-forwarded-)/.test(spelt) || BARRED.includes(spelt);
}

/** Whether a field of the shop's answer must not reach the shopper, as `response::is_removed` of the decision has it. */
export function isRemoved(name, admitted) {
  const shared = /^(edge-control|expires|surrogate-control|x-accel-expires|.*cdn-cache-control)$/i;
  return /^ropeline[-_]/i.test(name) || (admitted && shared.test(name));
}

/** The `Cache-Control` of an answer to somebody who was admitted, where the shop said this one (or null). */
export function personal(cacheControl) {
  const directives = (cacheControl ?? '').split(',').map((directive) => directive.trim().toLowerCase());
  const shared = directives.some((directive) => /^(public|must-understand|s-maxage)(=|$)/.test(directive));
  const kept = directives.some((directive) => directive === 'private' || directive === 'no-store');
  return kept && !shared ? cacheControl : 'private, no-cache';
}

// The shop's answer as the shopper gets it. It is copied only where that makes a difference: heads that come from
// others cannot be changed.
function mended(answer, admitted) {
  const removed = [...answer.headers.keys()].filter((name) => isRemoved(name, admitted));
  const said = answer.headers.get('cache-control');
  const cacheControl = admitted ? personal(said) : said;
  if (removed.length === 0 && cacheControl === said) return answer;
  const copy = new Response(answer.body, answer);
  for (const name of removed) copy.headers.delete(name);
  if (cacheControl !== said) copy.headers.set('cache-control', cacheControl);
  return copy;
}

function made(method, status, headers, body) {
  return new Response(method === 'HEAD' ? null : body, { status, headers });
}

/** Path and query of an address, as they stand there. */
export function targetOf(url) {
  const target = url.replace(/^[a-z]+:\/\/[^/?#]*/i, '').replace(/#.*$/s, '');
  return target.startsWith('/') ? target : `/${target}`;
}

/** A text as header values are spelt by the Fetch standard: each of its bytes a character. */
export function byteString(value) {
  return String.fromCharCode(...new TextEncoder().encode(value));
}

// What belongs to a connection and not to a request (RFC 9110, section 7.6.1), and what `fetch` sets itself.
const OF_THE_CONNECTION = [
  'connection',
  'content-length',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/**
 * Ways to reach gateway and shop on hosts whose `fetch` goes to the address it is given: `upstreams` are the two
 * origins. Such a `fetch` cannot set `Host`: what the shopper asked for goes along as `X-Forwarded-Host`.
 */
export function reach({ upstreams, client, own, host, proto, cache, waitUntil, shared = false, settings }) {
  const to = (name) => upstreams[name].replace(/\/+$/, '');
  const isSet = (name) => /^https?:\/\/[^/]/.test(upstreams[name] ?? '');
  return {
    settings,
    waitUntil,
    own,
    // The variable that is not set, and without which nobody can be served.
    lacks(sendTo) {
      return isSet('gateway') ? (sendTo === 'shop' && !isSet('shop') ? 'SHOP' : null) : 'GATEWAY';
    },
    headerText: byteString,
    strip(headers) {
      const named = (headers.get('connection') ?? '').split(',').map((token) => token.trim());
      for (const [field] of [...headers]) {
        if (OF_THE_CONNECTION.includes(field) || named.some((name) => name.toLowerCase() === field)) headers.delete(field);
      }
    },
    async send(name, target, init, guarded) {
      if (client) init.headers.append('x-forwarded-for', client);
      init.headers.set('x-forwarded-host', host);
      init.headers.set('x-forwarded-proto', proto);
      // Nothing under a protected address is kept, whatever the shop says of it.
      return decoded(await fetch(to(name) + target, guarded ? { ...init, cache: 'no-store' } : init));
    },
    room: {
      cache,
      waitUntil,
      shared,
      send: async (path, headers, signal) => fetch(to('gateway') + path, { headers, redirect: 'manual', signal }),
    },
  };
}

// Such a `fetch` hands out decoded bodies, and some leave the coding they had in the head.
function decoded(answer) {
  if (!answer.headers.has('content-encoding') || answer.body === null) return answer;
  const { status, statusText } = answer;
  const headers = new Headers(answer.headers);
  headers.delete('content-encoding');
  headers.delete('content-length');
  return new Response(answer.body, { status, statusText, headers });
}
