// Keys, tokens and settings made by Node, and the module as `scripts/node-tests.sh` has built it.
import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';

export const module = new WebAssembly.Module(readFileSync(process.env.ROPELINE_EDGE_MODULE));
export const NOW = 1_800_000_000;

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
