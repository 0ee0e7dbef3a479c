import type { HandlerOptions } from './handler.js';

export interface LambdaEdgeOptions extends HandlerOptions {
  /** The gateway's origin, such as `https://gateway.shop.example`. */
  gateway: string;
  /** Reads the settings: from the bundle, or from elsewhere. */
  settings: () => Promise<string | null>;
}

/**
 * The handler for CloudFront's origin-request event, or viewer-request: answers with a request or a response. Settings
 * that send to the shop need origin-request, with an origin that is no bucket: elsewhere what is the gateway's cannot
 * be sent there, and is answered with 503.
 */
export function lambdaEdge(
  module: WebAssembly.Module,
  options: LambdaEdgeOptions,
): (event: { Records: [{ cf: { request: object } }] }) => Promise<object>;

/**
 * The handler for CloudFront's origin-response event, which settings that send to the shop need as well: takes off the
 * shop's answer what is not for the shopper, or not for caches.
 */
export function shopsAnswer(event: { Records: [{ cf: { request: object; response: object } }] }): Promise<object>;
