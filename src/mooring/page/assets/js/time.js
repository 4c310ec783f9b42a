// The last hour, to go back in.

import { $, clock, lasting, SETTLE_MS } from "./words.js";
import { now, showLive, showTime, state } from "./state.js";
import { colours, prepare } from "./strips.js";

const scrub = $("scrub");
const span = () => { const end = now(), start = Math.min(state.history[0]?.[0] ?? end, end - 60e3); return [Math.max(start - 5000, end - 3600e3), end]; };
let timeSignature = "", barsDrawn = 0;
export function drawTime() {
  const [start, end] = span(), length = Math.max(1, Math.round((end - start) / 100));
  document.body.dataset.past = state.past ? "yes" : "no";
  $("live").disabled = !state.past;
  $("earlier").disabled = state.position === 0;
  $("later").disabled = !state.past;
  const value = state.past ? Math.round((state.at - start) / 100) : length;
  if (Number(scrub.max) !== length) scrub.max = String(length);
  if (Number(scrub.value) !== value) scrub.value = String(value);
  const text = state.past ? `${clock(state.at, true)}` : `last ${lasting(end - start)}`;
  if ($("moment").textContent !== text) $("moment").textContent = text;
  scrub.setAttribute("aria-valuetext", state.past ? `${clock(state.at)}, ${lasting(end - state.at)} ago` : "now");
  const signature = `${state.history.length} ${Math.round(end / 1000)} ${colours.ok}`;
  if (signature !== timeSignature && (timeSignature === "" || performance.now() - barsDrawn > 900)) { timeSignature = signature; barsDrawn = performance.now(); drawBars(start, end); }
}
export function drawBarsAnew() { timeSignature = ""; }
function drawBars(start, end) {
  const [context, width, height] = prepare($("bars"), "bars");
  const pitch = 4, counts = new Array(Math.max(1, Math.floor(width / pitch))).fill(0), bad = counts.slice(), began = new Map();
  for (const [at, changes] of state.history) {
    const index = Math.min(counts.length - 1, Math.max(0, Math.floor(((at - start) / (end - start)) * counts.length)));
    for (const change of changes) {
      if (change[0] !== "stuck") counts[index] += 1;
      else if (change[3] && !change[2]) began.set(change[1], [at, index]);
      else if (!change[3] && began.has(change[1])) { if (at - began.get(change[1])[0] < SETTLE_MS) began.delete(change[1]); else { bad[began.get(change[1])[1]] += 1; began.delete(change[1]); } }
    }
  }
  for (const [at, index] of began.values()) if (end - at > SETTLE_MS) bad[index] += 1;
  const most = Math.max(4, ...counts);
  context.fillStyle = colours.line;
  context.fillRect(0, height - 1, width, 1);
  counts.forEach((count, index) => {
    const tall = count ? Math.max(2, (Math.log1p(count) / Math.log1p(most)) * (height - 12)) : 0;
    context.fillStyle = colours.idle;
    context.fillRect(index * pitch, height - 1 - tall, pitch - 1, tall);
    if (bad[index]) { context.fillStyle = colours.bad; context.beginPath(); context.moveTo(index * pitch - 1, 1); context.lineTo(index * pitch + pitch, 1); context.lineTo(index * pitch + (pitch - 1) / 2, 6); context.fill(); }
  });
}
scrub.addEventListener("input", () => {
  const [start, end] = span();
  if (Number(scrub.value) >= Number(scrub.max)) showLive(); else showTime(Math.min(end, start + Number(scrub.value) * 100));
});
export function stepTime(by) {
  const index = state.position + (by < 0 ? -1 : 1);
  if (by > 0 && index >= state.history.length) return showLive();
  if (index < 0) return undefined;
  return showTime(index === 0 ? state.history[0][0] - 1 : state.history[index - 1][0]);
}
$("earlier").addEventListener("click", () => stepTime(-1));
$("later").addEventListener("click", () => stepTime(1));
$("live").addEventListener("click", showLive);
