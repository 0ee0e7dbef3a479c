import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';

import { Edge } from '../edge.js';
import { Handler, personal, reach, targetOf } from '../handler.js';
import { fetched } from '../settings.js';
import { module, NOW, settings, signer } from './support.js';

const ROOM = '<!doctype html><title>The room</title>';
const PAGE = { accept: 'text/html', host: 'shop.example' };

// A host whose parts are written down.
function host(key, more = {}, edge = new Edge(module)) {
  const state = { clock: NOW * 1000, stored: settings(key, more), reads: 0, rooms: 0, sent: [], log: [], pending: [] };
  const handler = new Handler(edge, { now: () => state.clock, log: (line) => state.log.push(line) });
  const waitUntil = (promise) => state.pending.push(promise);
  state.io = {
    waitUntil,
    settings: async () => {
      state.reads += 1;
      if (state.stored instanceof Error) throw state.stored;
      return state.stored;
    },
    headerText: (value) => value,
    send: async (to, target, init, guarded) => {
      if (state.away) throw new TypeError('connection refused');
      state.sent.push({ to, target, init, guarded });
      return new Response('sent on');
    },
    room: {
      cache: null,
      waitUntil,
      send: async () => {
        if (state.away) throw new TypeError('connection refused');
        state.rooms += 1;
        return new Response(ROOM, { headers: { 'content-type': 'text/html', 'set-cookie': 'a=b', etag: '"x"' } });
      },
    },
  };
  state.ask = (path, init) => handler.fetch(new Request(`https://shop.example${path}`, init), state.io);
  state.settle = () => Promise.all(state.pending.splice(0));
  return state;
}

const token = (key, claims) => ({ ...PAGE, 'ropeline-admission': key.token(claims) });

test('settings are read again after 30 seconds, and nobody waits for it', async () => {
  const [old, fresh] = [signer('old'), signer('new')];
  const edge = host(old);
  assert.equal((await edge.ask('/sale', { headers: token(old) })).status, 200);
  edge.stored = settings(fresh);
  edge.clock += 29_000;
  assert.equal((await edge.ask('/sale', { headers: token(fresh) })).status, 503);
  assert.equal(edge.reads, 1);
  edge.clock += 1_000;
  // This one starts the refresh, which takes its time, and still has the old ones.
  let arrive;
  const { settings: stored } = edge.io;
  edge.io.settings = () => new Promise((resolve) => (arrive = () => resolve(stored())));
  assert.equal((await edge.ask('/sale', { headers: token(old) })).status, 200);
  arrive();
  await edge.settle();
  assert.equal(edge.reads, 2);
  assert.equal((await edge.ask('/sale', { headers: token(fresh) })).status, 200);
  assert.equal((await edge.ask('/sale', { headers: token(old) })).status, 503);
});

test('when a refresh fails, or what it brings is refused, the old settings stay', async () => {
  const key = signer();
  const edge = host(key);
  await edge.ask('/', { headers: PAGE });
  for (const stored of [new Error('the store is away'), null, '', '{}', settings(key, { version: 9 })]) {
    edge.stored = stored;
    edge.clock += 30_000;
    await edge.ask('/', { headers: PAGE });
    await edge.settle();
    assert.equal((await edge.ask('/sale', { headers: token(key) })).status, 200);
  }
  assert.equal(edge.log.length, 5);
});

test('without settings nobody passes, and the first that come are taken', async () => {
  const key = signer();
  const edge = host(key);
  edge.stored = new Error('the store is away');
  for (const path of ['/', '/sale', '/api/v1/queue/status']) {
    const answer = await edge.ask(path, { headers: PAGE });
    assert.equal(answer.status, 503);
    assert.equal(answer.headers.get('cache-control'), 'private, no-store');
  }
  assert.equal(edge.sent.length, 0);
  edge.stored = settings(key);
  assert.equal((await edge.ask('/', { headers: PAGE })).status, 200);
});

test('a clock that was set back does not keep settings from being read again', async () => {
  const [old, fresh] = [signer('old'), signer('new')];
  const edge = host(old);
  await edge.ask('/', { headers: PAGE });
  edge.stored = settings(fresh);
  edge.clock -= 60_000;
  await edge.ask('/', { headers: PAGE });
  await edge.settle();
  assert.equal((await edge.ask('/sale', { headers: token(fresh, { iat: NOW - 60, nbf: NOW - 60 }) })).status, 200);
  assert.equal(edge.reads, 2, 'and they are fresh by the clock as it is now');
});

test('settings that an interrupted module did not look at to the end are tried again', async () => {
  const [old, fresh] = [signer('old'), signer('new')];
  const loader = new Edge(module);
  const edge = host(old, {}, loader);
  await edge.ask('/', { headers: PAGE });
  edge.stored = settings(fresh);
  const { configure } = Edge.prototype;
  let calls = 0;
  loader.configure = (text) => {
    calls += 1;
    if (calls === 1) throw new WebAssembly.RuntimeError('unreachable');
    return configure.call(loader, text);
  };
  for (const status of [503, 200]) {
    edge.clock += 30_000;
    await edge.ask('/', { headers: PAGE });
    await edge.settle();
    assert.equal((await edge.ask('/sale', { headers: token(fresh) })).status, status);
  }
  assert.match(edge.log.join(), /unreachable/);
});

test('a read of settings that took longer does not undo a newer one', async () => {
  const [old, fresh] = [signer('old'), signer('new')];
  const edge = host(old);
  const { settings: stored } = edge.io;
  let arrive;
  edge.io.settings = () => new Promise((resolve) => (arrive = resolve));
  const first = edge.ask('/sale', { headers: token(fresh) });
  edge.io.settings = stored;
  edge.stored = settings(fresh);
  assert.equal((await edge.ask('/sale', { headers: token(fresh) })).status, 200, 'nobody waits for the read that hangs');
  arrive(settings(old));
  assert.equal((await first).status, 200);
  assert.equal((await edge.ask('/sale', { headers: token(fresh) })).status, 200);
  assert.equal((await edge.ask('/sale', { headers: token(old) })).status, 503);
});

test('settings are fetched in limited time, and from where it was said', async () => {
  let signal;
  const answers = [() => new Response('{}'), () => Response.redirect('https://else.example/', 302)];
  const read = fetched('https://settings.example/', async (_, init) => {
    signal = init.signal;
    assert.equal(init.redirect, 'manual');
    return answers.shift()();
  });
  assert.equal(await read(), '{}');
  assert.ok(signal instanceof AbortSignal);
  await assert.rejects(read(), /answered with 302/);
});

test('a field that the shopper says is of the connection goes, and what is set stays', async () => {
  const key = signer();
  const heads = [];
  const shop = createServer((request, response) => {
    heads.push(request.headers);
    response.end();
  });
  await new Promise((resolve) => shop.listen(0, '127.0.0.1', resolve));
  try {
    const handler = new Handler(new Edge(module), { now: () => NOW * 1000 });
    const io = reach({
      upstreams: { gateway: 'http://gateway.example', shop: `http://127.0.0.1:${shop.address().port}/` },
      settings: async () => settings(key, { send_to: 'shop' }),
      cache: null,
      client: '192.0.2.7',
      host: 'shop.example',
      proto: 'https',
      waitUntil: (promise) => void promise,
    });
    const connection = 'Upgrade, HTTP2-Settings, X-Hop,, Ropeline-Sale , ropeline-visitor,ropeline-admission,x-forwarded-host';
    const hops = { connection, upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__', 'x-hop': 'a', 'x-else': 'b' };
    const answer = await handler.fetch(
      new Request('https://shop.example/sale', { headers: { ...token(key), ...hops, 'ropeline-sale': 'forged' } }),
      io,
    );
    assert.equal(answer.status, 200);
    const [head] = heads;
    assert.deepEqual(
      [head['ropeline-sale'], head['ropeline-visitor'], head['x-forwarded-host'], head['x-forwarded-for'], head['x-else']],
      ['drop', 'visitor', 'shop.example', '192.0.2.7', 'b'],
    );
    assert.ok(head['ropeline-admission']);
    for (const name of ['upgrade', 'http2-settings', 'x-hop']) assert.equal(head[name], undefined, name);
    assert.equal(head.connection, 'keep-alive');
  } finally {
    shop.closeAllConnections();
    shop.close();
  }
});

test('without the address that it needs, a host lets nobody pass and says which', async () => {
  const key = signer();
  const log = [];
  const handler = new Handler(new Edge(module), { now: () => NOW * 1000, log: (line) => log.push(line) });
  const ask = (upstreams, sendTo) =>
    handler.fetch(
      new Request('https://shop.example/', { headers: PAGE }),
      reach({ upstreams, settings: async () => settings(key, { send_to: sendTo }), cache: null, waitUntil: () => {} }),
    );
  for (const gateway of [undefined, '', 'gateway.example', 'http://']) {
    assert.equal((await ask({ gateway }, 'shop')).status, 503, gateway);
  }
  assert.deepEqual(log.splice(0), ['ropeline: nobody passes: GATEWAY is not set to an http: or https: address']);
  assert.equal((await ask({ gateway: 'https://gateway.example' }, 'shop')).status, 503);
  assert.deepEqual(log.splice(0), ['ropeline: nobody passes: SHOP is not set to an http: or https: address']);
});

test('a room is fetched once a second, and given out as nobody may keep it', async () => {
  const edge = host(signer());
  for (let round = 0; round < 5; round += 1) {
    const answer = await edge.ask('/sale', { headers: PAGE });
    assert.equal(answer.status, 503);
    assert.equal(await answer.text(), ROOM);
    assert.equal(answer.headers.get('cache-control'), 'private, no-store');
    assert.equal(answer.headers.get('retry-after'), '5');
    assert.equal(answer.headers.get('etag') ?? answer.headers.get('set-cookie'), null);
  }
  assert.equal(edge.rooms, 1);
  edge.clock += 1_000;
  await edge.ask('/sale', { headers: PAGE });
  assert.equal(edge.rooms, 2);
  await edge.ask('/sale', { headers: { ...PAGE, 'accept-language': 'de' } });
  assert.equal(edge.rooms, 3, 'another language has its own');
  assert.equal(await (await edge.ask('/sale', { method: 'HEAD', headers: PAGE })).text(), '');
});

test('whoever comes while a room is fetched waits for that one, where the host lets requests share', async () => {
  for (const [shared, fetches] of [[true, 1], [false, 5]]) {
    const edge = host(signer());
    await edge.ask('/', { headers: PAGE });
    edge.io.room.shared = shared;
    const answers = await Promise.all(Array.from({ length: 5 }, () => edge.ask('/sale', { headers: PAGE })));
    for (const answer of answers) assert.equal(await answer.text(), ROOM);
    assert.equal(edge.rooms, fetches);
  }
});

test('a gateway that does not answer is asked for a room once a second', async () => {
  const edge = host(signer());
  await edge.ask('/', { headers: PAGE });
  let fetches = 0;
  const { send } = edge.io.room;
  edge.io.room.send = (...asked) => {
    fetches += 1;
    return send(...asked);
  };
  edge.away = true;
  for (let round = 0; round < 5; round += 1) {
    assert.match(await (await edge.ask('/sale', { headers: PAGE })).text(), /The waiting room cannot be reached/);
  }
  assert.equal(fetches, 1);
  edge.away = false;
  edge.clock += 1_000;
  assert.equal(await (await edge.ask('/sale', { headers: PAGE })).text(), ROOM);
});

test('a gateway that accepts and never answers is given up, and one that takes its time for the shop is not', async (context) => {
  const key = signer();
  const edge = host(key);
  await edge.ask('/', { headers: PAGE });
  const given = [];
  const never = (signal) =>
    new Promise((_, reject) => {
      given.push(signal);
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
  edge.io.send = (to, target, init) => never(init.signal);
  edge.io.room.send = (path, headers, signal) => never(signal);
  context.mock.timers.enable({ apis: ['setTimeout'] });
  for (const shared of [true, false]) {
    edge.clock += 1_000;
    edge.io.room.shared = shared;
    const asked = [
      edge.ask('/sale', { headers: PAGE }),
      edge.ask('/sale', { headers: PAGE }),
      edge.ask('/sale', { method: 'POST', headers: PAGE, body: 'a=b' }),
      edge.ask('/api/v1/queue/status?sale=drop', { headers: PAGE }),
    ];
    let admitted = 'waiting';
    edge.ask('/sale', { headers: token(key) }).then(() => (admitted = 'answered'));
    await new Promise(setImmediate);
    context.mock.timers.tick(5_000);
    const [page, other, form, call] = await Promise.all(asked);
    for (const answer of [page, other, form]) {
      assert.equal(answer.status, 503);
      assert.match(await answer.text(), /The waiting room cannot be reached/);
    }
    assert.equal(call.status, 502);
    assert.equal(admitted, 'waiting', 'the shop behind the gateway has as long as the host gives it');
    assert.equal(given.filter((signal) => signal && !signal.aborted).length, 0);
  }
});

test('languages that are made up do not each cost the gateway a room', async () => {
  const edge = host(signer());
  const made = (number) => edge.ask('/sale', { headers: { ...PAGE, 'accept-language': `x-${number}` } });
  for (let number = 0; number < 500; number += 1) assert.equal(await (await made(number)).text(), ROOM);
  assert.ok(edge.rooms <= 65, `${edge.rooms} rooms`);
  edge.clock += 1_000;
  const before = edge.rooms;
  await made('again');
  assert.equal(edge.rooms, before + 1, 'and a second later languages count again');
});

test("the host's cache serves rooms for a second, whatever it believes itself", async () => {
  const edge = host(signer());
  const kept = new Map();
  edge.io.room.cache = {
    match: async (url) => kept.get(url)?.clone(),
    put: async (url, answer) => void kept.set(url, answer),
  };
  await edge.ask('/sale', { headers: PAGE });
  await edge.settle();
  assert.equal(kept.size, 1);
  assert.ok([...kept.keys()].every((url) => !url.includes('shop.example')), 'an address of its own');
  const other = host(signer());
  other.io.room.cache = edge.io.room.cache;
  await other.ask('/sale', { headers: PAGE });
  assert.equal(other.rooms, 0, 'another instance takes it from there');
  const later = host(signer());
  later.clock += 1_001;
  later.io.room.cache = edge.io.room.cache;
  await later.ask('/sale', { headers: PAGE });
  assert.equal(later.rooms, 1);
});

test('a cache that fails is no cache', async () => {
  const edge = host(signer());
  const fail = () => {
    throw new Error('no cache was configured');
  };
  edge.io.room.cache = { match: fail, put: fail };
  assert.equal(await (await edge.ask('/sale', { headers: PAGE })).text(), ROOM);
  await edge.settle();
});

test('to the shop goes what only we can say, and nothing that a shopper says in our name', async () => {
  const key = signer();
  const edge = host(key, { send_to: 'shop' });
  const forged = { Ropeline_Visitor: 'forged', 'ropeline-sale': 'forged', 'x-else': 'kept' };
  await edge.ask('/sale/7?a=%2F', { headers: { ...token(key), ...forged } });
  const [{ to, target, init, guarded }] = edge.sent;
  assert.deepEqual([to, target, guarded, init.redirect], ['shop', '/sale/7?a=%2F', true, 'manual']);
  assert.equal(init.headers.get('ropeline-sale'), 'drop');
  assert.equal(init.headers.get('ropeline-visitor'), 'visitor');
  assert.equal(init.headers.get('ropeline_visitor'), null);
  assert.equal(init.headers.get('x-else'), 'kept');
});

test("of the shop's answer a shopper gets nothing that is for the queue, nor a shared cache what is the shopper's", async () => {
  const key = signer();
  const said = { 'cache-control': 'public, max-age=60', expires: 'Fri, 01 Jan 2100 00:00:00 GMT', 'ropeline-stock': '3', etag: '"x"' };
  for (const [send_to, headers, expected] of [
    ['shop', token(key), ['private, no-cache', null, null, '"x"']],
    ['gateway', token(key), [said['cache-control'], said.expires, '3', '"x"']],
  ]) {
    const edge = host(key, { send_to });
    edge.io.send = async () => new Response('sent on', { headers: said });
    const answer = await edge.ask('/sale', { headers });
    assert.deepEqual(Object.keys(said).map((name) => answer.headers.get(name)), expected, send_to);
  }
  for (const strict of ['private', 'max-age=5, Private', 'no-store']) assert.equal(personal(strict), strict);
  for (const lax of [null, '', 'max-age=5', 'public', 's-maxage=5, private', 'private="x"', 'no-store, must-understand']) {
    assert.equal(personal(lax), 'private, no-cache', lax);
  }
});

test('what a sale protects is fetched past every cache of the host', async (context) => {
  const key = signer();
  const asked = [];
  context.mock.method(globalThis, 'fetch', async (address, init) => {
    asked.push([address, init.cache]);
    return new Response('sent on');
  });
  for (const send_to of ['shop', 'gateway']) {
    const edge = host(key, { send_to });
    const upstreams = { gateway: 'http://gateway', shop: 'http://shop' };
    edge.io = reach({ ...edge.io, upstreams, host: 'shop.example', proto: 'https' });
    edge.io.settings = async () => edge.stored;
    const handler = new Handler(new Edge(module), { now: () => edge.clock });
    for (const path of ['/sale', '/free']) {
      await handler.fetch(new Request(`https://shop.example${path}`, { headers: token(key) }), edge.io);
    }
    assert.deepEqual(asked.splice(0), [[`http://${send_to}/sale`, 'no-store'], [`http://${send_to}/free`, undefined]]);
  }
});

test('a body is passed on as it comes', async () => {
  const edge = host(signer());
  await edge.ask('/', { method: 'POST', headers: PAGE, body: 'a=b' });
  const [{ init }] = edge.sent;
  assert.ok(init.body instanceof ReadableStream);
  assert.equal(await new Response(init.body).text(), 'a=b');
});

test('a gateway that cannot be reached is told apart from a shop that cannot', async () => {
  const key = signer();
  const edge = host(key);
  await edge.ask('/', { headers: PAGE });
  edge.away = true;
  const room = await edge.ask('/sale', { headers: PAGE });
  assert.equal(room.status, 503);
  assert.match(await room.text(), /The waiting room cannot be reached/);
  const form = await edge.ask('/sale', { method: 'POST', headers: PAGE, body: 'a=b' });
  assert.match(await form.text(), /The waiting room cannot be reached/);
  assert.equal((await edge.ask('/sale', { headers: token(key) })).status, 502);
});

test('the target of an address is taken as it stands there', () => {
  for (const [url, target] of [
    ['https://shop.example/', '/'],
    ['https://shop.example//a%2Fb?', '//a%2Fb?'],
    ['http://shop.example:8080/a?b=https://else.example/#c', '/a?b=https://else.example/'],
    ['https://shop.example?a', '/?a'],
  ]) {
    assert.equal(targetOf(url), target);
  }
});
