// Netlify Edge Functions.

import { Edge } from './edge.js';
import { Handler, reach } from './handler.js';
import { fetched } from './settings.js';

/** The default export of an edge function. */
export function edgeFunction(module, options = {}) {
  const handler = new Handler(new Edge(module), options);
  const env = (name) => Netlify.env.get(name);
  const settings = fetched(env('ROPELINE_SETTINGS'));
  const upstreams = { gateway: env('GATEWAY'), shop: env('SHOP') };
  return (request, context) => {
    const { host, protocol } = new URL(request.url);
    return handler.fetch(
      request,
      reach({
        upstreams,
        settings,
        cache: null,
        client: context.ip,
        host: request.headers.get('host') ?? host,
        proto: protocol.slice(0, -1),
        waitUntil: (promise) => context.waitUntil(promise),
      }),
    );
  };
}
