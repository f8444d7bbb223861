// Drawings: bars of time, heatmap, histogram, roofline. Every number comes from Python; here they get a place.

import { h, s } from "./dom.js";

export function bars(entries, unit = "time_us", [label, span] = [150, 300]) {
  const top = Math.max(...entries.map((entry) => entry[unit]), 1e-9);
  const line = 24;
  return s("svg", { class: "bars", viewBox: `0 0 ${label + span + 100} ${entries.length * line}`, role: "img",
    "aria-label": entries.map((entry) => `${entry.name} ${entry.time}`).join(", ") },
  entries.map((entry, i) => {
    const width = Math.max(2, (span * entry[unit]) / top);
    const strong = entry.kind === "mine" ? "bar-text strong" : "bar-text";
    const [low, high] = entry.interval ?? [0, 0];
    return [s("text", { x: label - 8, y: i * line + 16, class: strong, "text-anchor": "end" }, entry.name),
      s("rect", { x: label, y: i * line + 4, width, height: line - 9, rx: 2, class: `bar ${entry.kind ?? ""}` }),
      high > low && s("path", { class: "whisker", d: `M${label + span * low / top} ${i * line + 11.5}H${label + span * high / top}m0 -4v8M${label + span * low / top} ${i * line + 7.5}v8` }),
      s("text", { x: label + Math.max(width, span * high / top) + 6, y: i * line + 16, class: strong }, entry.time)];
  }));
}

export function heatmap(levels) {
  const [rows, columns] = [levels.length, Math.max(...levels.map((row) => row.length))];
  const side = Math.min(10, 220 / Math.max(rows, columns));
  return h("figure", { class: "heat" },
    s("svg", { width: columns * side, height: Math.max(rows * side, 8), viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", role: "img", "aria-label": "Error over bound, rows by columns of the output" },
      levels.map((row, y) => row.map((level, x) => s("rect", { x, y, width: 1, height: 1, class: `heat${level}` })))),
    h("figcaption", { class: "soft" }, "rows by columns of the output, the worst of each bin · blue: within the bound · orange: beyond it · black: NaN or far beyond"));
}

export function histogram(found) {
  return bars(found.map((bar) => ({ name: bar.name, share: bar.percent, time: `${bar.count.toLocaleString("en")}${bar.percent >= 0.01 ? `, ${bar.percent}%` : ""}` })), "share", [52, 150]);
}

const power = (n) => `1e${Math.round(n)}`;

export function roofline(found) {
  const points = [...found.points];
  const xs = [...points.map((p) => p.x), found.ideal.x];
  const [x0, x1] = [Math.floor(Math.min(...xs) - 0.3), Math.ceil(Math.max(...xs) + 0.7)];
  const y1 = Math.min(found.peak, x1 + found.bandwidth) + 0.3;
  const y0 = Math.floor(Math.min(...points.map((p) => p.y), found.ideal.y) - 0.3);
  const [left, top, width, height] = [52, 10, 470, 210];
  const X = (x) => left + (width * (x - x0)) / (x1 - x0);
  const Y = (y) => top + (height * (y1 - y)) / (y1 - y0);
  const ticks = (from, to) => Array.from({ length: Math.floor(to) - Math.ceil(from) + 1 }, (_, i) => Math.ceil(from) + i);
  const start = Math.max(x0, y0 - found.bandwidth);
  const grid = [
    ticks(x0, x1).map((t) => [s("path", { class: "grid", d: `M${X(t)} ${top}V${top + height}` }), s("text", { class: "tick-text", x: X(t), y: top + height + 14, "text-anchor": "middle" }, power(t))]),
    ticks(y0, y1).map((t) => [s("path", { class: "grid", d: `M${left} ${Y(t)}H${left + width}` }), s("text", { class: "tick-text", x: left - 6, y: Y(t) + 4, "text-anchor": "end" }, power(t))])];
  const way = points.map((p, i) => `${i ? "L" : "M"}${X(p.x)} ${Y(p.y)}`).join("");
  return h("figure", { class: "roofline" },
    s("svg", { viewBox: `0 0 ${left + width + 60} ${top + height + 34}`, role: "img", "aria-label": found.words }, grid,
      s("path", { class: "roof", d: `M${X(start)} ${Y(start + found.bandwidth)}L${X(Math.min(found.ridge, x1))} ${Y(Math.min(found.peak, x1 + found.bandwidth))}H${X(x1)}` }),
      s("path", { class: "least", d: `M${X(found.ideal.x)} ${Y(found.ideal.y)}V${top + height}` }),
      s("path", { class: "way", d: way }),
      s("path", { class: "ideal", d: "M0 -6L6 0L0 6L-6 0Z", transform: `translate(${X(found.ideal.x)} ${Y(found.ideal.y)})` }, s("title", {}, "the least bytes at full bandwidth")),
      points.map((p, i) => s("g", { class: i === points.length - 1 ? "point mine" : "point" }, s("circle", { cx: X(p.x), cy: Y(p.y), r: i === points.length - 1 ? 5 : 3.5 }),
        s("title", {}, `${p.id}, round ${p.round}: ${p.label}, ${p.share}% of the roofline`),
        (i === 0 || i === points.length - 1) && s("text", { class: "bar-text", x: X(p.x) - 9, y: Y(p.y) + (i ? -6 : 14), "text-anchor": "end" }, `${p.id} ${p.share}%`))),
      s("text", { class: "tick-text", x: left + width / 2, y: top + height + 30, "text-anchor": "middle" }, "operations per byte moved"),
      s("text", { class: "tick-text", x: left + 6, y: top + 24 }, "↑ operations per second")),
    h("figcaption", { class: "soft" }, `${found.case} (${found.source}): ${found.words}. Right: fewer bytes for the same work; up: less waiting. The diamond is the speed of light, launch included.`));
}
