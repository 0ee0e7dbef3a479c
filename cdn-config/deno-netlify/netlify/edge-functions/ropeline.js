import { edgeFunction } from '../../ropeline/netlify.js';

const module = await WebAssembly.compileStreaming(
  fetch(new URL('../../ropeline/ropeline_edge.wasm', import.meta.url)),
);

export default edgeFunction(module);
export const config = { path: '/*' };
