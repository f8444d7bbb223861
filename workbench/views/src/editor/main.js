// The kernel's editor: CodeMirror with C++, CUDA's words, the plan comment, lint marks and changes.
// Loaded only when somebody opens a kernel. The panel works without it, with plain text.

import { indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { HighlightStyle, bracketMatching, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, search } from "@codemirror/search";
import { Compartment, EditorState, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin, WidgetType, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { minimalSetup } from "codemirror";

const CUDA = /\b(?:__(?:global|device|host|shared|constant|restrict|forceinline|noinline|launch_bounds)__|threadIdx|blockIdx|blockDim|gridDim|warpSize|(?:float|double|int|uint|half|__half|__nv_bfloat16)[1248]?|half|__half|__nv_bfloat16|u?int(?:8|16|32|64)_t|size_t|__\w+(?:_sync|threads)\w*|__ld\w+|__st\w+)\b/g;

// Hues of theme.css, so that the editor and the listing read alike in light and dark.
const colours = HighlightStyle.define([
  { tag: [tags.comment, tags.lineComment, tags.blockComment], class: "comment" },
  { tag: [tags.string, tags.character], class: "string" },
  { tag: [tags.number, tags.bool], class: "number" },
  { tag: [tags.keyword, tags.typeName, tags.standard(tags.typeName), tags.modifier, tags.controlKeyword], class: "word" },
  { tag: [tags.processingInstruction, tags.macroName], class: "macro" },
]);

const marked = {
  cuda: Decoration.mark({ class: "cuda" }),
  plan: Decoration.mark({ class: "plan" }),
  planLine: Decoration.line({ class: "wb-plan-line" }),
};

function planEnd(text) {
  const found = /^\s*\/\*\s*plan\b[^]*?\*\//.exec(text);
  return found ? found[0].length : 0;
}

function decorate(view) {
  const builder = new RangeSetBuilder();
  const end = planEnd(view.state.sliceDoc(0, 20000));
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to;) {
      const line = view.state.doc.lineAt(at);
      if (line.from < end) {
        builder.add(line.from, line.from, marked.planLine);
        if (line.length) builder.add(line.from, Math.min(line.to, end), marked.plan);
      } else {
        for (const match of line.text.matchAll(CUDA)) builder.add(line.from + match.index, line.from + match.index + match[0].length, marked.cuda);
      }
      at = line.to + 1;
    }
  }
  return builder.finish();
}

const cudaWords = ViewPlugin.fromClass(class {
  constructor(view) { this.decorations = decorate(view); }
  update(update) { if (update.docChanged || update.viewportChanged) this.decorations = decorate(update.view); }
}, { decorations: (plugin) => plugin.decorations });

// At the end of its line: a margin of its own would be empty beside most lines.
class Count extends WidgetType {
  constructor(entry) { super(); this.entry = entry; }
  eq(other) { return other.entry.words === this.entry.words; }
  toDOM() {
    const node = document.createElement("span");
    node.className = `count ${this.entry.wasteful ? "wasteful" : ""}`;
    node.textContent = this.entry.label;
    node.title = this.entry.words;
    return node;
  }
}

const countMarks = (counts) => EditorView.decorations.of((view) => Decoration.set(counts.filter((entry) => entry.line <= view.state.doc.lines)
  .map((entry) => Decoration.widget({ widget: new Count(entry), side: 1 }).range(view.state.doc.line(entry.line).to)), true));

// What is wrong also stands under its line: a squiggle alone wants to be hovered over.
class Complaint extends WidgetType {
  constructor(entry) { super(); this.entry = entry; }
  eq(other) { return other.entry.message === this.entry.message && other.entry.severity === this.entry.severity; }
  toDOM() {
    const node = document.createElement("div");
    node.className = `diagnostic ${this.entry.severity}`;
    node.textContent = `${this.entry.severity}: ${this.entry.message}`;
    return node;
  }
}

const setComplaints = StateEffect.define();
const complaints = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    let next = value.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(setComplaints)) next = effect.value;
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function underLines(doc, found) {
  const entries = found.map((entry) => ({ entry, line: doc.line(Math.min(Math.max(entry.line, 1), doc.lines)) }));
  entries.sort((a, b) => a.line.from - b.line.from);
  return Decoration.set(entries.flatMap(({ entry, line }, i) => [
    ...(i && entries[i - 1].line.from === line.from ? [] : [Decoration.line({ class: `wb-marked-line ${entry.severity}` }).range(line.from)]),
    Decoration.widget({ widget: new Complaint(entry), block: true, side: 1 }).range(line.to)]), true);
}

// One frame of CodeMirror around every kernel; `el` is detached when anywidget renders, so nothing looks for its root.
export function create(parent, { text, readOnly = false, label = "Kernel source", counts = [], onChange, onSave }) {
  const changes = new Compartment();
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        minimalSetup, lineNumbers(), bracketMatching(), highlightSelectionMatches(), search({ top: true }), indentUnit.of("    "), EditorState.tabSize.of(4),
        cpp(), cudaWords, syntaxHighlighting(colours), lintGutter(), complaints, counts.length ? countMarks(counts) : [], changes.of([]),
        EditorState.readOnly.of(readOnly), EditorView.editable.of(true),
        EditorView.contentAttributes.of({ "aria-label": label, "data-lm-suppress-shortcuts": "true", ...(readOnly ? { "aria-readonly": "true" } : {}) }),
        keymap.of([...(readOnly ? [] : [indentWithTab]), { key: "Mod-s", preventDefault: true, run: () => { onSave?.(); return true; } }]),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange?.(update.state.doc.toString()); }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    setText: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    mark: (found) => {
      view.dispatch(setDiagnostics(view.state, found.map((entry) => place(view.state.doc, entry))));
      view.dispatch({ effects: setComplaints.of(underLines(view.state.doc, found)) });
    },
    compare: (original) => view.dispatch({ effects: changes.reconfigure(original === null ? [] : unifiedMergeView({ original, mergeControls: !readOnly, collapseUnchanged: { margin: 3, minSize: 6 } })) }),
    goTo: (number) => {
      const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

function place(doc, entry) {
  const line = doc.line(Math.min(Math.max(entry.line, 1), doc.lines));
  const from = Math.min(line.from + Math.max((entry.column || 1) - 1, 0), line.to);
  const word = /^\w+/.exec(doc.sliceString(from, line.to));
  const start = entry.column ? from : line.from + (/^\s*/.exec(line.text)[0].length);
  const to = entry.column ? from + (word ? word[0].length : 1) : line.to;
  const severity = { error: "error", warning: "warning" }[entry.severity] ?? "info";
  return { from: Math.min(start, line.to), to: Math.min(Math.max(to, start), line.to), severity, message: entry.message };
}
