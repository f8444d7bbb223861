// The tree: one line a branch, edges and shapes in one SVG beside the rows. Holds folds, zoom, marks and focus only.
// Rows and shapes are kept and changed in place: a row drawn anew would lose the focus, and a key would reach
// the notebook; and five hundred of them would take too long.

import { h, s } from "./dom.js";

const ZOOM = [40, 28, 18, 10, 6, 4];
const TOP = 6;

export function visibleRows(rows, folded, hidePruned) {
  const hidden = new Set();
  const pruned = new Set(rows.filter((row) => row.pruned).map((row) => row.id));
  return rows.filter((row) => {
    const parent = row.parents[0];
    if (parent && (hidden.has(parent) || folded.has(parent) || (hidePruned && pruned.has(parent)))) hidden.add(row.id);
    return !hidden.has(row.id);
  });
}

export function isFolded(panel, row) {
  return panel.folded.has(row.id) || (panel.hidePruned && row.pruned);
}

// Rows as they are on screen. `height` is a row's, `step` what a level is set in by.
function layout(panel) {
  const rows = visibleRows(panel.view.rows, panel.folded, panel.hidePruned);
  const height = panel.fit ? Math.max(3, Math.min(40, Math.floor((panel.tree.clientHeight - 2 * TOP) / Math.max(1, rows.length)))) : ZOOM[panel.zoom];
  return { rows, height, step: height >= 18 ? 20 : Math.max(6, height), left: 22 };
}

const place = ({ height, step, left }, row, lane) => [left + Math.min(row.depth, 30) * step, lane * height + height / 2];

function edgePath(shape, from, to, index, height) {
  const [px, py] = from;
  const [x, y] = to;
  const bend = Math.min(8, height / 2);
  if (index === 0) return `M${px} ${py}V${y - bend}Q${px} ${y} ${px + bend} ${y}H${x}`;
  // Along the left margin, where it crosses no words.
  const margin = 3 + 3 * (Math.round(py + y) % 3);
  return `M${px} ${py + 3}H${margin}V${y - 3}H${x}`;
}

function drawRails(panel, shape, lanes) {
  const size = Math.min(6.5, Math.max(1.6, shape.height / 5));
  const seen = new Set();
  const keep = (key, make, attributes) => {
    seen.add(key);
    let node = panel.drawnRails.get(key);
    if (!node) {
      node = make();
      panel.drawnRails.set(key, node);
      panel[key[0] === "e" ? "edgeLayer" : "markLayer"].append(node);
    }
    for (const [name, value] of Object.entries(attributes)) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    return node;
  };
  shape.rows.forEach((row, lane) => {
    const [x, y] = place(shape, row, lane);
    row.parents.forEach((parent, index) => {
      const above = lanes.get(parent);
      if (above === undefined) return;
      const d = edgePath(shape, place(shape, shape.rows[above], above), [x, y], index, shape.height);
      keep(`e ${parent} ${row.id} ${index}`, () => s("path"), { d, class: index === 0 ? "edge" : "edge second" });
    });
    const look = `${row.shape} ${row.tone} ${row.approved} ${row.best} ${row.id === panel.selected}`;
    const node = keep(`m ${row.id}`, () => s("g"), { transform: `translate(${x} ${y}) scale(${size / 6.5})`, class: `tone-${row.tone} ${row.pruned ? "pruned" : ""}` });
    if (node.look === look) return;
    node.look = look;
    node.replaceChildren(...[
      row.id !== panel.selected && s("circle", { r: 10, class: "halo" }),
      row.tone === "busy" && s("circle", { r: 9.5, class: "pulse" }),
      row.approved && s("circle", { r: 10.5, class: "chosen-ring" }),
      s("path", { d: panel.shapes[row.shape], transform: "scale(6.5)", class: "glyph" })].filter(Boolean));
  });
  for (const [key, node] of panel.drawnRails) {
    if (seen.has(key)) continue;
    node.remove();
    panel.drawnRails.delete(key);
  }
  panel.rails.setAttribute("height", shape.rows.length * shape.height);
}

function treeItem(panel, id) {
  if (!panel.items.has(id)) panel.items.set(id, h("div", { role: "treeitem", id: `${panel.uid}-${id}`, "data-branch": id }));
  return panel.items.get(id);
}

const inWords = (panel, row) => `${row.id}, ${row.title}, ${row.words} ${row.label}${row.best ? ", best so far" : ""}${row.approved ? ", approved" : ""}${row.pruned ? ", pruned" : ""}${panel.drafts.has(row.id) ? ", draft" : ""}`;

function fillItem(panel, item, row, shape, best) {
  const [chosen, closed, marked, draft] = [row.id === panel.selected, isFolded(panel, row), panel.marked.has(row.id), panel.drafts.has(row.id)];
  const size = shape.height >= 36 ? "two" : shape.height >= 18 ? "one" : "none";
  const key = JSON.stringify([row, chosen, closed, marked, draft, best, size, shape.step]);
  if (item.key === key) return;
  item.key = key;
  item.className = `row tone-${row.tone} ${chosen ? "chosen" : ""} ${row.pruned ? "pruned" : ""} ${marked ? "marked" : ""}`;
  item.style.paddingLeft = `${place(shape, row, 0)[0] + 16}px`;
  item.title = inWords(panel, row);
  item.setAttribute("aria-level", row.depth + 1);
  item.setAttribute("aria-selected", String(chosen));
  item.setAttribute("aria-checked", String(marked));
  if (row.children) item.setAttribute("aria-expanded", String(!closed));
  else item.removeAttribute("aria-expanded");
  // Large rows are named by what is on them, so that a name holds what is seen; small ones show next to nothing.
  if (size === "none") item.setAttribute("aria-label", inWords(panel, row));
  else item.removeAttribute("aria-label");
  const share = row.score && best ? Math.min(1, row.score / best) : 0;
  const meter = share ? h("div", { class: "meter" }, h("div", { style: `width:${Math.round(100 * share)}%` })) : null;
  if (size === "none") return item.replaceChildren(h("div", { class: "what" }), meter ? h("div", { class: "score" }, meter) : "");
  const flag = (text, cls = "") => h("span", { class: `flag ${cls}` }, text);
  const flags = [row.best && flag("★ best", "best"), row.approved && flag("✓ approved", "yes"), row.pruned && flag("pruned"), draft && flag("✎ draft"), closed && row.children ? flag(`+${row.children} folded`) : null];
  item.replaceChildren(
    h("div", { class: "what" },
      h("div", { class: "title" }, h("span", { class: "id" }, row.id), row.title, size === "one" && [h("span", { class: "unseen" }, `, ${row.words}`), " ", flags]),
      size === "two" && h("div", { class: "sub" }, h("span", { class: "verdict" }, row.words), ` · ${row.operator}`, flags)),
    row.label ? h("div", { class: "score" }, h("div", {}, row.label), size === "two" && meter) : "",
    h("span", { class: "tick", "data-mark": row.id, title: "Mark it, to compare, approve or prune several (m)", "aria-hidden": "true" }, marked ? "☑" : "☐"));
}

export function drawTree(panel) {
  const shape = layout(panel);
  const { rows } = shape;
  const lanes = new Map(rows.map((row, lane) => [row.id, lane]));
  const best = Math.max(0, ...panel.view.rows.map((row) => row.score ?? 0));
  panel.tree.style.setProperty("--row", `${shape.height}px`);
  panel.tree.classList.toggle("small", shape.height < 18);
  drawRails(panel, shape, lanes);
  panel.waiting.hidden = rows.length > 0;
  const over = panel.view.state.kind === "stopped";
  panel.waiting.textContent = panel.model.get("failure") ? "No branch." : over ? "No branch yet: %%cuda_kernel judges one of yours, Next round begins a search." : "No branch yet: the problem is being read.";
  const tabbed = lanes.has(panel.selected) ? panel.selected : rows[0]?.id;
  let next = panel.list.firstChild;
  for (const row of rows) {
    const item = treeItem(panel, row.id);
    fillItem(panel, item, row, shape, best);
    const index = row.id === tabbed ? 0 : -1;
    if (item.tabIndex !== index || !item.hasAttribute("tabindex")) item.tabIndex = index;
    if (item === next) next = next.nextSibling;
    else panel.list.insertBefore(item, next);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
  drawTools(panel);
}

function drawTools(panel) {
  const marked = [...panel.marked].filter((id) => panel.view.rows.some((row) => row.id === id));
  panel.fitButton.setAttribute("aria-pressed", String(panel.fit));
  panel.foldButton.setAttribute("aria-pressed", String(panel.hidePruned));
  panel.markedBar.hidden = !marked.length;
  panel.markedWords.textContent = `${marked.length} marked`;
  panel.compareButton.disabled = marked.length < 2 || marked.length > 4;
}

export function buildTools(panel) {
  const button = (label, title, act, name) => h("button", { type: "button", class: "small", title, "aria-label": name, onclick: act }, label);
  const zoom = (step) => () => zoomBy(panel, step);
  panel.fitButton = button("Fit", "Fit the whole tree (0)", () => fitAll(panel));
  panel.foldButton = button("Fold pruned", "Hide what lies below pruned branches", () => { panel.hidePruned = !panel.hidePruned; drawTree(panel); });
  panel.compareButton = button("Compare", "Two to four branches side by side (c)", () => panel.compare());
  panel.markedWords = h("span", { class: "soft", role: "status" });
  const each = (act) => () => { for (const id of panel.marked) act(panel.view.rows.find((row) => row.id === id)); clear(); };
  const clear = () => { panel.marked.clear(); drawTree(panel); };
  panel.markedBar = h("span", { class: "marked-bar", hidden: true }, panel.markedWords, panel.compareButton,
    panel.frozen ? null : [button("Approve all", "Approve every marked branch", each((row) => row && !row.approved && panel.approve(row))),
      button("Prune all", "Prune every marked branch", each((row) => row && !row.pruned && panel.prune(row)))],
    button("Clear", "Clear the marks", clear));
  return h("div", { class: "tree-tools", role: "toolbar", "aria-label": "Tree" },
    button("−", "Smaller rows (-)", zoom(1), "Smaller rows"), button("+", "Larger rows (+)", zoom(-1), "Larger rows"), panel.fitButton, panel.foldButton, panel.markedBar);
}

function zoomBy(panel, step) {
  panel.fit = false;
  panel.zoom = Math.min(ZOOM.length - 1, Math.max(0, panel.zoom + step));
  drawTree(panel);
  focusRow(panel, panel.selected, false);
}

function fitAll(panel) {
  panel.fit = !panel.fit;
  drawTree(panel);
}

export function toggleMark(panel, id) {
  if (!panel.marked.delete(id)) panel.marked.add(id);
  drawTree(panel);
}

export function focusRow(panel, id, focus = true) {
  const item = panel.items.get(id);
  if (focus) item?.focus({ preventScroll: true });
  item?.scrollIntoView({ block: "nearest" });
}

export function treeKeys(panel, event) {
  const rows = visibleRows(panel.view.rows, panel.folded, panel.hidePruned);
  const index = rows.findIndex((row) => row.id === panel.selected);
  const row = rows[index];
  const go = (target) => target && (panel.select(target.id, true), focusRow(panel, target.id));
  const fold = (closed) => { panel.folded[closed ? "add" : "delete"](row.id); drawTree(panel); focusRow(panel, row.id); };
  const moves = {
    ArrowDown: () => go(rows[index + 1]), ArrowUp: () => go(rows[index - 1]),
    PageDown: () => go(rows[Math.min(rows.length - 1, index + 10)]), PageUp: () => go(rows[Math.max(0, index - 10)]),
    Home: () => go(rows[0]), End: () => go(rows.at(-1)),
    ArrowLeft: () => (row?.children && !panel.folded.has(row.id) ? fold(true) : go(rows.find((r) => r.id === row?.parents[0]))),
    ArrowRight: () => (row && panel.folded.has(row.id) ? fold(false) : go(rows.find((r) => r.parents[0] === row?.id))),
    Enter: () => panel.card.focus(), " ": () => panel.card.focus(),
    a: () => panel.approve(row), p: () => panel.prune(row), e: () => panel.startEdit(row), u: () => panel.undo(),
    m: () => row && toggleMark(panel, row.id), c: () => panel.compare(),
    "+": () => zoomBy(panel, -1), "=": () => zoomBy(panel, -1), "-": () => zoomBy(panel, 1), 0: () => fitAll(panel),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}
