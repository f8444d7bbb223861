// How fast a branch is: factors of every shape, each shape's times, the roofline, the samples behind it all.

import { drawn, h, table } from "./dom.js";

export const shown = (value) => (typeof value === "number" ? (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(7)))) : value ?? "–");
const soft = (text) => h("p", { class: "soft" }, text);

export function speedTab(detail, panel) {
  if (!detail.times.length) return [soft("A time is worked out once the kernel is right.")];
  return [detail.speed ? overview(detail.speed) : soft("A first time; the other shapes and baselines are still to come."), detail.times.map((time) => timing(time, panel)), rooflines(detail, panel), samples(detail, panel)];
}

function overview(speed) {
  if (!speed.baselines.length) return null;
  const rows = speed.rows.map((row) => ({ cells: [
    [row.case, row.suspicion && h("div", { class: "verdict tone-warn" }, "? in doubt")], [row.time, h("div", { class: "soft fine" }, row.interval)], row.roofline,
    ...row.cells.map((cell) => cell && h("span", { title: `${cell.words}${cell.interval && `, ${cell.interval}`}` }, h("span", { class: `verdict tone-${cell.tone}` }, cell.text), h("div", { class: "soft fine" }, cell.interval)))] }));
  rows.push({ tone: "total", cells: ["geometric mean", "", "", ...speed.means] });
  return [h("h4", {}, `${speed.mean} against the fastest baseline of each shape (${speed.source})`),
    h("div", { class: `wide ${speed.baselines.length > 3 ? "many" : ""}` }, table(["shape", "time", "of roofline", ...speed.baselines], rows, rows[0].cells.map((_, i) => i).slice(1))),
    speed.note && soft(speed.note),
    speed.drawing && h("figure", {}, drawn(speed.drawing),
      h("figcaption", { class: "soft" }, `A baseline's time over ours, on a logarithmic axis${speed.source === "measured" ? ": the median over paired blocks, with its 95% interval" : ""}.`))];
}

const keptOpen = (panel, key, first) => ({ open: panel.openChips.has(key) || (first && !panel.openChips.has(`-${key}`)),
  ontoggle: (event) => { const { open } = event.target; panel.openChips[open ? "add" : "delete"](key); panel.openChips[open ? "delete" : "add"](`-${key}`); } });

function timing(time, panel) {
  const found = time.measured;
  return h("details", { class: "timing", ...keptOpen(panel, `time ${time.case}`, false) },
    h("summary", {}, h("b", {}, time.case), ` ${time.time}, ${time.speedup} against the fastest baseline`, h("span", { class: "soft" }, `, ${time.roofline_percent}% of the roofline, bound by ${time.bound}`)),
    found?.suspicion && h("p", { class: "message tone-warn" }, found.suspicion),
    drawn(time.drawing),
    time.steps && [h("h4", {}, "Where the time goes"), h("p", {}, time.steps.words), h("figure", {}, drawn(time.steps.drawing),
      h("figcaption", { class: "soft" }, "Device time of each step in the plan's order: kernels of this file in bold, library calls, and what lies between them."))],
    found && [h("p", {}, `95% of medians lie within ${found.interval}.`),
      table(["baseline", "its time", "over ours", "95% interval", "blocks", "verdict"], found.rivals.map((r) => ({
        cells: [r.name, r.time, r.ratio, r.interval, r.blocks, h("span", { class: `verdict tone-${r.tone}` }, r.words)] })), [1, 2, 3, 4]),
      h("dl", {}, time.facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))],
    time.note && soft(time.note));
}

function rooflines(detail, panel) {
  if (!detail.rooflines.length) return null;
  const found = detail.rooflines.find((one) => one.case === panel.shapeShown) ?? detail.rooflines[0];
  const choose = detail.rooflines.length > 1 && h("select", { "aria-label": "Shape of the roofline", onchange: (event) => { panel.shapeShown = event.target.value; panel.redraw(); } },
    detail.rooflines.map((one) => h("option", { value: one.case, selected: one === found }, one.case)));
  return [h("div", { class: "bar-row" }, h("h4", {}, "Roofline, and the way here"), choose),
    h("figure", {}, drawn(found.drawing), h("figcaption", { class: "soft" },
      `${found.case} (${found.source}): ${found.words}. Right: fewer bytes for the same work; up: less waiting. The diamond is the speed of light, launch included${found.others.length ? "; hollow: the other parents" : ""}.`))];
}

function samples(detail, panel) {
  if (!detail.times.some((time) => time.measured)) return null;
  const found = panel.samples.get(detail.row.id);
  const ask = () => panel.tell({ type: "samples", branch: detail.row.id });
  return [h("h4", {}, "Raw samples"), found ? [soft(found.words), found.cases.map((one) => h("figure", {}, h("b", {}, one.case), h("span", { class: "soft" }, ` ${one.words}`), drawn(one.drawing)))]
    : h("button", { type: "button", onclick: ask }, "Show every sample")];
}
