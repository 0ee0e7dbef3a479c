// SHA-256 and what the shopper's own browser computes by it: the draw, and a proof of work where a place takes one.
//
// SHA-256 (FIPS 180-4) is done here and not by crypto.subtle: that exists only in secure contexts, and the shuffle
// needs some 500 hashes one after the other, a proof up to millions. All of it is public, so timing gives nothing away.

/** @param {number} n @param {number} root the root whose fraction is wanted */
const fractionBits = (n, root) => Math.floor((n ** (1 / root) % 1) * 2 ** 32);

/** The first primes' square and cube roots are where SHA-256's constants come from (FIPS 180-4 §4.2.2, §5.3.3). */
const PRIMES = (() => {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p)) primes.push(n);
  return primes;
})();
const ROUND_CONSTANTS = Int32Array.from(PRIMES, (p) => fractionBits(p, 3) | 0);
const INITIAL_HASH = Int32Array.from(PRIMES.slice(0, 8), (p) => fractionBits(p, 2) | 0);

const rotate = (x, n) => (x >>> n) | (x << (32 - n));

/**
 * Takes one block into a hash (FIPS 180-4 §6.2.2). A proof of work comes here a million times.
 * @param {Int32Array} hash eight words
 * @param {Int32Array} w 64 words, the first 16 of them the block
 */
function compress(hash, w) {
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3);
    const s1 = rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10);
    w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i] + w[i]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  hash[0] += a;
  hash[1] += b;
  hash[2] += c;
  hash[3] += d;
  hash[4] += e;
  hash[5] += f;
  hash[6] += g;
  hash[7] += h;
}

/**
 * SHA-256 of some bytes.
 * @param {Uint8Array} message
 * @returns {Uint8Array} 32 bytes
 */
export function sha256(message) {
  const blocks = (message.length + 9 + 63) >> 6;
  const padded = new Uint8Array(blocks * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(message.length / 2 ** 29));
  view.setUint32(padded.length - 4, message.length << 3);

  const hash = INITIAL_HASH.slice();
  const w = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(block + i * 4);
    compress(hash, w);
  }
  const out = new DataView(new ArrayBuffer(32));
  hash.forEach((x, i) => out.setInt32(i * 4, x));
  return new Uint8Array(out.buffer);
}

/**
 * Looks for a proof of work: the first `challenge.nonce` from `nonce` on whose SHA-256 begins with `bits` zero bits. The text
 * has to fit into one block, so challenge and nonce into 54 bytes.
 * @param {string} challenge ASCII
 * @param {number} bits at most 32
 * @param {number} nonce
 * @param {number} tries how many to look at
 * @returns {string|null} null where there is none among them
 */
export function findProof(challenge, bits, nonce, tries) {
  const bytes = new Uint8Array(64);
  const view = new DataView(bytes.buffer);
  const start = challenge.length + 1;
  for (let i = 0; i < start; i++) bytes[i] = `${challenge}.`.charCodeAt(i);
  const hash = new Int32Array(8);
  const w = new Int32Array(64);
  for (const end = nonce + tries; nonce < end; nonce++) {
    const digits = String(nonce);
    const length = start + digits.length;
    for (let i = 0; i < digits.length; i++) bytes[start + i] = digits.charCodeAt(i);
    bytes[length] = 0x80;
    view.setUint32(60, length * 8);
    for (let i = 0; i < 16; i++) w[i] = view.getInt32(i * 4);
    hash.set(INITIAL_HASH);
    compress(hash, w);
    if (Math.clz32(hash[0]) >= bits) return `${challenge}.${digits}`;
  }
  return null;
}

/**
 * @param {string} hex
 * @returns {Uint8Array}
 */
export function fromHex(hex) {
  return Uint8Array.from(hex.replace(/^0x/, "").match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** @param {Uint8Array} bytes */
export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * The draw's seed: `SHA-256("ropeline-draw-v1" ‖ SHA-256(manifest) ‖ size as u64 LE ‖ secret)`. For a lane but the first
 * `SHA-256("ropeline-draw-lane-v1" ‖ lane as one byte ‖ SHA-256(manifest) ‖ size as u64 LE ‖ secret)`.
 * @param {string} manifest the published bytes
 * @param {number} size how many are drawn
 * @param {Uint8Array} secret 32 bytes
 * @param {number} lane which in the manifest, from 0
 * @returns {Uint8Array}
 */
export function drawSeed(manifest, size, secret, lane = 0) {
  const text = new TextEncoder();
  const domain = text.encode(lane ? "ropeline-draw-lane-v1" : "ropeline-draw-v1");
  const tail = new Uint8Array(72);
  tail.set(sha256(text.encode(manifest)));
  new DataView(tail.buffer).setBigUint64(32, BigInt(size), true);
  tail.set(secret, 40);
  return sha256(Uint8Array.of(...domain, ...(lane ? [lane] : []), ...tail));
}

/** How often the draw swaps or not. */
export const DRAW_ROUNDS = 255;

/**
 * Where the swap-or-not shuffle puts an index: `compute_shuffled_index` of the Ethereum consensus specification.
 * @param {number} index below `count`
 * @param {number} count how many are shuffled
 * @param {Uint8Array} seed 32 bytes
 * @param {number} rounds
 * @returns {number}
 */
export function shuffledIndex(index, count, seed, rounds = DRAW_ROUNDS) {
  const input = new Uint8Array(37);
  const view = new DataView(input.buffer);
  input.set(seed);
  for (let round = 0; round < rounds; round++) {
    input[32] = round;
    const head = new DataView(sha256(input.subarray(0, 33)).buffer);
    const pivot = Number(head.getBigUint64(0, true) % BigInt(count));
    const flip = (pivot + count - index) % count;
    const position = Math.max(index, flip);
    view.setUint32(33, Math.floor(position / 256), true);
    const bits = sha256(input)[(position % 256) >> 3];
    if ((bits >> (position % 8)) & 1) index = flip;
  }
  return index;
}
