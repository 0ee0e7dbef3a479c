import module from './ropeline/ropeline_edge.wasm?module';
import { middleware } from './ropeline/vercel.js';

export default middleware(module);
export const config = { runtime: 'edge', matcher: '/:path*' };
