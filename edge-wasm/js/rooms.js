// The room, fetched once a second and not once a shopper. It is the same bytes for everyone.

// As long as the gateway lets a room be kept.
const MAX_AGE_MS = 1000;
// Languages that are asked for, times sales: whoever comes with another one within the second gets the plain room.
const MAX_ROOMS = 64;
const FETCHED_AT = 'x-ropeline-fetched-at';
// What the gateway says by itself, a room or the answer to a call, it says at once or is in trouble. How long a shop may
// take, behind it or not, is the host's to limit.
const PATIENCE_MS = 5000;

// Of the room's fields, those that belong to what is answered in a page's place. Not its coding: every host here hands
// out decoded bodies, and compresses for the shopper itself.
const KEPT = [
  'content-type',
  'content-language',
  'content-security-policy',
  'x-content-type-options',
  'x-frame-options',
  'referrer-policy',
  'vary',
];

/** What `work(signal)` comes to, which is given up when it takes longer than the gateway may. */
export function inTime(work) {
  const given = new AbortController();
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => {
      const error = new Error(`the gateway has not answered for ${PATIENCE_MS} ms`);
      reject(error);
      given.abort(error);
    }, PATIENCE_MS);
  });
  return Promise.race([work(given.signal), late]).finally(() => clearTimeout(timer));
}

/** Rooms in memory, and in the host's own cache where there is one. A failure is kept as long as a room. */
export class Rooms {
  #now;
  #kept = new Map();
  #pending = new Map();

  constructor({ now = Date.now } = {}) {
    this.#now = now;
  }

  /**
   * The room at `path`, for `language`: `send(path, headers, signal)` fetches one, `cache` is the host's (or null),
   * `waitUntil` takes what need not be waited for, `shared` says that a request may wait for what another one has begun.
   * Throws when there is none.
   */
  async get(path, language, io) {
    let key = keyOf(path, language);
    if (!this.#knows(key) && this.#full()) {
      // Whoever makes languages up gets the plain room, and costs the gateway nothing.
      language = '';
      key = keyOf(path, language);
    }
    const kept = this.#kept.get(key);
    if (kept && this.#fresh(kept.at)) {
      if (kept.error) throw kept.error;
      return kept;
    }
    if (!io.shared) return this.#load(key, path, language, io);
    let loading = this.#pending.get(key);
    if (!loading) {
      loading = this.#load(key, path, language, io).finally(() => this.#forget(key, loading));
      this.#pending.set(key, loading);
      // Others wait for it, and its visitor may leave.
      io.waitUntil(loading.catch(() => {}));
    }
    try {
      return await inTime(() => loading);
    } catch (error) {
      // What ended without a word is waited for by nobody else.
      this.#forget(key, loading);
      throw error;
    }
  }

  #forget(key, loading) {
    if (this.#pending.get(key) === loading) this.#pending.delete(key);
  }

  #fresh(at) {
    const age = this.#now() - at;
    return age >= 0 && age < MAX_AGE_MS;
  }

  #knows(key) {
    return this.#kept.has(key) || this.#pending.has(key);
  }

  #full() {
    for (const [key, { at }] of this.#kept) if (!this.#fresh(at)) this.#kept.delete(key);
    return this.#kept.size + this.#pending.size >= MAX_ROOMS;
  }

  #keep(key, room) {
    this.#kept.delete(key);
    this.#kept.set(key, room);
    for (const [oldest] of this.#kept) {
      if (this.#kept.size <= MAX_ROOMS) break;
      this.#kept.delete(oldest);
    }
  }

  async #load(key, path, language, { send, cache, waitUntil }) {
    try {
      const cached = await this.#fromCache(key, cache);
      const room = cached ?? (await this.#fetch(key, path, language, send, cache, waitUntil));
      this.#keep(key, room);
      return room;
    } catch (error) {
      this.#keep(key, { at: this.#now(), error });
      throw error;
    }
  }

  // A cache that fails is no cache. Not every one of them looks at Cache-Control, so the age is checked here.
  async #fromCache(key, cache) {
    try {
      const answer = await cache?.match(cacheUrl(key));
      const at = Number(answer?.headers.get(FETCHED_AT));
      return answer && this.#fresh(at) ? await read(answer, at) : null;
    } catch {
      return null;
    }
  }

  async #fetch(key, path, language, send, cache, waitUntil) {
    const headers = new Headers();
    if (language) headers.set('accept-language', language);
    const at = this.#now();
    const room = await inTime(async (signal) => {
      const answer = await send(path, headers, signal);
      if (answer.status === 200) return read(answer, at);
      await answer.body?.cancel();
      throw new Error(`the gateway answered with ${answer.status} for ${path}`);
    });
    if (cache) waitUntil(store(cache, key, room).catch(() => {}));
    return room;
  }
}

function keyOf(path, language) {
  return `${path}\n${language}`;
}

async function store(cache, key, { at, headers, body }) {
  const kept = new Headers([...headers, ['cache-control', 'public, max-age=1'], [FETCHED_AT, String(at)]]);
  kept.delete('vary');
  await cache.put(cacheUrl(key), new Response(body, { headers: kept }));
}

// What the room varies by is part of its address, for caches that do not look at Vary.
function cacheUrl(key) {
  return `https://rooms.ropeline.invalid/${encodeURIComponent(key)}`;
}

async function read(answer, at) {
  const headers = KEPT.flatMap((name) => {
    const value = answer.headers.get(name);
    return value === null ? [] : [[name, value]];
  });
  return { at, headers, body: await answer.arrayBuffer() };
}
