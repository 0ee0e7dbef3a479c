// Settings that stay fresh without anybody waiting for it.

/** Reads settings from where the host keeps them: at once while there are none, and then in the background. */
export class Keeper {
  #edge;
  #everyMs;
  #now;
  #log;
  #known = null;
  #asked = -Infinity;

  constructor(edge, { everySeconds = 30, now = Date.now, log = console.warn } = {}) {
    this.#edge = edge;
    this.#everyMs = everySeconds * 1000;
    this.#now = now;
    this.#log = log;
  }

  /** Sees to it that there are settings, if that is possible at all. Resolves at once when there are. */
  async ready(read, waitUntil) {
    if (!this.#edge.configured) {
      // Each request for itself: a promise of one request cannot be awaited by another on every host.
      await this.#refresh(read);
    } else if (this.#now() - this.#asked >= this.#everyMs) {
      waitUntil(this.#refresh(read));
    }
  }

  async #refresh(read) {
    this.#asked = this.#now();
    try {
      const settings = await read();
      if (typeof settings !== 'string' || settings === '') throw new Error('there are no settings');
      if (settings === this.#known) return;
      // Refused ones are not tried again and again.
      this.#known = settings;
      this.#edge.configure(settings);
    } catch (error) {
      const meanwhile = this.#edge.configured ? 'the ones before stay' : 'nobody passes';
      this.#log(`ropeline: no new settings, ${meanwhile}: ${error?.message ?? error}`);
    }
  }
}

/** Settings that stand in a text themselves, or at the address that it names. */
export function fetched(where, fetch = globalThis.fetch) {
  if (!where) return async () => null;
  if (where.trimStart().startsWith('{')) return async () => where;
  return async () => {
    const answer = await fetch(where, { redirect: 'error', headers: { accept: 'application/json' } });
    if (answer.status !== 200) throw new Error(`${new URL(where).origin} answered with ${answer.status}`);
    return answer.text();
  };
}
