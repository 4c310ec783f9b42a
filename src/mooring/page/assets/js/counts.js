// Counts, which filter.

import { $, figure, make, mark, sign, SIGNS, word } from "./words.js";
import { counts, differing, marked, state } from "./state.js";
import { view } from "./list.js";
import { draw } from "./frame.js";
import { list } from "./rows.js";

export function drawSummary() {
  const parts = [];
  for (const table of ["nodes", "volumes", "pods"]) {
    parts.push(make("h2", { textContent: table[0].toUpperCase() + table.slice(1) }));
    const order = Object.keys(SIGNS[table]);
    for (const phase of [...counts[table].keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b))) parts.push(chip(table, phase, counts[table].get(phase), sign(table, phase), word(table, phase)));
    if (!counts[table].size) parts.push(make("span", { class: "faint", textContent: "none" }));
  }
  const stuck = state.stuckOf.size;
  if (stuck || differing || view.filter) parts.push(make("h2", { textContent: "Only" }));
  if (stuck || view.filter?.[0] === "stuck") parts.push(chip("stuck", "", stuck, mark("bar", "bad"), "waiting"));
  if (differing || view.filter?.[0] === "differs") parts.push(chip("differs", "", differing, make("b", { textContent: "≠" }), "reported ≠ true"));
  const held = document.activeElement?.dataset?.chip;
  $("summary").replaceChildren(...parts);
  if (held) [...$("summary").querySelectorAll("button")].find((each) => each.dataset.chip === held)?.focus();
}
function chip(table, phase, count, glyph, text) {
  const pressed = view.filter !== null && view.filter[0] === table && view.filter[1] === phase;
  const button = make("button", { type: "button", "aria-pressed": String(pressed) }, glyph, make("b", { textContent: figure(count) }), make("span", { textContent: text }));
  button.dataset.chip = `${table} ${phase}`;
  button.addEventListener("click", () => { view.filter = pressed ? null : [table, phase]; marked.list = marked.counts = true; list.scrollTop = 0; draw(); });
  return button;
}
