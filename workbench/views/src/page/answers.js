// On a page of its own nobody answers questions: comparisons and differences are made here, from what Python
// wrote into the page. Rows are those of views/compare.py, lines those of views/differences.py without marked words.

const CONTEXT = 3;

function rows(columns, part) {
  const names = [...new Set(columns.flatMap((column) => column[part].map(([name]) => name)))];
  return names.map((name) => {
    const found = columns.map((column) => column[part].find(([other]) => other === name));
    const cells = found.map((entry) => entry?.[1] ?? "–");
    const known = new Set(cells.filter((cell) => cell !== "–"));
    const row = { name, cells, differs: known.size > 1 || (known.size === 1 && cells.includes("–")) };
    return part === "times" ? { ...row, times_us: found.map((entry) => entry?.[2] ?? null) } : row;
  });
}

const textOf = (runs) => runs.map(([, text]) => text).join("");

// Longest common subsequence of two lists of lines, as steps: same, removed, added.
function steps(was, now) {
  const length = Array.from({ length: was.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = was.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) length[i][j] = was[i] === now[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < was.length || j < now.length) {
    if (i < was.length && j < now.length && was[i] === now[j]) found.push(["same", i++, j++]);
    else if (i < was.length && (j >= now.length || length[i + 1][j] >= length[i][j + 1])) found.push(["removed", i++, null]);
    else found.push(["added", null, j++]);
  }
  return found;
}

export function changedLines(before, after) {
  if (!before || !after) return null;
  const all = steps(before.map(textOf), after.map(textOf));
  const near = all.map(([tag], at) => all.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(([other]) => other !== "same") || tag !== "same");
  const lines = [];
  all.forEach(([tag, old, now], at) => {
    if (!near[at]) return;
    if (lines.length && !near[at - 1]) lines.push({ tag: "gap", old: null, new: null, runs: [], marks: [] });
    lines.push({ tag, old: old === null ? null : old + 1, new: now === null ? null : now + 1, runs: now === null ? before[old] : after[now], marks: [] });
  });
  return lines;
}

export function compare(data, branches) {
  const columns = branches.map((id) => data.columns[id]);
  const lines = branches.map((id) => data.details[id].lines);
  return {
    branches: branches.map((id) => data.details[id].row),
    techniques: rows(columns, "techniques"), times: rows(columns, "times"), facts: rows(columns, "facts"),
    profile: columns.map((column) => column.profile), sources: lines.slice(1).map((other) => changedLines(lines[0], other)),
  };
}

export function differ(data, branch, against) {
  if (against === "reference") return { branch, against, reference: data.reference, lines: null };
  return { branch, against, reference: null, lines: changedLines(data.details[against]?.lines, data.details[branch].lines) };
}
