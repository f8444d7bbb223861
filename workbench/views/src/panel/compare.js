// Two to four branches side by side. Python sends the rows; what differs is marked there.

import { glyph, h, s } from "./dom.js";
import { differences } from "./source.js";

export function comparison(found, panel) {
  const { branches } = found;
  const head = h("tr", {}, h("td", {}), branches.map((row) => h("th", { scope: "col" },
    h("span", { class: `compare-head tone-${row.tone}` }, glyph(panel.shapes, row, 5), h("span", { class: "id" }, row.id), row.title),
    h("div", { class: "soft" }, h("span", { class: `verdict tone-${row.tone}` }, row.words), row.label && ` · ${row.label}`))));
  const only = panel.onlyDifferent;
  const section = (name, rows, draw) => {
    const shown = only ? rows.filter((row) => row.differs) : rows;
    return shown.length ? h("tbody", {}, h("tr", { class: "section" }, h("th", { colspan: branches.length + 1, scope: "colgroup" }, name)),
      shown.map((row) => h("tr", { class: row.differs ? "differs" : "" }, h("th", { scope: "row" }, row.name), row.cells.map((cell, i) => h("td", {}, draw ? draw(row, i) : cell))))) : null;
  };
  const toggle = h("button", { type: "button", "aria-pressed": String(Boolean(only)), onclick: () => { panel.onlyDifferent = !only; panel.drawComparison(); } }, "Only what differs");
  return [
    h("div", { class: "bar-row" }, h("button", { type: "button", class: "primary", onclick: () => panel.endComparison() }, "Back to the tree"), toggle,
      h("span", { class: "soft" }, `Differences of source are against ${branches[0].id}.`)),
    h("div", { class: "wide" }, h("table", { class: "grid compare" }, h("thead", {}, head),
      section("Time, and speedup over the fastest baseline", found.times, meter), section("Techniques", found.techniques), section("What it takes", found.facts))),
    found.profile.some(Boolean) && [h("h3", {}, "Profile"), h("div", { class: "columns" }, found.profile.map((profile, i) => h("div", {}, h("b", {}, branches[i].id),
      profile ? h("ul", {}, profile.sentences.map((text) => h("li", {}, text))) : h("p", { class: "soft" }, "No profile."))))],
    h("h3", {}, "Source"),
    h("div", { class: "columns" }, found.sources.map((lines, i) => h("div", {}, h("b", {}, `${branches[0].id} → ${branches[i + 1].id}`),
      lines ? differences(lines, `From ${branches[0].id} to ${branches[i + 1].id}`) : h("p", { class: "soft" }, "There are no two kernels to compare.")))),
  ];
}

function meter(row, i) {
  const known = row.times_us.filter((us) => us !== null);
  const us = row.times_us[i];
  const fastest = us !== null && us === Math.min(...known);
  return [h("span", { class: fastest ? "strong" : "" }, row.cells[i]), us !== null && s("svg", { class: "mini", viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { width: (100 * us) / Math.max(...known), height: 5, class: `bar ${fastest ? "mine" : ""}` }))];
}
