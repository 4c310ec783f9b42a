// Keys, clicks and sizes.

import { $, make, sign, SIGNS, word } from "./words.js";
import { forgetOld, marked, showLive, state } from "./state.js";
import { entries, fold, foldAll, foldByDefault, idOf, isFolded, matches, positions, view } from "./list.js";
import { draw } from "./frame.js";
import { list, measureRow, pool, reveal, rowHeight } from "./rows.js";
import { readColours, sizes } from "./strips.js";
import { askLife, closeLife, openPanel, showLife, shownLife } from "./life.js";
import { drawBarsAnew, stepTime } from "./time.js";

function select(index) {
  const entry = entries[Math.max(0, Math.min(entries.length - 1, index))];
  if (!entry) return;
  view.selected = idOf(...entry);
  reveal();
  draw();
}
list.addEventListener("scroll", draw, { passive: true });
list.addEventListener("click", (event) => {
  const item = pool.find((each) => each.element.contains(event.target));
  if (!item?.entry) return;
  view.selected = idOf(...item.entry);
  if (event.target === item.arrow) fold(item.entry[1], !isFolded(item.entry[1])); else showLife(item.entry[0], item.entry[1]);
  view.chosenFold = true;
  draw();
});
list.addEventListener("keydown", (event) => {
  const index = positions.get(view.selected) ?? -1, page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const entry = entries[index];
  if (event.key in steps) select(index + steps[event.key]);
  else if (event.key === "Home") select(0);
  else if (event.key === "End") select(entries.length - 1);
  else if (entry && event.key === "ArrowRight") { if (entry[0] === "nodes" && isFolded(entry[1])) fold(entry[1], false); else select(index + 1); view.chosenFold = true; draw(); }
  else if (entry && event.key === "ArrowLeft") { if (entry[0] === "nodes") fold(entry[1], true); else select(positions.get(idOf("nodes", entry[2], entry[2]))); view.chosenFold = true; draw(); }
  else if (entry && (event.key === "Enter" || event.key === " ")) showLife(entry[0], entry[1]);
  else return;
  event.preventDefault();
});
const search = $("search");
search.addEventListener("input", () => { view.query = search.value.trim().toLowerCase(); marked.list = true; list.scrollTop = 0; draw(); });
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); list.focus(); select(entries.findIndex(([kind, key, node]) => matches(kind, key, node))); }
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !$("keys").open) {
    if (document.activeElement === search && search.value) { search.value = ""; view.query = ""; marked.list = true; draw(); }
    else if (shownLife) { closeLife(); openPanel(false); list.focus(); } else if (view.query || view.filter) { search.value = ""; view.query = ""; view.filter = null; marked.list = marked.counts = true; draw(); }
    else if (state.past) showLive(); else { openPanel(false); list.focus(); }
    return;
  }
  if (event.target instanceof HTMLInputElement && event.target.type === "search") return;
  const actions = { "/": () => { search.focus(); search.select(); }, "[": () => stepTime(-1), "]": () => stepTime(1), l: showLive, "?": showKeys };
  if (Object.hasOwn(actions, event.key)) { event.preventDefault(); actions[event.key](); }
});
$("fold").addEventListener("click", () => { view.chosenFold = true; foldAll(!foldByDefault); draw(); });
$("fold-panel").addEventListener("click", () => openPanel($("panel").dataset.open !== "yes"));
$("export").addEventListener("click", () => {
  const chosen = shownLife?.table === "volumes" ? `&volume=${encodeURIComponent(shownLife.key)}` : "";
  const anchor = make("a", { href: `/api/export?at=${state.past ? Math.round(state.at) : ""}${chosen}`, download: "" });
  anchor.click();
});
$("help").addEventListener("click", showKeys);
function showKeys() {
  const keys = [["/", "search"], ["↑ ↓", "move"], ["← →", "fold, unfold"], ["Enter", "its life"], ["Esc", "back"], ["[ ]", "change before, after"], ["l", "live"], ["?", "this"]];
  const rowsOf = (table) => Object.keys(SIGNS[table]).map((phase) => make("div", {}, sign(table, phase), make("span", { textContent: word(table, phase) })));
  const close = make("button", { type: "button", textContent: "Close", onclick: () => $("keys").close() });
  $("keys").replaceChildren(
    make("h2", { id: "keys-title", textContent: "Keys" }), make("div", { class: "two" }, ...keys.map(([key, text]) => make("div", {}, make("kbd", { textContent: key }), make("span", { textContent: text })))),
    make("h2", { textContent: "Nodes" }), make("div", { class: "two" }, ...rowsOf("nodes")), make("h2", { textContent: "Volumes" }), make("div", { class: "two" }, ...rowsOf("volumes")),
    make("h2", { textContent: "Pods" }), make("div", { class: "two" }, ...rowsOf("pods")),
    make("p", { class: "faint", textContent: "In the line of a node each cell is a volume, the stroke above it its pods, and a stroke below it says that true differs from reported." }), make("p", { class: "close" }, close),
  );
  $("keys").showModal();
}
for (const medium of ["(prefers-color-scheme: dark)", "(max-width: 820px)"]) matchMedia(medium).addEventListener("change", refit);
for (const element of [list, $("bars")]) new ResizeObserver(refit).observe(element);
function refit() { sizes.clear(); readColours(); measureRow(); for (const item of pool) { item.signature = ""; item.index = -1; } drawBarsAnew(); marked.list = true; draw(); }
setInterval(() => { forgetOld(); marked.stuck = marked.stuck || state.tables.stuck.size > 0; draw(); if (shownLife && !state.alone && !state.past) askLife(); }, 1000);
