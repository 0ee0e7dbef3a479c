// The page that stands in for a room which cannot be fetched: the same one as the gateway's, to the byte.

const BODY =
  '<!doctype html><html lang="en"><meta charset="utf-8">' +
  '<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="10">' +
  '<title>The waiting room cannot be reached</title><main><h1>The waiting room cannot be reached</h1>' +
  '<p>The queue is not answering right now. If you have joined it, your place is kept. ' +
  'This page tries again by itself every ten seconds.</p></main></html>\n';

const HEADERS = [
  ['content-type', 'text/html; charset=utf-8'],
  ['retry-after', '10'],
  ['content-security-policy', "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"],
  ['x-frame-options', 'DENY'],
  ['referrer-policy', 'same-origin'],
  ['cache-control', 'private, no-store'],
  ['x-content-type-options', 'nosniff'],
];

export function unreachable(method) {
  return new Response(method === 'HEAD' ? null : BODY, { status: 503, headers: HEADERS });
}
