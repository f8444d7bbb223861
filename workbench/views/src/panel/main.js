// The panel: state of the screen (selection, tab, folds, drafts) and messages to Python. Nothing is decided here.

import { DRAW, TABS } from "./card.js";
import { glyph, h, s } from "./dom.js";
import { drawTree, focusRow, treeKeys } from "./tree.js";

class Panel {
  constructor(model, el) {
    this.model = model;
    this.uid = `wb-${Math.random().toString(36).slice(2, 9)}`;
    this.shapes = model.get("shapes");
    this.details = new Map();
    this.folded = new Set();
    this.openChips = new Set();
    this.tab = "card";
    this.selected = null;
    this.followsBest = true;
    this.build(el);
    model.on("change:view", this.onView = () => this.update());
    model.on("change:failure", this.onView);
    model.on("change:busy", this.onView);
    model.on("msg:custom", this.onMessage = (message) => this.receive(message));
    this.update();
  }

  get view() { return this.model.get("view"); }

  build(el) {
    this.head = h("header", { class: "head" });
    this.note = h("div", { class: "note", role: "status", "aria-live": "polite" });
    this.tree = h("div", { class: "tree", role: "tree", "aria-label": "Branches", onkeydown: (event) => treeKeys(this, this.view, event) });
    this.card = h("section", { class: "card blank", tabindex: -1, "aria-label": "Selected branch" });
    this.buildCard();
    this.items = new Map();
    this.rails = s("svg", { class: "rails", width: 320, height: 0, "aria-hidden": "true" });
    this.waiting = h("p", { class: "soft empty" }, "No branch yet: the reasoner is reading the problem.");
    this.list = h("div", { role: "none" });
    this.tree.append(this.rails, this.list, this.waiting);
    // On press, not on click: a row's words may change before the button is released.
    this.tree.addEventListener("mousedown", (event) => {
      const id = event.button === 0 && event.target.closest("[role=treeitem]")?.dataset.branch;
      if (!id) return;
      event.preventDefault();
      this.select(id, true);
      focusRow(this, id);
    });
    // The notebook must not hear keys meant for the panel: x would cut the cell.
    this.root = h("div", { class: "wb wb-panel", "data-lm-suppress-shortcuts": "true", onkeydown: (event) => event.stopPropagation() },
      this.head, this.gate(), this.note, h("div", { class: "split" }, this.tree, this.card));
    // The saved snapshot beside this panel is for readers without a kernel.
    const key = this.model.get("key");
    this.root.append(h("style", {}, key ? `#${key}-snapshot { display: none; }` : ""));
    el.append(this.root);
  }

  gate() {
    this.hint = h("input", { type: "text", placeholder: "A hint for the next round, in your words", "aria-label": "Hint for the next round", maxlength: 2000,
      onkeydown: (event) => event.key === "Enter" && this.sendHint() });
    this.count = h("input", { type: "number", min: 1, max: 20, value: 3, "aria-label": "Number of rounds", class: "count" });
    const button = (label, title, act, cls) => h("button", { type: "button", title, class: cls, onclick: act }, label);
    this.stop = button("Stop", "Finish what is running and plan no more", () => this.send({ type: "stop" }));
    this.undo = button("Undo", "Take back your last approve or prune", () => this.send({ type: "undo" }));
    return h("div", { class: "gate", role: "toolbar", "aria-label": "Steer the search" },
      this.hint, button("Send hint", "Read by the reasoner before the next round", () => this.sendHint()),
      h("span", { class: "space" }), this.undo,
      button("Next round", "Run one more round", () => this.send({ type: "rounds", rounds: 1 }), "primary"),
      h("span", { class: "joined" }, button("Run rounds:", "Run this many more rounds", () => this.send({ type: "rounds", rounds: Number(this.count.value) })), this.count),
      this.stop);
  }

  send(message) {
    this.say("");
    this.model.send(message);
  }

  say(text) {
    this.note.textContent = text;
    clearTimeout(this.silence);
    this.silence = setTimeout(() => { this.note.textContent = ""; }, 10000);
  }

  sendHint() {
    const text = this.hint.value.trim();
    if (!text) return this.hint.focus();
    this.send({ type: "hint", text });
    this.hint.value = "";
  }

  approve(row) { if (row) this.send({ type: "approve", branch: row.id, undo: row.approved }); }

  prune(row) { if (row) this.send({ type: "prune", branch: row.id, undo: row.pruned }); }

  startEdit(row) {
    const detail = row && this.details.get(row.id);
    if (!detail?.lines) return this.say("There is no kernel to edit yet.");
    this.draft = { branch: row.id, text: detail.lines.map((runs) => runs.map(([, text]) => text).join("")).join("\n") };
    this.tab = "source";
    this.drawCard();
    this.card.querySelector("textarea")?.focus();
  }

  saveEdit() {
    this.send({ type: "edit", branch: this.draft.branch, source: this.draft.text });
    this.cancelEdit();
  }

  cancelEdit() {
    this.draft = null;
    this.drawCard();
  }

  select(id, chosen = false) {
    if (chosen) this.followsBest = false;
    this.selected = id;
    if (!this.details.has(id)) this.model.send({ type: "select", branch: id });
    drawTree(this, this.view);
    this.drawCard();
  }

  receive(message) {
    if (message.type === "detail") {
      this.details.set(message.branch, message.detail);
      if (message.branch === this.selected && this.draft?.branch !== this.selected) this.drawCard();
    } else if (message.type === "said") this.say(message.text);
  }

  update() {
    const view = this.view;
    if (!view.rows) return;
    this.drawHead(view);
    const known = view.rows.some((row) => row.id === this.selected);
    const wanted = view.best?.id ?? view.rows[0]?.id ?? null;
    if (wanted && (!known || (this.followsBest && wanted !== this.selected && !this.draft))) this.select(wanted);
    else {
      drawTree(this, view);
      this.drawCard();
    }
  }

  drawHead(view) {
    const { problem, progress, state } = view;
    const failure = this.model.get("failure");
    const busy = state.kind === "opening" && this.model.get("busy");
    this.head.replaceChildren(
      h("div", { class: "title" }, h("b", {}, problem.name), h("span", { class: "soft" }, ` ${problem.cases.join(", ")}`)),
      h("div", { class: "soft" }, view.subtitle),
      h("div", { class: "progress" },
        h("span", { class: `verdict tone-${failure ? "bad" : state.tone}` }, failure ? "failed" : busy || state.words),
        h("div", { class: "track", role: "progressbar", "aria-label": "Judged branches", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": progress.percent },
          h("div", { style: `width:${progress.percent}%` })),
        h("span", { class: "soft" }, progress.words)),
      ...[failure, ...view.messages].filter(Boolean).map((text) => h("div", { class: "diagnostic-card error" }, text)));
    this.stop.disabled = state.kind !== "running" && state.kind !== "waiting";
    this.undo.disabled = !view.undoable;
  }

  row() { return this.view.rows.find((row) => row.id === this.selected); }

  // Made once and changed in place: a button replaced between press and release would lose the click.
  buildCard() {
    const button = (label, title, act) => h("button", { type: "button", title, onclick: act }, label);
    this.mark = h("span", { class: "mark" });
    this.name = h("div", { class: "title" });
    this.words = h("div", {});
    this.approveButton = button("Approve", "Make it a parent of the next round (a)", () => this.approve(this.row()));
    this.pruneButton = button("Prune", "No more children from it or from below it (p)", () => this.prune(this.row()));
    this.cardHead = h("div", { class: "card-head" }, this.mark, h("div", { class: "grow" }, this.name, this.words),
      h("div", { class: "actions" }, this.approveButton, this.pruneButton, button("Edit", "Change the kernel by hand (e)", () => this.startEdit(this.row()))));
    this.tabButtons = Object.entries(TABS).map(([key, label]) => h("button",
      { type: "button", role: "tab", "aria-controls": `${this.uid}-body`, "data-tab": key, onclick: () => this.open(key) }, label));
    this.body = h("div", { class: "body", role: "tabpanel", id: `${this.uid}-body` });
    this.card.append(this.cardHead, h("div", { class: "tabs", role: "tablist", onkeydown: (event) => this.tabKeys(event) }, this.tabButtons), this.body);
  }

  drawCard() {
    const row = this.row();
    const detail = this.details.get(this.selected);
    this.card.classList.toggle("blank", !row);
    if (!row) return;
    this.cardHead.className = `card-head tone-${row.tone}`;
    this.mark.replaceChildren(glyph(this.shapes, row));
    this.name.replaceChildren(h("span", { class: "id" }, row.id), row.title);
    this.words.replaceChildren(h("span", { class: "verdict" }, row.words), row.label && ` · ${row.label}`, h("span", { class: "soft" }, detail ? ` · ${detail.origin}` : ""));
    for (const [control, label, on] of [[this.approveButton, "Approve", row.approved], [this.pruneButton, "Prune", row.pruned]]) {
      control.textContent = on ? `${label}d ✓` : label;
      control.setAttribute("aria-pressed", String(on));
    }
    for (const control of this.tabButtons) {
      const on = control.dataset.tab === this.tab;
      control.setAttribute("aria-selected", String(on));
      control.tabIndex = on ? 0 : -1;
    }
    this.drawBody(detail);
  }

  drawBody(detail) {
    const key = detail && JSON.stringify([this.selected, this.tab, this.showDiff, this.draft?.branch, { ...detail, row: detail.row.tone }]);
    if (key && key === this.drawn) return;
    this.drawn = key;
    this.body.setAttribute("aria-label", TABS[this.tab]);
    this.body.replaceChildren(...(detail ? DRAW[this.tab](detail, this).flat(Infinity).filter(Boolean) : [h("p", { class: "soft" }, "Asking the kernel for this branch…")]));
  }

  open(tab) {
    this.tab = tab;
    this.drawCard();
    this.tabButtons.find((control) => control.dataset.tab === tab).focus();
  }

  tabKeys(event) {
    const keys = Object.keys(TABS);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) this.open(keys[(keys.indexOf(this.tab) + step + keys.length) % keys.length]);
  }

  close() {
    clearTimeout(this.silence);
    this.model.off("change:view", this.onView);
    this.model.off("change:failure", this.onView);
    this.model.off("change:busy", this.onView);
    this.model.off("msg:custom", this.onMessage);
  }
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    return () => panel.close();
  },
};
