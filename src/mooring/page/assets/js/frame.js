// Drawing, at most once a frame: what has changed, and nothing else.

import { parseTime, SETTLE_MS } from "./words.js";
import { changed, marked, shownTime, state } from "./state.js";
import { drawLink } from "./connection.js";
import { rebuild, view } from "./list.js";
import { drawRows } from "./rows.js";
import { drawSummary } from "./counts.js";
import { drawPanel } from "./waiting.js";
import { drawTime } from "./time.js";

let frame = 0;
export function draw() { if (!frame) frame = requestAnimationFrame(render); }
function render() {
  frame = 0;
  const began = performance.now();
  if (marked.stuck) gatherStuck();
  if (marked.list || ((view.query || view.filter) && (marked.stuck || changed.size))) rebuild();
  drawRows();
  if (marked.counts || marked.stuck) drawSummary();
  if (marked.stuck || changed.size) drawPanel();
  drawTime();
  drawLink();
  Object.assign(marked, { list: false, stuck: false, counts: false });
  changed.clear();
  performance.measure("mooring-update", { start: began, end: performance.now() });
}
function gatherStuck() {
  state.stuckOf = new Map();
  for (const [about, row] of state.tables.stuck) {
    const of = row.of && `${row.of[0]} ${row.of[1]}`;
    if (of && !state.stuckOf.has(of)) state.stuckOf.set(of, [about, row]);
  }
}
export const sinceOf = (row) => parseTime(row.chain.find((link) => link.since)?.since) || row.seen;
export const settled = (row) => shownTime() - sinceOf(row) > SETTLE_MS;
