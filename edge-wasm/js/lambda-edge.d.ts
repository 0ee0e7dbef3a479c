import type { HandlerOptions } from './handler.js';

export interface LambdaEdgeOptions extends HandlerOptions {
  /** The gateway's origin, such as `https://gateway.shop.example`. */
  gateway: string;
  /** Reads the settings: from the bundle, or from elsewhere. */
  settings: () => Promise<string | null>;
}

/** The handler for CloudFront's viewer-request or origin-request event: answers with a request or a response. */
export function lambdaEdge(
  module: WebAssembly.Module,
  options: LambdaEdgeOptions,
): (event: { Records: [{ cf: { request: object } }] }) => Promise<object>;
