// What a person can say to the search as a whole: hint, next round and its shape, cards to read, stop, undo.

import { h } from "./dom.js";

const OPERATORS = { refine: "one thing better", rewrite: "another structure", crossover: "the best of two" };

export function buildGate(panel) {
  const button = (label, title, act, cls) => h("button", { type: "button", title, class: cls, onclick: act }, label);
  const send = (message) => () => panel.send(message);
  panel.hint = h("input", { type: "text", placeholder: "A hint for the next round, in your words", "aria-label": "Hint for the next round", maxlength: 2000,
    onkeydown: (event) => event.key === "Enter" && panel.sendHint() });
  panel.count = h("input", { type: "number", min: 1, max: 20, value: 3, "aria-label": "Number of rounds", class: "count" });
  panel.stopButton = button("Stop", "Finish what is running and plan no more", send({ type: "stop" }));
  panel.undoButton = button("Undo", "", () => panel.undo());
  panel.nextButton = button("Next round", "Run one more round", send({ type: "rounds", rounds: 1 }), "primary");
  panel.releaseButton = button("Release cards", "Have the kernels of these cards written", send({ type: "release_cards" }), "primary");
  return h("div", { class: "gate", role: "toolbar", "aria-label": "Steer the search" },
    panel.hint, button("Send hint", "Read by the reasoner before the next round", () => panel.sendHint()), plan(panel),
    h("span", { class: "space" }), panel.undoButton, panel.releaseButton, panel.nextButton,
    h("span", { class: "joined" }, button("Run rounds:", "Run this many more rounds", () => panel.send({ type: "rounds", rounds: Number(panel.count.value) })), panel.count),
    panel.stopButton);
}

function plan(panel) {
  const tell = () => panel.send({ type: "shape", operators: Object.keys(OPERATORS).filter((name) => panel.operators[name].checked), width: Number(panel.width.value) || null });
  panel.operators = Object.fromEntries(Object.keys(OPERATORS).map((name) => [name, h("input", { type: "checkbox", onchange: tell })]));
  panel.width = h("input", { type: "number", min: 1, max: 20, placeholder: "–", class: "count", "aria-label": "Branches of the next round", onchange: tell });
  panel.reviews = h("input", { type: "checkbox", onchange: () => panel.send({ type: "review_cards", on: panel.reviews.checked }) });
  panel.deeds = h("ol", { class: "deeds" });
  panel.planWords = h("summary", {}, "Plan");
  const label = (control, name, words) => h("label", {}, control, h("b", {}, name), h("span", { class: "soft" }, ` ${words}`));
  return h("details", { class: "plan-next" }, panel.planWords, h("div", { class: "plan-box" },
    h("h3", {}, "The next round"), Object.entries(OPERATORS).map(([name, words]) => label(panel.operators[name], name, words)),
    h("p", { class: "soft" }, "None chosen: the search decides."),
    h("label", {}, panel.width, h("b", {}, " branches"), h("span", { class: "soft" }, " (empty: as planned)")),
    label(panel.reviews, "read the cards first", "strike or rewrite them before a kernel is written"),
    h("h3", {}, "What was done here"), panel.deeds));
}

const set = (control, name, value) => { if (control[name] !== value && document.activeElement !== control) control[name] = value; };

export function drawGate(panel, view) {
  const { steering, state } = view;
  panel.stopButton.disabled = !["running", "waiting", "reviewing"].includes(state.kind);
  panel.undoButton.disabled = !steering.undo;
  panel.undoButton.title = steering.undo ? `Take back: ${steering.undo} (u)` : "Nothing to take back";
  panel.releaseButton.hidden = !steering.cards.length;
  panel.nextButton.hidden = steering.cards.length > 0;
  for (const [name, control] of Object.entries(panel.operators)) set(control, "checked", steering.operators.includes(name));
  set(panel.width, "value", steering.width === null ? "" : String(steering.width));
  set(panel.reviews, "checked", steering.reviews_cards);
  const chosen = [...steering.operators, ...(steering.width ? [`${steering.width} wide`] : []), ...(steering.reviews_cards ? ["cards first"] : [])];
  const words = chosen.length ? `Plan: ${chosen.join(", ")}` : "Plan";
  if (panel.planWords.textContent !== words) panel.planWords.textContent = words;
  const deeds = JSON.stringify(steering.deeds);
  if (deeds !== panel.drawnDeeds) {
    panel.drawnDeeds = deeds;
    panel.deeds.replaceChildren(...(steering.deeds.length ? [...steering.deeds].reverse().map((text) => h("li", {}, text)) : [h("li", { class: "soft" }, "Nothing yet.")]));
  }
}
