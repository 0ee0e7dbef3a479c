import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';

import { Edge, SettingsRefused } from '../edge.js';
import { module, NOW, settings, signer, small } from './support.js';

const visit = (headers) => ({ method: 'GET', host: 'shop.example', target: '/sale/7?a=b', headers });

test('a token that holds is sent on, one that does not waits', () => {
  const key = signer();
  const edge = new Edge(module);
  edge.configure(settings(key, { send_to: 'shop' }));
  const admitted = edge.plan(visit([['Cookie', `a=b; __Host-ropeline-admission-drop=${key.token()}`]]), NOW);
  assert.equal(admitted.act, 'forward');
  assert.equal(admitted.target, '/sale/7?a=b');
  assert.deepEqual(admitted.set.slice(1), [['ropeline-sale', 'drop'], ['ropeline-visitor', 'visitor']]);
  const late = edge.plan(visit([['ropeline-admission', key.token()]]), NOW + 1_000);
  assert.deepEqual([late.act, late.kind, late.code], ['answer', 'wait', 'token_expired']);
});

test('without settings there is no plan', () => {
  const edge = new Edge(module);
  assert.equal(edge.configured, false);
  assert.equal(edge.plan(visit([]), NOW), null);
});

test('refused settings leave the ones before in force', () => {
  const [key, other] = [signer('one'), signer('two')];
  const edge = new Edge(module);
  edge.configure(settings(key));
  for (const [wrong, code] of [
    ['{', 'settings_not_json'],
    [settings(other, { version: 2 }), 'settings_version_unknown'],
    // The known answer is another key's: a broken build would look the same.
    [settings({ jwk: other.jwk, token: key.token }), 'settings_known_answer_refused'],
  ]) {
    assert.throws(() => edge.configure(wrong), (error) => error instanceof SettingsRefused && error.code === code);
  }
  assert.equal(edge.plan(visit([['ropeline-admission', key.token()]]), NOW).act, 'forward');
});

test('header values are bytes, or text where the host says so', () => {
  const key = signer();
  const visitor = 'vïsitor €';
  const token = key.token({ sub: visitor });
  for (const headers of ['bytes', 'text']) {
    const edge = new Edge(module, { headers });
    edge.configure(settings(key, { send_to: 'shop' }));
    const plan = edge.plan(visit([['x', headers === 'bytes' ? '\xff\xfe' : '€'], ['ropeline-admission', token]]), NOW);
    assert.deepEqual(plan.set[2], ['ropeline-visitor', visitor]);
  }
});

test('a line feed in a value cannot pass for a field of its own', () => {
  const key = signer();
  const edge = new Edge(module);
  edge.configure(settings(key));
  const plan = edge.plan(visit([['x', `y\nropeline-admission\n${key.token()}`]]), NOW);
  assert.equal(plan, null);
});

test('where header values are bytes, a character that is none passes for no byte', () => {
  const key = signer();
  const edge = new Edge(module);
  edge.configure(settings(key));
  // The low byte of U+016B is `k`.
  const token = key.token();
  const request = visit([['ropeline-admission', token]]);
  for (const wrong of [
    { headers: [['ropeline-admission', token], ['x', '\u016b']] },
    { headers: [['\u016b', 'x'], ['ropeline-admission', token]] },
    { target: '/\u016b' },
    { host: '\u016b.example' },
    { method: '\u0147ET' },
  ]) {
    assert.equal(edge.plan({ ...request, ...wrong }, NOW), null);
  }
  assert.equal(edge.plan(request, NOW).act, 'forward');
});

test('a request or settings that the module fails at cost one instance and not the settings', () => {
  const key = signer();
  const edge = new Edge(small());
  edge.configure(settings(key));
  const admitted = visit([['ropeline-admission', key.token()]]);
  // More than its memory.
  const huge = 'x'.repeat(1 << 23);
  for (let round = 0; round < 3; round += 1) {
    assert.equal(edge.plan(visit([['x', huge], ...admitted.headers]), NOW), null);
    assert.equal(edge.plan(admitted, NOW).act, 'forward');
    assert.throws(() => edge.configure(`{"x":"${huge}"}`), WebAssembly.RuntimeError);
    assert.equal(edge.plan(admitted, NOW).act, 'forward');
  }
  const other = signer('two');
  edge.configure(settings(other));
  assert.equal(edge.plan(admitted, NOW).act, 'answer');
});

test('after a call that trapped, the bare module traps at once instead of waiting for ever', () => {
  const { exports } = new WebAssembly.Instance(small(), {});
  exports.input(8);
  assert.throws(() => exports.input(1 << 23), WebAssembly.RuntimeError);
  for (const call of ['input(8)', 'configure()', 'plan(1n)']) {
    // Waiting, it would be ended by the limit, which is another error.
    const again = () => runInNewContext(`exports.${call}`, { exports }, { timeout: 5_000 });
    assert.throws(again, { name: 'RuntimeError' }, call);
  }
});

test('many requests and many settings do not grow the memory without end', () => {
  const key = signer();
  const instance = WebAssembly.Instance;
  let memory;
  WebAssembly.Instance = function (...parts) {
    const made = new instance(...parts);
    memory = made.exports.memory;
    return made;
  };
  const edge = new Edge(module);
  WebAssembly.Instance = instance;
  edge.configure(settings(key));
  const request = visit([['x', 'y'.repeat(60_000)], ['ropeline-admission', key.token()]]);
  const rounds = (count) => {
    for (let round = 0; round < count; round += 1) {
      edge.configure(settings(key));
      edge.plan(request, NOW);
    }
    return memory.buffer.byteLength;
  };
  const size = rounds(20);
  assert.ok(size < 1 << 20, `${size} bytes`);
  assert.equal(rounds(500), size);
});
