// The kernel's text: read with marks and counts, held against another, or edited with a check while typing.
// CodeMirror is loaded when first wanted; until then, and when it cannot be had, plain text does the same.

import { h } from "./dom.js";

const PAUSE_MS = 400;
const PATIENCE_MS = 20000;
let editor = null; // the module, once a page
let wanted = null;

export function loadEditor(panel) {
  if (editor || panel.frozen) return;
  wanted ??= new Promise((resolve) => {
    const give = (module) => { clearTimeout(timer); resolve(module); };
    const timer = setTimeout(() => give(null), PATIENCE_MS);
    panel.gotEditor = async (script) => {
      const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      try { give(await import(url)); } catch { give(null); } finally { URL.revokeObjectURL(url); }
    };
    panel.tell({ type: "editor" });
  });
  wanted.then((module) => {
    editor = module;
    if (!module) { wanted = null; panel.noEditor = true; } else if (panel.tab === "source" && !panel.draft?.typed) panel.redraw(); // not under somebody's hands
  });
}

export const textOf = (detail) => detail.lines.map((runs) => runs.map(([, text]) => text).join("")).join("\n");

export function sourceTab(detail, panel) {
  if (panel.draft) return editing(detail, panel);
  if (!detail.lines) return [h("p", { class: "soft" }, detail.row.stage === "done" ? "No kernel was written." : "The kernel is not written yet."),
    detail.speaking && h("pre", { class: "code listing" }, detail.speaking)];
  if (!panel.noEditor) loadEditor(panel);
  return [bar(detail, panel), panel.against ? compared(detail, panel) : whole(detail, panel)];
}

function bar(detail, panel) {
  const parent = detail.row.parents[0];
  const others = panel.view.rows.filter((row) => row.id !== detail.row.id && row.id !== parent).map((row) => row.id);
  const option = (value, text) => h("option", { value, selected: panel.against === value }, text);
  const select = h("select", { "aria-label": "Compare the source with", onchange: (event) => panel.differ(event.target.value) },
    option("", "the whole kernel"), parent && detail.diff && option(parent, `changes against its parent ${parent}`),
    option("reference", "beside the reference"), others.map((id) => option(id, `changes against ${id}`)));
  return h("div", { class: "bar-row" }, h("label", { class: "soft" }, "Show ", select));
}

function whole(detail, panel) {
  if (!editor) return listing(detail);
  const box = h("div", { class: "editor code" });
  panel.mount(() => {
    const made = editor.create(box, { text: textOf(detail), readOnly: true, label: "Kernel source", counts: detail.line_counts });
    made.mark(detail.diagnostics);
    if (detail.diagnostics.length) made.goTo(detail.diagnostics[0].line);
    return made;
  });
  return box;
}

const runsOf = (runs) => h("span", {}, runs.map(([kind, text]) => h("span", { class: kind }, text)));

export function listing(detail) {
  const marks = new Map();
  for (const entry of detail.diagnostics) marks.set(entry.line, [...(marks.get(entry.line) ?? []), entry]);
  const counted = new Map(detail.line_counts.map((entry) => [entry.line, entry]));
  return h("div", { class: "code listing", tabindex: 0, role: "region", "aria-label": "Kernel source" },
    detail.lines.map((runs, index) => {
      const found = marks.get(index + 1) ?? [];
      const count = counted.get(index + 1);
      return [
        h("div", { class: `line ${found.length ? "marked" : ""}` }, h("span", { class: "no" }, String(index + 1)), runsOf(runs),
          count && h("span", { class: `count ${count.wasteful ? "wasteful" : ""}`, title: count.words }, count.label)),
        found.map((entry) => h("div", { class: `diagnostic ${entry.severity}` }, `${entry.severity}: ${entry.message}`)),
      ];
    }));
}

function compared(detail, panel) {
  if (panel.against === detail.row.parents[0] && detail.diff) return differences(detail.diff, `Changes against ${panel.against}`);
  const found = panel.difference;
  if (found?.branch !== detail.row.id || found.against !== panel.against) return h("p", { class: "soft" }, "Asking for the difference…");
  if (found.reference) {
    const side = (name, lines) => h("div", {}, h("h4", {}, name), h("div", { class: "code listing", tabindex: 0, role: "region", "aria-label": name },
      lines.map((runs, i) => h("div", { class: "line" }, h("span", { class: "no" }, String(i + 1)), runsOf(runs)))));
    return h("div", { class: "beside" }, side("The reference", found.reference), side(detail.row.id, detail.lines));
  }
  return found.lines ? differences(found.lines, `Changes against ${found.against}`) : h("p", { class: "soft" }, `${found.against} has no kernel.`);
}

// Runs of one line cut where a change begins or ends.
function withMarks(runs, marks) {
  let at = 0;
  return runs.flatMap(([kind, text]) => {
    const from = at;
    at += text.length;
    const cuts = [...new Set([0, text.length, ...marks.flat().map((m) => m - from).filter((m) => m > 0 && m < text.length)])].sort((a, b) => a - b);
    return cuts.slice(1).map((end, i) => h("span", { class: `${kind} ${marks.some(([a, b]) => from + cuts[i] >= a && from + end <= b) ? "word-changed" : ""}` }, text.slice(cuts[i], end)));
  });
}

export const differences = (lines, label) => (lines.length ? h("div", { class: "code listing", tabindex: 0, role: "region", "aria-label": label },
  lines.map((entry) => h("div", { class: `line diff-${entry.tag}` }, h("span", { class: "no" }, entry.old ?? ""), h("span", { class: "no" }, entry.new ?? ""),
    h("span", { class: "sign" }, { added: "+", removed: "−", same: " ", gap: "⋯" }[entry.tag]), h("span", {}, withMarks(entry.runs, entry.marks)))))
  : h("p", { class: "soft" }, "The two kernels are the same text."));

// ---- editing

function editing(detail, panel) {
  const { draft } = panel;
  loadEditor(panel);
  const state = h("span", { class: "check-state soft", role: "status", "aria-live": "polite" });
  const errors = h("div", { class: "check-errors" });
  panel.drawCheck = () => {
    const found = panel.checked;
    const bad = found?.diagnostics.filter((entry) => entry.severity === "error").length ?? 0;
    state.className = `check-state ${found?.known ? (bad ? "tone-bad verdict" : "tone-good verdict") : "soft"}`;
    state.textContent = !found ? "checking…" : !found.known ? "cannot be checked here" : bad ? `■ ${bad} error${bad > 1 ? "s" : ""}` : `● ${found.words}`;
    panel.live?.mark?.(found?.diagnostics ?? []);
    errors.replaceChildren(...(panel.live?.mark ? [] : (found?.diagnostics ?? []).map((entry) => h("div", { class: `diagnostic ${entry.severity}` }, `line ${entry.line}: ${entry.message}`))));
  };
  const changed = (text) => {
    draft.text = text;
    draft.typed = true;
    panel.checked = null;
    clearTimeout(panel.pause);
    panel.pause = setTimeout(() => panel.check(text), PAUSE_MS);
    panel.drawCheck();
  };
  const box = editor ? h("div", { class: "editor code editing" }) : plain(detail, draft, changed);
  if (editor) {
    panel.mount(() => editor.create(box, { text: draft.text, label: `Kernel of ${detail.row.id}`, onChange: changed, onSave: () => panel.saveEdit() }));
  }
  const changes = h("button", { type: "button", "aria-pressed": "false", title: "Show what you changed", onclick: () => {
    const on = changes.getAttribute("aria-pressed") !== "true";
    changes.setAttribute("aria-pressed", String(on));
    panel.live?.compare?.(on ? textOf(detail) : null);
  } }, "My changes");
  panel.mount(null, () => { if (!panel.checked) panel.check(draft.text); panel.drawCheck(); });
  return [
    h("div", { class: "bar-row" },
      h("button", { type: "button", class: "primary", title: "Judge it as your child of this branch (Ctrl+S)", onclick: () => panel.saveEdit() }, "Judge this kernel"),
      h("button", { type: "button", title: "Forget what you changed", onclick: () => panel.endEdit(detail.row.id) }, "Cancel"), editor && changes, state,
      h("span", { class: "soft" }, `It becomes your child of ${detail.row.id}; ${detail.row.id} stays as it is.`)),
    box, errors,
  ];
}

function plain(detail, draft, changed) {
  const area = h("textarea", { class: "code", spellcheck: "false", "aria-label": `Kernel of ${detail.row.id}`, wrap: "off", oninput: () => changed(area.value) });
  area.value = draft.text;
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Tab" || event.shiftKey) return;
    event.preventDefault();
    area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
    changed(area.value);
  });
  return area;
}
