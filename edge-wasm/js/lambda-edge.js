// AWS Lambda@Edge, on CloudFront's origin-request event, or viewer-request where all goes to the gateway.

import { STATUS_CODES } from 'node:http';

import { Edge } from './edge.js';
import { Handler, isBarred, isRemoved, personal } from './handler.js';

/**
 * The handler. `settings` reads them; `gateway` is the gateway's origin. There are no environment variables at
 * CloudFront's edge: what differs stands in the file that calls this.
 */
export function lambdaEdge(module, { gateway, settings, ...options }) {
  // CloudFront decodes header values from UTF-8.
  const edge = new Edge(module, { headers: 'text' });
  const handler = new Handler(edge, options);
  const io = {
    settings,
    // The process sleeps between two requests; what was begun goes on with the next.
    waitUntil: (promise) => void promise,
    room: {
      cache: null,
      waitUntil: (promise) => void promise,
      send: (path, headers, signal) => fetch(new URL(path, gateway), { headers, redirect: 'manual', signal }),
    },
  };
  return async (event) => {
    const { request } = event.Records[0].cf;
    const headers = Object.entries(request.headers).flatMap(([name, lines]) => lines.map(({ value }) => [name, value]));
    const plan = await handler.plan(
      {
        method: request.method,
        host: request.headers.host?.[0]?.value ?? '',
        target: request.querystring ? `${request.uri}?${request.querystring}` : request.uri,
        headers,
      },
      io,
    );
    const reached = plan?.act === 'forward' && reaches(request.origin, plan.to, edge.sendTo);
    if (reached) return forwarded(request, plan, gateway);
    const asked = { method: request.method, headers: languageOf(headers) };
    return generated(await handler.answer(asked, plan?.act === 'forward' ? null : plan, io));
  };
}

// What chooses among the room's forms. What no field can hold chooses nothing.
function languageOf(headers) {
  const language = headers.find(([name]) => name === 'accept-language');
  try {
    return new Headers(language ? [language] : []);
  } catch {
    return new Headers();
  }
}

// Whether what is handed back to CloudFront gets where the plan sends it. Without an origin in the event it goes to that
// of the distribution, which is where the settings send those who are admitted; a bucket is no gateway.
function reaches(origin, to, sendTo) {
  return to === 'shop' || (origin ? Boolean(origin.custom) : sendTo === 'gateway');
}

// CloudFront sends on what is handed back to it.
function forwarded(request, plan, gateway) {
  const [uri, ...query] = plan.target.split('?');
  request.uri = uri;
  request.querystring = query.join('?');
  if (plan.to === 'shop') {
    for (const name of Object.keys(request.headers)) if (isBarred(name)) delete request.headers[name];
    // Before the origin CloudFront has added the shopper's address to whatever the shopper said; it does not again.
    if (request.origin) set(request.headers, 'x-forwarded-for', request.clientIp);
  } else {
    // The gateway goes by `Host`.
    delete request.headers['x-forwarded-host'];
  }
  for (const [name, value] of plan.set) set(request.headers, name, value);
  // The origin of the distribution is the one that most requests go to; the event names it before the origin only.
  if (plan.to === 'gateway' && request.origin) sendTo(request.origin, new URL(gateway));
  return request;
}

/**
 * The handler of the origin-response event, for settings that send to the shop: takes off the shop's answer what is not
 * for the shopper, or not for caches. It needs no settings: the request says who was admitted.
 */
export async function shopsAnswer(event) {
  const { request, response } = event.Records[0].cf;
  const admitted = 'ropeline-sale' in request.headers;
  for (const name of Object.keys(response.headers)) if (isRemoved(name, admitted)) delete response.headers[name];
  if (admitted) {
    const said = response.headers['cache-control']?.map(({ value }) => value).join(', ') ?? null;
    set(response.headers, 'cache-control', personal(said));
  }
  return response;
}

function set(headers, name, value) {
  headers[name] = [{ key: name, value }];
}

function sendTo(origin, { hostname, port, protocol }) {
  const name = protocol.slice(0, -1);
  Object.assign(origin.custom, {
    domainName: hostname,
    port: Number(port) || (name === 'https' ? 443 : 80),
    protocol: name,
    path: '',
  });
}

async function generated(answer) {
  const headers = {};
  for (const [name, value] of answer.headers) headers[name] = [{ key: name, value }];
  const response = { status: String(answer.status), statusDescription: STATUS_CODES[answer.status] ?? '', headers };
  if (answer.body) {
    response.bodyEncoding = 'base64';
    response.body = Buffer.from(await answer.arrayBuffer()).toString('base64');
  }
  return response;
}
