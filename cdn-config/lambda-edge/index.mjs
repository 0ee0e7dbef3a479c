import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

import { lambdaEdge, shopsAnswer } from './ropeline/lambda-edge.js';

// The one value to set: where the gateway is.
const gateway = 'https://gateway.shop.example';

const beside = (path) => new URL(path, import.meta.url);
const module = new WebAssembly.Module(readFileSync(beside('./ropeline/ropeline_edge.wasm')));

export const handler = lambdaEdge(module, { gateway, settings: () => readFile(beside('./settings.json'), 'utf8') });

// For the origin-response event, where the settings send to the shop.
export const answer = shopsAnswer;
