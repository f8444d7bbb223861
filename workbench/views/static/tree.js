// The tree: one line a branch, edges and shapes in one SVG behind the rows. Holds fold and focus only.

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

function marks(rows, shapes) {
  return rows.map((row, lane) => {
    const [x, y] = at(row, lane);
    return s("g", { transform: `translate(${x} ${y})`, class: `tone-${row.tone} ${row.pruned ? "pruned" : ""}` },
      s("circle", { r: 10, class: "halo" }),
      row.tone === "busy" && s("circle", { r: 9.5, class: "pulse" }),
      s("path", { d: shapes[row.shape], transform: "scale(6.5)", class: "glyph" }));
  });
}

function treeRow(row, panel, best) {
  const chosen = row.id === panel.selected;
  const share = row.score && best ? Math.min(1, row.score / best) : 0;
  return h("div", {
    role: "treeitem", id: `${panel.uid}-${row.id}`, class: `row tone-${row.tone} ${chosen ? "chosen" : ""} ${row.pruned ? "pruned" : ""}`,
    "aria-level": row.depth + 1, "aria-selected": String(chosen), tabindex: chosen ? 0 : -1,
    "aria-expanded": row.children ? String(!panel.folded.has(row.id)) : null,
    "aria-label": `${row.id}, ${row.title}, ${row.words} ${row.label}${row.approved ? ", approved" : ""}${row.pruned ? ", pruned" : ""}`,
    style: `padding-left:${LEFT + row.depth * STEP + 16}px;height:${ROW}px`, "data-branch": row.id, title: row.title,
    onclick: () => panel.select(row.id, true),
  },
    h("div", { class: "what" },
      h("div", { class: "title" }, h("span", { class: "id" }, row.id), row.title),
      h("div", { class: "sub" }, h("span", { class: "verdict" }, row.words), ` · ${row.operator}`,
        row.approved && h("span", { class: "flag" }, "approved"), row.pruned && h("span", { class: "flag" }, "pruned"),
        panel.folded.has(row.id) && row.children ? h("span", { class: "flag" }, `${row.children} folded`) : null)),
    row.label && h("div", { class: "score" }, h("div", {}, row.label),
      h("div", { class: "meter" }, h("div", { style: `width:${Math.round(100 * share)}%` }))));
}

function drawTree(panel, view) {
  const rows = visibleRows(view.rows, panel.folded);
  const lanes = new Map(rows.map((row, lane) => [row.id, { row, lane }]));
  const hadFocus = panel.tree.contains(document.activeElement);
  const best = Math.max(0, ...view.rows.map((row) => row.score ?? 0));
  const drawing = s("svg", { class: "rails", width: 320, height: rows.length * ROW, "aria-hidden": "true" },
    edges(rows, lanes), marks(rows, panel.shapes));
  const items = rows.map((row) => treeRow(row, panel, best));
  if (items.length && !rows.some((row) => row.id === panel.selected)) items[0].tabIndex = 0;
  panel.tree.replaceChildren(drawing, ...(items.length ? items : [h("p", { class: "soft empty" }, "No branch yet: the reasoner is reading the problem.")]));
  if (hadFocus) focusRow(panel, panel.selected);
}

function focusRow(panel, id) {
  const item = [...panel.tree.querySelectorAll("[role=treeitem]")].find((node) => node.dataset.branch === id);
  item?.focus({ preventScroll: true });
  item?.scrollIntoView({ block: "nearest" });
}

function treeKeys(panel, view, event) {
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
