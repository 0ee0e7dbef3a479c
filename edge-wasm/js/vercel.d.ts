import type { HandlerOptions } from './handler.js';

/**
 * The default export of `middleware.js`. Reads `GATEWAY`, `SHOP` (origins) and `ROPELINE_SETTINGS` (an address, or the
 * settings themselves) from the environment.
 */
export function middleware(
  module: WebAssembly.Module,
  options?: HandlerOptions,
): (request: Request, context: { waitUntil(promise: Promise<unknown>): void }) => Promise<Response>;
