import type { HandlerOptions } from './handler.js';

interface Fetcher {
  fetch(address: string, init?: RequestInit): Promise<Response>;
}

/** What the Worker is bound to. */
export interface Bindings {
  /** A namespace of Workers KV that has the settings under `settings`. */
  ROPELINE_KV?: { get(key: string, options?: { cacheTtl?: number }): Promise<string | null> };
  /** Without KV: the settings, or an address that has them. */
  ROPELINE_SETTINGS?: string;
  /** Where the gateway is: nothing for the zone's own origin, a host name of the zone, or a service. */
  GATEWAY?: string | Fetcher;
  /** Where the shop is, for settings that send to the shop. */
  SHOP?: string | Fetcher;
}

/** The default export of a Worker. */
export function worker(
  module: WebAssembly.Module,
  options?: HandlerOptions,
): {
  fetch(
    request: Request,
    env: Bindings,
    context: { waitUntil(promise: Promise<unknown>): void },
  ): Promise<Response>;
};
