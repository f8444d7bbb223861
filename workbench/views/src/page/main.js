// Shows the panel on a page of its own, in place of the parts of the static page that it replaces.

import panel from "../panel/main.js";
import { compare, differ } from "./answers.js";

// Deflated JSON in base64. A browser without DecompressionStream throws here and keeps the static page.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

const data = await unpacked(document.getElementById("wb-data").textContent);
const heard = [];
const ANSWERS = {
  compare: ({ branches }) => ({ type: "comparison", comparison: compare(data, branches) }),
  differ: ({ branch, against }) => ({ type: "difference", difference: differ(data, branch, against) }),
};
const model = {
  get: (name) => data[name],
  on: (name, act) => { if (name === "msg:custom") heard.push(act); },
  off() {},
  send: (message) => {
    const answer = ANSWERS[message.type]?.(message);
    if (answer) queueMicrotask(() => heard.forEach((act) => act(answer)));
  },
};
const place = document.getElementById("wb-live");
place.hidden = false;
panel.render({ model, el: place });
document.querySelectorAll("[data-replaced]").forEach((part) => { part.hidden = true; });
