// Makes tokens.json with npm `jose`:  npm install && node make.mjs > tokens.json
// Its keys and claims are fixed, and so are Ed25519 and HMAC signatures: it always writes the same.
import { CompactSign, SignJWT, UnsecuredJWT, calculateJwkThumbprint, importJWK } from 'jose';

// RFC 8037, appendix A.1.
const jwk = {
  kty: 'OKP', crv: 'Ed25519',
  d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
};
const kid = await calculateJwkThumbprint(jwk);
const { d, ...open } = jwk;
const claims = {
  iss: 'https://shop.example', aud: 'sneaker', sub: 'visitor-Jürgen', jti: 'sneaker-0-12',
  iat: 1700000000, nbf: 1700000000, exp: 1700000600, epoch: 3, arrival: 12,
};
const admission = { ...claims, place: 4 };
const ADMISSION = 'ropeline-admission+jwt', TICKET = 'ropeline-ticket+jwt', DOCUMENT = 'ropeline-draw+jws';

const sign = async (payload, header, options) =>
  new SignJWT(payload).setProtectedHeader(header).sign(await importJWK(jwk, header.alg), options);
const tokens = [];
const row = (name, kind, result, token) => tokens.push({ name, kind, result, token });

for (const alg of ['EdDSA', 'Ed25519']) {
  row(`${alg} admission`, 'admission', 'valid', await sign(admission, { alg, kid, typ: ADMISSION }));
  row(`${alg} ticket`, 'ticket', 'valid', await sign(claims, { typ: TICKET, kid, alg }));
  row(`${alg} document`, 'document', 'valid',
    await new CompactSign(new TextEncoder().encode('{"n":2000000}'))
      .setProtectedHeader({ alg, kid, typ: DOCUMENT }).sign(await importJWK(jwk, alg)));
}
const good = { alg: 'EdDSA', kid, typ: ADMISSION };
row('unknown claims', 'admission', 'valid', await sign({ ...admission, extra: { a: [1.5, null] } }, good));
row('no typ', 'admission', 'header_invalid', await sign(admission, { alg: 'EdDSA', kid }));
row('no kid', 'admission', 'header_invalid', await sign(admission, { alg: 'EdDSA', typ: ADMISSION }));
row('typ JWT', 'admission', 'type_refused', await sign(admission, { ...good, typ: 'JWT' }));
row('typ in capitals', 'admission', 'type_refused', await sign(admission, { ...good, typ: 'ROPELINE-ADMISSION+JWT' }));
row('a ticket for an admission', 'admission', 'type_refused', await sign(admission, { ...good, typ: TICKET }));
row('an admission for a ticket', 'ticket', 'type_refused', await sign(admission, good));
row('embedded key', 'admission', 'header_invalid', await sign(admission, { ...good, jwk: open }));
row('key address', 'admission', 'header_invalid', await sign(admission, { ...good, jku: 'https://evil.example/' }));
row('critical extension', 'admission', 'header_invalid',
  await sign(admission, { ...good, crit: ['x'], x: 1 }, { crit: { x: true } }));
row('b64 true', 'admission', 'header_invalid', await sign(admission, { ...good, crit: ['b64'], b64: true }));
row('another kid', 'admission', 'key_unknown', await sign(admission, { ...good, kid: 'other' }));
row('algorithm none', 'admission', 'header_invalid', new UnsecuredJWT(admission).encode());
row('HMAC with the public key', 'admission', 'algorithm_refused',
  await new SignJWT(admission).setProtectedHeader({ ...good, alg: 'HS256' }).sign(Buffer.from(jwk.x, 'base64url')));
row('audience as array', 'admission', 'claims_invalid', await sign({ ...admission, aud: ['sneaker'] }, good));
row('time as fraction', 'admission', 'claims_invalid', await sign({ ...admission, exp: 1700000600.5 }, good));
row('no place', 'admission', 'claims_invalid', await sign(claims, good));
row('negative arrival', 'admission', 'claims_invalid', await sign({ ...admission, arrival: -1 }, good));

const jwks = { keys: [{ ...open, kid, use: 'sig' }] };
console.log(JSON.stringify({ made_by: 'npm jose 6.2.18', kid, jwks, tokens }, null, 1));
