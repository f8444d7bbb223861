// The selected branch: five tabs over one detail. Draws what Python sent; decides nothing.

import { h, s, table } from "./dom.js";

export const TABS = { card: "Hypothesis", source: "Source", compile: "Compile", numbers: "Numbers", speed: "Speed" };

const field = (name, ...content) => h("div", { class: "field" }, h("div", { class: "name" }, name), h("div", {}, ...content));

function cardTab(detail, panel) {
  const card = detail.hypothesis;
  return [
    detail.message && h("p", { class: `message tone-${detail.row.tone}` }, detail.message),
    detail.explanation && h("p", { class: "explanation" }, detail.explanation),
    h("div", { class: "fields" },
      card.cause && field("Why it is slow", card.cause),
      card.evidence.length ? field("Evidence", h("ul", {}, card.evidence.map((text) => h("li", {}, text)))) : null,
      card.fix && field("What to do", card.fix),
      card.risk && field("Risk", card.risk),
      card.gain && field(`Over ${detail.row.parents[0]}`, card.gain),
      detail.lesson && field("Lesson", detail.lesson),
      detail.note && field("Note", detail.note),
      detail.techniques.length ? field("Techniques", h("div", { class: "chips" }, [...detail.techniques].sort(byWeight).map((chip) => technique(chip, panel)))) : null),
  ];
}

// What this branch changed first, then what is not the plain choice.
const byWeight = (a, b) => (b.changed - a.changed) || (a.plain - b.plain);

function technique(chip, panel) {
  const open = panel.openChips.has(chip.name);
  return h("details", { class: `chip ${chip.changed ? "changed" : ""} ${chip.plain ? "plain" : ""}`, title: chip.name, open,
    ontoggle: (event) => panel.openChips[event.target.open ? "add" : "delete"](chip.name) },
  h("summary", {}, h("span", { class: "soft" }, `${chip.title}: `), chip.value),
  h("p", {}, chip.teaches || "The playbook has no paragraph on this."));
}

function sourceTab(detail, panel) {
  if (panel.draft?.branch === detail.row.id) return editor(detail, panel);
  if (!detail.lines) return [h("p", { class: "soft" }, "The kernel is being written.")];
  const compared = panel.showDiff && detail.diff;
  return [
    detail.diff && h("div", { class: "bar-row" },
      h("button", { type: "button", "aria-pressed": String(Boolean(compared)), onclick: () => { panel.showDiff = !panel.showDiff; panel.drawCard(); } },
        compared ? "Show the whole kernel" : `Changes against ${detail.row.parents[0]}`)),
    compared ? differences(detail.diff) : code(detail),
  ];
}

function code(detail) {
  const marks = Map.groupBy ? Map.groupBy(detail.diagnostics, (d) => d.line) : grouped(detail.diagnostics);
  const counted = new Map(detail.line_counts.map((entry) => [entry.line, entry]));
  return h("div", { class: "code listing", tabindex: 0, role: "region", "aria-label": "Kernel source" },
    detail.lines.map((runs, index) => {
      const found = marks.get(index + 1) ?? [];
      const count = counted.get(index + 1);
      return [
        h("div", { class: `line ${found.length ? "marked" : ""}` }, h("span", { class: "no" }, String(index + 1)),
          h("span", {}, runs.map(([kind, text]) => h("span", { class: kind }, text))),
          count && h("span", { class: `count ${count.wasteful ? "wasteful" : ""}`, title: count.words }, count.label)),
        found.map((entry) => h("div", { class: `diagnostic ${entry.severity}` }, `${entry.severity}: ${entry.message}`)),
      ];
    }));
}

function grouped(entries) {
  const byLine = new Map();
  for (const entry of entries) byLine.set(entry.line, [...(byLine.get(entry.line) ?? []), entry]);
  return byLine;
}

const differences = (diff) => h("div", { class: "code listing", tabindex: 0, role: "region", "aria-label": "Changes" },
  diff.map((entry) => h("div", { class: `line diff-${entry.tag}` }, h("span", { class: "no" }, entry.old ?? ""),
    h("span", { class: "no" }, entry.new ?? ""), h("span", { class: "sign" }, { added: "+", removed: "−", same: " ", gap: "⋯" }[entry.tag]), h("span", {}, entry.text))));

function editor(detail, panel) {
  const area = h("textarea", { class: "code", spellcheck: "false", "aria-label": `Kernel of ${detail.row.id}`, wrap: "off",
    oninput: () => { panel.draft.text = area.value; } });
  area.value = panel.draft.text;
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Tab" || event.shiftKey) return;
    event.preventDefault();
    area.setRangeText("    ", area.selectionStart, area.selectionEnd, "end");
    panel.draft.text = area.value;
  });
  return [
    h("div", { class: "bar-row" },
      h("button", { type: "button", class: "primary", onclick: () => panel.saveEdit() }, "Judge this kernel"),
      h("button", { type: "button", onclick: () => panel.cancelEdit() }, "Cancel"),
      h("span", { class: "soft" }, `It becomes your child of ${detail.row.id}; ${detail.row.id} stays as it is.`)),
    area,
  ];
}

function compileTab(detail) {
  const report = detail.compile;
  return [
    ...detail.diagnostics.map((entry) => h("div", { class: `diagnostic-card ${entry.severity}` },
      h("div", {}, h("b", {}, `${entry.severity}, line ${entry.line}: `), entry.message), entry.caret && h("pre", { class: "code" }, entry.caret))),
    report ? [
      h("p", { class: "soft" }, `NVRTC ${report.nvrtc} for ${report.arch}, ${report.cached ? "from the cache" : `${report.seconds} s`}`),
      table(["kernel", "registers", "shared", "spilled", "stack", "constants"], report.kernels.map((k) => ({
        cells: [h("span", { class: "mono" }, k.kernel), k.registers, k.shared, `${k.spill_bytes} B`, `${k.stack_bytes} B`, h("span", { class: "mono soft" }, k.consts)] })), [1, 2, 3, 4]),
    ] : h("p", { class: "soft" }, detail.diagnostics.length ? "Nothing was compiled." : "Not compiled yet."),
    detail.facts.length ? [h("h4", {}, "The plan"), table(["shape", "launches", "least bytes", "planned bytes", "workspace", "in library calls"],
      detail.facts.map((f) => ({ cells: [f.case, f.launches, f.least, f.planned, f.workspace, `${f.library_percent}%`] })), [1, 2, 3, 4, 5])] : null,
  ];
}

function numbersTab(detail, panel) {
  const worst = detail.difference;
  return [
    worst && h("div", { class: "worst" },
      worst.heatmap.length ? heatmap(worst.heatmap) : null,
      h("div", {},
        h("h4", {}, worst.max_ratio <= 1 ? "Closest call" : "Worst run"), h("p", { class: "soft" }, worst.check),
        h("p", {}, `Largest error ${worst.max_abs_text}, ${worst.allowed}.`,
          worst.wrong_percent ? ` ${worst.wrong_percent}% of the elements are wrong.` : "", worst.pattern ? ` Where: ${worst.pattern}.` : ""),
        worst.worst.length ? table(["index", "expected", "got"], worst.worst.map((e) => ({
          cells: [h("span", { class: "mono" }, `[${e.index.join(", ")}]`), shown(e.expected), shown(e.got)] })), [1, 2]) : null)),
    detail.checks.length ? [h("h4", {}, "Every check against float64"), table(["shape", "inputs", "seed", "largest error", "of the bound", ""], detail.checks.map((c) => ({
      cells: [c.case, c.inputs, c.seed, c.max_abs, c.ratio, h("span", { class: `verdict tone-${c.ok ? "good" : c.covered ? "bad" : "quiet"}` }, c.covered ? (c.ok ? "● within" : "▲ wrong") : "not covered", c.note && ` ${c.note}`)] })), [2, 3, 4])]
      : h("p", { class: "soft" }, "Nothing was compared yet."),
    detail.counts.length ? [h("h4", {}, "Counted on the emulator"), table(["shape", "launches", "32-byte sectors", "over the least", "loaded", "stored", "barriers"], detail.counts.map((c) => ({
      cells: [c.case, c.launches, c.sectors.toLocaleString("en"), c.sector_ratio === null ? null : `${c.sector_ratio}x`, c.loads, c.stores, c.barriers] })), [1, 2, 3, 4, 5, 6])] : null,
  ];
}

const shown = (value) => (typeof value === "number" ? (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(7)))) : value ?? "–");

function heatmap(levels) {
  const [rows, columns] = [levels.length, Math.max(...levels.map((row) => row.length))];
  const side = Math.min(10, 220 / Math.max(rows, columns));
  return h("figure", { class: "heat" },
    s("svg", { width: columns * side, height: Math.max(rows * side, 8), viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": "Error over bound, rows by columns of the output" },
      levels.map((row, y) => row.map((level, x) => s("rect", { x, y, width: 1, height: 1, class: `heat${level}` })))),
    h("figcaption", { class: "soft" }, "blue: within the bound · orange: beyond it · black: NaN or far beyond"));
}

function speedTab(detail) {
  if (!detail.times.length) return [h("p", { class: "soft" }, "A time is worked out once the kernel is right.")];
  return detail.times.map((time) => h("div", { class: "timing" },
    h("h4", {}, time.case, h("span", { class: "soft" }, ` ${time.speedup} over the fastest baseline, ${time.roofline_percent}% of the roofline, bound by ${time.bound} (${time.source})`)),
    bars([...time.baselines, { name: "this kernel", time_us: time.time_us, time: time.time, kind: "mine" },
      { name: "speed of light", time_us: time.floor_us, time: time.floor, kind: "floor" }]),
    time.note && h("p", { class: "soft" }, time.note)));
}

function bars(entries) {
  const top = Math.max(...entries.map((entry) => entry.time_us));
  const [label, span, line] = [130, 300, 24];
  return s("svg", { class: "bars", viewBox: `0 0 ${label + span + 80} ${entries.length * line}`, role: "img",
    "aria-label": entries.map((entry) => `${entry.name} ${entry.time}`).join(", ") },
  entries.map((entry, i) => {
    const width = Math.max(2, (span * entry.time_us) / top);
    const strong = entry.kind === "mine" ? "bar-text strong" : "bar-text";
    return [s("text", { x: label - 8, y: i * line + 16, class: strong, "text-anchor": "end" }, entry.name),
      s("rect", { x: label, y: i * line + 4, width, height: line - 9, rx: 2, class: `bar ${entry.kind ?? ""}` }),
      s("text", { x: label + width + 6, y: i * line + 16, class: strong }, entry.time)];
  }));
}

export const DRAW = { card: cardTab, source: sourceTab, compile: compileTab, numbers: numbersTab, speed: speedTab };
