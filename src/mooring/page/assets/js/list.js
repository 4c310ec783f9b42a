// What the list holds: nodes, below each its volumes, and pods that have none; what is folded, searched and chosen.

import { $, collator, UNATTACHED, UNPLACED, word } from "./words.js";
import { group, groups, marked, searchText, state } from "./state.js";
import { reasonFor } from "./rows.js";

const folded = new Set();
export const view = { chosenFold: false, query: "", filter: null, selected: "" }; // what a person has asked for
export let foldByDefault = false;
export let entries = []; // [kind, key, node, depth]
export let positions = new Map(); // id -> index
export const idOf = (kind, key, node) => `${kind} ${key} ${node}`;
export const isFolded = (name) => folded.has(name) !== foldByDefault;
export function foldAll(yes) { foldByDefault = yes; folded.clear(); marked.list = true; $("fold").textContent = yes ? "Unfold" : "Fold"; }
export function fold(name, yes) { if (isFolded(name) !== yes) { if (folded.has(name)) folded.delete(name); else folded.add(name); } marked.list = true; }

export function ordered(name) {
  const found = group(name);
  if (!found.order) {
    const called = (key) => nameOf(key, state.tables.volumes.get(key));
    const sorted = (keys) => {
      const named = [...keys].map((key) => [called(key), key]);
      return named.sort((a, b) => collator.compare(a[0], b[0]) || (a[1] < b[1] ? -1 : 1)).map(([, key]) => key);
    };
    const loose = [...found.pods].filter((key) => name === UNPLACED || !hasVolume(state.tables.pods.get(key)));
    found.order = { volumes: sorted(found.volumes), pods: sorted(loose) };
  }
  return found.order;
}
const hasVolume = (pod) => (pod.volumes || []).some((key) => state.tables.volumes.has(key));

let nodeOrder = { keys: "", names: [] };
function nodeNames() {
  const names = new Set([...state.tables.nodes.keys(), ...groups.keys()]);
  names.delete(UNATTACHED); names.delete(UNPLACED);
  const joined = names.size;
  if (nodeOrder.count !== joined || nodeOrder.names.some((name) => !names.has(name))) nodeOrder = { count: joined, names: [...names].sort(collator.compare) };
  return nodeOrder.names;
}
export function matches(table, key, node) {
  const row = state.tables[table].get(key);
  if (!row) return false;
  if (view.filter && !passes(table, key, row, node)) return false;
  if (!view.query) return true;
  const cached = `${table} ${key}`;
  let text = searchText.get(cached);
  if (text === undefined) {
    text = [key, row.claim, row.class, row.driver, word(table, table === "pods" ? row.tone : row.phase), row.phase, row.zone, row.differs, ...(Array.isArray(row.pods) ? row.pods : []), ...(row.marks || [])].filter(Boolean).join(" ").toLowerCase();
    searchText.set(cached, text);
  }
  if (text.includes(view.query)) return true;
  const reason = state.stuckOf.size ? reasonFor(table, key, node) : undefined;
  return (reason ? reason[1].chain.some((link) => `${link.code} ${link.message}`.toLowerCase().includes(view.query)) : false);
}
function passes(table, key, row, node) {
  const [of, phase] = view.filter;
  if (of === "stuck") return reasonFor(table, key, node) !== undefined;
  if (of === "differs") return Boolean(row.differs);
  return of === table && (table === "pods" ? row.tone : row.phase) === phase;
}
export function rebuild() {
  entries = [];
  const narrow = Boolean(view.query || view.filter);
  for (const name of [...nodeNames(), UNATTACHED, UNPLACED]) {
    const held = groups.get(name);
    const order = held ? ordered(name) : { volumes: [], pods: [] };
    const pods = order.pods; // those that have a volume are shown with it
    if ((name === UNATTACHED || name === UNPLACED) && !order.volumes.length && !pods.length) continue;
    if (narrow) {
      const whole = !view.filter && view.query && name.toLowerCase().includes(view.query); // of a node that is called so, all
      const volumes = whole ? order.volumes : order.volumes.filter((key) => matches("volumes", key, name));
      const found = whole ? pods : pods.filter((key) => matches("pods", key, name));
      if (!volumes.length && !found.length && !matches("nodes", name, name)) continue;
      entries.push(["nodes", name, name]);
      for (const key of volumes) entries.push(["volumes", key, name]);
      for (const key of found) entries.push(["pods", key, name]);
    } else {
      entries.push(["nodes", name, name]);
      if (isFolded(name)) continue;
      for (const key of order.volumes) entries.push(["volumes", key, name]);
      for (const key of pods) entries.push(["pods", key, name]);
    }
  }
  positions = new Map(entries.map(([kind, key, node], index) => [idOf(kind, key, node), index]));
  const empty = $("empty");
  empty.hidden = entries.length > 0;
  empty.textContent = narrow ? "Nothing here is called so." : state.version ? "The cluster has no nodes and no volumes." : "";
}
// People know a volume by its claim; one without a claim by its own name.
// One that its pod defines is called by that pod and its name there.
export const isOwn = (key) => key.startsWith("own ");
export const nameOf = (key, row) => (row?.claim || (key.startsWith("claim ") ? key.slice(6) : isOwn(key) ? key.slice(4) : key)).replace(/^default\//, "");
export const called = (key) => `${isOwn(key) ? "" : "claim "}${nameOf(key, state.tables.volumes.get(key))}`;
