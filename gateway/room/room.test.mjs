import assert from "node:assert/strict";
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
    },
    location: { search: "" },
    sessionStorage: { getItem: () => null, setItem() {}, removeItem() {} },
    addEventListener() {},
  });
  Object.defineProperty(globalThis, "navigator", { value: { cookieEnabled: true, languages: ["en"] } });
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
