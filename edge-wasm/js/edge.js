// The WebAssembly module, and what it says.

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** Settings that were refused. Those that were in force before still are. */
export class SettingsRefused extends Error {
  constructor(code) {
    super(`the settings were refused: ${code}; "ropeline edge check" tells more`);
    this.name = 'SettingsRefused';
    this.code = code;
  }
}

/** An edge: settings, and plans for requests. It keeps nothing of a request. */
export class Edge {
  #exports;
  #encode;
  #configured = false;

  constructor(module, { headers = 'bytes' } = {}) {
    this.#exports = new WebAssembly.Instance(module, {}).exports;
    this.#encode = headers === 'text' ? (value) => utf8.encode(value) : bytesOf;
  }

  get configured() {
    return this.#configured;
  }

  configure(settings) {
    this.#write(typeof settings === 'string' ? utf8.encode(settings) : settings);
    const length = this.#exports.configure();
    if (length > 0) throw new SettingsRefused(this.#read(length));
    this.#configured = true;
  }

  plan({ method, host, target, headers }, now) {
    const lines = [method, host, target];
    for (const [name, value] of headers) lines.push(name, value);
    // No host hands one out. It would make a line of its own.
    if (lines.some((line) => line.includes('\n'))) return null;
    this.#write(this.#encode(lines.join('\n')));
    const length = this.#exports.plan(BigInt(Math.floor(now)));
    return length > 0 ? JSON.parse(this.#read(length)) : null;
  }

  #write(bytes) {
    const at = this.#exports.input(bytes.length);
    // A view of its own each time: memory that has grown leaves older ones empty.
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
  }

  #read(length) {
    return text.decode(new Uint8Array(this.#exports.memory.buffer, this.#exports.output(), length));
  }
}

// Each character is one byte, as the Fetch standard gives header values (isomorphic encoding).
function bytesOf(value) {
  const bytes = new Uint8Array(value.length);
  for (let at = 0; at < value.length; at += 1) bytes[at] = value.charCodeAt(at);
  return bytes;
}
