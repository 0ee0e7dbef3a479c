import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { DRAW_ROUNDS, drawSeed, findProof, fromHex, sha256, shuffledIndex, toHex } from "./draw.mjs";

test("SHA-256 is that of the platform at every length around the block borders", () => {
  for (let length = 0; length <= 200; length++) {
    const message = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 255);
    const expected = createHash("sha256").update(message).digest("hex");
    assert.equal(Buffer.from(sha256(message)).toString("hex"), expected, `length ${length}`);
  }
});

test("the shuffle gives the known answers", () => {
  const { vectors } = JSON.parse(readFileSync(new URL("./testdata/draw.json", import.meta.url), "utf8"));
  assert.ok(vectors.some((v) => v.rounds === DRAW_ROUNDS));
  for (const { seed, count, rounds, mapping } of vectors) {
    const places = mapping.map((_, i) => shuffledIndex(i, count, fromHex(seed), rounds));
    assert.deepEqual(places, mapping);
  }
});

test("the seed and the commitment are those of another implementation", () => {
  // Python's hashlib: m=sha256(b'{"sale":"x"}').digest();
  // sha256(b"ropeline-draw-v1"+m+(2000000).to_bytes(8,"little")+bytes(range(32))), and sha256(bytes(range(32)))
  const secret = Uint8Array.from({ length: 32 }, (_, i) => i);
  const seed = "a395a0788f7af7a8d3cb4d3be1821db3f9507dc12d8804b9c2f046cd46c615e2";
  assert.equal(toHex(drawSeed('{"sale":"x"}', 2_000_000, secret)), seed);
  assert.equal(toHex(sha256(secret)), "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd");
});

test("arrivals far apart in a draw of two million get places of their own below it", () => {
  const seed = new Uint8Array(32).fill(7);
  const places = new Set();
  for (const arrival of [0, 1, 255, 256, 1_234_567, 1_999_999]) {
    const place = shuffledIndex(arrival, 2_000_000, seed);
    assert.ok(place >= 0 && place < 2_000_000);
    places.add(place);
  }
  assert.equal(places.size, 6, "two arrivals have one place");
});

test("a draw of one leaves it where it is", () => {
  assert.equal(shuffledIndex(0, 1, new Uint8Array(32)), 0);
});

test("a proof of work is the one another implementation finds", () => {
  // Python's hashlib: the first n with int.from_bytes(sha256(b"%s.%d" % (c, n)).digest(), "big") < 2**(256 - bits)
  const challenge = "AAAAAGVT81gO1vzfFWK3LaPtNihHN60yhn32";
  for (const [bits, nonce] of [[0, 0], [4, 27], [8, 57], [14, 7495], [18, 513529]]) {
    assert.equal(findProof(challenge, bits, 0, 1_000_000), `${challenge}.${nonce}`);
  }
  // In slices it is the same, and beyond it another.
  assert.equal(findProof(challenge, 14, 0, 7_495), null);
  assert.equal(findProof(challenge, 14, 7_495, 1), `${challenge}.${7_495}`);
  const next = findProof(challenge, 14, 7_495 + 1, 1_000_000);
  assert.match(createHash("sha256").update(next).digest("hex"), /^000[0-3]/);
});
