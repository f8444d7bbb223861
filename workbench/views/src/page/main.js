// Shows the panel on a page of its own, in place of the parts of the static page that it replaces.

import panel from "../panel/main.js";
import { compare, differ } from "./answers.js";

const data = JSON.parse(document.getElementById("wb-data").textContent);
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
