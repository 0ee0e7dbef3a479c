// The room in the browser: fetches, joins, claims, shows. What is to be shown and when to look again is decided in
// state.mjs. After one status (and one join) this page asks for nothing but the public snapshot until it is called.
import { NOBODY, aheadOf, announcement, backOff, compare, countdownWords, joinSpread } from "./state.mjs";
import { failingWords, lineOf, numberWords, placeOf, pollDelay, promiseWords, publicValue } from "./state.mjs";
import { standingOf, takesInvitations, viewOf, witness } from "./state.mjs";
import { findProof, toHex } from "./draw.mjs";

const element = (id) => document.getElementById(id);
const { api, sale, entry, title, texts: textsJson } = element("room").dataset;
const texts = JSON.parse(textsJson);
const language = document.documentElement.lang;
const timeFormat = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

/** @type {import("./state.mjs").Me} */
let me = NOBODY;
/** Whether `me` is what the server last said, and not a guess from before a restart. */
let known = false;
/** @type {import("./state.mjs").Snapshot|null} */
let snapshot = null;
/** Failures in a row, what the last was, and how long the server asked to be left alone. */
let failures = 0;
/** @type {"retrying"|"busy"|"away"} */
let trouble = "retrying";
let retryAfterS = null;
/** What this page saw of the draw before it was made. */
let seen = null;
/** What the visitor asked for by a button, done before anything else. */
let asked = null;
/** On the way to the shop. */
let gone = false;
let joinedHere = false;
/** The invitation that the page's address or its form brought, until it is used or refused; and why it was refused. */
let invitation = new URLSearchParams(location.search).get("invitation");
let uninvited = null;
/** The proof of work that joining takes, its text once found. @type {{text: string|null}|null} */
let proof = null;
/** Was on the way to the shop seconds ago, and is here again. */
let sentBack = false;
/** The same, for as long as this page is here. */
let cameBack = false;

// --- time ---

/** The server's clock minus this page's monotonic one: no snapshot is from the future, so the largest is nearest. */
let clockOffset = -Infinity;
const now = () => performance.now() + clockOffset;

let wake = () => {};
const sleep = (ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => (clearTimeout(timer), resolve());
  });

// --- calls ---

/** The server could not answer now; try again, after as long as it said if it did. */
class Unavailable extends Error {
  constructor(retryAfter, code) {
    super("unavailable");
    this.retryAfterS = retryAfter > 0 ? Number(retryAfter) : null;
    this.trouble = code === "queue_unavailable" ? "away" : "busy";
  }
}

/**
 * @param {string} path under the api
 * @param {object} [body] makes it a POST
 * @returns {Promise<{status: number, body: any}>}
 */
async function call(path, body) {
  const headers = { accept: "application/json", ...(body && { "content-type": "application/json" }) };
  const response = await fetch(api + path, {
    method: body ? "POST" : "GET",
    headers,
    body: body && JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.timeout(10_000),
  });
  const { status } = response;
  if (status === 429 || status >= 500) {
    const problem = await response.json().catch(() => null);
    // What may be computed is not waited for.
    if (problem?.proof) return { status, body: problem };
    throw new Unavailable(response.headers.get("retry-after"), problem?.code);
  }
  return { status, body: status === 204 ? null : await response.json() };
}

/** Runs `work` in one tab at a time, whichever sale's: forty tabs opened at once are one visitor and one ticket each. */
async function alone(work) {
  if (!navigator.locks) return work();
  let began = false;
  const options = { signal: AbortSignal.timeout(15_000) };
  try {
    return await navigator.locks.request("ropeline", options, () => ((began = true), work()));
  } catch (error) {
    // Another tab holds the lock and sleeps: joining is idempotent for a visitor who has a cookie.
    if (began) throw error;
    return work();
  }
}

// --- what the visitor is ---

const adopt = ({ state, recallable, arrival, place, lane = null }) => {
  const serverPlace = place ?? null;
  me = { standing: standingOf({ state, recallable }), arrival: arrival ?? null, serverPlace, problem: null, lane };
};

/** The snapshot as it is for this visitor. */
const line = () => lineOf(snapshot, me.lane);

/**
 * Whether this browser keeps cookies, tried and not asked: `navigator.cookieEnabled` says yes where a setting or an
 * extension blocks them, and a place without a cookie is waited for in vain.
 */
function keepsCookies() {
  const name = `ropeline-probe-${Math.random().toString(36).slice(2)}`;
  try {
    document.cookie = `${name}=1; path=/; samesite=lax`;
    const kept = document.cookie.includes(`${name}=1`);
    document.cookie = `${name}=; path=/; max-age=0; samesite=lax`;
    return kept;
  } catch {
    return false;
  }
}

const joinSpreadPart = Math.random();

/** When joining may be tried; now, unless the sale says later. */
function joinAt() {
  const { phase, joins_open_at } = snapshot;
  if (phase === "closed" || phase === "sold_out") return Infinity;
  if (phase !== "scheduled") return 0;
  return joins_open_at === null ? Infinity : joins_open_at + joinSpread(snapshot) * joinSpreadPart;
}

/** Whether it is time to join: not while a proof is looked for. */
const mayJoin = () => now() >= joinAt() && !snapshot.store_away && proof?.text !== null;

/** Looks for a proof in slices, so that the page can be used meanwhile, and joins when there is one. */
async function prove({ challenge, bits, expires_at }) {
  const mine = (proof = { text: null });
  // A timer would wait for a second or more in a tab that nobody looks at.
  const { port1, port2 } = new MessageChannel();
  for (let nonce = 0; proof === mine && !mine.text; nonce += 1_024) {
    if (now() > expires_at * 1_000) proof = null;
    else mine.text = findProof(challenge, bits, nonce, 1_024);
    await new Promise((resolve) => {
      port1.onmessage = resolve;
      port2.postMessage(null);
    });
  }
  port1.close();
  wake();
}

async function join(again) {
  const shown = { ...(invitation && { invitation }), ...(proof?.text && { proof: proof.text }) };
  const { status, body } = await call("/join", { sale, ...(again && { again }), ...shown });
  // It has done its work, was not needed, or another is asked for.
  proof = null;
  if (status === 200) {
    joinedHere = true;
    // What was shown has done its work; what was refused before may still be read.
    if (invitation) invitation = uninvited = null;
    return adopt(body);
  }
  if (body.proof) {
    me = NOBODY;
    prove(body.proof);
    return;
  }
  if (body.code?.startsWith("invitation_")) {
    uninvited ??= texts.invitation[body.code.slice("invitation_".length)] ?? texts.invitation.invalid;
    // Without it there may still be a place, and whoever has one keeps it.
    if (invitation) {
      invitation = null;
      return me.arrival === null || again ? join(again) : undefined;
    }
    me = { ...NOBODY, standing: "refused", problem: uninvited };
    return;
  }
  const waits = { not_yet_open: "outside", closed: "outside", sold_out: "outside" };
  const standing = { ...waits, lapsed: "lapsed", ended: "lapsed", left: "left" }[body.code] ?? "refused";
  me = { ...NOBODY, standing, problem: body.detail ?? null };
}

/** Asks once who this visitor is, and takes a place for one who has none. */
async function enter() {
  await alone(async () => {
    const { status, body } = await call(`/status?sale=${encodeURIComponent(sale)}`);
    if (status === 200) {
      adopt(body);
      // Status does not know who has claimed: this may be an admission that runs, on the visitor's other device.
      if (me.standing === "lapsed" && !snapshot.store_away) await claim();
      const over = invitation && me.standing === "waiting" && takesInvitations(snapshot, me.lane);
      if (over && !snapshot.store_away) await join(false);
    } else if (status !== 401) {
      throw new Unavailable();
    } else {
      me = NOBODY;
      if (!keepsCookies()) me = { ...me, standing: "blocked" };
      else if (mayJoin()) await join(false);
    }
  });
  known = true;
}

async function claim() {
  const { status, body } = await call("/claim", { sale });
  if (status === 200) {
    // Let in once more, although the last time led back here: once is enough to go by oneself.
    me = { ...me, standing: sentBack ? "stuck" : "admitted" };
    return sentBack ? undefined : go();
  }
  if (status === 401) {
    // The ticket is not what it was: ask anew, unless it was given to this very page, which kept no cookie.
    if (joinedHere) me = { ...me, standing: "blocked" };
    else known = false;
    return;
  }
  const waits = { not_called: "waiting", paused: "waiting", sold_out: "waiting", closed: "waiting" };
  const standing = { ...waits, recall_pending: "recall", left: "left", lapsed: "lapsed", ended: "lapsed" }[body.code];
  if (!standing && status !== 410) throw new Unavailable();
  me = { ...me, standing: standing ?? "lapsed" };
  if (standing === "recall") retryAfterS = body.retry_after_s ?? 5;
}

// --- into the shop ---

const memory = `ropeline-went-${sale}`;

/** Notes that this tab goes to the shop now; false where the browser keeps nothing. */
function remember() {
  try {
    sessionStorage.setItem(memory, String(Date.now()));
    return true;
  } catch {
    return false;
  }
}

/** Whether this tab was on its way to the shop seconds ago, and is here again. */
function returned() {
  try {
    const went = Number(sessionStorage.getItem(memory));
    sessionStorage.removeItem(memory);
    return Math.abs(Date.now() - went) < 20_000;
  } catch {
    return false;
  }
}

/** Once, to where the visitor wanted to go: this very address, or the entry for one who opened the room's own. */
function go(byHand = false) {
  // Without a note nothing would end a loop of room and shop, so then only a button leads on.
  if (!remember() && !byHand) {
    me = { ...me, standing: "blocked" };
    return;
  }
  gone = true;
  // Should the way there be cut off, a button leads on.
  setTimeout(() => setShown("retry", true), 10_000);
  const here = new URL(location.href);
  if (location.pathname === `${api}/sales/${sale}/room`) location.replace(entry);
  else if (here.searchParams.has("invitation")) {
    // It has done its work, and the shop has no use for it.
    here.searchParams.delete("invitation");
    here.hash = "";
    location.replace(here);
  } else if (location.hash) location.reload();
  else location.replace(location.href);
}

// --- the page ---

const setText = (id, text) => {
  const node = element(id);
  if (text !== null && node.textContent !== text) node.textContent = text;
};
const setShown = (id, shown) => (element(id).hidden = !shown);

let spoken = null;
let countdownTo = null;

function show() {
  // One failure alone mends itself before anybody has read of it.
  const failing = failures < 2 ? null : trouble;
  if (!snapshot) {
    setShown("note", failing);
    setText("note", failing && failingWords(failing, me, texts));
    return;
  }
  const place = ownPlace();
  const view = viewOf({ me, snapshot, place, failing, proving: proof !== null }, texts, navigator.languages);
  document.title = `${view.title} · ${title}`;
  element("room").dataset.state = view.state;
  for (const id of ["headline", "detail", "reason", "lane", "place", "ahead", "eta", "note"]) setText(id, view[id]);
  for (const id of ["reason", "note", "rejoin", "retry", "leave", "check", "when", "invited"]) setShown(id, view[id]);
  const refused = view.state === "refused" ? null : uninvited;
  setShown("barrier", refused);
  setText("barrier", refused);
  setShown("lane-box", view.lane);
  element("reason").lang = view.reasonLanguage;
  setShown("figures", view.place);
  setShown("ahead-box", view.ahead);
  setShown("eta-box", view.eta);
  setShown("progress", view.progress);
  Object.assign(element("progress"), view.progress);
  countdownTo = view.when?.at ?? null;
  if (view.when) {
    const at = new Date(view.when.at);
    setText("when-label", view.when.label);
    setText("when-time", timeFormat.format(at));
    element("when-time").dateTime = at.toISOString();
    showCountdown();
  }
  if (view.check) showCheck(place);
  const news = announcement(spoken, view, texts);
  if (news) setText("live", (spoken = news).text);
}

function showCountdown() {
  const left = countdownTo === null ? -1 : countdownTo - now();
  setShown("countdown", left > 0);
  setText("countdown", countdownWords(left));
}

function showCheck(place) {
  const { size, seed, beacon } = line().draw;
  const { arrival, serverPlace } = me;
  const people = (n) => (n === null ? "–" : numberWords(n + 1, texts));
  setText("check-arrival", people(arrival));
  setText("check-size", size ? `1–${numberWords(size, texts)}` : "–");
  setText("check-own", people(place));
  setText("check-server", people(serverPlace));
  setText("check-seed", seed);
  const { late, agree, differ } = texts.check;
  const value = publicValue(snapshot);
  for (const id of ["check-round-box", "check-value-box", "check-beacon"]) setShown(id, value);
  if (value) {
    setText("check-round", numberWords(beacon.round, texts));
    setText("check-value", toHex(value));
    element("check-beacon").firstElementChild.href = `https://api.drand.sh/${beacon.chain}/public/${beacon.round}`;
  }
  setText("check-promise", element("check").open ? promiseWords(snapshot, seen, texts, me.lane) : "");
  setText("check-verdict", arrival >= size ? late : serverPlace === null ? "" : serverPlace === place ? agree : differ);
}

let placeKey;
let placeValue = null;

/** The place computed by this browser: once for each draw and ticket. */
function ownPlace() {
  const { draw } = line();
  const key = JSON.stringify([me.lane, me.arrival, draw?.size, draw?.seed]);
  if (key !== placeKey) [placeKey, placeValue] = [key, placeOf(me.arrival, line())];
  return placeValue;
}

// --- the loop ---

async function look() {
  const { status, body } = await call(`/sales/${encodeURIComponent(sale)}/snapshot`);
  if (status !== 200) throw new Unavailable();
  clockOffset = Math.max(clockOffset, body.as_of - performance.now());
  const relation = compare(snapshot, body);
  if (relation === "stale") return;
  if (relation === "restart") known = false;
  snapshot = body;
  seen = witness(seen, snapshot, Date.now());
  if (!known) await enter();
  else if (me.standing === "outside" && mayJoin()) await alone(() => join(false));

  const over = snapshot.phase === "closed" || snapshot.phase === "sold_out";
  const place = ownPlace();
  const reached = me.standing === "waiting" && place !== null && place < line().serving;
  if (reached && !over) me = { ...me, standing: "called" };
  if (gone) return;
  if (snapshot.store_away) return meanwhile(over);
  if (me.standing === "admitted" || (!over && ["called", "recall"].includes(me.standing))) await claim();
  sentBack = false;
}

/** While the queue's store is away nobody is called or let in by it; some sales let everybody in meanwhile. */
function meanwhile(over) {
  const inWay = ["blocked", "stuck", "refused", "left"].includes(me.standing);
  // Who was led back here is not sent again and again.
  if (snapshot.store_away.open && !over && !inWay && !cameBack) {
    me = { ...me, standing: "admitted" };
    go();
  }
}

function delay() {
  if (failures) return backOff(failures, retryAfterS, Math.random());
  if (retryAfterS) return retryAfterS * 1_000 * (1 + Math.random() / 4);
  if (!snapshot || proof?.text) return 0;
  const place = ownPlace();
  const idle = !["outside", "waiting", "called", "recall"].includes(me.standing);
  const ahead = idle ? Infinity : place === null ? null : aheadOf(place, line());
  const poll = pollDelay(line(), ahead, now(), Math.random());
  return me.standing === "outside" ? Math.max(1_000, Math.min(poll, joinAt() - now())) : poll;
}

let lastLook = -Infinity;

async function run() {
  while (!gone) {
    lastLook = performance.now();
    const task = asked ?? look;
    retryAfterS = null;
    try {
      await task();
      failures = 0;
      if (asked === task) asked = null;
    } catch (error) {
      trouble = error.trouble ?? "retrying";
      if (!error.trouble) console.warn(error);
      failures++;
      retryAfterS = error.retryAfterS ?? null;
    }
    // What cannot be shown is no reason to stop looking: a visitor is called all the same.
    try {
      show();
    } catch (error) {
      console.warn(error);
    }
    // What a button asked for is followed by a look at once; when it failed, it is tried again after a while.
    const next = failures ? task !== look || !asked : task === look && !asked;
    if (!gone && next) await sleep(delay());
  }
}

/** Looks at once, but not more often than every two seconds. */
const hurry = () => performance.now() - lastLook > 2_000 && wake();

/** Does what a button asked for, and puts the reader where the answer appears. */
function onAsk(target, event, work) {
  target.addEventListener(event, (e) => {
    e.preventDefault();
    asked = work;
    element("headline").tabIndex = -1;
    element("headline").focus();
    if (gone) {
      gone = false;
      run();
    }
    wake();
  });
}

onAsk(element("rejoin"), "submit", () => alone(() => join(true)));
onAsk(element("leave").querySelector("form"), "submit", async () => {
  const { status } = await call("/leave", { sale });
  if (status !== 204 && status !== 401) throw new Unavailable();
  element("leave").open = false;
  me = { ...NOBODY, standing: "left" };
});
onAsk(element("invited").querySelector("form"), "submit", () =>
  alone(async () => {
    invitation = element("invitation").value.trim() || null;
    uninvited = null;
    await join(false);
    element("invited").open = false;
  }),
);
onAsk(element("retry"), "click", async () => {
  if (["admitted", "blocked", "stuck"].includes(me.standing)) {
    const { status } = await call("/claim", { sale });
    if (status === 200) return go(true);
  }
  // Anything else is found out from the beginning.
  joinedHere = known = false;
});
element("check").addEventListener("toggle", async () => {
  if (!element("check").open) return;
  show();
  if (me.serverPlace !== null) return;
  const { body } = await call(`/status?sale=${encodeURIComponent(sale)}`).catch(() => ({ body: {} }));
  me = { ...me, serverPlace: body?.place ?? null };
  show();
});
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && hurry());
addEventListener("online", hurry);
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  cameBack = sentBack = returned();
  known = false;
  if (gone) {
    gone = false;
    run();
  }
  wake();
});
setInterval(showCountdown, 1_000);
// What the page offers without a script, this script does by itself.
for (const form of document.querySelectorAll(".fallback")) form.hidden = true;
cameBack = sentBack = returned();
run();
