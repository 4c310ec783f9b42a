// The state: the present, the last hour, and the moment that is shown.

import { $, MOST_CHANGES, TABLES, UNATTACHED, UNPLACED } from "./words.js";
import { draw } from "./frame.js";

export const state = {
  tables: Object.fromEntries(TABLES.map((table) => [table, new Map()])), // as shown
  version: 0, epoch: "", facts: {}, skew: 0, alone: false, lives: {},
  history: [], // [at, changes], each change [table, key, before, after]
  position: 0, // how many of the history's batches are applied: all of them at present
  past: false,
  stuckOf: new Map(), // "table key" -> [about, row], the first that is about it
};
export const groups = new Map(); // node or pseudo-node -> { volumes: Set, pods: Set, order: null | { volumes: [], pods: [] } }
export const searchText = new Map(); // "table key" -> lower-case text

export const now = () => (state.alone ? state.facts.now : Date.now() + state.skew);
export const shownTime = () => (state.past ? state.at : now());

export function group(name) {
  let found = groups.get(name);
  if (!found) groups.set(name, (found = { volumes: new Set(), pods: new Set(), order: null }));
  return found;
}
export function placesOf(table, row) {
  if (table === "volumes") {
    const nodes = new Set((row.on || []).map((place) => place.node));
    for (const node of Object.keys(row.true || {})) nodes.add(node);
    return nodes.size ? [...nodes] : [UNATTACHED];
  }
  return [row.node || UNPLACED];
}
function place(table, key, before, after) {
  const old = before ? placesOf(table, before) : [], fresh = after ? placesOf(table, after) : [];
  if (old.length === fresh.length && old.every((name, index) => name === fresh[index])) {
    if (table === "pods" && String(before.volumes) !== String(after.volumes)) regroup(old[0]);
    if (table === "volumes" && before.claim !== after.claim) old.forEach(regroup);
    return;
  }
  marked.list = true;
  for (const name of old) if (!fresh.includes(name)) { group(name)[table].delete(key); group(name).order = null; }
  for (const name of fresh) if (!old.includes(name)) { group(name)[table].add(key); group(name).order = null; }
  for (const name of old) {
    const held = groups.get(name);
    if (held && !held.volumes.size && !held.pods.size) groups.delete(name);
  }
}
function regroup(name) { const held = groups.get(name); if (held) held.order = null; marked.list = true; }
// How many rows of each phase there are, and how many differ from what is true.
export const counts = { nodes: new Map(), volumes: new Map(), pods: new Map() };
export let differing = 0;
function count(table, row, by) {
  if (!row || table === "stuck") return;
  const phase = table === "pods" ? row.tone : row.phase, number = (counts[table].get(phase) || 0) + by;
  if (number) counts[table].set(phase, number); else counts[table].delete(phase);
  if (row.differs) differing += by;
}
// The one way in which a row changes, forward or back.
function put(table, key, after) {
  const rows = state.tables[table];
  if (!rows) return;
  const before = rows.get(key);
  if (after) rows.set(key, after); else rows.delete(key);
  searchText.delete(`${table} ${key}`);
  if (table === "volumes" || table === "pods") place(table, key, before, after);
  if (table === "stuck") marked.stuck = true;
  else if (!before || !after || before.phase !== after.phase || before.tone !== after.tone || before.differs !== after.differs) {
    count(table, before, -1);
    count(table, after, 1);
    marked.counts = true;
  }
  if (table === "nodes" && !before !== !after) marked.list = true;
  if (table === "volumes" && !before !== !after) for (const pod of (after || before).pods || []) regroup(state.tables.pods.get(pod)?.node || UNPLACED);
  changed.add(`${table} ${key}`);
}
export const marked = { list: true, stuck: true, counts: true };
export const changed = new Set();

export function load(found) {
  for (const table of TABLES) {
    for (const key of [...state.tables[table].keys()]) if (!Object.hasOwn(found[table], key)) put(table, key, null);
    for (const key of Object.keys(found[table])) {
      const row = found[table][key], before = state.tables[table].get(key);
      if (before) { put(table, key, row); continue; }
      state.tables[table].set(key, row);
      if (table === "volumes" || table === "pods") place(table, key, null, row);
      count(table, row, 1);
    }
  }
  Object.assign(marked, { list: true, stuck: true, counts: true });
  for (const held of groups.values()) held.order = null;
  Object.assign(state, { version: found.version, epoch: found.epoch, past: false });
  takeFacts(found.facts);
}
export function takeFacts(facts) {
  state.facts = facts;
  if (!state.alone) state.skew = facts.now - Date.now();
  document.body.dataset.truth = facts.truth ? "yes" : "no";
  $("cluster").textContent = facts.cluster || "";
  marked.stuck = true;
}
export function append(version, at, changes) {
  const kept = changes.map(([table, key, after]) => [table, key, presentRow(table, key), after]);
  state.history.push([at, kept]);
  state.version = version;
  if (state.past) return draw(); // the present goes on, unseen
  state.position = state.history.length;
  for (const [table, key, , after] of kept) put(table, key, after);
  draw();
}
// What a row is at present, also while the past is shown.
function presentRow(table, key) {
  if (state.past) {
    for (let index = state.history.length - 1; index >= state.position; index -= 1) {
      const found = state.history[index][1].findLast((change) => change[0] === table && change[1] === key);
      if (found) return found[3];
    }
  }
  return state.tables[table]?.get(key) || null;
}
function moveTo(position) {
  while (state.position > position) {
    state.position -= 1;
    const changes = state.history[state.position][1];
    for (let index = changes.length - 1; index >= 0; index -= 1) put(changes[index][0], changes[index][1], changes[index][2]);
  }
  while (state.position < position) {
    for (const [table, key, , after] of state.history[state.position][1]) put(table, key, after);
    state.position += 1;
  }
}
export function showTime(at) {
  let low = 0, high = state.history.length;
  while (low < high) { const middle = (low + high) >> 1; if (state.history[middle][0] <= at) low = middle + 1; else high = middle; }
  state.past = true;
  state.at = at;
  moveTo(low);
  draw();
}
export function showLive() {
  moveTo(state.history.length);
  state.past = false;
  forgetOld();
  draw();
}
export function forgetOld() {
  if (state.past || state.alone) return;
  const oldest = now() - 3600e3;
  let gone = 0;
  while (gone < state.history.length && state.history[gone][0] < oldest) gone += 1;
  let changes = 0; // the newest of them, up to a bound
  for (let index = state.history.length - 1; index >= gone; index -= 1) { changes += state.history[index][1].length; if (changes > MOST_CHANGES) { gone = index + 1; break; } }
  if (gone) { state.history.splice(0, gone); state.position -= gone; }
}
