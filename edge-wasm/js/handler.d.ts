import type { Edge, EdgeRequest, Plan } from './edge.js';

export interface HandlerOptions {
  /** How often settings are read anew, in seconds: 30 unless told. Nobody waits for it. */
  everySeconds?: number;
  /** The clock, in milliseconds since 1970: `Date.now` unless told. */
  now?: () => number;
  /** Told when settings cannot be read or are refused: `console.warn` unless told. */
  log?: (message: string) => void;
}

/** How a host reaches others, for one request. */
export interface Io {
  /** Reads the settings from where the host keeps them. */
  settings: () => Promise<string | null>;
  /** Takes what goes on after the answer. */
  waitUntil: (promise: Promise<unknown>) => void;
  /** Spells a text as the host's header values are spelt. */
  headerText: (value: string) => string;
  /** Takes off what belongs to the connection, before anything is set, on hosts that do not do that themselves. */
  strip?: (headers: Headers) => void;
  /** Fields about the shopper that the host writes itself, over what a shopper says: names in lower case. */
  own?: string[];
  /** Sends a request on. `guarded`: a sale protects it, and nobody may keep the answer. Rejects when nobody answers, and when `init.signal` gives up. */
  send: (to: 'gateway' | 'shop', target: string, init: RequestInit, guarded: boolean) => Promise<Response>;
  room: {
    /** The host's own cache, or none. */
    cache: Cache | null;
    waitUntil: (promise: Promise<unknown>) => void;
    /** Whether a request may wait for what another has begun: not where a connection belongs to one request. */
    shared?: boolean;
    /** Asks the gateway for a room, and gives up when the signal says so. */
    send: (path: string, headers: Headers, signal: AbortSignal) => Promise<Response>;
  };
}

/** Carries plans out. One for each isolate: settings and rooms outlive a request. */
export class Handler {
  constructor(edge: Edge, options?: HandlerOptions);
  /** The answer to a request. */
  fetch(request: Request, io: Io): Promise<Response>;
  /** What to do with a request; `null` when nobody may pass. */
  plan(request: EdgeRequest, io: Pick<Io, 'settings' | 'waitUntil'>): Promise<Plan | null>;
  /** The answer to a request that is not sent on. */
  answer(
    request: { method: string; headers: Headers },
    plan: Plan | null,
    io: Pick<Io, 'room'>,
  ): Promise<Response>;
}

/** Ways to reach gateway and shop on hosts whose `fetch` goes to the address that it is given. */
export function reach(host: {
  /** The two origins, such as `https://gateway.shop.example`. */
  upstreams: { gateway?: string; shop?: string };
  settings: () => Promise<string | null>;
  cache: Cache | null;
  /** The shopper's address, unless the host has added it already. */
  client?: string | null;
  /** Fields about the shopper that the host has written over what was said: names in lower case. */
  own?: string[];
  /** What the shopper asked for. */
  host: string;
  proto: string;
  waitUntil: (promise: Promise<unknown>) => void;
  /** Whether a request may wait for what another has begun. */
  shared?: boolean;
}): Io;

/** Whether a shopper may not say this to a shop. */
export function isBarred(name: string): boolean;
/** Whether a field of the shop's answer must not reach the shopper, who was admitted or not. */
export function isRemoved(name: string, admitted: boolean): boolean;
/** The `Cache-Control` of an answer to somebody who was admitted, where the shop said this one. */
export function personal(cacheControl: string | null): string;
/** Path and query of an address, as they stand there. */
export function targetOf(url: string): string;
/** A text as header values are spelt by the Fetch standard: each of its bytes a character. */
export function byteString(value: string): string;
