import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import * as room from "./state.mjs";
import { textsOf } from "./testdata/texts.mjs";

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8");

const texts = textsOf(read("./texts/en.toml"));

/** @returns {room.Snapshot} */
const snapshot = (changes = {}) => ({
  sale: "demo",
  epoch: 1,
  phase: "open",
  serving: 1_000,
  rate: { low: 500, high: 1_000 },
  rate_below: null,
  cadence_ms: 5_000,
  draw: null,
  joins_open_at: null,
  opens_at: null,
  stock: null,
  paused_reason: null,
  as_of: 1_000_000,
  poll_after_ms: 60_000,
  ...changes,
});
const waiting = (arrival) => ({ standing: "waiting", arrival, serverPlace: null, problem: null });
const view = (changes, me, place, failing = null) =>
  room.viewOf({ me, snapshot: snapshot(changes), place, failing }, texts, ["de-AT", "en"]);

test("the page shows what the gateway would show", () => {
  for (const [phase, draw, standing, expected] of JSON.parse(read("./testdata/states.json")).cases) {
    assert.equal(room.stateOf(phase, draw, standing), expected, `${phase} ${draw} ${standing}`);
    assert.ok(texts.state[expected], `no words for ${expected}`);
  }
});

test("no phase hides that the browser keeps no cookies", () => {
  for (const phase of ["scheduled", "open", "sold_out"]) assert.equal(room.stateOf(phase, true, "blocked"), "blocked");
});

test("waits are told in the gateway's words", () => {
  for (const [low_s, high_s, expected] of JSON.parse(read("./testdata/waits.json")).cases) {
    assert.equal(room.etaWords({ low_s, high_s }, texts), expected, `${low_s} to ${high_s}`);
  }
  assert.equal(room.etaWords(null, texts), "Not known yet");
});

test("those ahead are counted as the gateway counts them", () => {
  for (const { serving, vacant, place, ahead } of JSON.parse(read("./testdata/ahead.json")).cases) {
    assert.equal(room.aheadOf(place, snapshot({ serving, vacant })), ahead, `${place} with ${serving} called`);
  }
  assert.equal(room.aheadOf(5_999, snapshot()), 4_999);
});

test("a wait that nobody knows is not made up", () => {
  assert.equal(room.etaOf(100, snapshot({ rate: null })), null);
  assert.equal(room.etaOf(100, snapshot({ rate: { low: 0, high: 10 } })), null);
  assert.equal(room.etaOf(100, snapshot({ phase: "paused" })), null);
  assert.equal(room.etaOf(100, snapshot({ stock: { available: 0, held: 3 } })), null);
});

test("a wait that is known for those in front alone is told to nobody else", () => {
  const told = (ahead) => room.etaOf(ahead, snapshot({ serving: 1_000, rate_below: 1_050 })) !== null;
  assert.deepEqual([told(0), told(49), told(50), told(500)], [true, true, false, false]);
});

test("a wait that is known is the one that the gateway tells", () => {
  for (const { ahead, rate, cadence_ms, eta } of JSON.parse(read("./testdata/eta.json")).cases) {
    assert.deepEqual(room.etaOf(ahead, snapshot({ rate, cadence_ms })), eta, `${ahead} at ${JSON.stringify(rate)}`);
  }
});

test("places come from the draw below its size, from arrival above it, and from nowhere before it", () => {
  const vector = JSON.parse(read("./testdata/draw.json")).vectors.find((v) => v.rounds === 255);
  const draw = { closes_at: 0, size: vector.count, seed: vector.seed.slice(2) };
  vector.mapping.forEach((place, arrival) => assert.equal(room.placeOf(arrival, snapshot({ draw })), place));
  assert.equal(room.placeOf(vector.count, snapshot({ draw })), vector.count);
  assert.equal(room.placeOf(5, snapshot({ draw: { ...draw, seed: null } })), null);
  assert.equal(room.placeOf(5, snapshot({ draw: { ...draw, size: null, seed: null } })), null);
  assert.equal(room.placeOf(5, snapshot()), 5);
  assert.equal(room.placeOf(null, snapshot()), null);
});

test("a seed that the operator chose afterwards is found out", () => {
  const secret = Buffer.alloc(32, 9);
  const hash = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((p) => Buffer.from(p)))).digest();
  const commitment = hash(secret).toString("hex");
  const manifest =
    `{"algorithm":"swap-or-not-sha256","closes_at":1700000000000,"commitment":"${commitment}",` +
    `"rounds":255,"sale":"demo","trust":"operator"}`;
  const size = Buffer.alloc(8);
  size.writeUInt32LE(300);
  const draw = {
    algorithm: "swap-or-not-sha256",
    trust: "operator",
    closes_at: 1_700_000_000_000,
    size: 300,
    seed: hash("ropeline-draw-v1", hash(manifest), size, secret).toString("hex"),
    commitment,
    secret: secret.toString("hex"),
  };
  const seenBefore = (changes) =>
    room.witness(null, snapshot({ as_of: 0, draw: { ...draw, seed: null, secret: null, ...changes } }), 0);
  const holds = (changes, seen = null) => room.seedHolds(snapshot({ draw: { ...draw, ...changes } }), seen);
  assert.equal(holds({}), true);
  assert.equal(holds({}, seenBefore({})), true);
  assert.equal(holds({}, seenBefore({ size: null })), true);
  const other = seenBefore({ commitment: "00".repeat(32) });
  assert.equal(holds({}, other), false, "another commitment was published before the draw");
  assert.equal(holds({}, seenBefore({ size: 299 })), false, "another number was published before the draw");
  assert.equal(holds({ seed: "00".repeat(32) }), false);
  assert.equal(holds({ secret: "11".repeat(32) }), false);
  assert.equal(holds({ size: 301 }), false);
  assert.equal(holds({ secret: null }), null);
});

test("a draw by a public random number is recomputed, and the page says what it saw and what it did not", () => {
  const sha = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((p) => Buffer.from(p)))).digest();
  const chain = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
  const due_at = 1_692_806_364_000;
  // As the gateway's own test has it.
  const manifest =
    `{"algorithm":"swap-or-not-sha256","beacon":{"chain":"${chain}","round":1000},` +
    `"closes_at":1692806334000,"rounds":255,"sale":"demo","trust":"beacon"}`;
  const signature =
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39";
  const size = Buffer.from([44, 1, 0, 0, 0, 0, 0, 0]);
  const seedOf = (text, random) => sha("ropeline-draw-v1", sha(text), size, random).toString("hex");
  const beacon = { chain, round: 1_000, due_at, late: false, frozen_at: 1_692_806_334_000, signature };
  const waits = {
    ...{ algorithm: "swap-or-not-sha256", trust: "beacon", closes_at: 1_692_806_334_000, size: 300 },
    ...{ seed: null, secret: null, beacon: { ...beacon, signature: null } },
  };
  const draw = { ...waits, seed: seedOf(manifest, sha(Buffer.from(signature, "hex"))), beacon };
  const at = (as_of, draw) => snapshot({ as_of, draw });
  const drawn = at(due_at + 9_000, draw);

  assert.equal(room.manifestOf(drawn), manifest);
  assert.equal(Buffer.from(room.publicValue(drawn)).toString("hex").slice(0, 8), "fe290bec");
  const seen = room.witness(room.witness(null, at(1, { ...waits, size: null }), 1), at(due_at - 1, waits), due_at - 1);
  assert.deepEqual(seen, { manifest, size: 300 });
  for (const [as_of, clock] of [[due_at, 0], [0, due_at]]) {
    assert.equal(room.witness(null, at(as_of, waits), clock), null, "the round had come by one of the clocks");
  }

  const { check } = texts;
  const says = (changes, seen) => room.promiseWords(at(due_at, { ...draw, ...changes }), seen, texts);
  assert.equal(says({}, seen), `${check.public} ${check.seen}`);
  assert.equal(says({}, null), `${check.public} ${check.unseen}`);
  assert.equal(says({}, { manifest, size: null }), `${check.public} ${check.unseen}`);
  assert.equal(says({ beacon: { ...beacon, frozen_at: due_at } }, null), `${check.public} ${check.frozen_late}`);
  assert.equal(says({}, { manifest, size: 299 }), check.public_broken);
  assert.equal(says({}, { manifest: manifest.replace("1000", "1001"), size: 300 }), check.public_broken);
  assert.equal(says({ seed: "00".repeat(32) }, seen), check.public_broken);
  assert.equal(says({ beacon: { ...beacon, signature: "00".repeat(48) } }, seen), check.public_broken);
  assert.equal(says({ size: 301 }, null), check.public_broken);
  assert.equal(room.promiseWords(at(due_at, waits), seen, texts), "");

  // The round given up: the manifest had said that this may be.
  const secret = Buffer.alloc(32, 9);
  const commitment = sha(secret).toString("hex");
  const open = manifest.replace(`"rounds"`, `"commitment":"${commitment}","rounds"`);
  const given = { ...waits, trust: "operator", commitment, secret: secret.toString("hex"), seed: seedOf(open, secret) };
  const fallback = { at: due_at + 60_000, reason: "No relay has it." };
  assert.match(says({ ...given, fallback }, null), /drew by the secret .* Its reason: No relay has it\.$/);
  assert.equal(says({ ...given, fallback, secret: "11".repeat(32) }, null), check.public_broken);
});

test("a draw that waits for its random number says until when, and that it is late when it is", () => {
  const beacon = { chain: "", round: 1, due_at: 90_000, late: false, frozen_at: 1, signature: null };
  const view = (late) => {
    const draw = { closes_at: 60_000, size: 5, seed: null, beacon: { ...beacon, late } };
    const me = { ...room.NOBODY, standing: "waiting", arrival: 3 };
    return room.viewOf({ me, snapshot: snapshot({ phase: "drawing", draw }), place: null, failing: null }, texts, ["en"]);
  };
  assert.deepEqual(view(false).when, { label: texts.label.beacon, at: 90_000 });
  assert.deepEqual([view(false).note, view(true).note], [texts.note.beacon, texts.note.beacon_late]);
});

test("an older snapshot out of a cache is passed over; a restart is not", () => {
  const last = snapshot({ as_of: 100_000, serving: 500 });
  assert.equal(room.compare(null, last), "next");
  assert.equal(room.compare(last, { ...last, as_of: 101_000, serving: 600 }), "next");
  assert.equal(room.compare(last, { ...last, as_of: 99_000, serving: 400 }), "stale");
  assert.equal(room.compare(last, { ...last, as_of: 101_000, serving: 499 }), "restart");
  assert.equal(room.compare(last, { ...last, as_of: 101_000, epoch: 2 }), "restart");
  assert.equal(room.compare(last, { ...last, as_of: 101_000, losses: 1 }), "restart");
  assert.equal(room.compare({ ...last, losses: 1 }, { ...last, as_of: 101_000, losses: 1 }), "next");
  assert.equal(room.compare(last, { ...last, as_of: 50_000, serving: 499 }), "restart");
  const drawn = { ...last, draw: { closes_at: 0, size: 10, seed: "aa" } };
  assert.equal(room.compare({ ...last, draw: { closes_at: 0, size: null, seed: null } }, drawn), "next");
  assert.equal(room.compare(drawn, { ...drawn, draw: { ...drawn.draw, seed: "bb" } }), "restart");
});

test("a wait that is only expected makes no poll later than one that is unknown", () => {
  const slow = { rate: { low: 0.5, high: 1 } };
  assert.equal(room.pollDelay(snapshot(slow), 1, 0, 0), 6_000);
  for (const ahead of [0, 1, 40]) {
    const expected = room.pollDelay(snapshot({ ...slow, rate_below: 1_041 }), ahead, 0, 0);
    assert.equal(expected, room.pollDelay(snapshot({ rate: null }), ahead, 0, 0));
  }
});

test("polls keep between 2 and 60 seconds, under the snapshot's bound, and spread", () => {
  for (let ahead = 0; ahead < 3_000_000; ahead = ahead * 2 + 1) {
    for (const rate of [null, { low: 1, high: 2 }, { low: 50_000, high: 60_000 }]) {
      for (const random of [0, 0.5, 1]) {
        const delay = room.pollDelay(snapshot({ rate }), ahead, 0, random);
        assert.ok(delay >= 1_500 && delay <= 60_000, `${delay} ms at ${ahead}`);
        assert.ok(room.pollDelay(snapshot({ rate, poll_after_ms: 2_000 }), ahead, 0, random) <= 2_000);
      }
    }
  }
  assert.equal(room.pollDelay(snapshot(), 5_000, 0, 0), 30_000);
  assert.notEqual(room.pollDelay(snapshot(), 5_000, 0, 0.2), room.pollDelay(snapshot(), 5_000, 0, 0.8));
});

test("polls quicken towards the opening and go on, slowly, when all is over", () => {
  const at = (phase, now) => room.pollDelay(snapshot({ phase, joins_open_at: 1_000_000, opens_at: 1_000_000 }), null, now, 0);
  for (const phase of ["scheduled", "pre_queue"]) {
    assert.equal(at(phase, 0), 60_000);
    assert.equal(at(phase, 800_000), 20_000);
    assert.equal(at(phase, 999_999), 5_000);
    assert.equal(at(phase, 1_000_001), 3_000);
    assert.equal(room.pollDelay(snapshot({ phase }), null, 0, 0), 60_000);
  }
  for (const phase of ["sold_out", "closed"]) assert.equal(at(phase, 0), 60_000);
  assert.equal(at("paused", 0), 15_000);
});

test("joining is spread over time, wider where a draw makes haste useless", () => {
  assert.equal(room.joinSpread(snapshot({ joins_open_at: 0 })), 2_000);
  const draw = { closes_at: 600_000, size: null, seed: null };
  assert.equal(room.joinSpread(snapshot({ joins_open_at: 0, draw })), 10_000);
  assert.equal(room.joinSpread(snapshot({ joins_open_at: 0, draw: { ...draw, closes_at: 8_000 } })), 2_000);
  assert.equal(room.joinSpread(snapshot({ draw })), 0);
});

test("failures back off, never in step, and do as the server asks", () => {
  for (let failures = 1; failures < 50; failures++) {
    const [least, most] = [0, 1].map((random) => room.backOff(failures, null, random));
    assert.ok(least >= 1_000 && most <= 60_000 && most === least * 2);
  }
  assert.equal(room.backOff(1, 7, 0), 7_000);
});

test("what the page shows follows the snapshot and the computed place", () => {
  const shown = view({}, waiting(5_999), 5_999);
  assert.deepEqual([shown.place, shown.ahead, shown.eta], ["6,000", "4,999", "4 to 15 minutes"]);
  assert.deepEqual(shown.progress, { max: 5_999, value: 1_000 });
  assert.equal(shown.leave, true);
  const vacant = [{ start: 2_000, end: 5_000 }];
  const behind = view({ vacant }, waiting(5_999), 5_999);
  assert.deepEqual([behind.place, behind.ahead, behind.eta], ["6,000", "1,999", "1 to 5 minutes"]);
  assert.deepEqual(behind.progress, { max: 5_999, value: 4_000 });
  assert.equal(view({ stock: { available: 0, held: 2 } }, waiting(5_999), 5_999).note, texts.note.held);
  assert.equal(view({}, waiting(5_999), 5_999, "retrying").note, texts.note.retrying);
  assert.equal(view({}, room.NOBODY, null, "retrying").note, texts.note.retrying_outside);
  assert.equal(view({}, waiting(5_999), 5_999, "busy").note, texts.note.busy);
  const draw = { closes_at: 2_000_000, size: null, seed: null };
  const drawn = view({ phase: "pre_queue", draw }, waiting(3), null);
  assert.deepEqual([drawn.state, drawn.place, drawn.when], ["in_draw", null, { label: texts.label.draw, at: 2_000_000 }]);
});

test("while the queue's store is away the page says so, makes up no wait and looks again soon", () => {
  const store_away = { open: false };
  const shown = view({ store_away }, waiting(5_999), 5_999);
  assert.deepEqual([shown.place, shown.eta, shown.note], ["6,000", texts.eta.unknown, texts.note.away]);
  assert.equal(view({ store_away }, room.NOBODY, null).note, texts.note.away_outside);
  assert.equal(view({}, waiting(5_999), 5_999, "away").note, texts.note.away);
  for (const phase of ["sold_out", "closed"]) assert.equal(view({ store_away, phase }, waiting(5), 5).note, null);
  assert.equal(room.pollDelay(snapshot({ store_away }), 1_000_000, 0, 0), 10_000);
});

test("nobody who has lapsed or left is queued again without asking", () => {
  for (const standing of ["lapsed", "left"]) {
    const shown = view({}, { ...room.NOBODY, standing }, null);
    assert.deepEqual([shown.rejoin, shown.leave, shown.state], [true, false, standing]);
  }
  assert.equal(room.standingOf({ state: "lapsed", recallable: true }), "recall");
  assert.equal(room.standingOf({ state: "lapsed", recallable: false }), "lapsed");
});

test("a pause gives its reason, in the visitor's language where there is one", () => {
  const paused_reason = { text: "Payments are slow.", translations: { de: "Zahlungen dauern gerade." } };
  assert.equal(view({ phase: "paused", paused_reason }, waiting(5_000), 5_000).reason, "Zahlungen dauern gerade.");
  assert.equal(room.reasonWords(snapshot({ phase: "paused", paused_reason }), ["fr"]).text, "Payments are slow.");
  const told = room.reasonWords(snapshot({ phase: "paused", paused_reason }), ["fr", "de-AT"]);
  assert.deepEqual(told, { text: "Zahlungen dauern gerade.", language: "de" });
  assert.equal(room.reasonWords(snapshot({ paused_reason }), ["fr"]), null);
});

test("the live region speaks when something changed, and not at each poll", () => {
  const at = (changes, place) => view(changes, waiting(place), place);
  let spoken = null;
  let said = 0;
  for (let serving = 0; serving <= 9_999; serving += 10) {
    const news = room.announcement(spoken, at({ serving }, 10_000), texts);
    if (news) [spoken, said] = [news, said + 1];
  }
  assert.ok(said >= 5 && said <= 15, `${said} announcements in a thousand polls`);
  const paused = at({ phase: "paused", paused_reason: { text: "Payments are slow." }, serving: 9_000 }, 10_000);
  assert.match(room.announcement(spoken, paused, texts).text, /paused.*Payments are slow\./);
  assert.equal(room.announcement(room.announcement(spoken, paused, texts), paused, texts), null);
  assert.match(room.announcement(spoken, at({ phase: "sold_out" }, 10_000), texts).text, /Sold out/);
});

test("time left is told to the second", () => {
  assert.equal(room.countdownWords(187_000), "3:07");
  assert.equal(room.countdownWords(3_723_000), "1:02:03");
  assert.equal(room.countdownWords(176_523_000), "2 d 01:02:03");
  assert.equal(room.countdownWords(1), "0:01");
  assert.equal(room.countdownWords(-5), "0:00");
});

const lane = (name, invitation, changes = {}) => ({
  ...{ name, title: name.toUpperCase(), share: 50, invitation, serving: 0, rate: null, rate_below: null, cadence_ms: 9_000 },
  ...changes,
});

test("a visitor in a lane is shown that lane's place, wait and name", () => {
  const lanes = [lane("all", false), lane("members", true, { serving: 40, rate: { low: 10, high: 20 } })];
  const shown = view({ lanes }, { ...waiting(100), lane: "members" }, 100);
  assert.deepEqual([shown.place, shown.ahead, shown.eta], ["101", "60", "3 to 7 minutes"]);
  assert.deepEqual([shown.lane, shown.invited, shown.progress], ["MEMBERS", false, { max: 100, value: 40 }]);
  lanes[1].vacant = [{ start: 50, end: 90 }];
  assert.equal(view({ lanes }, { ...waiting(100), lane: "members" }, 100).ahead, "20");
  const first = view({ lanes }, { ...waiting(100), lane: "all" }, 100);
  assert.deepEqual([first.ahead, first.lane, first.invited], ["100", "ALL", true]);
  assert.equal(view({}, waiting(100), 100).invited, false, "a sale without lanes takes no invitation");
  assert.equal(view({ lanes, phase: "sold_out" }, room.NOBODY, null).invited, false);
});

test("each lane's seed is checked as its own", () => {
  const sha = (...parts) => createHash("sha256").update(Buffer.concat(parts.map((part) => Buffer.from(part)))).digest();
  const secret = Buffer.alloc(32, 5);
  const commitment = sha(secret).toString("hex");
  const manifest =
    `{"algorithm":"swap-or-not-sha256","closes_at":1700000000000,"commitment":"${commitment}",` +
    `"lanes":[{"invitation":false,"name":"all","share":50},{"invitation":true,"name":"members","share":50}],` +
    `"rounds":255,"sale":"demo","trust":"operator"}`;
  const size = (n) => Buffer.from([n, 0, 0, 0, 0, 0, 0, 0]);
  const first = sha("ropeline-draw-v1", sha(manifest), size(30), secret).toString("hex");
  const second = sha("ropeline-draw-lane-v1", [1], sha(manifest), size(20), secret).toString("hex");
  const drawn = (size, seed) => lane(size === 30 ? "all" : "members", size !== 30, { size, seed });
  const now = snapshot({
    draw: {
      ...{ algorithm: "swap-or-not-sha256", trust: "operator", closes_at: 1_700_000_000_000 },
      ...{ size: 30, seed: first, commitment, secret: secret.toString("hex") },
    },
    lanes: [drawn(30, first), drawn(20, second)],
  });
  assert.equal(room.seedHolds(now, null, "all"), true);
  assert.equal(room.seedHolds(now, null, "members"), true);
  assert.equal(room.seedHolds({ ...now, lanes: [drawn(30, first), drawn(20, first)] }, null, "members"), false);
  const frozen = (n) => {
    const waits = { ...now.draw, seed: null, secret: null };
    return room.witness(null, { ...now, as_of: 0, draw: waits, lanes: [drawn(30), drawn(n)] }, 0);
  };
  assert.equal(room.seedHolds(now, frozen(20), "members"), true);
  assert.equal(room.seedHolds(now, frozen(21), "all"), false, "another lane's number was changed");
  assert.ok(room.placeOf(3, room.lineOf(now, "members")) < 20);
});
