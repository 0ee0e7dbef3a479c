// What the room knows, decides and says: pure functions of what was fetched. Times are Unix milliseconds on the
// server's clock unless a name says otherwise. Places count from 0 inside and from 1 on the page.
import { DRAW_ROUNDS, drawSeed, fromHex, sha256, shuffledIndex, toHex } from "./draw.mjs";

/**
 * The public document that says where the queue stands.
 * @typedef {object} Snapshot
 * @property {string} sale
 * @property {number} epoch
 * @property {"scheduled"|"pre_queue"|"drawing"|"open"|"paused"|"closed"|"sold_out"} phase
 * @property {number} serving all places below it have been called
 * @property {{low: number, high: number}|null} rate visitors called per minute, as a range
 * @property {number|null} rate_below the rate holds for so many places, counted with those below `serving`; null: for all
 * @property {{start: number, end: number}[]} [vacant] places not yet called that nobody holds: they are not ahead of anybody
 * @property {number} cadence_ms time between one call and the next at full pace
 * @property {Draw|null} draw
 * @property {number|null} joins_open_at
 * @property {number|null} opens_at
 * @property {{available: number, held: number|null}|null} stock
 * @property {{text: string, translations: Object<string, string>}|null} paused_reason
 * @property {{open: boolean}} [store_away] the queue's store cannot be reached: all of this was true at `as_of`, and nobody
 *   joins or goes in; or, if open, everybody goes in
 * @property {number} [losses] how often the store has lost something
 * @property {number} as_of
 * @property {number} poll_after_ms an upper bound
 * @property {Lane[]} [lanes] where the sale has lanes; the figures above are then the first's
 */

/**
 * A lane: its own order, with numbers and places from 0 on.
 * @typedef {object} Lane
 * @property {string} name
 * @property {string} title what visitors read
 * @property {number} share percent of the calls while somebody waits in it
 * @property {boolean} invitation whether it takes one to join
 * @property {number} serving
 * @property {{low: number, high: number}|null} rate
 * @property {number|null} rate_below
 * @property {{start: number, end: number}[]} [vacant]
 * @property {number} cadence_ms
 * @property {number} [size]
 * @property {string} [seed]
 */

/**
 * @typedef {object} Draw
 * @property {string} algorithm
 * @property {"operator"|"beacon"} trust who has to be trusted
 * @property {number} closes_at
 * @property {number|null} size
 * @property {string|null} seed
 * @property {string} [commitment] SHA-256 of the secret, where one is or may be drawn with
 * @property {string|null} secret once drawn with
 * @property {Beacon} [beacon] what it rests on, if not on a secret alone
 * @property {{at: number, reason: string}} [fallback] the operator drew by the secret, because the round was overdue
 */

/**
 * A round of a public beacon.
 * @typedef {object} Beacon
 * @property {string} chain
 * @property {number} round
 * @property {number} due_at when it comes
 * @property {boolean} late the draw waits for it, and it is overdue
 * @property {number|null} frozen_at when the number of those in the draw was fixed
 * @property {string|null} signature what the beacon published for it, once drawn with
 */

/**
 * What this page saw of a draw before anybody could know how it would come out.
 * @typedef {object} Seen
 * @property {string} manifest
 * @property {number|null} size
 * @property {string|null} [lanes] the sizes of all lanes, once fixed
 */

/**
 * How this visitor stands. `blocked` (the browser keeps no cookies) and `refused` are known to the script alone.
 * @typedef {"outside"|"waiting"|"called"|"admitted"|"recall"|"lapsed"|"left"|"blocked"|"stuck"|"refused"} Standing
 */

/**
 * @typedef {object} Me
 * @property {Standing} standing
 * @property {number|null} arrival
 * @property {number|null} serverPlace the place as the server told it, for comparison
 * @property {string|null} problem what the server said when it refused
 * @property {string|null} lane its name, where the sale has lanes and the visitor a ticket
 */

/** @type {Me} */
export const NOBODY = { standing: "outside", arrival: null, serverPlace: null, problem: null, lane: null };

/**
 * Which of the texts' states is shown. The gateway decides by the same table.
 * @param {Snapshot["phase"]} phase
 * @param {boolean} draw whether the sale has a draw
 * @param {Standing} standing
 * @returns {string}
 */
export function stateOf(phase, draw, standing) {
  if (["admitted", "blocked", "stuck"].includes(standing)) return standing;
  if (phase === "sold_out" || phase === "closed") return phase;
  if (standing === "outside") return phase === "scheduled" ? "scheduled" : "joining";
  if (standing !== "waiting") return standing;
  if (phase === "scheduled" || phase === "pre_queue") return draw ? "in_draw" : "pre_queue";
  return phase === "open" ? "waiting" : phase;
}

/**
 * The standing in an answer to join or status.
 * @param {{state: string, recallable?: boolean}} answer
 * @returns {Standing}
 */
export function standingOf({ state, recallable }) {
  if (state === "called" || state === "admitted" || state === "left") return state;
  if (state === "lapsed") return recallable ? "recall" : "lapsed";
  return "waiting";
}

/** @param {Snapshot} snapshot @param {string|null} lane */
export const laneIndex = ({ lanes }, lane) => Math.max(0, lanes?.findIndex(({ name }) => name === lane) ?? 0);

/**
 * The snapshot as it is for those in a lane.
 * @param {Snapshot} snapshot
 * @param {string|null} lane
 * @returns {Snapshot}
 */
export function lineOf(snapshot, lane) {
  const found = snapshot.lanes?.[laneIndex(snapshot, lane)];
  if (!found) return snapshot;
  const { serving, rate, rate_below, vacant, cadence_ms, size = null, seed = null } = found;
  const draw = snapshot.draw && { ...snapshot.draw, size, seed };
  return { ...snapshot, serving, rate, rate_below, vacant, cadence_ms, draw };
}

/** Whether somebody in this lane, or in none, may have a use for an invitation. */
export const takesInvitations = ({ lanes }, lane) =>
  Boolean(lanes?.some(({ invitation }) => invitation) && !lanes.find(({ name }) => name === lane)?.invitation);

/**
 * Where an arrival stands, computed here; null until the draw is made.
 * @param {number|null} arrival
 * @param {Snapshot} snapshot
 * @returns {number|null}
 */
export function placeOf(arrival, { draw }) {
  if (arrival === null) return null;
  if (!draw) return arrival;
  if (draw.size === null) return null;
  if (arrival >= draw.size) return arrival;
  return draw.seed ? shuffledIndex(arrival, draw.size, fromHex(draw.seed)) : null;
}

/**
 * How many are called before a place, as the gateway counts them.
 * @param {number} place
 * @param {Snapshot} snapshot
 * @returns {number}
 */
export function aheadOf(place, { serving, vacant = [] }) {
  const before = vacant.map(({ start, end }) => Math.max(0, Math.min(end, place) - start));
  return Math.max(0, place - serving - before.reduce((sum, places) => sum + places, 0));
}

/**
 * The promise that was signed and published before joining opened, byte by byte.
 * @param {Snapshot} snapshot
 * @returns {string}
 */
export function manifestOf({ sale, lanes, draw: { algorithm, beacon, closes_at, commitment } }) {
  const promise = { algorithm };
  if (beacon) promise.beacon = { chain: beacon.chain, round: beacon.round };
  promise.closes_at = closes_at;
  if (commitment) promise.commitment = commitment;
  if (lanes) promise.lanes = lanes.map(({ invitation, name, share }) => ({ invitation, name, share }));
  return JSON.stringify({ ...promise, rounds: DRAW_ROUNDS, sale, trust: beacon ? "beacon" : "operator" });
}

/**
 * Takes what a snapshot says of the draw for something seen beforehand, if it was. Both clocks must say so: the shop's is
 * the shop's word, and this device's may be wrong.
 * @param {Seen|null} seen
 * @param {Snapshot} snapshot
 * @param {number} clock this device's own time
 * @returns {Seen|null}
 */
export function witness(seen, snapshot, clock) {
  const { draw, as_of } = snapshot;
  if (!draw || draw.seed || Math.max(as_of, clock) >= (draw.beacon?.due_at ?? Infinity)) return seen;
  const sizes = { size: seen?.size ?? draw.size, ...(snapshot.lanes && { lanes: seen?.lanes ?? lanesSizes(snapshot) }) };
  return { manifest: seen?.manifest ?? manifestOf(snapshot), ...sizes };
}

/** How many are drawn in each lane, once that is fixed. */
const lanesSizes = ({ draw, lanes }) =>
  lanes && draw.size !== null ? JSON.stringify(lanes.map(({ size }) => size)) : null;

/**
 * The public value of the round that was drawn with, as the shop gave it; null where none was.
 * @param {Snapshot} snapshot
 */
export const publicValue = ({ draw }) => (draw?.beacon?.signature ? sha256(fromHex(draw.beacon.signature)) : null);

/**
 * Whether the seed follows from what was promised, and the promise is the one this page saw beforehand; null until there
 * is something to draw with.
 * @param {Snapshot} snapshot
 * @param {Seen|null} seen
 * @param {string|null} lane whose seed it is about
 * @returns {boolean|null}
 */
export function seedHolds(snapshot, seen, lane = null) {
  const { commitment, secret } = snapshot.draw;
  const { size, seed } = lineOf(snapshot, lane).draw;
  const manifest = manifestOf(snapshot);
  const random = publicValue(snapshot) ?? (secret ? fromHex(secret) : null);
  if (!random) return null;
  const kept = secret ? toHex(sha256(random)) === commitment : true;
  const sizes = (seen?.size ?? snapshot.draw.size) === snapshot.draw.size;
  const lanes = (seen?.lanes ?? lanesSizes(snapshot)) === lanesSizes(snapshot);
  const unchanged = (seen?.manifest ?? manifest) === manifest && sizes && lanes;
  return kept && unchanged && toHex(drawSeed(manifest, size, random, laneIndex(snapshot, lane))) === seed;
}

/**
 * What this page found out about the draw by itself, and what it could not.
 * @param {Snapshot} snapshot
 * @param {Seen|null} seen
 * @param {object} texts
 * @param {string|null} lane the visitor's
 * @returns {string}
 */
export function promiseWords(snapshot, seen, { check }, lane = null) {
  const holds = seedHolds(snapshot, seen, lane);
  if (holds === null) return "";
  const { beacon, fallback } = snapshot.draw;
  if (!beacon) return holds ? check.committed : check.broken;
  if (!holds) return check.public_broken;
  if (fallback) return fill(check.fallback, { reason: fallback.reason });
  if (beacon.frozen_at >= beacon.due_at) return `${check.public} ${check.frozen_late}`;
  return `${check.public} ${seen && seen.size !== null ? check.seen : check.unseen}`;
}

/**
 * What a newly fetched snapshot is to the last one: its successor, an older one out of some cache, or the sign of a
 * restart, after which nothing known here may be relied on.
 * @param {Snapshot|null} last
 * @param {Snapshot} next
 * @returns {"next"|"stale"|"restart"}
 */
export function compare(last, next) {
  if (!last) return "next";
  const age = last.as_of - next.as_of;
  if (age > 0 && age < 10_000) return "stale";
  const redrawn = last.draw?.seed && (last.draw.seed !== next.draw?.seed || last.draw.size !== next.draw?.size);
  const lost = (next.losses ?? 0) !== (last.losses ?? 0);
  return next.epoch !== last.epoch || next.serving < last.serving || redrawn || lost ? "restart" : "next";
}

/**
 * Nothing is free, but some of what is held may come back.
 * @param {Snapshot} snapshot
 */
export const allHeld = ({ stock }) => stock !== null && stock.available === 0 && (stock.held ?? 0) > 0;

/**
 * The expected wait in seconds, or null where it is not known: no rate yet, or a queue that stands still. The gateway
 * computes the same, in whole thousandths of a place.
 * @param {number|null} ahead
 * @param {Snapshot} snapshot
 * @returns {{low_s: number, high_s: number}|null}
 */
export function etaOf(ahead, snapshot) {
  const { phase, serving, rate, rate_below, cadence_ms } = snapshot;
  if (ahead === null || phase !== "open" || snapshot.store_away || !rate || !(rate.low > 0) || allHeld(snapshot)) return null;
  if (rate_below !== null && serving + ahead >= rate_below) return null;
  const seconds = (places, perMinute) => (places * 60_000) / Math.round(perMinute * 1_000);
  return {
    low_s: Math.floor(seconds(ahead, rate.high)),
    high_s: Math.ceil(seconds(ahead + 1, rate.low)) + Math.ceil(cadence_ms / 1_000),
  };
}

const between = (low, x, high) => Math.min(Math.max(x, low), high);

/**
 * Milliseconds until the next look at the snapshot: a tenth of the wait, between 2 and 60 seconds, never more than the
 * snapshot allows, and up to a quarter less by chance so that a crowd spreads out.
 * @param {Snapshot} snapshot
 * @param {number|null} ahead
 * @param {number} now
 * @param {number} random from 0 to 1
 * @returns {number}
 */
export function pollDelay(snapshot, ahead, now, random) {
  const { phase, joins_open_at, opens_at, draw, poll_after_ms = 60_000 } = snapshot;
  let delay;
  if (phase === "open") {
    // What is only expected is no reason to look away for long.
    const eta = (snapshot.rate_below ?? null) === null ? etaOf(ahead, snapshot) : null;
    // While the pace is not known: as if ten a second went in.
    delay = between(2_000, eta ? eta.low_s * 100 : (ahead ?? 500) * 10, 60_000);
  } else if (phase === "scheduled" || phase === "pre_queue") {
    const times = phase === "scheduled" ? [joins_open_at] : [draw?.closes_at, opens_at];
    const next = Math.min(...times.filter((t) => t > now));
    const overdue = times.some((t) => t && t <= now);
    delay = overdue && next === Infinity ? 3_000 : between(5_000, (next - now) / 10, 60_000);
  } else {
    delay = { drawing: 3_000, paused: 15_000 }[phase] ?? 60_000;
  }
  // Somebody who waits for the store to come back looks more often than far from it.
  if (snapshot.store_away) delay = Math.min(delay, 10_000);
  return Math.min(delay, Math.max(poll_after_ms, 1_000)) * (1 - random / 4);
}

/**
 * Milliseconds over which joining is spread when it opens: wider where a draw makes coming first no advantage.
 * @param {Snapshot} snapshot
 */
export function joinSpread({ draw, joins_open_at }) {
  return draw ? between(0, (draw.closes_at - (joins_open_at ?? draw.closes_at)) / 4, 10_000) : 2_000;
}

/**
 * Milliseconds to wait after so many failures in a row, or as long as the server asked for, each a little different.
 * @param {number} failures 1 and up
 * @param {number|null} retryAfterS
 * @param {number} random from 0 to 1
 */
export function backOff(failures, retryAfterS, random) {
  const delay = retryAfterS ? retryAfterS * 1_000 : Math.min(1_000 * 2 ** failures, 60_000) * 0.5;
  return delay * (1 + random);
}

// --- words ---

/**
 * Puts values in the place of `{name}`.
 * @param {string} text
 * @param {Object<string, string|number>} values
 */
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => String(values[name] ?? all));

/**
 * @param {number} n
 * @param {object} texts
 */
export const numberWords = (n, texts) => String(n).replace(/\B(?=(\d{3})+$)/g, texts.number.group);

/** How coarsely so many minutes are told. */
const step = (minutes) => (minutes <= 10 ? 1 : minutes <= 60 ? 5 : minutes <= 180 ? 15 : 60);

/**
 * A wait in words: rounded outwards, coarser the longer it is, and never more exact than it is known.
 * @param {{low_s: number, high_s: number}|null} eta
 * @param {object} texts
 */
export function etaWords(eta, { eta: words }) {
  if (!eta) return words.unknown;
  const highMinutes = Math.ceil(Math.max(eta.low_s, eta.high_s) / 60);
  if (highMinutes <= 1) return words.under_minute;
  const high = Math.ceil(highMinutes / step(highMinutes)) * step(highMinutes);
  const lowMinutes = Math.floor(eta.low_s / 60);
  const low = Math.floor(lowMinutes / step(lowMinutes)) * step(lowMinutes);
  const duration = (minutes) => {
    const [h, m] = [Math.floor(minutes / 60), minutes % 60];
    if (!h) return fill(words.minutes, { n: m });
    return m ? fill(words.hours_minutes, { h, m }) : fill(words.hours, { h });
  };
  if (low === 0) return fill(words.up_to, { high: duration(high) });
  if (low === high) return fill(words.about, { high: duration(high) });
  return fill(words.between, { low: high < 60 ? low : duration(low), high: duration(high) });
}

/**
 * Time left, as 3:07, 1:02:03 or 2 d 01:02:03.
 * @param {number} ms
 */
export function countdownWords(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(s / 86_400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (days) return `${days} d ${two(hours)}:${two(minutes)}:${two(s % 60)}`;
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

/**
 * The operator's reason in the first of the visitor's languages that it was given in, with that language; else as it was
 * given, in whatever language that is.
 * @param {Snapshot} snapshot
 * @param {readonly string[]} languages as in `navigator.languages`
 * @returns {{text: string, language: string}|null}
 */
export function reasonWords({ phase, paused_reason }, languages) {
  if (phase !== "paused" || !paused_reason) return null;
  const translations = paused_reason.translations ?? {};
  const tags = languages.flatMap((tag) => [tag, tag.split("-")[0]]);
  const tag = tags.find((tag) => tag in translations);
  const text = tag ? translations[tag] : paused_reason.text;
  return text ? { text, language: tag ?? "" } : null;
}

/**
 * Whether the server is out of reach, asks to be left alone for a while, or cannot reach the queue's store.
 * @typedef {"retrying"|"busy"|"away"|null} Failing
 */

/** @param {Failing} failing @param {Me} me @param {object} texts */
export const failingWords = (failing, me, { note }) => note[me.arrival === null ? `${failing}_outside` : failing];

/**
 * All that the page shows.
 * @typedef {object} View
 * @property {string} state
 * @property {string} title
 * @property {string} headline
 * @property {string} detail
 * @property {string|null} reason
 * @property {string} reasonLanguage its tag, or empty where it is not known
 * @property {{label: string, at: number}|null} when
 * @property {string|null} place
 * @property {string|null} ahead
 * @property {string|null} eta
 * @property {{max: number, value: number}|null} progress
 * @property {string|null} note
 * @property {number} aheadCount what the live region measures its steps by
 * @property {boolean} rejoin
 * @property {boolean} retry
 * @property {boolean} leave
 * @property {boolean} check
 * @property {string|null} lane
 * @property {boolean} invited
 */

/**
 * @param {{me: Me, snapshot: Snapshot, place: number|null, failing: Failing, proving?: boolean}} model
 * @param {object} texts
 * @param {readonly string[]} languages
 * @returns {View}
 */
export function viewOf({ me, snapshot: sale, place, failing, proving = false }, texts, languages) {
  const { label, note } = texts;
  const snapshot = lineOf(sale, me.lane);
  const state = stateOf(snapshot.phase, snapshot.draw !== null, me.standing);
  const words = texts.state[state];
  const moving = state === "waiting" || state === "paused";
  const reason = reasonWords(snapshot, languages);
  const numbered = place !== null && (moving || state === "pre_queue");
  const ahead = numbered ? aheadOf(place, snapshot) : 0;
  const [whenLabel, at] = {
    scheduled: [label.joins_open, snapshot.joins_open_at],
    in_draw: [label.draw, snapshot.draw?.closes_at],
    pre_queue: [label.opens, snapshot.opens_at],
    drawing: [label.beacon, snapshot.draw?.beacon?.due_at],
  }[state] ?? [];
  return {
    state,
    title: words.title,
    headline: words.headline,
    detail: (state === "refused" && me.problem) || words.detail,
    reason: reason?.text ?? null,
    reasonLanguage: reason?.language ?? "",
    when: at ? { label: whenLabel, at } : null,
    place: numbered ? numberWords(place + 1, texts) : null,
    ahead: numbered && moving ? numberWords(ahead, texts) : null,
    eta: numbered && moving ? etaWords(etaOf(ahead, snapshot), texts) : null,
    progress: numbered && moving && place > 0 ? { max: place, value: place - ahead } : null,
    note: failing ? failingWords(failing, me, texts) : noteOf(state, snapshot, me, proving, texts),
    aheadCount: ahead,
    rejoin: state === "lapsed" || state === "left",
    retry: ["blocked", "stuck", "refused"].includes(state),
    leave: ["pre_queue", "in_draw", "drawing", "waiting", "paused", "recall"].includes(state),
    check: moving && Boolean(snapshot.draw?.seed) && me.arrival !== null,
    lane: sale.lanes?.find(({ name }) => name === me.lane)?.title ?? null,
    invited: INVITES.includes(state) && takesInvitations(sale, me.lane),
  };
}

/** Where an invitation may still be shown. */
const INVITES = ["joining", "refused", "pre_queue", "in_draw", "waiting", "paused"];

function noteOf(state, snapshot, me, proving, texts) {
  const { note } = texts;
  const over = ["admitted", "sold_out", "closed", "blocked", "stuck", "refused"].includes(state);
  if (snapshot.store_away && !over) return failingWords("away", me, texts);
  if (state === "joining" && proving) return note.proving;
  if (state === "waiting" && allHeld(snapshot)) return note.held;
  const beacon = state === "drawing" ? snapshot.draw?.beacon : null;
  return beacon ? (beacon.late ? note.beacon_late : note.beacon) : null;
}

/**
 * What the live region says, or null when there is nothing new. Figures alone are spoken each time the number ahead
 * has halved: a dozen times in a queue of thousands.
 * @param {{key: string, ahead: number}|null} spoken what was said last
 * @param {View} view
 * @param {object} texts
 * @returns {{key: string, ahead: number, text: string}|null}
 */
export function announcement(spoken, view, texts) {
  const figures = view.ahead === null ? null : fill(texts.live.progress, { ahead: view.ahead, eta: view.eta });
  const key = JSON.stringify([view.state, view.reason, view.note]);
  const ahead = view.aheadCount;
  if (key !== spoken?.key) {
    const parts = [`${view.headline}.`, view.reason, view.note, figures];
    return { key, ahead, text: parts.filter(Boolean).join(" ") };
  }
  return figures && ahead * 2 <= spoken.ahead && ahead < spoken.ahead ? { key, ahead, text: figures } : null;
}
