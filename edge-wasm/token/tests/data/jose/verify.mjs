// Checks ours.json, tokens that this project signs, with npm `jose`:  npm install && node verify.mjs
import { readFileSync } from 'node:fs';
import { calculateJwkThumbprint, compactVerify, createLocalJWKSet, jwtVerify } from 'jose';

const ours = JSON.parse(readFileSync(new URL('ours.json', import.meta.url)));
const keys = createLocalJWKSet(ours.jwks);
for (const key of ours.jwks.keys) {
  if (key.kid !== (await calculateJwkThumbprint(key))) throw new Error('kid is not the thumbprint');
}
for (const { kind, token, claims } of ours.tokens) {
  const { payload } = await jwtVerify(token, keys, {
    typ: `ropeline-${kind}+jwt`, issuer: claims.iss, audience: claims.aud, currentDate: new Date(claims.nbf * 1000),
  });
  for (const [name, value] of Object.entries(claims)) {
    if (payload[name] !== value) throw new Error(`${kind}: ${name} is ${payload[name]}, not ${value}`);
  }
}
const { payload } = await compactVerify(ours.document.token, keys);
if (new TextDecoder().decode(payload) !== ours.document.payload) throw new Error('document');
console.log(`${ours.tokens.length} tokens and a document verify`);
