// The beginning: a page of a server, or a file that stands alone.

import { $, make } from "./words.js";
import { load, showTime, state } from "./state.js";
import { begin } from "./connection.js";
import { foldAll } from "./list.js";
import { draw } from "./frame.js";
import { measureRow } from "./rows.js";
import { readColours } from "./strips.js";
import "./hands.js";

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
