// Vercel Routing Middleware on the edge runtime.

import { Edge } from './edge.js';
import { Handler, reach } from './handler.js';
import { fetched } from './settings.js';

/** The default export of `middleware.js`. */
export function middleware(module, options = {}) {
  const handler = new Handler(new Edge(module), options);
  return (request, context) => {
    const { host, protocol } = new URL(request.url);
    return handler.fetch(
      request,
      reach({
        upstreams: { gateway: process.env.GATEWAY, shop: process.env.SHOP },
        settings: fetched(process.env.ROPELINE_SETTINGS),
        cache: null,
        // Vercel has said already who the client is, over whatever the client says.
        client: null,
        own: ['x-forwarded-for', 'x-real-ip'],
        host: request.headers.get('host') ?? host,
        proto: protocol.slice(0, -1),
        waitUntil: (promise) => context.waitUntil(promise),
      }),
    );
  };
}
