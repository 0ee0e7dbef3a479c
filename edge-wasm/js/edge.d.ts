/** A request, as the host received it. */
export interface EdgeRequest {
  method: string;
  /** The `Host` field, or `:authority`. */
  host: string;
  /** Path and query. */
  target: string;
  /** Name and value of each field, in order. Names may repeat. A value cannot hold a line feed. */
  headers: Iterable<readonly [name: string, value: string]>;
}

interface Decided {
  /** What was decided: it goes on, its visitor waits, it is malformed, or it is a call to the gateway. */
  kind: 'forward' | 'wait' | 'reject' | 'api';
  /** The sale that protects the path. */
  sale: string | null;
  /** Why it waits or is rejected. */
  code: string | null;
}

/** Send it on, and its answer back as it is. */
export interface Forward extends Decided {
  act: 'forward';
  to: 'gateway' | 'shop';
  /** Path and query to ask for. */
  target: string;
  /** Fields to set. To the shop, every field of the request that `isBarred` of `handler.js` names is removed first. */
  set: [name: string, value: string][];
  /** Whether a page stands in for an upstream that cannot be reached. */
  room: boolean;
}

/** Answer with the room, which the gateway has at `path`. */
export interface Room extends Decided {
  act: 'room';
  path: string;
  status: number;
}

/** Answer with this. */
export interface Answer extends Decided {
  act: 'answer';
  status: number;
  headers: [name: string, value: string][];
  /** Not sent in answer to `HEAD`. */
  body: string;
}

export type Plan = Forward | Room | Answer;

/** Settings that were refused. Those that were in force before still are. */
export class SettingsRefused extends Error {
  /** The stable name of the reason. */
  readonly code: string;
}

export interface EdgeOptions {
  /**
   * What a string that holds a header value is: `bytes`, each character one of them, as the Fetch standard has it
   * (default), or `text`, decoded from UTF-8, as workerd and CloudFront give it.
   */
  headers?: 'bytes' | 'text';
}

/** An edge: settings, and plans for requests. It keeps nothing of a request. */
export class Edge {
  constructor(module: WebAssembly.Module, options?: EdgeOptions);
  /** Whether it has settings. */
  readonly configured: boolean;
  /** Where the settings send those who are admitted; `null` without settings. */
  readonly sendTo: 'gateway' | 'shop' | null;
  /**
   * Takes settings, the document that `ropeline edge export` writes; a token in them is verified, so that a broken
   * build is known and the first shopper does not wait for a cold start.
   *
   * @throws {SettingsRefused}
   */
  configure(settings: string | Uint8Array): void;
  /**
   * What to do with a request at `now`, in Unix seconds. `null` means that there are no settings, that this is no
   * request, or one too big for the module: then nobody may pass.
   */
  plan(request: EdgeRequest, now: number): Plan | null;
}
