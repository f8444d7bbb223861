// The selected branch: its tabs over one detail. Draws what Python sent; decides nothing.

import { drawn, h, table } from "./dom.js";
import { sourceTab } from "./source.js";
import { shown, speedTab } from "./speed.js";

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
      detail.parents.length > 1 ? field("Came from", h("ul", {}, detail.parents.map((parent) => h("li", {},
        h("button", { type: "button", class: "small", title: "Look at this branch", onclick: () => panel.select(parent.id, true) }, parent.id), ` ${parent.title}`, parent.label && h("span", { class: "soft" }, `, ${parent.label}`))))) : null,
      detail.speed?.rows.length > 1 ? field("By shape", h("div", { class: "chips" }, detail.speed.rows.map((row) => h("span", { class: `chip verdict tone-${row.tone}`, title: `${row.time}, ${row.roofline} of the roofline` }, h("span", { class: "soft" }, `${row.case} `), row.speedup)))) : null,
      card.cause && field("Why it is slow", card.cause),
      card.evidence.length ? field("Evidence", h("ul", {}, card.evidence.map((text) => h("li", {}, text)))) : null,
      card.seen.length ? field("Seen before", h("ul", {}, card.seen.map((text) => h("li", {}, text)))) : null,
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
  const place = `card ${id}`;
  const typed = panel.drafts.get(place) ?? detail.hypothesis; // kept while somebody looks at another card
  const chosen = () => Object.fromEntries(choices.map(([name, select]) => [name, select.value]));
  const keep = () => panel.drafts.set(place, { title: title.value, fix: fix.value, choices: chosen() });
  const title = h("input", { type: "text", "aria-label": "Title of the card", maxlength: 200, value: typed.title, oninput: keep });
  const fix = h("textarea", { rows: 3, "aria-label": "What to do", oninput: keep });
  fix.value = typed.fix;
  const choices = detail.choices.map((choice) => [choice.name, h("select", { "aria-label": choice.title, onchange: keep },
    choice.values.map((value) => h("option", { value, selected: value === (typed.choices?.[choice.name] ?? choice.value) }, value))), choice.title]);
  const save = () => {
    panel.send({ type: "rewrite", branch: id, title: title.value.trim() || detail.hypothesis.title, fix: fix.value, choices: chosen() });
    panel.drafts.delete(place);
  };
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
      table(["kernel", "registers", "shared", "spilled", "occupancy", "limited by"], report.kernels.map((k) => ({
        cells: [[h("span", { class: "mono name" }, k.kernel), k.consts && h("div", { class: "mono soft fine" }, k.consts)], k.registers, k.shared,
          `${k.spill_bytes} B${k.stack_bytes ? `, stack ${k.stack_bytes} B` : ""}`, ...occupancy(k.occupancy)] })), [1, 2, 3, 4]),
    ] : soft(detail.diagnostics.length ? "Nothing was compiled." : "Not compiled yet."),
    detail.facts.length ? [h("h4", {}, "The plan"), table(["shape", "launches", "least bytes", "planned", "workspace", "in libraries"],
      detail.facts.map((f) => ({ cells: [f.case, f.launches, f.least, f.planned, f.workspace, `${f.library_percent}%`] })), [1, 2, 3, 4, 5])] : null,
  ];
}

function occupancy(o) {
  if (!o) return [null, null];
  const words = `${o.resident} of ${o.most} threads a multiprocessor. Room for blocks: ${o.limits.map((one) => `${one.name} ${one.blocks}`).join(", ")}`;
  return [h("span", { title: words }, `${o.percent}%`, h("div", { class: "track", role: "img", "aria-label": words }, h("div", { style: `width:${o.percent}%` }))),
    [o.limit.replace("limited by ", ""), h("div", { class: "soft fine" }, `${o.grid} blocks of ${o.block}`)]];
}

function numbersTab(detail) {
  const worst = detail.difference;
  return [
    worst && h("div", { class: "worst" },
      worst.heatmap && h("figure", { class: "heat" }, drawn(worst.heatmap), h("figcaption", { class: "soft" }, "Error over bound, rows by columns of the output. Blue is within the bound, orange beyond, black NaN or infinite.")),
      h("div", {},
        h("h4", {}, worst.max_ratio <= 1 ? "Closest call" : "Worst run"), soft(worst.check),
        h("p", {}, `Largest error ${worst.max_abs_text}, ${worst.allowed}.`, worst.wrong_percent ? ` ${worst.wrong_percent}% of the elements are wrong.` : ""),
        worst.pattern && h("p", { class: "message tone-bad" }, h("b", {}, "Pattern: "), worst.pattern),
        worst.worst.length ? [h("h4", {}, `The worst ${worst.worst.length}`), table(["index", "expected", "got"], worst.worst.map((e) => ({
          cells: [h("span", { class: "mono" }, `[${e.index.join(", ")}]`), shown(e.expected), shown(e.got)] })), [1, 2])] : null),
      worst.ulps && h("div", {}, h("h4", {}, "Errors in units of the last place"), drawn(worst.ulps))),
    detail.checks.length ? [h("h4", {}, "Every check against float64"), h("div", { class: "tight" }, table(["shape", "inputs", "seed", "largest error", "of the bound", "verdict"], detail.checks.map((c) => ({
      cells: [c.case, c.inputs, c.seed, c.max_abs, c.of_bound, h("span", { class: `verdict tone-${c.ok ? "good" : c.covered ? "bad" : "quiet"}` }, c.covered ? (c.ok ? "● within" : "▲ wrong") : "not covered", c.note && ` ${c.note}`)] })), [2, 3, 4]))]
      : soft("Nothing was compared yet."),
    detail.counts.length ? [h("h4", {}, "Counted on the emulator"), table(["shape", "launches", "32-byte sectors", "over the least", "loaded", "stored", "barriers"], detail.counts.map((c) => ({
      cells: [c.case, c.launches, c.sectors.toLocaleString("en"), c.sector_ratio === null ? null : `${c.sector_ratio}x`, c.loads, c.stores, c.barriers] })), [1, 2, 3, 4, 5, 6])] : null,
  ];
}

function profileTab({ profile }) {
  if (!profile) return [soft("No profile of this branch. One is made of correct kernels where a GPU is attached; counts of the emulator are under Numbers.")];
  return [soft(`${profile.words}, at ${profile.case}.`), profile.bound && h("p", {}, h("b", {}, "Limited by: "), profile.bound),
    profile.sentences.length ? h("ul", {}, profile.sentences.map((text) => h("li", {}, text))) : null,
    profile.note && soft(profile.note),
    profile.kernels.map((kernel) => h("details", { class: "more", open: profile.kernels.length === 1 }, h("summary", {}, "The numbers of ", h("span", { class: "mono" }, kernel.kernel)),
      h("div", { class: "tight" }, table(["metric", "value", "unit"], kernel.metrics.map((m) => ({ cells: [m.name, shown(m.value), m.unit] })), [1]))))];
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
    table(["what", "value"], receipt.map(([name, value]) => ({ cells: [name, h("span", { class: "mono long" }, value)] })))];
}

export const DRAW = { card: cardTab, source: sourceTab, compile: compileTab, numbers: numbersTab, speed: speedTab, profile: profileTab, talk: talkTab, receipt: receiptTab };
