// Making elements. Text is always set as text: kernel sources and model words are never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

// JupyterLab takes keys on their way up, where the panel's root stops them. Notebook 7 takes them on their way
// down and lets a key be only if the very element that has the focus says so: without it x cuts the cell.
const QUIET = "data-lm-suppress-shortcuts";
const FOCUSABLE = new Set(["button", "input", "select", "textarea", "summary"]);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  if (FOCUSABLE.has(node.localName) || node.hasAttribute("tabindex") || attributes?.role === "treeitem") node.setAttribute(QUIET, "true");
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function table(headings, rows, numeric = []) {
  const side = (index) => (numeric.includes(index) ? "num" : "");
  return h("table", { class: "grid" },
    h("thead", {}, h("tr", {}, headings.map((text, i) => h("th", { class: side(i), scope: "col" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", { class: row.tone ?? "" },
      row.cells.map((cell, i) => h("td", { class: side(i) }, cell ?? "–"))))));
}

export function glyph(shapes, row, size = 7) {
  return s("svg", { width: 2.6 * size, height: 2.6 * size, viewBox: "-1.3 -1.3 2.6 2.6", class: `tone-${row.tone}`, "aria-hidden": "true" },
    s("path", { d: shapes[row.shape], class: "glyph" }));
}

// A drawing made in Python: [tag, attributes, children].
export const drawn = (drawing) => (Array.isArray(drawing) ? s(drawing[0], drawing[1], drawing[2].map(drawn)) : drawing);
