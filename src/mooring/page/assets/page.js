// The live page. One module: state (present and past), the list (only what is seen is drawn), the panel, time.
// Text from a cluster is only ever set as textContent; the server's policy forbids anything else.

// ---- words and signs

const SIGNS = {
  nodes: { ready: ["square", "ok", "ready"], notready: ["diamond", "move", "not ready"], silent: ["cross", "bad", "does not answer"], gone: ["box", "bad", "gone"] },
  volumes: {
    "in-use": ["disc", "ok", "in use"], used: ["disc", "ok", "used"], attached: ["half", "ok", "attached"],
    attaching: ["up", "move", "attaching"], detaching: ["down", "move", "detaching"], bound: ["ring", "idle", "bound"],
    available: ["dashed", "idle", "available"], pending: ["diamond", "move", "no volume yet"], awaited: ["diamond", "move", "not on a node yet"], released: ["box", "idle", "released"],
    failed: ["cross", "bad", "failed"], lost: ["cross", "bad", "lost"], deleting: ["bar", "move", "being deleted"],
  },
  pods: { ok: ["disc", "ok", "ready"], wait: ["up", "move", "not ready"], bad: ["cross", "bad", "failing"], done: ["tick", "idle", "done"] },
};
const TRUE_WORDS = { on: "power on", off: "no power" };
const MILESTONES = {
  claimed: "Claimed", provisioned: "Volume exists", bound: "Bound to its claim", wanted: "Wanted on a node",
  attached: "Attached", mounted: "In use on the node", running: "Pod is ready",
};
const UNPLACED = "\u0000unplaced", UNATTACHED = "\u0000unattached"; // groups beside the nodes
const TABLES = ["nodes", "volumes", "pods", "stuck"];
const SETTLE_MS = 8000; // what waits for less than this is on its way rather than stuck
const OVERSCAN = 6;
const MOST_CHANGES = 60000; // that are remembered

const $ = (id) => document.getElementById(id);
const collator = new Intl.Collator("en", { numeric: true });

function make(tag, attributes = {}, ...children) {
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

function sign(table, phase) {
  const [shape, tone] = signOf(table, phase);
  const element = make("span", { class: "sign" });
  element.dataset.shape = shape;
  element.dataset.tone = tone;
  return element;
}
const signOf = (table, phase) => (SIGNS[table] && Object.hasOwn(SIGNS[table], phase) ? SIGNS[table][phase] : ["ring", "idle", phase || "?"]);
const word = (table, phase) => signOf(table, phase)[2];
const numbers = new Intl.NumberFormat("en");
const figure = (number) => (number < 1000 ? String(number) : numbers.format(number));
const plural = (count, noun) => `${figure(count)} ${noun}${count === 1 ? "" : "s"}`;

function clock(at, fine = false) {
  const date = new Date(at);
  const text = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
  return fine ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}
function lasting(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}
const parseTime = (text) => (text ? Date.parse(text) || 0 : 0);

// ---- state: the present, the history, and the moment that is shown

const state = {
  tables: Object.fromEntries(TABLES.map((table) => [table, new Map()])), // as shown
  version: 0, epoch: "", facts: {}, skew: 0, alone: false, lives: {},
  history: [], // [at, changes], each change [table, key, before, after]
  position: 0, // how many of the history's batches are applied: all of them at present
  past: false,
};
const groups = new Map(); // node or pseudo-node -> { volumes: Set, pods: Set, order: null | { volumes: [], pods: [] } }
const searchText = new Map(); // "table key" -> lower-case text
let stuckOf = new Map(); // "table key" -> [about, row], the first that is about it

const now = () => (state.alone ? state.facts.now : Date.now() + state.skew);
const shownTime = () => (state.past ? state.at : now());

function group(name) {
  let found = groups.get(name);
  if (!found) groups.set(name, (found = { volumes: new Set(), pods: new Set(), order: null }));
  return found;
}
function placesOf(table, row) {
  if (table === "volumes") {
    const nodes = new Set((row.on || []).map((place) => place.node));
    for (const node of Object.keys(row.true || {})) nodes.add(node);
    return nodes.size ? [...nodes] : [UNATTACHED];
  }
  return [row.node || UNPLACED];
}
function place(table, key, before, after) {
  const old = before ? placesOf(table, before) : [], fresh = after ? placesOf(table, after) : [];
  if (old.length === fresh.length && old.every((name, index) => name === fresh[index])) {
    if (table === "pods" && String(before.volumes) !== String(after.volumes)) regroup(old[0]);
    if (table === "volumes" && before.claim !== after.claim) old.forEach(regroup);
    return;
  }
  marked.list = true;
  for (const name of old) if (!fresh.includes(name)) { group(name)[table].delete(key); group(name).order = null; }
  for (const name of fresh) if (!old.includes(name)) { group(name)[table].add(key); group(name).order = null; }
  for (const name of old) {
    const held = groups.get(name);
    if (held && !held.volumes.size && !held.pods.size) groups.delete(name);
  }
}
function regroup(name) { const held = groups.get(name); if (held) held.order = null; marked.list = true; }
// How many rows of each phase there are, and how many differ from what is true.
const counts = { nodes: new Map(), volumes: new Map(), pods: new Map() };
let differing = 0;
function count(table, row, by) {
  if (!row || table === "stuck") return;
  const phase = table === "pods" ? row.tone : row.phase, number = (counts[table].get(phase) || 0) + by;
  if (number) counts[table].set(phase, number); else counts[table].delete(phase);
  if (row.differs) differing += by;
}
// The one way in which a row changes, forward or back.
function put(table, key, after) {
  const rows = state.tables[table];
  if (!rows) return;
  const before = rows.get(key);
  if (after) rows.set(key, after); else rows.delete(key);
  searchText.delete(`${table} ${key}`);
  if (table === "volumes" || table === "pods") place(table, key, before, after);
  if (table === "stuck") marked.stuck = true;
  else if (!before || !after || before.phase !== after.phase || before.tone !== after.tone || before.differs !== after.differs) {
    count(table, before, -1);
    count(table, after, 1);
    marked.counts = true;
  }
  if (table === "nodes" && !before !== !after) marked.list = true;
  if (table === "volumes" && !before !== !after) for (const pod of (after || before).pods || []) regroup(state.tables.pods.get(pod)?.node || UNPLACED);
  changed.add(`${table} ${key}`);
}
const marked = { list: true, stuck: true, counts: true };
const changed = new Set();

function load(found) {
  for (const table of TABLES) {
    for (const key of [...state.tables[table].keys()]) if (!Object.hasOwn(found[table], key)) put(table, key, null);
    for (const key of Object.keys(found[table])) {
      const row = found[table][key], before = state.tables[table].get(key);
      if (before) { put(table, key, row); continue; }
      state.tables[table].set(key, row);
      if (table === "volumes" || table === "pods") place(table, key, null, row);
      count(table, row, 1);
    }
  }
  Object.assign(marked, { list: true, stuck: true, counts: true });
  for (const held of groups.values()) held.order = null;
  Object.assign(state, { version: found.version, epoch: found.epoch, past: false });
  takeFacts(found.facts);
}
function takeFacts(facts) {
  state.facts = facts;
  if (!state.alone) state.skew = facts.now - Date.now();
  document.body.dataset.truth = facts.truth ? "yes" : "no";
  $("cluster").textContent = facts.cluster || "";
  marked.stuck = true;
}
function append(version, at, changes) {
  const kept = changes.map(([table, key, after]) => [table, key, presentRow(table, key), after]);
  state.history.push([at, kept]);
  state.version = version;
  if (state.past) return draw(); // the present goes on, unseen
  state.position = state.history.length;
  for (const [table, key, , after] of kept) put(table, key, after);
  draw();
}
// What a row is at present, also while the past is shown.
function presentRow(table, key) {
  if (state.past) {
    for (let index = state.history.length - 1; index >= state.position; index -= 1) {
      const found = state.history[index][1].findLast((change) => change[0] === table && change[1] === key);
      if (found) return found[3];
    }
  }
  return state.tables[table]?.get(key) || null;
}
function moveTo(position) {
  while (state.position > position) {
    state.position -= 1;
    const changes = state.history[state.position][1];
    for (let index = changes.length - 1; index >= 0; index -= 1) put(changes[index][0], changes[index][1], changes[index][2]);
  }
  while (state.position < position) {
    for (const [table, key, , after] of state.history[state.position][1]) put(table, key, after);
    state.position += 1;
  }
}
function showTime(at) {
  let low = 0, high = state.history.length;
  while (low < high) { const middle = (low + high) >> 1; if (state.history[middle][0] <= at) low = middle + 1; else high = middle; }
  state.past = true;
  state.at = at;
  moveTo(low);
  draw();
}
function showLive() {
  moveTo(state.history.length);
  state.past = false;
  forgetOld();
  draw();
}
function forgetOld() {
  if (state.past || state.alone) return;
  const oldest = now() - 3600e3;
  let gone = 0;
  while (gone < state.history.length && state.history[gone][0] < oldest) gone += 1;
  let changes = 0; // the newest of them, up to a bound
  for (let index = state.history.length - 1; index >= gone; index -= 1) { changes += state.history[index][1].length; if (changes > MOST_CHANGES) { gone = index + 1; break; } }
  if (gone) { state.history.splice(0, gone); state.position -= gone; }
}

// ---- the connection

let stream = null;
async function begin() {
  stream?.close();
  try {
    const answer = await fetch("/api/state", { cache: "no-store" });
    if (answer.status === 401) return lost("open the address that mooring page has printed");
    const found = await answer.json();
    if (!found.facts.begun) { link("lost", "reading the cluster"); return setTimeout(begin, 250); }
    state.history = [];
    state.position = 0;
    load(found);
    if (!chosenFold) foldAll(state.tables.volumes.size > 300);
    follow();
    draw();
    requestAnimationFrame(() => { document.body.dataset.painted = String(Math.round(performance.now())); });
    const past = await (await fetch("/api/history", { cache: "no-store" })).json();
    const before = past.filter(([version]) => version <= found.version).map(([, at, changes]) => [at, changes]);
    if (state.epoch !== found.epoch) return; // begun anew meanwhile
    state.history = [...before, ...state.history];
    state.position += before.length;
    timeSignature = "";
    draw();
  } catch { lost("no answer"); setTimeout(begin, 1000); }
}
function follow() {
  stream = new EventSource(`/api/changes?epoch=${state.epoch}&since=${state.version}`);
  stream.addEventListener("open", () => link("live", "live"));
  stream.addEventListener("delta", (event) => {
    const { version, at, changes } = JSON.parse(event.data);
    if (version > state.version) append(version, at, changes);
  });
  stream.addEventListener("facts", (event) => { takeFacts(JSON.parse(event.data)); draw(); });
  stream.addEventListener("reset", () => { stream.close(); setTimeout(begin, 200); });
  stream.addEventListener("error", () => { lost("mooring page does not answer"); if (stream.readyState === EventSource.CLOSED) setTimeout(begin, 1000); });
}
let connection = ["lost", "connecting"];
function link(is, text) { connection = [is, text]; drawLink(); }
const lost = (text) => link("lost", text);
function drawLink() {
  const pill = $("link");
  const behind = !state.alone && state.facts.connected === false && connection[0] === "live";
  const [is, text] = state.past ? ["past", `${lasting(now() - state.at)} ago`] : behind ? ["lost", "the API server does not answer"] : state.alone ? ["past", `as of ${clock(now())}`] : connection;
  if (pill.dataset.is !== is) pill.dataset.is = is;
  if (pill.textContent !== text) pill.textContent = text;
}

// ---- what the list holds: nodes, below each its volumes, and pods that have none

const folded = new Set();
let chosenFold = false, foldByDefault = false;
let entries = []; // [kind, key, node, depth]
let positions = new Map(); // id -> index
let query = "", filter = null, selected = "";
const idOf = (kind, key, node) => `${kind} ${key} ${node}`;
const isFolded = (name) => folded.has(name) !== foldByDefault;
function foldAll(yes) { foldByDefault = yes; folded.clear(); marked.list = true; $("fold").textContent = yes ? "Unfold" : "Fold"; }
function fold(name, yes) { if (isFolded(name) !== yes) { if (folded.has(name)) folded.delete(name); else folded.add(name); } marked.list = true; }

function ordered(name) {
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
function matches(table, key, node) {
  const row = state.tables[table].get(key);
  if (!row) return false;
  if (filter && !passes(table, key, row, node)) return false;
  if (!query) return true;
  const cached = `${table} ${key}`;
  let text = searchText.get(cached);
  if (text === undefined) {
    text = [key, row.claim, row.class, row.driver, word(table, table === "pods" ? row.tone : row.phase), row.phase, row.zone, row.differs, ...(Array.isArray(row.pods) ? row.pods : []), ...(row.marks || [])].filter(Boolean).join(" ").toLowerCase();
    searchText.set(cached, text);
  }
  if (text.includes(query)) return true;
  const reason = stuckOf.size ? reasonFor(table, key, node) : undefined;
  return (reason ? reason[1].chain.some((link) => `${link.code} ${link.message}`.toLowerCase().includes(query)) : false);
}
function passes(table, key, row, node) {
  const [of, phase] = filter;
  if (of === "stuck") return reasonFor(table, key, node) !== undefined;
  if (of === "differs") return Boolean(row.differs);
  return of === table && (table === "pods" ? row.tone : row.phase) === phase;
}
function rebuild() {
  entries = [];
  const narrow = Boolean(query || filter);
  for (const name of [...nodeNames(), UNATTACHED, UNPLACED]) {
    const held = groups.get(name);
    const order = held ? ordered(name) : { volumes: [], pods: [] };
    const pods = order.pods; // those that have a volume are shown with it
    if ((name === UNATTACHED || name === UNPLACED) && !order.volumes.length && !pods.length) continue;
    if (narrow) {
      const whole = !filter && query && name.toLowerCase().includes(query); // of a node that is called so, all
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

// ---- drawing: at most once a frame

let frame = 0;
function draw() { if (!frame) frame = requestAnimationFrame(render); }
function render() {
  frame = 0;
  const began = performance.now();
  if (marked.stuck) gatherStuck();
  if (marked.list || ((query || filter) && (marked.stuck || changed.size))) rebuild();
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
  stuckOf = new Map();
  for (const [about, row] of state.tables.stuck) {
    const of = row.of && `${row.of[0]} ${row.of[1]}`;
    if (of && !stuckOf.has(of)) stuckOf.set(of, [about, row]);
  }
}
const sinceOf = (row) => parseTime(row.chain.find((link) => link.since)?.since) || row.seen;
const settled = (row) => shownTime() - sinceOf(row) > SETTLE_MS;

const list = $("list"), rows = $("rows"), pool = [];
let rowHeight = 30;
function measureRow() { rowHeight = parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10) || 30; }
function drawRows() {
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
  const chosen = positions.get(selected);
  const active = chosen !== undefined && chosen >= first && chosen < last ? pool[chosen % count].element.id : "";
  if (active) list.setAttribute("aria-activedescendant", active); else list.removeAttribute("aria-activedescendant");
}
// Why a row waits: its own reason, or of a volume that of a pod which has it there.
function reasonFor(kind, key, node) {
  const own = stuckOf.get(`${kind} ${key}`);
  if (own || kind !== "volumes") return own;
  for (const pod of state.tables.volumes.get(key)?.pods || []) {
    const found = stuckOf.get(`pods ${pod}`), where = state.tables.pods.get(pod)?.node;
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
  const isSelected = selected === idOf(kind, key, node);
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
  if (kind === "nodes") element.setAttribute("aria-expanded", String(!isFolded(key) || Boolean(query || filter))); else element.removeAttribute("aria-expanded");
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
function reportedOn(row, node) {
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
// People know a volume by its claim; one without a claim by its own name.
// One that its pod defines is called by that pod and its name there.
const isOwn = (key) => key.startsWith("own ");
const nameOf = (key, row) => (row?.claim || (key.startsWith("claim ") ? key.slice(6) : isOwn(key) ? key.slice(4) : key)).replace(/^default\//, "");
const called = (key) => `${isOwn(key) ? "" : "claim "}${nameOf(key, state.tables.volumes.get(key))}`;
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
// A node's volumes as cells, each with its pods as a line on top.
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ok", "move", "bad", "idle", "line", "faint", "focus", "true"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}
// Sizes are read once after each change of the window: reading one makes the browser lay everything out.
const sizes = new Map();
function sizeOf(kind, element) {
  let found = sizes.get(kind);
  if (!found || !found[0]) sizes.set(kind, (found = [element.clientWidth, element.clientHeight]));
  return found;
}
function prepare(canvas, kind) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), [width, height] = sizeOf(kind, canvas);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}
function drawStrip(canvas, name) {
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

// ---- counts, which filter

function drawSummary() {
  const parts = [];
  for (const table of ["nodes", "volumes", "pods"]) {
    parts.push(make("h2", { textContent: table[0].toUpperCase() + table.slice(1) }));
    const order = Object.keys(SIGNS[table]);
    for (const phase of [...counts[table].keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b))) parts.push(chip(table, phase, counts[table].get(phase), sign(table, phase), word(table, phase)));
    if (!counts[table].size) parts.push(make("span", { class: "faint", textContent: "none" }));
  }
  const stuck = stuckOf.size;
  if (stuck || differing || filter) parts.push(make("h2", { textContent: "Only" }));
  if (stuck || filter?.[0] === "stuck") parts.push(chip("stuck", "", stuck, mark("bar", "bad"), "waiting"));
  if (differing || filter?.[0] === "differs") parts.push(chip("differs", "", differing, make("b", { textContent: "≠" }), "reported ≠ true"));
  const held = document.activeElement?.dataset?.chip;
  $("summary").replaceChildren(...parts);
  if (held) [...$("summary").querySelectorAll("button")].find((each) => each.dataset.chip === held)?.focus();
}
function mark(shape, tone) { const element = make("span", { class: "sign" }); element.dataset.shape = shape; element.dataset.tone = tone; return element; }
function chip(table, phase, count, glyph, text) {
  const pressed = filter !== null && filter[0] === table && filter[1] === phase;
  const button = make("button", { type: "button", "aria-pressed": String(pressed) }, glyph, make("b", { textContent: figure(count) }), make("span", { textContent: text }));
  button.dataset.chip = `${table} ${phase}`;
  button.addEventListener("click", () => { filter = pressed ? null : [table, phase]; marked.list = marked.counts = true; list.scrollTop = 0; draw(); });
  return button;
}

// ---- the panel: what waits, or one life

let shownLife = null, lifeAnswer = null, lifeTimer = 0, lifeWanted = "";
const signatures = {};
function drawPanel() {
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
function advice(link) {
  if (!link.next) return [];
  return [make("p", { class: "next" }, make("b", { textContent: "Next: " }), document.createTextNode(link.next)), ...(link.commands || []).map(command)];
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

function open(table, key) {
  const node = table === "nodes" ? key : placesOf(table, state.tables[table].get(key) || {})[0];
  if (table !== "nodes" && !query && !filter) fold(node, false);
  let id = idOf(table, key, node);
  const volume = table === "pods" ? (state.tables.pods.get(key)?.volumes || []).find((each) => state.tables.volumes.has(each)) : null;
  rebuild();
  if (!positions.has(id) && volume) id = idOf("volumes", volume, placesOf("volumes", state.tables.volumes.get(volume))[0]);
  if (positions.has(id)) { selected = id; reveal(); }
  showLife(table, key);
}
function showLife(table, key) {
  if (table === "nodes" && (key === UNATTACHED || key === UNPLACED)) return;
  shownLife = { table, key, kind: table.slice(0, -1) };
  lifeAnswer = null;
  signatures.life = "";
  openPanel(true);
  askLife();
  marked.stuck = true;
  draw();
}
function closeLife() { shownLife = null; lifeAnswer = null; signatures.waiting = ""; marked.stuck = true; draw(); }
function openPanel(yes) { $("panel").dataset.open = yes ? "yes" : "no"; $("fold-panel").setAttribute("aria-expanded", String(yes)); }
function lifeQuery() {
  if (!shownLife) return "";
  const { table, key } = shownLife;
  if (table === "nodes") return `node=${encodeURIComponent(key)}`;
  if (table === "volumes") return `volume=${encodeURIComponent(key)}`;
  const volume = (state.tables.pods.get(key)?.volumes || [])[0];
  return volume ? `volume=${encodeURIComponent(volume)}` : "";
}
async function askLife() {
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
function drawLife() {
  const { table, key, kind } = shownLife;
  const row = state.tables[table].get(key);
  const own = stuckOf.get(`${table} ${key}`), reason = own || (table === "volumes" ? reasonOfPods(row) : null);
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
function reasonOfPods(row) { for (const pod of row?.pods || []) { const found = stuckOf.get(`pods ${pod}`); if (found) return found; } return null; }
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

// ---- time

const scrub = $("scrub");
const span = () => { const end = now(), start = Math.min(state.history[0]?.[0] ?? end, end - 60e3); return [Math.max(start - 5000, end - 3600e3), end]; };
let timeSignature = "", barsDrawn = 0;
function drawTime() {
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
function stepTime(by) {
  const index = state.position + (by < 0 ? -1 : 1);
  if (by > 0 && index >= state.history.length) return showLive();
  if (index < 0) return undefined;
  return showTime(index === 0 ? state.history[0][0] - 1 : state.history[index - 1][0]);
}
$("earlier").addEventListener("click", () => stepTime(-1));
$("later").addEventListener("click", () => stepTime(1));
$("live").addEventListener("click", showLive);

// ---- hands

function select(index) {
  const entry = entries[Math.max(0, Math.min(entries.length - 1, index))];
  if (!entry) return;
  selected = idOf(...entry);
  reveal();
  draw();
}
function reveal() {
  const index = positions.get(selected);
  if (index === undefined) return;
  const top = index * rowHeight;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
}
list.addEventListener("scroll", draw, { passive: true });
list.addEventListener("click", (event) => {
  const item = pool.find((each) => each.element.contains(event.target));
  if (!item?.entry) return;
  selected = idOf(...item.entry);
  if (event.target === item.arrow) fold(item.entry[1], !isFolded(item.entry[1])); else showLife(item.entry[0], item.entry[1]);
  chosenFold = true;
  draw();
});
list.addEventListener("keydown", (event) => {
  const index = positions.get(selected) ?? -1, page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const entry = entries[index];
  if (event.key in steps) select(index + steps[event.key]);
  else if (event.key === "Home") select(0);
  else if (event.key === "End") select(entries.length - 1);
  else if (entry && event.key === "ArrowRight") { if (entry[0] === "nodes" && isFolded(entry[1])) fold(entry[1], false); else select(index + 1); chosenFold = true; draw(); }
  else if (entry && event.key === "ArrowLeft") { if (entry[0] === "nodes") fold(entry[1], true); else select(positions.get(idOf("nodes", entry[2], entry[2]))); chosenFold = true; draw(); }
  else if (entry && (event.key === "Enter" || event.key === " ")) showLife(entry[0], entry[1]);
  else return;
  event.preventDefault();
});
const search = $("search");
search.addEventListener("input", () => { query = search.value.trim().toLowerCase(); marked.list = true; list.scrollTop = 0; draw(); });
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); list.focus(); select(entries.findIndex(([kind, key, node]) => matches(kind, key, node))); }
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !$("keys").open) {
    if (document.activeElement === search && search.value) { search.value = ""; query = ""; marked.list = true; draw(); }
    else if (shownLife) { closeLife(); openPanel(false); list.focus(); } else if (query || filter) { search.value = ""; query = ""; filter = null; marked.list = marked.counts = true; draw(); }
    else if (state.past) showLive(); else { openPanel(false); list.focus(); }
    return;
  }
  if (event.target instanceof HTMLInputElement && event.target.type === "search") return;
  const actions = { "/": () => { search.focus(); search.select(); }, "[": () => stepTime(-1), "]": () => stepTime(1), l: showLive, "?": showKeys };
  if (Object.hasOwn(actions, event.key)) { event.preventDefault(); actions[event.key](); }
});
$("fold").addEventListener("click", () => { chosenFold = true; foldAll(!foldByDefault); draw(); });
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
for (const query of ["(prefers-color-scheme: dark)", "(max-width: 820px)"]) matchMedia(query).addEventListener("change", refit);
for (const element of [list, $("bars")]) new ResizeObserver(refit).observe(element);
function refit() { sizes.clear(); readColours(); measureRow(); for (const item of pool) { item.signature = ""; item.index = -1; } timeSignature = ""; marked.list = true; draw(); }
setInterval(() => { forgetOld(); marked.stuck = marked.stuck || state.tables.stuck.size > 0; draw(); if (shownLife && !state.alone && !state.past) askLife(); }, 1000);

// ---- beginning

$("head").append(...["Node and volume", "Pods", "Reported", "True", "Waits for"].map((text, index) => make("span", { class: ["title", "who", "state", "true", "why"][index], textContent: text })));
document.body.dataset.truth = "no";
readColours();
measureRow();
if (document.querySelector("script[type='application/json']")) {
  const found = JSON.parse(document.querySelector("script[type='application/json']").textContent);
  state.alone = true;
  state.lives = Object.fromEntries(Object.entries(found.lives || {}));
  state.history = (found.history || []).map(([, at, changes]) => [at, changes]);
  state.position = state.history.length;
  load(found);
  foldAll(Object.keys(found.volumes).length > 300);
  $("export").hidden = true;
  if (found.at) showTime(found.at);
  draw();
} else begin();
