import type { HandlerOptions } from './handler.js';

/**
 * The default export of a file for `deno serve`. Reads `GATEWAY`, `SHOP` (origins) and `ROPELINE_SETTINGS` (a file, an
 * address, or the settings themselves) from the environment.
 */
export function server(
  module: WebAssembly.Module,
  options?: HandlerOptions,
): {
  fetch(request: Request, info: { remoteAddr?: { hostname?: string } }): Promise<Response>;
};
