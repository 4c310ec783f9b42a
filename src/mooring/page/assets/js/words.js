// Words, signs, and small makers of elements. Text from a cluster is only ever set as textContent; the server's policy
// forbids anything else.

export const SIGNS = {
  nodes: { ready: ["square", "ok", "ready"], notready: ["diamond", "move", "not ready"], silent: ["cross", "bad", "does not answer"], gone: ["box", "bad", "gone"] },
  volumes: {
    "in-use": ["disc", "ok", "in use"], used: ["disc", "ok", "used"], attached: ["half", "ok", "attached"],
    attaching: ["up", "move", "attaching"], detaching: ["down", "move", "detaching"], bound: ["ring", "idle", "bound"],
    available: ["dashed", "idle", "available"], pending: ["diamond", "move", "no volume yet"], awaited: ["diamond", "move", "not on a node yet"], released: ["box", "idle", "released"],
    failed: ["cross", "bad", "failed"], lost: ["cross", "bad", "lost"], deleting: ["bar", "move", "being deleted"],
  },
  pods: { ok: ["disc", "ok", "ready"], wait: ["up", "move", "not ready"], bad: ["cross", "bad", "failing"], done: ["tick", "idle", "done"] },
};
export const TRUE_WORDS = { on: "power on", off: "no power" };
export const MILESTONES = {
  claimed: "Claimed", provisioned: "Volume exists", bound: "Bound to its claim", wanted: "Wanted on a node",
  attached: "Attached", mounted: "In use on the node", running: "Pod is ready",
};
export const UNPLACED = "\u0000unplaced", UNATTACHED = "\u0000unattached"; // groups beside the nodes
export const TABLES = ["nodes", "volumes", "pods", "stuck"];
export const SETTLE_MS = 8000; // what waits for less than this is on its way rather than stuck
export const OVERSCAN = 6;
export const MOST_CHANGES = 60000; // that are remembered

export const $ = (id) => document.getElementById(id);
export const collator = new Intl.Collator("en", { numeric: true });

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function sign(table, phase) {
  const [shape, tone] = signOf(table, phase);
  const element = make("span", { class: "sign" });
  element.dataset.shape = shape;
  element.dataset.tone = tone;
  return element;
}
export const signOf = (table, phase) => (SIGNS[table] && Object.hasOwn(SIGNS[table], phase) ? SIGNS[table][phase] : ["ring", "idle", phase || "?"]);
export const word = (table, phase) => signOf(table, phase)[2];
const numbers = new Intl.NumberFormat("en");
export const figure = (number) => (number < 1000 ? String(number) : numbers.format(number));
export const plural = (count, noun) => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;

export function clock(at, fine = false) {
  const date = new Date(at);
  const text = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
  return fine ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}
export function lasting(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}
export const parseTime = (text) => (text ? Date.parse(text) || 0 : 0);
export function mark(shape, tone) { const element = make("span", { class: "sign" }); element.dataset.shape = shape; element.dataset.tone = tone; return element; }
