import module from './ropeline/ropeline_edge.wasm';
import { worker } from './ropeline/cloudflare.js';

export default worker(module);
