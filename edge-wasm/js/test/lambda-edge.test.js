import assert from 'node:assert/strict';
import { test } from 'node:test';

import { lambdaEdge, shopsAnswer } from '../lambda-edge.js';
import { module, NOW, settings, signer } from './support.js';

const CUSTOM = { custom: { domainName: 'origin.example', port: 443, protocol: 'https', path: '' } };
const BUCKET = { s3: { domainName: 'bucket.example', path: '', region: 'eu-central-1' } };

// Answers with what is handed back to CloudFront for a request, whose `origin` the event names or not.
function cloudfront(key, more) {
  const handler = lambdaEdge(module, {
    gateway: 'https://gateway.example',
    settings: async () => settings(key, more),
    now: () => NOW * 1000,
  });
  return (uri, origin, headers = {}) => {
    const fields = { host: 'shop.example', accept: 'text/html', ...headers };
    const lines = Object.entries(fields).map(([name, value]) => [name, [{ key: name, value }]]);
    const request = { method: 'GET', uri, querystring: '', headers: Object.fromEntries(lines) };
    if (origin) request.origin = structuredClone(origin);
    return handler({ Records: [{ cf: { request } }] });
  };
}

test("what is the gateway's goes there", async () => {
  for (const send_to of ['gateway', 'shop']) {
    const answer = await cloudfront(signer(), { send_to })('/api/v1/queue/status', CUSTOM);
    assert.equal(answer.status, undefined);
    assert.equal(answer.origin.custom.domainName, 'gateway.example');
  }
});

test("where the event names no origin that can be set, nothing of the gateway's goes to the shop", async () => {
  const ask = cloudfront(signer(), { send_to: 'shop' });
  for (const origin of [undefined, BUCKET]) {
    const answer = await ask('/api/v1/queue/status', origin);
    assert.equal(answer.status, '503');
    assert.match(Buffer.from(answer.body, 'base64').toString(), /The waiting room cannot be reached/);
  }
});

test("without an origin in the event all goes to the distribution's, where that is the gateway", async () => {
  const ask = cloudfront(signer(), { send_to: 'gateway' });
  const answer = await ask('/api/v1/queue/status');
  assert.deepEqual([answer.status, answer.uri, answer.origin], [undefined, '/api/v1/queue/status', undefined]);
  assert.equal((await ask('/api/v1/queue/status', BUCKET)).status, '503', 'a bucket is no gateway');
});

test('who is admitted goes to the shop with what is set, wherever the function stands', async () => {
  const key = signer();
  const ask = cloudfront(key, { send_to: 'shop' });
  for (const origin of [undefined, CUSTOM, BUCKET]) {
    const sent = await ask('/sale', origin, { 'ropeline-admission': key.token(), 'ropeline-sale': 'forged' });
    assert.deepEqual(sent.headers['ropeline-sale'], [{ key: 'ropeline-sale', value: 'drop' }]);
    assert.deepEqual(sent.origin, origin);
  }
});

test('a language that no field can hold gets the plain room', async (context) => {
  const asked = [];
  context.mock.method(globalThis, 'fetch', async (_, { headers }) => {
    asked.push(headers.get('accept-language'));
    return new Response('the room', { headers: { 'content-type': 'text/html' } });
  });
  const answer = await cloudfront(signer())('/sale', CUSTOM, { 'accept-language': '\u20ac' });
  assert.equal(Buffer.from(answer.body, 'base64').toString(), 'the room');
  assert.deepEqual(asked, [null]);
});

test('the gateway gets no other host of the shopper than Host', async () => {
  const key = signer();
  const answer = await cloudfront(key)('/sale', CUSTOM, { 'x-forwarded-host': 'else.example', 'ropeline-admission': key.token() });
  assert.equal(answer.headers.host[0].value, 'shop.example');
  assert.equal(answer.headers['x-forwarded-host'], undefined);
});

test("the second function takes off the shop's answer what is not for the shopper", async () => {
  const said = { 'cache-control': 'public', expires: 'Fri, 01 Jan 2100 00:00:00 GMT', 'ropeline-stock': '3', etag: '"x"' };
  const lines = () => Object.fromEntries(Object.entries(said).map(([key, value]) => [key, [{ key, value }]]));
  const answered = async (headers) => {
    const cf = { request: { headers }, response: { status: '200', headers: lines() } };
    const { headers: kept } = await shopsAnswer({ Records: [{ cf }] });
    return Object.fromEntries(Object.entries(kept).map(([name, [{ value }]]) => [name, value]));
  };
  const admitted = { 'ropeline-sale': [{ key: 'ropeline-sale', value: 'drop' }] };
  assert.deepEqual(await answered(admitted), { 'cache-control': 'private, no-cache', etag: '"x"' });
  assert.deepEqual(await answered({}), { 'cache-control': 'public', expires: said.expires, etag: '"x"' });
});
