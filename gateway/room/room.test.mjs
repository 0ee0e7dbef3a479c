import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { textsOf } from "./testdata/texts.mjs";

const texts = textsOf(readFileSync(new URL("./texts/en.toml", import.meta.url), "utf8"));

/** As much of an element as the page's script touches. */
class Element {
  dataset = {};
  addEventListener() {}
  querySelector = () => new Element();
}

/** The page that the script finds itself in; returns its elements. */
function page() {
  const elements = new Map();
  const element = (id) => elements.get(id) ?? elements.set(id, new Element()).get(id);
  element("room").dataset = { api: "/q", sale: "demo", entry: "/", title: "Demo", texts: JSON.stringify(texts) };
  Object.assign(globalThis, {
    document: {
      documentElement: { lang: "en" },
      getElementById: element,
      querySelectorAll: () => [],
      addEventListener() {},
      cookie: "",
    },
    location: { search: "" },
    sessionStorage: { getItem: () => null, setItem() {}, removeItem() {} },
    addEventListener() {},
  });
  Object.defineProperty(globalThis, "navigator", {
    value: { cookieEnabled: true, languages: ["en"] },
    configurable: true,
  });
  return element;
}

test("a page that cannot show what it was told goes on looking", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  t.mock.method(console, "warn", () => {});
  const element = page();
  // No date can be made of the opening: showing it throws.
  const snapshot = {
    ...{ sale: "demo", epoch: 0, phase: "pre_queue", serving: 0, rate: null, cadence_ms: 5_000, draw: null },
    ...{ joins_open_at: null, opens_at: 1e18, stock: null, paused_reason: null, as_of: 1_000, poll_after_ms: 2_000 },
  };
  const answers = {
    "/q/sales/demo/snapshot": () => [200, snapshot],
    "/q/status?sale=demo": () => [200, { state: "waiting", arrival: 5, place: 5 }],
  };
  let looks = 0;
  globalThis.fetch = async (path) => {
    looks += path.endsWith("/snapshot");
    const [status, body] = answers[path]();
    return new Response(JSON.stringify(body), { status });
  };
  const pass = async () => {
    t.mock.timers.tick(2_000);
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  };
  await import("./room.mjs");
  await pass();
  await pass();
  assert.ok(looks >= 2, `${looks} looks`);
  assert.equal(console.warn.mock.calls[0].arguments[0].name, "RangeError");
  Object.assign(snapshot, { phase: "open", opens_at: null });
  await pass();
  assert.equal(element("headline").textContent, texts.state.waiting.headline);

  // The queue's store goes away, with this visitor called meanwhile: nothing is asked of it until it is back.
  const asked = [];
  answers["/q/claim"] = () => (asked.push("claim"), [503, { code: "queue_unavailable" }]);
  Object.assign(snapshot, { serving: 6, store_away: { open: false } });
  await pass();
  assert.deepEqual(asked, []);
  assert.equal(element("note").textContent, texts.note.away);
  snapshot.store_away = undefined;
  await pass();
  await pass();
  assert.deepEqual(asked.slice(0, 1), ["claim"]);

  // Meanwhile the sale lets everybody in: the page goes to where its visitor wanted to go, once.
  const went = [];
  globalThis.location = { pathname: "/sale", hash: "", href: "http://shop/sale", replace: (to) => went.push(to) };
  snapshot.store_away = { open: true };
  for (let turn = 0; turn < 20 && !went.length; turn++) await pass();
  await pass();
  assert.deepEqual(went, ["http://shop/sale"]);
  assert.equal(element("headline").textContent, texts.state.admitted.headline);
});

test("a proof that joining takes is computed, said once, and shown", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const element = page();
  // Cookies are kept: what is written is read.
  const kept = [];
  Object.defineProperty(document, "cookie", { get: () => kept.join("; "), set: (cookie) => kept.push(cookie) });
  const snapshot = {
    ...{ sale: "demo", epoch: 0, phase: "open", serving: 0, rate: null, rate_below: null, cadence_ms: 5_000, draw: null },
    ...{ joins_open_at: null, opens_at: null, stock: null, paused_reason: null, as_of: 1_000, poll_after_ms: 60_000 },
  };
  const challenge = (n) => `${n}`.repeat(36);
  const asked = (n, expires_at) => {
    const proof = { algorithm: "sha256", challenge: challenge(n), bits: 12, expires_at };
    return [429, { code: "proof_required", detail: "", proof }];
  };
  const shown = [];
  globalThis.fetch = async (path, { body }) => {
    if (path.endsWith("/snapshot")) return Response.json(snapshot);
    if (path.startsWith("/q/status")) return Response.json({}, { status: 401 });
    const { proof } = JSON.parse(body);
    shown.push(proof);
    // The first challenge is over before it can be solved, the second was too easy, the third is good.
    const [status, document] = [asked(1, 0), asked(2, 1_000), asked(3, 1_000)][shown.length - 1] ?? [
      200,
      { state: "waiting", arrival: 7, place: 7 },
    ];
    return Response.json(document, { status });
  };
  const said = [];
  let live = "";
  Object.defineProperty(element("live"), "textContent", { get: () => live, set: (text) => said.push((live = text)) });
  await import("./room.mjs?proof");
  const joined = () => element("place").textContent === "8";
  for (let turn = 0; turn < 5_000 && !joined(); turn++) {
    t.mock.timers.tick(100);
    for (let step = 0; step < 10; step++) await new Promise(setImmediate);
  }
  assert.ok(joined(), JSON.stringify(shown));
  assert.deepEqual(shown.map((proof) => proof?.split(".")[0]), [undefined, undefined, challenge(2), challenge(3)]);
  for (const proof of shown.slice(2)) {
    assert.match(createHash("sha256").update(proof).digest("hex"), /^000/, proof);
  }
  assert.equal(said.filter((text) => text.includes(texts.note.proving)).length, 1, said.join("|"));
  assert.ok(!element("note").textContent?.includes(texts.note.proving) || element("note").hidden);
});
