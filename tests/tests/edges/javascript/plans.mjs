// Plans for all vectors: node plans.mjs MODULE VECTORS
import { readFileSync } from 'node:fs';

import { Edge } from '../../../../edge-wasm/js/edge.js';
import { isBarred } from '../../../../edge-wasm/js/handler.js';

const [module, file] = process.argv.slice(2);
const vectors = JSON.parse(readFileSync(file, 'utf8'));
const compiled = new WebAssembly.Module(readFileSync(module));
const latin1 = (bytes) => bytes.toString('latin1');
const edges = Object.fromEntries(
  Object.entries(vectors.settings).map(([name, settings]) => {
    const edge = new Edge(compiled);
    edge.configure(JSON.stringify(settings));
    return [name, edge];
  }),
);
const plans = vectors.cases.map((test) => {
  const headers = test.headers.map(([name, value]) => [
    name,
    latin1(typeof value === 'string' ? Buffer.from(value) : Buffer.from(value.base64, 'base64')),
  ]);
  const [method, host, target] = [test.method, test.host, test.target].map((text) => latin1(Buffer.from(text)));
  const plan = edges[test.settings].plan({ method, host, target, headers }, test.now ?? vectors.now);
  const toShop = plan?.act === 'forward' && plan.to === 'shop';
  const gone = toShop ? headers.map(([name]) => name).filter(isBarred) : [];
  return { plan, gone: gone.filter((name, at) => name !== gone[at - 1]) };
});
process.stdout.write(JSON.stringify(plans));
