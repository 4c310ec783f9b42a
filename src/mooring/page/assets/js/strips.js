// A node's volumes as cells, on a canvas.

import { signOf } from "./words.js";
import { groups, state } from "./state.js";
import { ordered } from "./list.js";
import { settled } from "./frame.js";
import { reasonFor, reportedOn } from "./rows.js";

// A node's volumes as cells, each with its pods as a line on top.
export const colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ok", "move", "bad", "idle", "line", "faint", "focus", "true"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}
// Sizes are read once after each change of the window: reading one makes the browser lay everything out.
export const sizes = new Map();
export function sizeOf(kind, element) {
  let found = sizes.get(kind);
  if (!found || !found[0]) sizes.set(kind, (found = [element.clientWidth, element.clientHeight]));
  return found;
}
export function prepare(canvas, kind) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), [width, height] = sizeOf(kind, canvas);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}
export function drawStrip(canvas, name) {
  const [context, width, height] = prepare(canvas, "strip");
  const keys = groups.has(name) ? ordered(name).volumes : [];
  if (!keys.length || !width) return;
  const pitch = Math.max(3, Math.min(14, Math.floor(width / keys.length))), cell = Math.max(2, pitch - 2), shown = Math.floor(width / pitch);
  const top = Math.floor(height / 2) - 8;
  // What a node that does not answer has is only what was last heard of it.
  context.globalAlpha = ["silent", "gone"].includes(state.tables.nodes.get(name)?.phase) ? 0.45 : 1;
  keys.slice(0, shown).forEach((key, index) => {
    const row = state.tables.volumes.get(key), x = index * pitch;
    if (!row) return;
    const phase = reportedOn(row, name), [shape, tone] = signOf("volumes", phase || "bound");
    const reason = reasonFor("volumes", key, name), bad = reason !== undefined && settled(reason[1]);
    context.fillStyle = context.strokeStyle = bad ? colours.bad : colours[tone] || colours.idle;
    const y = top + 5, size = 11;
    if (shape === "half") { context.strokeRect(x + .5, y + .5, cell - 1, size - 1); context.fillRect(x, y + size / 2, cell, size / 2); }
    else if (shape === "up" || shape === "down") {
      context.beginPath();
      const [tip, base] = shape === "up" ? [y, y + size] : [y + size, y];
      context.moveTo(x, base); context.lineTo(x + cell, base); context.lineTo(x + cell / 2, tip); context.fill();
    } else if (["ring", "dashed", "box"].includes(shape)) context.strokeRect(x + .5, y + .5, cell - 1, size - 1);
    else context.fillRect(x, y, cell, size);
    if (row.differs) { context.fillStyle = colours.true; context.fillRect(x, y + size + 1, cell, 2); }
    const pods = (row.pods || []).map((pod) => state.tables.pods.get(pod)).filter((pod) => pod && pod.node === name);
    if (pods.length) {
      const tones = pods.map((pod) => signOf("pods", pod.tone)[1]);
      context.fillStyle = colours[tones.includes("bad") ? "bad" : tones.includes("move") ? "move" : tones[0]] || colours.idle;
      context.fillRect(x, top, cell, 3);
    }
  });
  context.globalAlpha = 1;
  if (keys.length > shown) { context.fillStyle = colours.faint; context.font = "11px system-ui"; context.textAlign = "right"; context.clearRect(width - 44, 0, 44, height); context.fillText(`+${keys.length - shown + Math.ceil(44 / pitch)}`, width, height / 2 + 4); }
}
