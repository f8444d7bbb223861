// The panel: state of the screen (selection, tab, folds, drafts) and messages to Python. Nothing is decided here.

import { DRAW, TABS } from "./card.js";
import { comparison } from "./compare.js";
import { glyph, h, s } from "./dom.js";
import { buildGate, drawGate } from "./gate.js";
import { textOf } from "./source.js";
import { buildTools, drawTree, focusRow, toggleMark, treeKeys } from "./tree.js";

const DRAFTS = new Map(); // of every panel by its key: they outlive a cell that is moved, which draws its panel anew
const PATIENCE_MS = 15000;

class Panel {
  constructor(model, el) {
    const key = model.get("key");
    if (!DRAFTS.has(key)) DRAFTS.set(key, new Map());
    Object.assign(this, {
      model, uid: `wb-${Math.random().toString(36).slice(2, 9)}`, shapes: model.get("shapes"), frozen: Boolean(model.get("frozen")),
      details: new Map(Object.entries(model.get("details") ?? {})), samples: new Map(Object.entries(model.get("samples") ?? {})), items: new Map(), drawnRails: new Map(), folded: new Set(), marked: new Set(), openChips: new Set(),
      tab: "card", selected: null, followsBest: true, cut: "", zoom: 0, fit: false, hidePruned: true, against: "", mounts: [], tickets: 0,
      drafts: DRAFTS.get(key), // of kernels by their branch, of cards by "card" and the branch
    });
    this.build(el);
    this.onView = () => this.update();
    this.onMessage = (message) => this.receive(message);
    for (const name of ["view", "failure", "busy"]) model.on(`change:${name}`, this.onView);
    this.onUsage = () => this.view.rows && this.drawHead(this.view);
    model.on("change:usage", this.onUsage);
    model.on("msg:custom", this.onMessage);
    // Jupyter's own sign of it; where there is none, the next click finds out.
    this.ends = model.widget_manager?.kernel?.statusChanged;
    this.onStatus = (_, status) => /restarting|terminating|dead/.test(status) && this.cutOff();
    this.ends?.connect(this.onStatus);
    this.update();
  }

  get view() { return this.model.get("view"); }

  build(el) {
    this.head = h("header", { class: "head" });
    this.note = h("div", { class: "note", role: "status", "aria-live": "polite" });
    this.tree = h("div", { class: "tree", role: "tree", "aria-label": "Branches", "aria-multiselectable": "false", onkeydown: (event) => treeKeys(this, event) });
    this.card = h("section", { class: "card blank", tabindex: -1, "aria-label": "Selected branch" });
    this.buildCard();
    this.edgeLayer = s("g");
    this.markLayer = s("g");
    this.rails = s("svg", { class: "rails", width: 700, height: 0, "aria-hidden": "true" }, this.edgeLayer, this.markLayer);
    this.waiting = h("p", { class: "soft empty" });
    this.list = h("div", { role: "none" });
    this.tree.append(this.rails, this.list, this.waiting);
    // On press, not on click: a row's words may change before the button is released.
    this.tree.addEventListener("mousedown", (event) => this.press(event));
    this.compared = h("section", { class: "compared", tabindex: -1, hidden: true, "aria-label": "Comparison" });
    this.split = h("div", { class: "split" }, h("div", { class: "tree-side" }, buildTools(this), this.tree), this.card);
    // The notebook must not hear keys meant for the panel: x would cut the cell.
    this.root = h("div", { class: "wb wb-panel", "data-lm-suppress-shortcuts": "true", onkeydown: (event) => event.stopPropagation() },
      this.head, this.frozen ? null : buildGate(this), this.note, this.split, this.compared);
    // The saved snapshot beside this panel is for readers without a kernel.
    const key = this.model.get("key");
    this.root.append(h("style", {}, key ? `#${key}-snapshot { display: none; }` : ""));
    el.append(this.root);
  }

  press(event) {
    const id = event.button === 0 && event.target.closest("[role=treeitem]")?.dataset.branch;
    if (!id) return;
    event.preventDefault();
    if (event.target.dataset.mark || event.ctrlKey || event.metaKey) return toggleMark(this, id);
    this.select(id, true);
    focusRow(this, id);
  }

  send(message) {
    this.say("");
    this.tell(message);
  }

  tell(message) {
    try { this.model.send(message); } catch { this.cutOff(); }
  }

  // A kernel that is restarted leaves its panels on the page; whoever looks or clicks there is to know.
  cutOff() {
    this.cut = `The notebook's kernel was restarted or has ended, and nothing hears this panel any more. To go on: %cuda_resume ${this.model.get("place") || "FOLDER"}`;
    if (this.view.rows) this.drawHead(this.view);
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

  undo() { if (!this.frozen) this.send({ type: "undo" }); }

  approve(row) { if (row && !this.frozen) this.send({ type: "approve", branch: row.id, undo: row.approved }); }

  prune(row) { if (row && !this.frozen) this.send({ type: "prune", branch: row.id, undo: row.pruned }); }

  // ---- editing

  // What somebody types into the kernel on screen; every branch keeps its own until it is sent or given up.
  get draft() { return this.tab === "source" ? this.drafts.get(this.selected) : undefined; }

  startEdit(row) {
    const detail = row && this.details.get(row.id);
    if (this.frozen) return;
    if (!detail?.lines) return this.say("There is no kernel to edit yet.");
    if (!this.drafts.has(row.id)) this.drafts.set(row.id, { text: textOf(detail), typed: false, sent: null, waits: false });
    this.tab = "source";
    drawTree(this);
    this.drawCard();
    (this.live ?? this.card.querySelector("textarea"))?.focus();
  }

  // What is not answered is asked again: a kernel under load, or one that restarts, may lose a message.
  check(source, again = 2) {
    const ticket = ++this.tickets;
    this.tell({ type: "check", ticket, source });
    if (again) setTimeout(() => { if (this.tickets === ticket && this.draft && !this.checked) this.check(source, again - 1); }, PATIENCE_MS);
  }

  // The text stays until Python has it: it may refuse, be busy or be gone.
  saveEdit() {
    const { draft, selected } = this;
    if (draft.waits && draft.sent === draft.text) return;
    Object.assign(draft, { sent: draft.text, waits: true });
    this.send({ type: "edit", branch: selected, source: draft.text });
    setTimeout(() => {
      if (this.drafts.get(selected) !== draft || !draft.waits) return;
      draft.waits = false;
      this.say(`No answer from the notebook's kernel: it is busy, or gone. Your text of ${selected} stays here.`);
    }, PATIENCE_MS);
  }

  took({ branch, taken }) {
    const draft = this.drafts.get(branch);
    if (!draft) return;
    draft.waits = false;
    if (taken && draft.sent === draft.text) this.endEdit(branch); // else more was typed since
  }

  endEdit(branch) {
    const shown = this.draft && branch === this.selected;
    this.drafts.delete(branch);
    drawTree(this);
    this.drawCard();
    if (shown) focusRow(this, branch); // what had the focus is gone
  }

  // ---- looking

  select(id, chosen = false) {
    if (chosen) this.followsBest = false;
    if (id !== this.selected) this.against = "";
    this.selected = id;
    if (!this.details.has(id)) this.tell({ type: "select", branch: id });
    drawTree(this);
    this.drawCard();
  }

  differ(against) {
    this.against = against;
    if (against && against !== this.row().parents[0]) this.tell({ type: "differ", branch: this.selected, against });
    this.redraw();
  }

  showLine(number) {
    this.open("source");
    this.live?.goTo?.(number);
    this.body.querySelectorAll(".line")[number - 1]?.scrollIntoView({ block: "center" });
  }

  compare() {
    const known = new Set(this.view.rows.map((row) => row.id));
    const branches = [...this.marked].filter((id) => known.has(id));
    if (branches.length < 2 || branches.length > 4) return this.say("Mark two to four branches (m, or the box on the right of a row), then compare.");
    this.comparing = branches;
    this.tell({ type: "compare", branches });
  }

  endComparison() {
    this.comparing = this.found = null;
    this.compared.hidden = true;
    this.split.hidden = false;
    focusRow(this, this.selected);
  }

  drawComparison() {
    this.split.hidden = true;
    this.compared.hidden = false;
    this.compared.replaceChildren(...comparison(this.found, this).flat(Infinity).filter(Boolean));
  }

  receive(message) {
    if (message.type === "detail") {
      this.details.set(message.branch, message.detail);
      if (message.branch === this.selected) this.drawCard();
      if (this.comparing?.includes(message.branch)) this.compare();
    } else if (message.type === "said") this.say(message.text);
    else if (message.type === "edited") this.took(message);
    else if (message.type === "editor") this.gotEditor?.(message.script);
    else if (message.type === "samples") {
      this.samples.set(message.samples.branch, message.samples);
      this.redraw();
    } else if (message.type === "difference") {
      this.difference = message.difference;
      this.redraw();
    } else if (message.type === "comparison" && this.comparing) {
      const first = !this.found;
      this.found = message.comparison;
      this.drawComparison();
      if (first) this.compared.focus();
    } else if (message.type === "checked" && message.ticket === this.tickets && this.draft) {
      this.checked = message;
      this.drawCheck?.();
    }
  }

  // ---- drawing

  update() {
    const view = this.view;
    if (!view.rows) return;
    this.drawHead(view);
    if (!this.frozen) drawGate(this, view);
    const known = view.rows.some((row) => row.id === this.selected);
    const wanted = view.steering.cards[0] ?? view.best?.id ?? view.rows[0]?.id ?? null;
    if (wanted && (!known || (this.followsBest && wanted !== this.selected && !this.draft))) this.select(wanted);
    else {
      drawTree(this);
      this.drawCard();
    }
  }

  drawHead(view) {
    const { problem, progress, state, counts } = view;
    const failure = this.cut || this.model.get("failure");
    const busy = state.kind === "opening" && this.model.get("busy");
    const usage = this.model.get("usage") ?? {};
    const key = JSON.stringify([usage, problem, progress, state, counts, view.subtitle, view.spent, view.messages, failure, busy]);
    if (key === this.drawnHead) return;
    this.drawnHead = key;
    const part = (count, tone, words) => count > 0 && h("div", { class: `tone-${tone}`, style: `width:${(100 * count) / Math.max(1, progress.expected)}%`, title: `${count} ${words}` });
    this.head.replaceChildren(...[
      h("div", { class: "title" }, h("b", {}, problem.name), h("span", { class: "soft" }, ` ${problem.cases.join(", ")}`)),
      h("div", { class: "soft" }, view.subtitle),
      h("div", { class: "progress" },
        h("span", { class: `verdict tone-${failure ? "bad" : state.tone}` }, this.cut ? "cut off" : failure ? "failed" : busy || state.words),
        h("div", { class: "track", role: "progressbar", "aria-label": "Judged branches", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": progress.percent },
          part(counts.passed, "good", "correct"), part(counts.failed, "bad", "not correct"), part(counts.abandoned, "quiet", "without a kernel of their own"), part(counts.in_flight, "busy", "in flight")),
        h("span", { class: "soft" }, progress.words), progress.usual && h("span", { class: "soft" }, progress.usual), view.spent && h("span", { class: "soft" }, view.spent)),
      usage.words && h("div", { class: `gpu soft tone-${usage.tone}` }, h("span", { class: "lamp" }), usage.words),
      ...[failure, ...view.messages].filter(Boolean).map((text) => h("div", { class: "diagnostic-card error", role: "alert" }, text))].filter(Boolean));
  }

  row() { return this.view.rows.find((row) => row.id === this.selected); }

  // Made once and changed in place: a button replaced between press and release would lose the click.
  buildCard() {
    const button = (label, title, act) => h("button", { type: "button", title, onclick: act }, label);
    this.mark = h("span", { class: "mark" });
    this.name = h("h3", { class: "title" });
    this.words = h("div", {});
    this.approveButton = button("Approve", "Make it a parent of the next round (a)", () => this.approve(this.row()));
    this.pruneButton = button("Prune", "No more children from it or from below it (p)", () => this.prune(this.row()));
    this.editButton = button("Edit", "Change the kernel by hand (e)", () => this.startEdit(this.row()));
    this.cardHead = h("div", { class: "card-head" }, this.mark, h("div", { class: "grow" }, this.name, this.words),
      this.frozen ? null : h("div", { class: "actions" }, this.approveButton, this.pruneButton, this.editButton));
    this.tabButtons = Object.entries(TABS).map(([key, label]) => h("button",
      { type: "button", role: "tab", id: `${this.uid}-tab-${key}`, "aria-controls": `${this.uid}-body`, "data-tab": key, onclick: () => this.open(key) }, label));
    this.body = h("div", { class: "body", role: "tabpanel", id: `${this.uid}-body`, tabindex: 0 });
    this.card.append(this.cardHead, h("div", { class: "tabs", role: "tablist", "aria-label": "About this branch", onkeydown: (event) => this.tabKeys(event) }, this.tabButtons), this.body);
  }

  drawCard() {
    const row = this.row();
    const detail = this.details.get(this.selected);
    this.card.classList.toggle("blank", !row);
    if (!row) return;
    this.cardHead.className = `card-head tone-${row.tone}`;
    this.mark.replaceChildren(glyph(this.shapes, row));
    this.name.replaceChildren(h("span", { class: "id" }, row.id), row.title);
    this.words.replaceChildren(...[h("span", { class: "verdict" }, row.words), row.label && ` · ${row.label}`, h("span", { class: "soft" }, detail ? ` · ${detail.origin}` : "")].filter(Boolean));
    for (const [control, label, on] of [[this.approveButton, "Approve", row.approved], [this.pruneButton, "Prune", row.pruned]]) {
      const text = on ? `${label}d ✓` : label;
      if (control.textContent !== text) control.textContent = text;
      control.setAttribute("aria-pressed", String(on));
    }
    for (const control of this.tabButtons) {
      const on = control.dataset.tab === this.tab;
      control.setAttribute("aria-selected", String(on));
      control.tabIndex = on ? 0 : -1;
    }
    this.drawBody(detail);
  }

  // An editor is made once its place is on the page, and is let go of when the tab is drawn anew.
  mount(make, after) { this.mounts.push([make, after]); }

  redraw() {
    this.drawn = null;
    this.drawCard();
  }

  drawBody(detail) {
    // Not under somebody's hands: what is typed into is not drawn again because the branch has news.
    const key = detail && JSON.stringify([this.selected, this.tab, ...(this.draft ? ["draft"] : [this.against, { ...detail, row: [detail.row.tone, detail.row.stage, detail.row.pruned] }])]);
    if (key && key === this.drawn) return;
    this.drawn = key;
    clearTimeout(this.pause);
    this.live?.destroy();
    this.live = this.checked = this.drawCheck = null;
    this.body.setAttribute("aria-labelledby", `${this.uid}-tab-${this.tab}`);
    this.body.classList.toggle("full", this.tab === "source");
    this.body.replaceChildren(...(detail ? DRAW[this.tab](detail, this).flat(Infinity).filter(Boolean) : [h("p", { class: "soft" }, "Asking the kernel for this branch…")]));
    for (const [make, after] of this.mounts.splice(0)) {
      if (make) this.live = make();
      after?.();
    }
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
    clearTimeout(this.pause);
    this.live?.destroy();
    for (const name of ["view", "failure", "busy"]) this.model.off(`change:${name}`, this.onView);
    this.model.off("change:usage", this.onUsage);
    this.model.off("msg:custom", this.onMessage);
    this.ends?.disconnect(this.onStatus);
  }
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    return () => panel.close();
  },
};
