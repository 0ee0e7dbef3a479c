// Settings that stay fresh without anybody waiting for it.

import { SettingsRefused } from './edge.js';

// For settings to be fetched. Whoever comes while there are none waits as long.
const TIMEOUT_MS = 5000;

/** Reads settings from where the host keeps them: at once while there are none, and then in the background. */
export class Keeper {
  #edge;
  #everyMs;
  #now;
  #log;
  #known = null;
  #asked = -Infinity;
  #reads = 0;
  #newest = 0;

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
    } else if (this.#due()) {
      waitUntil(this.#refresh(read));
    }
  }

  // A clock that was set back says nothing about how old the settings are.
  #due() {
    const age = this.#now() - this.#asked;
    return age < 0 || age >= this.#everyMs;
  }

  async #refresh(read) {
    this.#asked = this.#now();
    const number = (this.#reads += 1);
    try {
      const settings = await read();
      if (typeof settings !== 'string' || settings === '') throw new Error('there are no settings');
      // A read that was begun before one that has ended already brings what is older.
      if (number < this.#newest) return;
      this.#newest = number;
      if (settings === this.#known) return;
      this.#configure(settings);
    } catch (error) {
      const meanwhile = this.#edge.configured ? 'the ones before stay' : 'nobody passes';
      this.#log(`ropeline: no new settings, ${meanwhile}: ${error?.message ?? error}`);
    }
  }

  // Refused ones are not tried again and again; those that an interrupted module has not looked at to the end are.
  #configure(settings) {
    try {
      this.#edge.configure(settings);
    } catch (error) {
      if (error instanceof SettingsRefused) this.#known = settings;
      throw error;
    }
    this.#known = settings;
  }
}

/** Settings that stand in a text themselves, or at the address that it names. */
export function fetched(where, fetch = globalThis.fetch) {
  if (!where) return async () => null;
  if (where.trimStart().startsWith('{')) return async () => where;
  return async () => {
    const answer = await fetch(where, {
      // A redirection is not 200. workerd does not know `error`.
      redirect: 'manual',
      headers: { accept: 'application/json' },
      // Of the body, too.
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status !== 200) throw new Error(`${new URL(where).origin} answered with ${answer.status}`);
    return answer.text();
  };
}
