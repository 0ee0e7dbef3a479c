// Keys, tokens and settings made by Node, and the module as `scripts/node-tests.sh` has built it.
import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';

const bytes = readFileSync(process.env.ROPELINE_EDGE_MODULE);
export const module = new WebAssembly.Module(bytes);
export const NOW = 1_800_000_000;

// The same module with a memory of 4 MiB at most, so that it can be made to run out of it.
export function small() {
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at];
    let [length, shift, body] = [0, 0, at + 1];
    do length |= (bytes[body] & 0x7f) << shift, (shift += 7); while (bytes[body++] & 0x80);
    if (id === 5) {
      // One memory, without a maximum, of so many pages: and now of 64 at most.
      const [count, limits, ...pages] = bytes.subarray(body, body + length);
      const section = [5, length + 1, count, limits | 1, ...pages, 64];
      return new WebAssembly.Module(Buffer.concat([bytes.subarray(0, at), Buffer.from(section), bytes.subarray(body + length)]));
    }
    at = body + length;
  }
  throw new Error('the module has no memory of its own');
}

const base64 = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

export function signer(kid = 'key') {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.export({ format: 'jwk' }).x, kid, use: 'sig' };
  const token = (claims = {}) => {
    const head = base64({ alg: 'EdDSA', kid, typ: 'ropeline-admission+jwt' });
    const payload = base64({
      iss: 'https://shop.example', aud: 'drop', sub: 'visitor', jti: 'drop-0-1',
      iat: NOW, nbf: NOW, exp: NOW + 600, epoch: 0, arrival: 1, place: 1, ...claims,
    });
    const signature = sign(null, Buffer.from(`${head}.${payload}`), privateKey).toString('base64url');
    return `${head}.${payload}.${signature}`;
  };
  return { jwk, token };
}

export function settings({ jwk, token }, more = {}) {
  return JSON.stringify({
    version: 1,
    policy: {
      issuer: 'https://shop.example',
      api_prefix: '/api/v1/queue',
      secure_cookies: true,
      sales: [{ sale: 'drop', epoch: 0, gate: 'queue', routes: [{ path: '/sale' }], page_status: 503 }],
    },
    keys: { keys: [jwk] },
    known_answer: token(),
    ...more,
  });
}
