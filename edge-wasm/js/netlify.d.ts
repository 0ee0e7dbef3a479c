import type { HandlerOptions } from './handler.js';

/**
 * The default export of an edge function. Reads `GATEWAY`, `SHOP` (origins) and `ROPELINE_SETTINGS` (an address, or
 * the settings themselves) from the environment.
 */
export function edgeFunction(
  module: WebAssembly.Module,
  options?: HandlerOptions,
): (
  request: Request,
  context: { ip: string; waitUntil(promise: Promise<unknown>): void },
) => Promise<Response>;
