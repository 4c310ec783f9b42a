// The panel: the life of one volume, node or pod.

import { $, clock, lasting, make, mark, MILESTONES, parseTime, sign, UNATTACHED, UNPLACED, word } from "./words.js";
import { marked, placesOf, state } from "./state.js";
import { fold, idOf, isOwn, nameOf, positions, rebuild, view } from "./list.js";
import { draw, settled } from "./frame.js";
import { reveal } from "./rows.js";
import { advice, signatures } from "./waiting.js";

export let shownLife = null, lifeAnswer = null, lifeTimer = 0, lifeWanted = "";
export function open(table, key) {
  const node = table === "nodes" ? key : placesOf(table, state.tables[table].get(key) || {})[0];
  if (table !== "nodes" && !view.query && !view.filter) fold(node, false);
  let id = idOf(table, key, node);
  const volume = table === "pods" ? (state.tables.pods.get(key)?.volumes || []).find((each) => state.tables.volumes.has(each)) : null;
  rebuild();
  if (!positions.has(id) && volume) id = idOf("volumes", volume, placesOf("volumes", state.tables.volumes.get(volume))[0]);
  if (positions.has(id)) { view.selected = id; reveal(); }
  showLife(table, key);
}
export function showLife(table, key) {
  if (table === "nodes" && (key === UNATTACHED || key === UNPLACED)) return;
  shownLife = { table, key, kind: table.slice(0, -1) };
  lifeAnswer = null;
  signatures.life = "";
  openPanel(true);
  askLife();
  marked.stuck = true;
  draw();
}
export function closeLife() { shownLife = null; lifeAnswer = null; signatures.waiting = ""; marked.stuck = true; draw(); }
export function openPanel(yes) { $("panel").dataset.open = yes ? "yes" : "no"; $("fold-panel").setAttribute("aria-expanded", String(yes)); }
function lifeQuery() {
  if (!shownLife) return "";
  const { table, key } = shownLife;
  if (table === "nodes") return `node=${encodeURIComponent(key)}`;
  if (table === "volumes") return `volume=${encodeURIComponent(key)}`;
  const volume = (state.tables.pods.get(key)?.volumes || [])[0];
  return volume ? `volume=${encodeURIComponent(volume)}` : "";
}
export async function askLife() {
  const asked = lifeQuery();
  if (!asked) return;
  if (state.alone) { lifeAnswer = state.lives[decodeURIComponent(asked)] || null; return; }
  if (lifeWanted === asked) return; // on its way
  lifeWanted = asked;
  try {
    const answer = await fetch(`/api/life?${asked}`, { cache: "no-store" });
    if (answer.ok && lifeQuery() === asked) { lifeAnswer = await answer.json(); marked.stuck = true; draw(); }
  } catch { /* the pill says so */ } finally { lifeWanted = ""; }
}
export function drawLife() {
  const { table, key, kind } = shownLife;
  const row = state.tables[table].get(key);
  const own = state.stuckOf.get(`${table} ${key}`), reason = own || (table === "volumes" ? reasonOfPods(row) : null);
  const moment = state.past ? state.at : Infinity;
  const signature = JSON.stringify([table, key, row, reason && [reason[1].chain, settled(reason[1])], lifeAnswer, state.past ? state.at : 0, table === "volumes" && (row?.on || []).map((place) => state.tables.nodes.get(place.node)?.phase)]);
  if (signatures.life === signature) return;
  signatures.life = signature;
  const held = document.activeElement?.id;
  const phase = table === "pods" ? row?.tone : row?.phase;
  const name = table === "volumes" ? nameOf(key, row) : key;
  const title = make("h2", {}, sign(table, phase), make("span", { class: "words mono", textContent: name }), make("button", { type: "button", id: "close-life", textContent: "Close", title: "Close (Esc)", onclick: closeLife }));
  const parts = [title, make("p", { class: "faint", textContent: `${key.startsWith("claim ") ? "claim" : isOwn(key) ? "defined by its pod" : table === "volumes" ? key : kind}, ${row ? (table === "pods" ? row.phase : word(table, phase)) : "gone"}${(row?.marks || []).length ? `, ${row.marks.join(", ")}` : ""}` })];
  if (row?.differs) parts.push(make("p", { class: "differs-note", textContent: row.differs }));
  if (reason) parts.push(make("h3", { textContent: !own ? "What its pod waits for" : settled(reason[1]) ? "Why it is stuck" : "What it waits for" }), explanation(reason));
  if (lifeAnswer?.milestones) parts.push(make("h3", { textContent: "Its way" }), way(lifeAnswer.milestones, moment, reason));
  if (table === "volumes" && row) parts.push(...places(row));
  const facts = factsOf(table, row);
  if (facts.length) parts.push(make("h3", { textContent: "Facts" }), make("dl", { class: "facts" }, ...facts.flatMap(([what, value]) => [make("dt", { textContent: what }), make("dd", { textContent: value, class: "mono" })])));
  const steps = (lifeAnswer?.steps || []).filter((step) => step.at <= moment);
  if (steps.length) parts.push(make("h3", { textContent: `What happened (${steps.length})` }), make("ol", { class: "steps" }, ...steps.slice(-200).reverse().map(stepItem)));
  $("life").replaceChildren(...parts);
  if (held === "close-life") $("close-life").focus();
}
function reasonOfPods(row) { for (const pod of row?.pods || []) { const found = state.stuckOf.get(`pods ${pod}`); if (found) return found; } return null; }
function explanation([, row]) {
  const element = make("article", { class: "card" });
  element.dataset.tone = settled(row) ? "bad" : "move";
  const [first, ...others] = row.chain;
  const age = make("span", { class: "age", textContent: first.since ? `since ${clock(parseTime(first.since))}` : "" });
  element.append(make("header", {}, make("b", { class: "code", textContent: first.code }), age), make("p", { textContent: first.message }), ...advice(first));
  if (others.length) element.append(make("ul", { class: "chain" }, ...others.map((link) => {
    const item = make("li", {}, make("span", { class: "code", textContent: link.code }), document.createTextNode(" "), make("span", { class: "mono faint", textContent: link.about }), make("p", { textContent: link.message }), ...advice(link));
    item.style.marginLeft = `${((link.depth || 1) - 1) * 12}px`;
    return item;
  })));
  return element;
}
function way(milestones, moment, reason) {
  let before = 0, waiting = false;
  return make("ol", { class: "path" }, ...milestones.map(({ what, reached, at, note }) => {
    const done = reached && (!at || at <= moment);
    const here = !done && !waiting;
    if (here) waiting = true;
    const took = done && at && before && at >= before ? `+${at - before < 10000 ? `${((at - before) / 1000).toFixed(at - before < 1000 ? 1 : 0)} s` : lasting(at - before)}` : "";
    if (done && at) before = Math.max(before, at);
    const text = (MILESTONES[what] || what) + (note && done ? `: ${note}` : "");
    const item = make("li", { class: done ? "" : here ? "open waits-here" : "open" }, mark(done ? "disc" : here ? "up" : "ring", done ? "ok" : here ? (reason && settled(reason[1]) ? "bad" : "move") : "idle"), make("span", { textContent: here && !done ? `${text}: waits` : text }), make("time", { textContent: done && at ? `${took ? `${took}  ` : ""}${clock(at)}` : "" }));
    return item;
  }));
}
function places(row) {
  const nodes = [...new Set([...(row.on || []).map((each) => each.node), ...Object.keys(row.true || {})])];
  if (!nodes.length) return [];
  const truth = Boolean(row.true);
  const body = nodes.map((node) => {
    const place = (row.on || []).find((each) => each.node === node), silent = state.tables.nodes.get(node)?.phase === "silent";
    const reported = `${place ? word("volumes", place.state) : "nothing"}${silent ? ", node silent" : ""}${place?.error ? `: ${place.error}` : ""}`;
    const cells = [make("td", { class: "mono", textContent: node }), make("td", { textContent: reported })];
    if (truth) cells.push(make("td", { class: row.differs?.includes(node) ? "differs" : "", textContent: (row.differs?.includes(node) ? "≠ " : "") + (row.true[node] || "not attached") }));
    return make("tr", {}, ...cells);
  });
  const heads = ["Node", "Reported", ...(truth ? ["True"] : [])].map((text) => make("th", { scope: "col", textContent: text }));
  return [make("h3", { textContent: truth ? "Reported, and true" : "Where it is" }), make("table", { class: "both" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body))];
}
function factsOf(table, row) {
  const found = [];
  const add = (what, value) => { if (value) found.push([what, String(value)]); };
  if (row && table === "volumes") { add("claim", row.claim); add("size", row.size); add("class", row.class); add("driver", row.driver); add("pods", (row.pods || []).join(", ")); }
  if (row && table === "pods") { add("state", row.phase); add("node", row.node); add("volumes", (row.volumes || []).join(", ")); }
  if (row && table === "nodes") { add("since", row.since && clock(parseTime(row.since))); add("zone", row.zone); add("pods", row.pods); add("attached", row.attached); add("in use", row.inUse); add("power", row.true); add("wrong", row.trouble); }
  for (const [what, value] of lifeAnswer?.facts || []) add(what, what === "last status" ? clock(parseTime(value)) : value);
  return found;
}
const BY = { event: "event", object: "API", seen: "seen here" };
function stepItem(step) {
  const source = [step.object, BY[step.by] || step.by, step.from, step.count && `${step.count} times`].filter(Boolean).join(" · ");
  return make("li", { class: step.warning ? "warning" : "" }, make("time", { textContent: step.at ? clock(step.at, step.by === "seen") : "", title: step.at ? new Date(step.at).toISOString() : "" }), make("div", {}, make("b", { textContent: step.what }), step.message ? make("p", { textContent: step.message }) : null, make("div", { class: "by", textContent: source })));
}
