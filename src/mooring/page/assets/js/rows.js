// The rows of the list; only those that are seen are there.

import { $, lasting, make, OVERSCAN, plural, sign, signOf, TRUE_WORDS, UNATTACHED, UNPLACED, word } from "./words.js";
import { changed, groups, shownTime, state } from "./state.js";
import { called, entries, idOf, isFolded, isOwn, nameOf, positions, view } from "./list.js";
import { settled, sinceOf } from "./frame.js";
import { drawStrip, sizeOf } from "./strips.js";

export const list = $("list"), rows = $("rows"), pool = [];
export let rowHeight = 30;
export function measureRow() { rowHeight = parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10) || 30; }
export function drawRows() {
  const tall = `${entries.length * rowHeight}px`;
  if (rows.style.height !== tall) rows.style.height = tall;
  const top = list.scrollTop, seen = sizeOf("list", list)[1];
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(entries.length, Math.ceil((top + seen) / rowHeight) + OVERSCAN);
  while (pool.length < last - first) pool.push(newItem());
  const count = pool.length;
  for (const item of pool) item.used = false;
  for (let index = first; index < last; index += 1) {
    const item = pool[index % count];
    item.used = true;
    drawItem(item, index);
  }
  for (const item of pool) if (item.element.hidden !== !item.used) item.element.hidden = !item.used;
  const chosen = positions.get(view.selected);
  const active = chosen !== undefined && chosen >= first && chosen < last ? pool[chosen % count].element.id : "";
  if (active) list.setAttribute("aria-activedescendant", active); else list.removeAttribute("aria-activedescendant");
}
// Why a row waits: its own reason, or of a volume that of a pod which has it there.
export function reasonFor(kind, key, node) {
  const own = state.stuckOf.get(`${kind} ${key}`);
  if (own || kind !== "volumes") return own;
  for (const pod of state.tables.volumes.get(key)?.pods || []) {
    const found = state.stuckOf.get(`pods ${pod}`), where = state.tables.pods.get(pod)?.node;
    if (found && (where === node || node === UNATTACHED)) return found;
  }
  return undefined;
}
let itemNumber = 0;
function newItem() {
  const arrow = make("span", { class: "arrow", "aria-hidden": "true" });
  const words = make("span", { class: "words" }), marks = make("span", { class: "marks" });
  const title = make("span", { class: "title" }, arrow, sign("nodes", ""), words, " ", marks);
  const parts = { who: make("span", { class: "who" }), state: make("span", { class: "state" }), true: make("span", { class: "true" }), why: make("span", { class: "why" }) };
  const element = make("div", { class: "row item", id: `row-${(itemNumber += 1)}`, role: "treeitem" }, title, " ", parts.who, " ", parts.state, " ", parts.true, " ", parts.why);
  rows.append(element);
  return { element, arrow, words, marks, title, ...parts, used: false, signature: "", index: -1 };
}
function drawItem(item, index) {
  const [kind, key, node] = entries[index];
  const row = state.tables[kind].get(key) || {};
  const stuck = reasonFor(kind, key, node);
  const age = stuck ? lasting(shownTime() - sinceOf(stuck[1])) : "";
  const isSelected = view.selected === idOf(kind, key, node);
  if (item.index !== index) { item.index = index; item.element.style.transform = `translateY(${index * rowHeight}px)`; item.moved = true; }
  const signature = [kind, key, node, isSelected, age, kind === "nodes" ? isFolded(key) : "", entries.length, rowHeight].join("\u0001");
  const same = item.signature === signature && item.row === row && item.stuck === stuck && !(kind === "nodes" && touchesGroup(key)) && !(kind === "volumes" && podsChanged(row));
  if (same) { if (item.moved) { item.element.style.transform = `translateY(${index * rowHeight}px)`; item.moved = false; } return; }
  Object.assign(item, { signature, row, stuck, moved: false });
  item.element.style.transform = `translateY(${index * rowHeight}px)`;
  item.entry = entries[index];
  const element = item.element;
  element.dataset.kind = kind === "nodes" ? "node" : kind === "volumes" ? "volume" : "pod";
  element.setAttribute("aria-level", kind === "nodes" ? "1" : "2");
  element.setAttribute("aria-selected", String(isSelected));
  element.setAttribute("aria-posinset", String(index + 1));
  element.setAttribute("aria-setsize", String(entries.length));
  element.classList.toggle("stuck", Boolean(stuck) && settled(stuck[1]));
  element.classList.toggle("moving", Boolean(stuck) && !settled(stuck[1]));
  item.arrow.hidden = kind !== "nodes";
  if (kind === "nodes") element.setAttribute("aria-expanded", String(!isFolded(key) || Boolean(view.query || view.filter))); else element.removeAttribute("aria-expanded");
  const label = kind === "nodes" ? drawNode(item, key, row) : kind === "volumes" ? drawVolume(item, key, row, node) : drawPod(item, key, row);
  const why = stuck ? stuck[1].chain[0].code : "";
  item.why.replaceChildren(...(stuck ? [make("b", { textContent: why }), " ", make("span", { textContent: age })] : []));
  item.why.title = stuck ? stuck[1].chain[0].message : "";
  const seen = [item.words, item.marks, ...item.who.children, item.state, item.true, ...item.why.children].map((part) => part.textContent).filter(Boolean).join(" ");
  const reason = stuck && `${settled(stuck[1]) ? "stuck" : "waits"} for ${age}: ${stuck[1].chain[0].message}`;
  element.setAttribute("aria-label", [seen, label, reason].filter(Boolean).join("; ")); // begins with what is seen
}
function touchesGroup(name) {
  const held = groups.get(name);
  if (!held) return false;
  if (changed.has(`nodes ${name}`)) return true;
  for (const id of changed) {
    const at = id.indexOf(" "), table = id.slice(0, at), key = id.slice(at + 1);
    if (table === "stuck") {
      const of = state.tables.stuck.get(key)?.of;
      if (!of || (held[of[0]] ? held[of[0]].has(of[1]) : of[1] === name)) return true;
    } else if ((held[table] && held[table].has(key)) || !state.tables[table].has(key)) return true;
  }
  return false;
}
const podsChanged = (row) => (row.pods || []).some((key) => changed.has(`pods ${key}`));

function setSign(item, table, phase) {
  const [shape, tone] = signOf(table, phase), element = item.title.children[1];
  element.dataset.shape = shape; element.dataset.tone = tone;
}
function setTrue(item, text, differs) {
  item.true.classList.toggle("differs", Boolean(differs));
  item.true.replaceChildren(make("span", { textContent: text }));
  item.true.title = differs || text;
}
function drawNode(item, key, row) {
  const pseudo = key === UNATTACHED ? "Not on a node" : key === UNPLACED ? "No node yet" : "";
  const held = groups.get(key);
  if (pseudo) { item.title.children[1].dataset.shape = "ring"; item.title.children[1].dataset.tone = "idle"; } else setSign(item, "nodes", row.phase);
  item.words.textContent = pseudo || key;
  item.marks.textContent = (row.marks || []).join(", ");
  const canvas = item.strip || (item.strip = make("canvas", { "aria-hidden": "true" }));
  item.who.replaceChildren(canvas);
  drawStrip(canvas, key);
  const words = pseudo ? "" : word("nodes", row.phase);
  const numbers = [held?.volumes.size ? plural(held.volumes.size, "volume") : "", held?.pods.size ? plural(held.pods.size, "pod") : ""].filter(Boolean).join(", ");
  item.state.textContent = pseudo ? numbers : words;
  item.state.title = numbers;
  const power = row.true ? [TRUE_WORDS[row.true] || row.true, row.trouble].filter(Boolean).join(", ") : "";
  setTrue(item, power, row.differs);
  return [pseudo ? "" : "node", row.differs && `differs: ${row.differs}`, numbers].filter(Boolean).join(", ");
}
export function reportedOn(row, node) {
  const place = (row.on || []).find((each) => each.node === node);
  return place ? place.state : node === UNATTACHED ? row.phase : "";
}
function drawVolume(item, key, row, node) {
  const reported = reportedOn(row, node) || row.phase;
  const recorded = reportedOn(row, node);
  setSign(item, "volumes", recorded || "bound");
  item.words.textContent = nameOf(key, row);
  item.words.title = key;
  item.marks.textContent = [row.size, row.phase !== reported && ["deleting", "failed", "released"].includes(row.phase) ? word("volumes", row.phase) : ""].filter(Boolean).join(", ");
  const pods = (row.pods || []).map((pod) => [pod, state.tables.pods.get(pod)]).filter(([, found]) => !found || node === UNATTACHED || found.node === node);
  item.who.replaceChildren(...(pods.length ? pods.slice(0, 4).flatMap(([pod, found]) => [podTag(pod, found), " "]) : [make("span", { class: "faint", textContent: row.claim ? `claim ${row.claim}` : isOwn(key) ? "defined by its pod" : "no claim" })]));
  if (pods.length > 4) item.who.append(make("span", { class: "faint", textContent: `+${pods.length - 4 + (row.morePods || 0)}` }));
  const silent = node !== UNATTACHED && state.tables.nodes.get(node)?.phase === "silent";
  const words = recorded ? word("volumes", recorded) + (silent ? ", node silent" : "") : "nothing recorded";
  item.state.textContent = words;
  item.state.title = words;
  const actual = row.true ? row.true[node] || (node === UNATTACHED ? "" : "not attached") : "";
  const here = row.differs && row.differs.split("; ").some((part) => part.includes(node) || part.startsWith("mounted on "));
  setTrue(item, actual, here && row.differs);
  return [`volume ${key}`, `reported: ${words}`, actual && `true: ${actual}`, here && `differs: ${row.differs}`, pods.length && `pods: ${pods.map(([pod, found]) => `${pod} ${found ? found.phase : ""}`).join(", ")}`].filter(Boolean).join(", ");
}
function podTag(pod, found) {
  const tag = make("span", { class: "tag", title: found ? `${pod}: ${found.phase}` : pod }, sign("pods", found ? found.tone : ""), make("span", { textContent: pod.replace(/^default\//, "") }));
  return tag;
}
function drawPod(item, key, row) {
  setSign(item, "pods", row.tone);
  item.words.textContent = key.replace(/^default\//, "");
  item.marks.textContent = "";
  item.who.replaceChildren(make("span", { class: "faint", textContent: (row.volumes || []).length ? row.volumes.map(called).join(", ") : "no volume to attach or share" }));
  item.state.textContent = row.phase;
  item.state.title = row.phase;
  setTrue(item, "", "");
  return "pod";
}
export function reveal() {
  const index = positions.get(view.selected);
  if (index === undefined) return;
  const top = index * rowHeight;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
}
