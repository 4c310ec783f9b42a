// The connection to the server: the state, then each change.

import { $, clock, lasting } from "./words.js";
import { append, load, now, state, takeFacts } from "./state.js";
import { foldAll, view } from "./list.js";
import { draw } from "./frame.js";
import { drawBarsAnew } from "./time.js";

let stream = null;
export async function begin() {
  stream?.close();
  try {
    const answer = await fetch("/api/state", { cache: "no-store" });
    if (answer.status === 401) return lost("open the address that mooring page has printed");
    const found = await answer.json();
    if (!found.facts.begun) { link("lost", "reading the cluster"); return setTimeout(begin, 250); }
    state.history = [];
    state.position = 0;
    load(found);
    if (!view.chosenFold) foldAll(state.tables.volumes.size > 300);
    follow();
    draw();
    requestAnimationFrame(() => { document.body.dataset.painted = String(Math.round(performance.now())); });
    const past = await (await fetch("/api/history", { cache: "no-store" })).json();
    const before = past.filter(([version]) => version <= found.version).map(([, at, changes]) => [at, changes]);
    if (state.epoch !== found.epoch) return; // begun anew meanwhile
    state.history = [...before, ...state.history];
    state.position += before.length;
    drawBarsAnew();
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
export function drawLink() {
  const pill = $("link");
  const behind = !state.alone && state.facts.connected === false && connection[0] === "live";
  const [is, text] = state.past ? ["past", `${lasting(now() - state.at)} ago`] : behind ? ["lost", "the API server does not answer"] : state.alone ? ["past", `as of ${clock(now())}`] : connection;
  if (pill.dataset.is !== is) pill.dataset.is = is;
  if (pill.textContent !== text) pill.textContent = text;
}
