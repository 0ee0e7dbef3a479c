// The cache behind `caches.default` of workerd on one machine: it asks by GET, stores by PUT with a whole HTTP/1.1
// response as the body, and removes by PURGE.

const kept = new Map();

export default {
  async fetch(request) {
    if (request.method === 'PUT') {
      const { age, ...answer } = parse(new Uint8Array(await request.arrayBuffer()));
      if (age > 0) kept.set(request.url, { ...answer, until: Date.now() + age * 1000 });
      return new Response(null, { status: 204 });
    }
    if (request.method === 'PURGE') return new Response(null, { status: kept.delete(request.url) ? 200 : 404 });
    for (const [url, { until }] of kept) if (until <= Date.now()) kept.delete(url);
    const hit = kept.get(request.url);
    if (!hit) return new Response(null, { status: 504, headers: { 'cf-cache-status': 'MISS' } });
    return new Response(hit.body, { status: hit.status, headers: [...hit.headers, ['cf-cache-status', 'HIT']] });
  },
};

function parse(bytes) {
  const end = bytes.findIndex((_, at) => [13, 10, 13, 10].every((byte, next) => bytes[at + next] === byte));
  const [line, ...fields] = new TextDecoder().decode(bytes.subarray(0, end)).split('\r\n');
  const headers = fields.map((field) => {
    const colon = field.indexOf(':');
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()];
  });
  const control = headers.find(([name]) => name === 'cache-control')?.[1] ?? '';
  const age = Number(/(?:^|[\s,])max-age=(\d+)/.exec(control)?.[1] ?? 0);
  const sized = headers.filter(([name]) => name !== 'content-length' && name !== 'transfer-encoding');
  return { age, status: Number(line.split(' ')[1]), headers: sized, body: bytes.slice(end + 4) };
}
