// What another implementation of JOSE says of the tokens in a file of vectors: node check.mjs vectors.json
//
// Prints an object: for the name of each case that is about one token, null where `jose` takes it, else why not.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { createLocalJWKSet, jwtVerify } = createRequire(import.meta.url)('jose');

const vectors = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const said = {};
for (const vector of vectors.cases.filter((vector) => vector.jose)) {
  const { policy, keys } = vectors.settings[vector.settings];
  const options = {
    algorithms: ['EdDSA', 'Ed25519'],
    typ: 'ropeline-admission+jwt',
    issuer: policy.issuer,
    audience: vector.jose.sale,
    clockTolerance: policy.leeway_seconds ?? 5,
    currentDate: new Date((vector.now ?? vectors.now) * 1000),
  };
  try {
    await jwtVerify(presented(vector, policy), createLocalJWKSet(keys), options);
    said[vector.name] = null;
  } catch (refusal) {
    said[vector.name] = `${refusal.code ?? refusal.name}: ${refusal.message}`;
  }
}
console.log(JSON.stringify(said));

// The one token of a request, in its field or in its cookie.
function presented(vector, policy) {
  const cookie = `${policy.secure_cookies ? '__Host-' : ''}ropeline-admission-${vector.jose.sale}=`;
  const tokens = vector.headers.flatMap(([name, value]) => {
    const text = typeof value === 'string' ? value : Buffer.from(value.base64, 'base64').toString('latin1');
    if (name.toLowerCase() === 'ropeline-admission') return [text];
    if (name.toLowerCase() !== 'cookie') return [];
    return text.split(';').map((pair) => pair.trim()).filter((pair) => pair.startsWith(cookie))
      .map((pair) => pair.slice(cookie.length));
  });
  if (tokens.length !== 1) throw new Error(`${vector.name} has ${tokens.length} tokens`);
  return tokens[0];
}
