import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { DRAW_ROUNDS, fromHex, sha256, shuffledIndex } from "./draw.mjs";

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

test("one place in two million is found quickly enough for a phone", () => {
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
