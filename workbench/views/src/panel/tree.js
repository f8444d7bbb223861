// The tree: one line a branch, edges and shapes in one SVG behind the rows. Holds fold and focus only.

import { h, s } from "./dom.js";

const ROW = 40;
const STEP = 20;
const LEFT = 18;

const at = (row, lane) => [LEFT + row.depth * STEP, lane * ROW + ROW / 2];

function visibleRows(rows, folded) {
  const hidden = new Set();
  return rows.filter((row) => {
    const parent = row.parents[0];
    if (parent && (folded.has(parent) || hidden.has(parent))) hidden.add(row.id);
    return !hidden.has(row.id);
  });
}

function edges(rows, lanes) {
  const paths = [];
  for (const row of rows) {
    row.parents.forEach((parent, index) => {
      if (!lanes.has(parent)) return;
      const [px, py] = at(lanes.get(parent).row, lanes.get(parent).lane);
      const [x, y] = at(row, lanes.get(row.id).lane);
      const down = y > py ? 1 : -1;
      const d = index === 0
        ? `M${px} ${py}V${y - 8}Q${px} ${y} ${px + 8} ${y}H${x}`
        : `M${px} ${py}C${px + 12} ${py + 18 * down} ${x - 4} ${y - 22 * down} ${x} ${y}`;
      paths.push(s("path", { d, class: index === 0 ? "edge" : "edge second" }));
    });
  }
  return paths;
}

function marks(rows, panel) {
  return rows.map((row, lane) => {
    const [x, y] = at(row, lane);
    return s("g", { transform: `translate(${x} ${y})`, class: `tone-${row.tone} ${row.pruned ? "pruned" : ""}` },
      row.id !== panel.selected && s("circle", { r: 10, class: "halo" }),
      row.tone === "busy" && s("circle", { r: 9.5, class: "pulse" }),
      s("path", { d: panel.shapes[row.shape], transform: "scale(6.5)", class: "glyph" }));
  });
}

// Rows are kept and changed in place: a row drawn anew would lose the focus, and a key would reach the notebook.
function treeItem(panel, id) {
  if (!panel.items.has(id)) {
    panel.items.set(id, h("div", { role: "treeitem", id: `${panel.uid}-${id}`, "data-branch": id, style: `height:${ROW}px` }));
  }
  return panel.items.get(id);
}

function fillItem(item, row, panel, best) {
  const chosen = row.id === panel.selected;
  const closed = panel.folded.has(row.id);
  const key = JSON.stringify([row, chosen, closed, best]);
  if (item.key === key) return;
  item.key = key;
  item.className = `row tone-${row.tone} ${chosen ? "chosen" : ""} ${row.pruned ? "pruned" : ""}`;
  item.style.paddingLeft = `${LEFT + row.depth * STEP + 16}px`;
  item.title = row.title;
  item.setAttribute("aria-level", row.depth + 1);
  item.setAttribute("aria-selected", String(chosen));
  if (row.children) item.setAttribute("aria-expanded", String(!closed));
  item.setAttribute("aria-label", `${row.id}, ${row.title}, ${row.words} ${row.label}${row.approved ? ", approved" : ""}${row.pruned ? ", pruned" : ""}`);
  const share = row.score && best ? Math.min(1, row.score / best) : 0;
  const flag = (text) => h("span", { class: "flag" }, text);
  item.replaceChildren(
    h("div", { class: "what" },
      h("div", { class: "title" }, h("span", { class: "id" }, row.id), row.title),
      h("div", { class: "sub" }, h("span", { class: "verdict" }, row.words), ` · ${row.operator}`,
        row.approved && flag("approved"), row.pruned && flag("pruned"), closed && row.children ? flag(`${row.children} folded`) : null)),
    row.label ? h("div", { class: "score" }, h("div", {}, row.label),
      h("div", { class: "meter" }, h("div", { style: `width:${Math.round(100 * share)}%` }))) : "");
}

export function drawTree(panel, view) {
  const rows = visibleRows(view.rows, panel.folded);
  const lanes = new Map(rows.map((row, lane) => [row.id, { row, lane }]));
  const best = Math.max(0, ...view.rows.map((row) => row.score ?? 0));
  panel.rails.setAttribute("height", rows.length * ROW);
  panel.rails.replaceChildren(...edges(rows, lanes), ...marks(rows, panel));
  panel.waiting.hidden = rows.length > 0;
  const tabbed = lanes.has(panel.selected) ? panel.selected : rows[0]?.id;
  rows.forEach((row, lane) => {
    const item = treeItem(panel, row.id);
    fillItem(item, row, panel, best);
    item.tabIndex = row.id === tabbed ? 0 : -1;
    if (panel.list.children[lane] !== item) panel.list.insertBefore(item, panel.list.children[lane] ?? null);
  });
  while (panel.list.children.length > rows.length) panel.list.lastChild.remove();
}

export function focusRow(panel, id) {
  const item = panel.items.get(id);
  item?.focus({ preventScroll: true });
  item?.scrollIntoView({ block: "nearest" });
}

export function treeKeys(panel, view, event) {
  const rows = visibleRows(view.rows, panel.folded);
  const index = rows.findIndex((row) => row.id === panel.selected);
  const row = rows[index];
  const go = (target) => target && (panel.select(target.id, true), focusRow(panel, target.id));
  const fold = (closed) => { panel.folded[closed ? "add" : "delete"](row.id); drawTree(panel, view); focusRow(panel, row.id); };
  const moves = {
    ArrowDown: () => go(rows[index + 1]), ArrowUp: () => go(rows[index - 1]),
    Home: () => go(rows[0]), End: () => go(rows.at(-1)),
    ArrowLeft: () => (row?.children && !panel.folded.has(row.id) ? fold(true) : go(rows.find((r) => r.id === row?.parents[0]))),
    ArrowRight: () => (row && panel.folded.has(row.id) ? fold(false) : go(rows.find((r) => r.parents[0] === row?.id))),
    Enter: () => panel.card.focus(), " ": () => panel.card.focus(),
    a: () => panel.approve(row), p: () => panel.prune(row), e: () => panel.startEdit(row),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}
