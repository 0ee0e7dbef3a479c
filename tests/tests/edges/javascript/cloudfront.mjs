// CloudFront's part in an origin-request event: makes the event, calls the handler, and sends on what it hands back,
// or answers with it. The origin of the distribution is the shop for settings that send to the shop.
import { readFileSync } from 'node:fs';
import http from 'node:http';

import { answer as answerHandler, handler } from './index.mjs';

const [address, gateway, shop] = process.argv.slice(2).map((text) => new URL(`http://${text}`));
const settings = JSON.parse(readFileSync('settings.json', 'utf8'));
const distribution = settings.send_to === 'shop' ? shop : gateway;

const text = (bytes) => Buffer.from(bytes, 'latin1').toString('utf8');
const bytes = (value) => Buffer.from(value, 'utf8').toString('latin1');

function eventOf(request) {
  const headers = {};
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const key = request.rawHeaders[at];
    // These functions never see what a shopper says in these.
    if (/^(x-real-ip|x-forwarded-proto)$/i.test(key)) continue;
    (headers[key.toLowerCase()] ??= []).push({ key, value: text(request.rawHeaders[at + 1]) });
  }
  const passed = headers['x-forwarded-for']?.map(({ value }) => `${value}, `).join('') ?? '';
  headers['x-forwarded-for'] = [{ key: 'X-Forwarded-For', value: passed + request.socket.remoteAddress }];
  const [uri, ...query] = request.url.split('?');
  const custom = {
    domainName: distribution.hostname,
    port: Number(distribution.port),
    protocol: 'http',
    path: '',
    sslProtocols: ['TLSv1.2'],
    readTimeout: 30,
    keepaliveTimeout: 5,
    customHeaders: {},
  };
  const { method, socket } = request;
  return {
    Records: [{
      cf: {
        config: { eventType: 'origin-request', distributionId: 'EXAMPLE', requestId: 'example' },
        request: { method, uri, querystring: query.join('?'), headers, origin: { custom }, clientIp: socket.remoteAddress },
      },
    }],
  };
}

function sendOn(request, asked, answer) {
  const { domainName, port } = asked.origin.custom;
  const headers = Object.values(asked.headers).flat().flatMap(({ key, value }) => [key, bytes(value)]);
  const path = asked.querystring ? `${asked.uri}?${asked.querystring}` : asked.uri;
  const upstream = http.request({ host: domainName, port, method: asked.method, path, headers, agent: false });
  upstream.on('response', async (response) => {
    // The second function is there for settings that send to the shop.
    answer.writeHead(response.statusCode, distribution === shop ? await mended(asked, response) : response.rawHeaders);
    response.pipe(answer);
  });
  upstream.setTimeout(asked.origin.custom.readTimeout * 1000, () => answer.writeHead(504).end(() => upstream.destroy()));
  upstream.on('error', () => answer.headersSent || answer.writeHead(502).end());
  request.pipe(upstream);
}

async function mended(request, { statusCode, rawHeaders }) {
  const headers = {};
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const key = rawHeaders[at];
    (headers[key.toLowerCase()] ??= []).push({ key, value: text(rawHeaders[at + 1]) });
  }
  const response = { status: String(statusCode), statusDescription: '', headers };
  const result = await answerHandler({ Records: [{ cf: { config: { eventType: 'origin-response' }, request, response } }] });
  return Object.values(result.headers).flat().flatMap(({ key, value }) => [key, bytes(value)]);
}

function answerWith(response, answer) {
  const headers = Object.values(response.headers).flat().flatMap(({ key, value }) => [key, bytes(value)]);
  answer.writeHead(Number(response.status), headers);
  answer.end(Buffer.from(response.body ?? '', response.bodyEncoding === 'base64' ? 'base64' : 'utf8'));
}

http
  .createServer(async (request, answer) => {
    try {
      const result = await handler(eventOf(request));
      if (result.status) answerWith(result, answer);
      else sendOn(request, result, answer);
    } catch (error) {
      console.error(error);
      answer.writeHead(502).end();
    }
  })
  .listen(Number(address.port), address.hostname);
