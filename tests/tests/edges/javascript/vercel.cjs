// What Vercel's build and router do with `middleware.js`: modules linked, `?module` imports as compiled modules, the
// default export called for each request, and no request let through whose address is none. The runtime is Vercel's.
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const vm = require('node:vm');

const { EdgeRuntime, createHandler } = require('edge-runtime');

const runtime = new EdgeRuntime({
  extend: (context) => {
    const { GATEWAY, SHOP, ROPELINE_SETTINGS } = process.env;
    return Object.assign(context, { process: { env: { GATEWAY, SHOP, ROPELINE_SETTINGS } } });
  },
});
const { context } = runtime;
const modules = new Map();

function load(file) {
  if (!modules.has(file)) modules.set(file, file.endsWith('?module') ? compiled(file) : source(file));
  return modules.get(file);
}

function source(file) {
  return new vm.SourceTextModule(fs.readFileSync(file, 'utf8'), { context, identifier: file });
}

function compiled(file) {
  const module = new WebAssembly.Module(fs.readFileSync(file.replace('?module', '')));
  return new vm.SyntheticModule(['default'], function () { this.setExport('default', module); }, { context });
}

(async () => {
  const middleware = load(path.resolve('middleware.js'));
  await middleware.link((specifier, from) => load(path.resolve(path.dirname(from.identifier), specifier)));
  await middleware.evaluate();
  runtime.context.addEventListener('fetch', (event) => {
    event.respondWith(middleware.namespace.default(event.request, event));
  });
  const { handler } = createHandler({ runtime });
  const server = http.createServer((request, answer) => {
    // What holds when the runtime cannot make a request of it.
    answer.statusCode = 400;
    if (!request.headers.host || !request.url.startsWith('/')) return answer.end();
    // Vercel believes nobody about who asks.
    const { remoteAddress } = request.socket;
    Object.assign(request.headers, { 'x-forwarded-for': remoteAddress, 'x-real-ip': remoteAddress });
    // Whole, for the library would take what follows two slashes for a host.
    request.url = `http://${request.headers.host}${request.url}`;
    return handler(request, answer).catch(() => {});
  });
  server.listen(Number(process.argv[2]), '127.0.0.1');
  process.on('SIGTERM', () => server.close(() => process.exit(0)));
})();
