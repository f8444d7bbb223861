// The selected branch: its tabs over one detail. Draws what Python sent; decides nothing.

import { h, table } from "./dom.js";
import { bars, heatmap, histogram, roofline } from "./plots.js";
import { sourceTab } from "./source.js";

export const TABS = { card: "Hypothesis", source: "Source", compile: "Compile", numbers: "Numbers", speed: "Speed", profile: "Profile", talk: "Conversation", receipt: "Receipt" };

const field = (name, ...content) => h("div", { class: "field" }, h("div", { class: "name" }, name), h("div", {}, ...content));
const soft = (text) => h("p", { class: "soft" }, text);

function cardTab(detail, panel) {
  const card = detail.hypothesis;
  return [
    detail.message && h("p", { class: `message tone-${detail.row.tone}` }, detail.message),
    detail.explanation && h("p", { class: "explanation" }, detail.explanation),
    detail.choices.length && !panel.frozen ? rewriting(detail, panel) : null,
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

// A card without a kernel can still be changed: words for a reasoner that reads, choices for one that follows a table.
function rewriting(detail, panel) {
  const { id } = detail.row;
  const title = h("input", { type: "text", "aria-label": "Title of the card", maxlength: 200, value: detail.hypothesis.title });
  const fix = h("textarea", { rows: 3, "aria-label": "What to do" });
  fix.value = detail.hypothesis.fix;
  const choices = detail.choices.map((choice) => [choice.name, h("select", { "aria-label": choice.title }, choice.values.map((value) => h("option", { value, selected: value === choice.value }, value))), choice.title]);
  const save = () => panel.send({ type: "rewrite", branch: id, title: title.value.trim() || detail.hypothesis.title, fix: fix.value, choices: Object.fromEntries(choices.map(([name, select]) => [name, select.value])) });
  const row = panel.row();
  return h("details", { class: "rewrite", open: panel.view.steering.cards.includes(id) }, h("summary", {}, "No kernel yet: this card can still be rewritten or struck"),
    h("div", { class: "rewrite-form" }, h("label", {}, "Title", title), h("label", {}, "What to do", fix),
      h("div", { class: "choices" }, choices.map(([, select, name]) => h("label", {}, name, select))),
      h("div", { class: "bar-row" }, h("button", { type: "button", class: "primary", onclick: save }, "Rewrite card"),
        h("button", { type: "button", onclick: () => panel.prune(panel.row()) }, row?.pruned ? "Take it back" : "Strike card"))));
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

function compileTab(detail, panel) {
  const report = detail.compile;
  return [
    ...detail.diagnostics.map((entry) => h("div", { class: `diagnostic-card ${entry.severity}` },
      h("div", {}, h("b", {}, `${entry.severity}, line ${entry.line}: `), entry.message), entry.caret && h("pre", { class: "code" }, entry.caret),
      detail.lines && h("button", { type: "button", class: "small", onclick: () => panel.showLine(entry.line) }, `Line ${entry.line} in the source`))),
    report ? [
      soft(`NVRTC ${report.nvrtc} for ${report.arch}, ${report.cached ? "from the cache" : `${report.seconds} s`}`),
      table(["kernel", "registers", "shared", "spilled", "stack", "constants"], report.kernels.map((k) => ({
        cells: [h("span", { class: "mono" }, k.kernel), k.registers, k.shared, `${k.spill_bytes} B`, `${k.stack_bytes} B`, h("span", { class: "mono soft" }, k.consts)] })), [1, 2, 3, 4]),
      report.kernels.filter((k) => k.occupancy).map((k) => occupancy(k)),
    ] : soft(detail.diagnostics.length ? "Nothing was compiled." : "Not compiled yet."),
    detail.facts.length ? [h("h4", {}, "The plan"), table(["shape", "launches", "least bytes", "planned bytes", "workspace", "in library calls"],
      detail.facts.map((f) => ({ cells: [f.case, f.launches, f.least, f.planned, f.workspace, `${f.library_percent}%`] })), [1, 2, 3, 4, 5])] : null,
  ];
}

function occupancy(kernel) {
  const o = kernel.occupancy;
  return h("div", { class: "occupancy" }, h("h4", {}, "Occupancy of ", h("span", { class: "mono" }, kernel.kernel)),
    h("div", { class: "track wide-track", role: "img", "aria-label": `${o.percent}% of the threads` }, h("div", { style: `width:${o.percent}%` })),
    h("p", {}, h("b", {}, `${o.resident} of ${o.most} threads a multiprocessor (${o.percent}%)`), `, ${o.limit}. Grid ${o.grid}, blocks of ${o.block}. `,
      h("span", { class: "soft" }, `Room for blocks: ${o.limits.map((one) => `${one.name} ${one.blocks}`).join(", ")}.`)));
}

function numbersTab(detail) {
  const worst = detail.difference;
  return [
    worst && h("div", { class: "worst" },
      worst.heatmap.length ? heatmap(worst.heatmap) : null,
      h("div", {},
        h("h4", {}, worst.max_ratio <= 1 ? "Closest call" : "Worst run"), soft(worst.check),
        h("p", {}, `Largest error ${worst.max_abs_text}, ${worst.allowed}.`, worst.wrong_percent ? ` ${worst.wrong_percent}% of the elements are wrong.` : ""),
        worst.pattern && h("p", { class: "message tone-bad" }, h("b", {}, "Pattern: "), worst.pattern),
        worst.worst.length ? [h("h4", {}, `The worst ${worst.worst.length}`), table(["index", "expected", "got"], worst.worst.map((e) => ({
          cells: [h("span", { class: "mono" }, `[${e.index.join(", ")}]`), shown(e.expected), shown(e.got)] })), [1, 2])] : null),
      worst.ulps.length ? h("div", {}, h("h4", {}, "Errors in units of the last place"), histogram(worst.ulps)) : null),
    detail.checks.length ? [h("h4", {}, "Every check against float64"), table(["shape", "inputs", "seed", "largest error", "of the bound", ""], detail.checks.map((c) => ({
      cells: [c.case, c.inputs, c.seed, c.max_abs, c.ratio, h("span", { class: `verdict tone-${c.ok ? "good" : c.covered ? "bad" : "quiet"}` }, c.covered ? (c.ok ? "● within" : "▲ wrong") : "not covered", c.note && ` ${c.note}`)] })), [2, 3, 4])]
      : soft("Nothing was compared yet."),
    detail.counts.length ? [h("h4", {}, "Counted on the emulator"), table(["shape", "launches", "32-byte sectors", "over the least", "loaded", "stored", "barriers"], detail.counts.map((c) => ({
      cells: [c.case, c.launches, c.sectors.toLocaleString("en"), c.sector_ratio === null ? null : `${c.sector_ratio}x`, c.loads, c.stores, c.barriers] })), [1, 2, 3, 4, 5, 6])] : null,
  ];
}

const shown = (value) => (typeof value === "number" ? (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(7)))) : value ?? "–");

function speedTab(detail) {
  if (!detail.times.length) return [soft("A time is worked out once the kernel is right.")];
  return [detail.times.map((time) => h("div", { class: "timing" },
    h("h4", {}, time.case, h("span", { class: "soft" }, ` ${time.speedup} over the fastest baseline, ${time.roofline_percent}% of the roofline, bound by ${time.bound} (${time.source})`)),
    bars([...time.baselines, { name: "this kernel", time_us: time.time_us, time: time.time, kind: "mine", interval: time.measured && [time.measured.low_us, time.measured.high_us] },
      { name: "speed of light", time_us: time.floor_us, time: time.floor, kind: "floor" }]),
    time.note && soft(time.note), time.measured && measured(time.measured))),
  detail.roofline && [h("h4", {}, "Roofline, and the way here"), roofline(detail.roofline)]];
}

const VERDICTS = { faster: ["good", "● faster"], same: ["quiet", "= the same"], slower: ["bad", "▼ slower"], ambiguous: ["warn", "? ambiguous"] };

function measured(m) {
  const facts = [`${m.samples} samples, ${m.clock} clock`, `spread ${m.spread_percent}%`, m.warm && `warm caches ${m.warm}`, m.host && `host ${m.host} a call`,
    m.graph && `in a graph ${m.graph}`, m.clocks, m.power, m.temperature, ...m.crosschecks].filter(Boolean);
  return [
    m.suspicion && h("p", { class: "message tone-warn" }, m.suspicion),
    h("p", { class: "soft" }, `95% of medians lie within ${m.interval}. ${facts.join(" · ")}.`, m.throttled.length ? ` Throttled: ${m.throttled.join(", ")}.` : ""),
    m.rivals.length ? table(["baseline", "time", "its time over ours", "95% interval", "blocks", ""], m.rivals.map((r) => ({
      cells: [r.name, r.time, r.ratio, r.interval, r.blocks, h("span", { class: `verdict tone-${VERDICTS[r.verdict][0]}` }, VERDICTS[r.verdict][1])] })), [1, 2, 3, 4]) : null,
    m.missing.length ? soft(`Not held against ${m.missing.join("; ")}.`) : null,
    m.receipt && soft(`Raw samples: ${m.receipt}`)];
}

function profileTab({ profile }) {
  if (!profile) return [soft("No profile of this branch. One is made of correct kernels where a GPU is attached; counts of the emulator are under Numbers.")];
  return [soft(`${profile.words}, at ${profile.case}.`), profile.bound && h("p", {}, h("b", {}, "Limited by: "), profile.bound),
    profile.sentences.length ? h("ul", {}, profile.sentences.map((text) => h("li", {}, text))) : null,
    profile.kernels.map((kernel) => [h("h4", { class: "mono" }, kernel.kernel), table(["metric", "value", ""], kernel.metrics.map((m) => ({ cells: [m.name, shown(m.value), m.unit] })), [1])]),
    profile.note && soft(profile.note)];
}

function talkTab(detail, panel) {
  if (!detail.conversation.length && !detail.speaking) {
    return [soft(`No model was asked about this branch: it is by ${detail.row.author}.`)];
  }
  return [detail.speaking && [h("h4", {}, "Being said now"), h("pre", { class: "code listing" }, detail.speaking)], detail.conversation.map((one) => h("details", { class: "talk", open: panel.openChips.has(one.id), ontoggle: (event) => panel.openChips[event.target.open ? "add" : "delete"](one.id) },
    h("summary", {}, h("b", {}, one.role), ` ${one.model} `, h("span", { class: "soft" }, `${one.words} · prompt ${one.prompt}`), one.failed && h("span", { class: "verdict tone-bad" }, ` ${one.failed}`)),
    one.messages.map((said) => [h("h4", {}, said.role), h("pre", { class: "code listing" }, said.text)]), h("h4", {}, "answer"), h("pre", { class: "code listing" }, one.answer || "(none)")))];
}

function receiptTab({ receipt }) {
  if (!receipt.length) return [soft("A receipt is written once the kernel is judged.")];
  return [soft("What was judged, where and how. An export holds the same with the raw samples and one command to repeat it."),
    table(["", ""], receipt.map(([name, value]) => ({ cells: [name, h("span", { class: "mono" }, value)] })))];
}

export const DRAW = { card: cardTab, source: sourceTab, compile: compileTab, numbers: numbersTab, speed: speedTab, profile: profileTab, talk: talkTab, receipt: receiptTab };
