// The panel: what waits, and for what.

import { $, collator, figure, lasting, make, mark, parseTime, plural, SETTLE_MS } from "./words.js";
import { changed, shownTime, state } from "./state.js";
import { askLife, drawLife, open, shownLife } from "./life.js";

export const signatures = {};
export function drawPanel() {
  $("waiting").hidden = shownLife !== null;
  $("life").hidden = shownLife === null;
  const waiting = state.tables.stuck.size;
  const button = $("fold-panel");
  const text = shownLife ? `${shownLife.kind} ${shownLife.key}` : waiting ? `${plural(waiting, "thing")} waiting` : "Nothing waits";
  if (button.textContent !== text) { button.textContent = text; }
  if (shownLife === null) drawWaiting();
  else {
    if ([...changed].some((id) => id.startsWith("stuck ") || id.endsWith(` ${shownLife.key}`) || id.startsWith("pods "))) askLife();
    drawLife();
  }
}
// The end of the chain of first causes: what all of it waits for.
function rootOf(row) {
  let found = row.chain[0];
  for (const link of row.chain.slice(1)) {
    if ((link.depth || 0) <= (found.depth || 0)) break;
    if (found.code === "FailedScheduling" && link.about.startsWith("node/")) break; // one of several that will not do
    found = link;
  }
  return found;
}
function drawWaiting() {
  const roots = new Map();
  for (const [about, row] of state.tables.stuck) {
    const root = rootOf(row), id = `${root.about} ${root.code}`;
    if (!roots.has(id)) roots.set(id, { root, waits: [], since: Infinity, seen: Infinity });
    const found = roots.get(id);
    if (root.about !== about) found.waits.push([about, row]); else found.own = row;
    found.since = Math.min(found.since, parseTime(root.since) || row.seen);
    found.seen = Math.min(found.seen, row.seen);
  }
  const found = together([...roots.values()]).sort((a, b) => rank(a) - rank(b) || a.seen - b.seen || collator.compare(a.root.about, b.root.about));
  const signature = JSON.stringify([found.map((each) => [each.root, each.waits.map(([about]) => about), each.alike?.length, settledSince(each.since)]), state.facts.reads]);
  const place = $("waiting");
  if (signatures.waiting !== signature) {
    signatures.waiting = signature;
    const most = 30;
    place.replaceChildren(
      make("h2", {}, make("span", { class: "words", textContent: found.length ? "What waits, and for what" : "Nothing waits" })),
      ...notes(),
      ...(found.length ? [] : [make("p", { class: "calm" }, mark("tick", "ok"), make("span", { textContent: "Every claim, volume, pod and node is where it should be." }))]),
      ...found.slice(0, most).map(card),
      ...(found.length > most ? [make("p", { class: "faint", textContent: `and ${found.length - most} more: press “waiting” above to see them in the list` })] : []),
    );
  }
  for (const age of place.querySelectorAll(".age")) { const text = lasting(shownTime() - Number(age.dataset.since)); if (age.textContent !== text) age.textContent = text; }
}
// Many of the same kind, for the same reason, are one card.
const MOST_ALIKE = 4;
function together(roots) {
  const byReason = new Map();
  for (const each of roots) {
    const id = `${each.root.about.split("/")[0]} ${each.root.code}`;
    byReason.set(id, [...(byReason.get(id) || []), each]);
  }
  return [...byReason.values()].flatMap((alike) => {
    if (alike.length <= MOST_ALIKE) return alike;
    const first = alike.reduce((a, b) => (b.since < a.since ? b : a));
    return [{ ...first, waits: [], alike, seen: Math.min(...alike.map((each) => each.seen)) }];
  });
}
const rank = (each) => (/^node(fence)?\//.test(each.root.about) ? 0 : settledSince(each.since) ? 1 : 2);
const settledSince = (since) => shownTime() - since > SETTLE_MS;
function notes() {
  const reads = (state.facts.reads || []);
  const rights = reads.filter((each) => each.right).map((each) => each.kind);
  const others = reads.filter((each) => !each.right);
  return [
    ...(rights.length ? [make("p", { class: "note", textContent: `You may not read ${rights.join(", ")}: what depends on these is missing here, and reasons may be incomplete. The right that is needed: get, list, watch.` })] : []),
    ...(others.length && others.length < 8 ? [make("p", { class: "note", textContent: `Not read at present: ${others.map((each) => each.message).join("; ")}` })] : []),
  ];
}
function card({ root, waits, own, since, alike }) {
  const element = make("article", { class: "card", "aria-label": `${root.about}: ${root.code}` });
  element.dataset.tone = settledSince(since) ? "bad" : "move";
  const age = make("span", { class: "age", textContent: lasting(shownTime() - since) });
  age.dataset.since = String(since);
  const target = own?.of || targetOf(root.about);
  const about = target ? make("button", { type: "button", textContent: root.about, class: "mono", onclick: () => open(target[0], target[1]) }) : make("b", { class: "mono", textContent: root.about });
  element.append(make("header", {}, alike ? make("b", { textContent: `${figure(alike.length)} × ${root.about.split("/")[0]}` }) : about, age), make("p", {}, make("span", { class: "code", textContent: root.code }), document.createTextNode(` ${alike ? "such as: " : ""}${root.message}`)), ...advice(root));
  if (alike) {
    const row = make("div", { class: "waits" });
    for (const each of alike.slice(0, 12)) {
      const where = each.own?.of || targetOf(each.root.about);
      row.append(make("button", { type: "button", textContent: each.root.about.split("/").slice(1).join("/"), title: each.root.message, onclick: () => where && open(where[0], where[1]) }));
    }
    if (alike.length > 12) row.append(make("span", { textContent: `and ${figure(alike.length - 12)} more` }));
    element.append(row);
  }
  if (waits.length) {
    const row = make("div", { class: "waits" }, make("span", { textContent: `${waits.length === 1 ? "waits" : "wait"} for this:` }));
    for (const [name, each] of waits.slice(0, 8)) row.append(make("button", { type: "button", textContent: name, title: each.chain[0].message, onclick: () => each.of && open(each.of[0], each.of[1]) }));
    if (waits.length > 8) row.append(make("span", { textContent: `and ${waits.length - 8} more` }));
    element.append(row);
  }
  return element;
}
function targetOf(about) {
  const [kind, ...rest] = about.split("/"), key = rest.join("/");
  if (kind === "node" && state.tables.nodes.has(key)) return ["nodes", key];
  if (kind === "pv" && state.tables.volumes.has(key)) return ["volumes", key];
  if (kind === "pod" && state.tables.pods.has(key)) return ["pods", key];
  return state.tables.stuck.get(about)?.of || null;
}
export function advice(link) {
  return [
    ...(link.next ? [make("p", { class: "next" }, make("b", { textContent: "Next: " }), document.createTextNode(link.next)), ...(link.commands || []).map(command)] : []),
    ...(link.more ? [make("p", { class: "faint", textContent: "What it means: " }, make("code", { textContent: link.more }))] : []),
  ];
}
function command(text) {
  const code = make("code", { textContent: text, tabIndex: 0 });
  const button = make("button", { type: "button", textContent: "Copy", "aria-label": `Copy: ${text}` });
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); } catch { getSelection().selectAllChildren(code); document.execCommand("copy"); }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return make("div", { class: "copy" }, code, button);
}
