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
  #module;
  #exports;
  #encode;
  #settings = null;
  #sendTo = null;

  constructor(module, { headers = 'bytes' } = {}) {
    this.#module = module;
    this.#exports = this.#started();
    this.#encode = headers === 'text' ? (value) => utf8.encode(value) : bytesOf;
  }

  get configured() {
    return this.#settings !== null;
  }

  /** Where the settings send those who are admitted: `gateway` or `shop`, and `null` without settings. */
  get sendTo() {
    return this.#sendTo;
  }

  configure(settings) {
    const bytes = typeof settings === 'string' ? utf8.encode(settings) : settings.slice();
    const refused = this.#call((exports) => configured(exports, bytes));
    if (refused) throw new SettingsRefused(refused);
    this.#settings = bytes;
    this.#sendTo = JSON.parse(text.decode(bytes)).send_to ?? 'gateway';
  }

  plan({ method, host, target, headers }, now) {
    const lines = [method, host, target];
    for (const [name, value] of headers) lines.push(name, value);
    // No host hands one out. It would make a line of its own.
    if (lines.some((line) => line.includes('\n'))) return null;
    const bytes = this.#encode(lines.join('\n'));
    if (bytes === null) return null;
    try {
      const plan = this.#call((exports) => {
        write(exports, bytes);
        return read(exports, exports.plan(BigInt(Math.floor(now))));
      });
      return plan === '' ? null : JSON.parse(plan);
    } catch {
      // What the module cannot even look at does not pass.
      return null;
    }
  }

  // A module that was interrupted may hold its locks for ever: the next call gets a new one.
  #call(use) {
    this.#exports ??= this.#started();
    try {
      return use(this.#exports);
    } catch (error) {
      this.#exports = null;
      throw error;
    }
  }

  #started() {
    const { exports } = new WebAssembly.Instance(this.#module, {});
    const refused = this.#settings && configured(exports, this.#settings);
    if (refused) throw new SettingsRefused(refused);
    return exports;
  }
}

// The code of the reason why they were refused, or nothing.
function configured(exports, settings) {
  write(exports, settings);
  return read(exports, exports.configure());
}

function write(exports, bytes) {
  const at = exports.input(bytes.length);
  // A view of its own each time: memory that has grown leaves older ones empty.
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
}

function read(exports, length) {
  return text.decode(new Uint8Array(exports.memory.buffer, exports.output(), length));
}

// Each character is one byte, as the Fetch standard gives header values (isomorphic encoding). Any other character
// would pass for another byte: `null`.
function bytesOf(value) {
  const bytes = new Uint8Array(value.length);
  for (let at = 0; at < value.length; at += 1) {
    const unit = value.charCodeAt(at);
    if (unit > 0xff) return null;
    bytes[at] = unit;
  }
  return bytes;
}
