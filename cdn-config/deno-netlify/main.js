import { server } from './ropeline/deno.js';

const module = await WebAssembly.compile(await Deno.readFile(new URL('./ropeline/ropeline_edge.wasm', import.meta.url)));

export default server(module);
