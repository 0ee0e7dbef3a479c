import assert from 'node:assert/strict';
import { test } from 'node:test';

import { worker } from '../cloudflare.js';
import { module, NOW, settings, signer } from './support.js';

// A Worker, and what its gateway was asked.
function deployed(context) {
  globalThis.caches = { default: { match: async () => undefined, put: async () => {} } };
  context.after(() => delete globalThis.caches);
  const asked = [];
  const env = {
    ROPELINE_SETTINGS: settings(signer()),
    GATEWAY: {
      fetch: async (address, { headers }) => {
        asked.push([address, headers.get('x-forwarded-host')]);
        return new Response('the room', { headers: { 'content-type': 'text/html' } });
      },
    },
  };
  const { fetch } = worker(module, { now: () => NOW * 1000 });
  // A request as workerd makes it, of any `Host`.
  const ask = (host, path, more = {}) => {
    const headers = new Headers({ host, accept: 'text/html', ...more });
    return fetch({ method: 'GET', url: `https://${host}${path}`, headers, body: null }, env, { waitUntil: () => {} });
  };
  return { ask, asked };
}

test('a host that makes no address costs nobody else the room', async (context) => {
  const { ask, asked } = deployed(context);
  for (const host of ['[.]', '[:]', '999.999.999.999', 'xn--a']) {
    const answer = await ask(host, '/sale');
    assert.equal(answer.status, 400, host);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  }
  assert.deepEqual(asked, []);
  const answer = await ask('shop.example', '/sale');
  assert.deepEqual([answer.status, await answer.text()], [503, 'the room']);
});

test('the gateway gets no other host of the shopper than Host', async (context) => {
  const { ask, asked } = deployed(context);
  await ask('shop.example', '/api/v1/queue/status', { 'x-forwarded-host': 'else.example' });
  assert.deepEqual(asked, [['https://shop.example/api/v1/queue/status', null]]);
});
