"""The session as a page without scripts that opens anywhere, and its short form for saved notebooks.

Takes only the JSON of project.py and detail.py; every word in it is escaped by markup.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.tree import Tree
from workbench.views.detail import detail
from workbench.views.drawings import glyph, tree_svg
from workbench.views.highlight import highlight
from workbench.views.markup import Markup, grid, join, tag
from workbench.views.numbers import technique_text
from workbench.views.phrases import plural
from workbench.views.project import project
from workbench.views.svg import to_markup
from workbench.views.talk import talk

Json = dict[str, Any]
STATIC = Path(__file__).parent / "static"
TREE_HEADING = "wb-tree"
"""Where page.py puts the panel; it hides what is marked ``data-replaced``."""


def to_html(tree: Tree, most: int | None = None) -> str:
    """A whole page: tree, table, best kernel, a section a branch, how to repeat it. No script, no network.

    Of more than ``most`` branches only the best have a section; all are in the tree and in the table.
    """
    view = project(tree)
    details = [detail(tree, node_id) for node_id in (row["id"] for row in view["rows"])]
    by_id = {entry["row"]["id"]: entry for entry in details}
    best = by_id[view["best"]["id"]] if view["best"] else None
    body = tag(
        "main",
        _head(view),
        _lead(view),
        _speed(best) if best else None,
        tag("h2", "The tree", id=TREE_HEADING),
        tag("div", tree_svg(view), data_replaced=True),
        tag("p", LEGEND, cls="fine"),
        tag("h2", "Every branch in numbers"),
        _table(details),
        _best_kernel(best) if best else None,
        _in_full(details, most),
        _repeat(tree),
        cls="wb wb-report",
    )
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{view['problem']['name']} · CUDA kernels"),
            style("page.css", "theme.css", "report.css"),
        ]
    )
    page = tag("html", tag("head", head), tag("body", body, cls="wb-page"), lang="en")
    return f"<!doctype html>\n{page}\n"


def to_fragment(tree: Tree, failure: str = "") -> str:
    """What a saved notebook keeps: state, tree and best kernel, or why there is none."""
    view = project(tree)
    best = detail(tree, view["best"]["id"]) if view["best"] else None
    return tag(
        "div",
        style("theme.css", "report.css"),
        _head(view) if tree.opened else None,
        tag("p", failure, cls="message tone-bad") if failure else _lead(view),
        tree_svg(view) if view["rows"] else None,
        tag("details", tag("summary", f"Kernel of {best['row']['id']}"), listing(best)) if best else None,
        cls="wb wb-report frozen",
    )


def summary_text(tree: Tree) -> str:
    """One line that stays the same for the same tree."""
    if tree.opened is None:
        return "the problem is being read"
    view = project(tree)
    counts = view["counts"]
    best = view["best"]
    found = (
        f"best {best['id']}, {best['title']}, {best['label']}{_slower(best)}" if best else "no correct kernel"
    )
    size = f"{plural(counts['branches'], 'branch')}, {counts['passed']} correct"
    return f"{view['problem']['name']}: {size}; {found}"


def _slower(best: Json) -> str:
    return f", {best['slower']}" if best["slower"] else ""


def style(*names: str) -> Markup:
    """The named sheets, inline. They are ours: nothing in them is escaped."""
    text = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)
    return Markup(f"<style>\n{text}</style>")


LEGEND = (
    "● correct  ★ best so far  ■ does not compile  ◆ launch refused  ▲ wrong numbers  "
    "▼ undefined behaviour  ✖ crashed  ◴ ran too long  ? suspect  – no kernel of its own. "
    "A dashed line comes from the second parent of a crossover."
)


def _head(view: Json) -> list[Markup]:
    problem = view["problem"]
    where = f"{', '.join(problem['tensors'])} at {', '.join(problem['cases'])}"
    return [
        tag("h1", problem["name"]),
        tag("div", where, cls="soft mono fine"),
        tag("div", view["subtitle"], cls="soft"),
        *(tag("div", f"Note: {note}.", cls="soft fine") for note in problem["notes"]),
    ]


def _lead(view: Json) -> Markup:
    counts, best = view["counts"], view["best"]
    size = f"{plural(counts['branches'], 'branch')}, {counts['passed']} correct"
    words = f"{size}. {view['state']['short'].capitalize()}."
    if best is None:
        return tag("p", words, cls="lead")
    found = [tag("b", best["title"]), f" ({best['id']}): {best['standing']}. "]
    return tag("p", found, words, cls="lead")


def _speed(best: Json) -> list[object]:
    return [tag("h2", "Speed of the best kernel"), _factors(best), [_timing(time) for time in best["times"]]]


def _factors(entry: Json) -> list[object]:
    """Every shape against every baseline: a table, and the same as a drawing."""
    speed = entry["speed"]
    if not speed or not speed["baselines"]:
        return []
    rows: list[list[object]] = [
        [row["case"], [row["time"], tag("div", row["interval"], cls="fine")], row["roofline"],
         *(_factor(cell) for cell in row["cells"])]
        for row in speed["rows"]
    ]  # fmt: skip
    rows.append([tag("b", "geometric mean"), "", "", *speed["means"]])
    heads = [
        "shape",
        f"time ({speed['source']})",
        "of the roofline",
        *(f"over {n}" for n in speed["baselines"]),
    ]
    table = grid(heads, rows, range(1, len(heads)))
    return [table, to_markup(speed["drawing"]) if speed["drawing"] else None]


def _factor(cell: Json | None) -> object:
    if cell is None:
        return "–"
    return [
        tag("span", cell["text"], cls=f"verdict tone-{cell['tone']}"),
        tag("div", cell["interval"], cls="fine"),
    ]


def _timing(time: Json) -> Markup:
    words = (
        f"{time['speedup']} against the fastest baseline, {time['roofline_percent']}% of the roofline, "
        f"bound by {time['bound']} ({time['source']})"
    )
    note = tag("p", time["note"], cls="fine") if time["note"] else None
    measured = time["measured"]
    doubt = (
        tag("p", measured["suspicion"], cls="message tone-warn")
        if measured and measured["suspicion"]
        else None
    )
    facts = [[tag("dt", name), tag("dd", value)] for name, value in time["facts"]]
    said = tag("h3", time["case"], " ", tag("span", words, cls="soft"))
    steps = time["steps"]
    where = (
        [tag("h4", "Where the time goes"), tag("p", steps["words"]), to_markup(steps["drawing"])]
        if steps
        else None
    )
    told = tag("dl", facts) if facts else None
    return tag("div", said, doubt, to_markup(time["drawing"]), where, note, told)


TABLE = ("", "branch", "hypothesis", "techniques", "registers", "shared", "spills", "verdict",
         "error of bound", "sectors", "launches", "speed-up")  # fmt: skip


def _table(details: list[Json]) -> Markup:
    made = grid(list(TABLE), [_table_row(entry) for entry in details], (4, 5, 6, 8, 9, 10, 11))
    return tag("div", made, cls="branches")


def _table_row(entry: Json) -> list[object]:
    row = entry["row"]
    kernels = entry["compile"]["kernels"] if entry["compile"] else []
    worst = entry["difference"]
    counts, facts = entry["counts"], entry["facts"]
    verdict = tag("span", row["words"], cls=f"verdict tone-{row['tone']}")
    return [
        glyph(row, 5),
        tag("span", row["id"], cls="mono"),
        row["title"],
        tag("span", technique_text(entry), cls="soft"),
        max((k["registers"] for k in kernels), default="–"),
        kernels[0]["shared"] if kernels else "–",
        f"{sum(k['spill_bytes'] for k in kernels)} B" if kernels else "–",
        verdict,
        worst["share_text"] if worst else "–",
        f"{counts[-1]['sectors']:,}" if counts else "–",
        facts[0]["launches"] if facts else "–",
        row["label"] or "–",
    ]


def _best_kernel(best: Json) -> list[Markup]:
    row = best["row"]
    return [tag("h2", f"The best kernel, with its plan: {row['id']}"), listing(best)]


def listing(entry: Json) -> Markup:
    """Source with line numbers and the compiler's messages under their lines."""
    marks: dict[int, list[Json]] = {}
    for found in entry["diagnostics"]:
        marks.setdefault(found["line"], []).append(found)
    lines: list[Markup] = []
    for number, runs in enumerate(entry["lines"] or [], start=1):
        text = [tag("span", part, cls=kind) if kind else part for kind, part in runs]
        cls = "marked" if number in marks else None
        lines.append(tag("div", tag("span", number, cls="no"), text, cls=cls))
        lines += [
            tag("div", f"{d['severity']}: {d['message']}", cls="diagnostic") for d in marks.get(number, [])
        ]
    return tag("div", lines, cls="code listing")


def _in_full(details: list[Json], most: int | None) -> list[object]:
    """A section a branch, in the tree's order; of too many the best, and where the others are."""
    if most is None or len(details) <= most:
        return [tag("h2", "Every branch in full"), [_section(entry) for entry in details]]
    ranked = sorted(details, key=lambda entry: entry["row"]["score"] or 0.0, reverse=True)
    chosen = {entry["row"]["id"] for entry in ranked[:most]}
    rest = (
        f"The {most} best. All {len(details)} are in the tree above, where scripts may run, and in the page "
        "that to_html(scripts=False) writes."
    )
    shown = [_section(entry) for entry in details if entry["row"]["id"] in chosen]
    return [tag("h2", f"The {most} best branches in full"), tag("p", rest, cls="fine"), shown]


def _section(entry: Json) -> Markup:
    row = entry["row"]
    name = tag("span", tag("span", row["id"], cls="id"), row["title"], cls="name")
    verdict = tag("span", row["words"], cls=f"verdict tone-{row['tone']}")
    summary = tag("summary", glyph(row, 6), name, verdict, tag("span", row["label"], cls="num"))
    return tag("details", summary, tag("div", inside(entry), cls="inside"), id=f"branch-{row['id']}")


def inside(entry: Json, own: bool = False) -> list[object]:
    """What is known of one branch, from its message to its source.

    Of the reader's ``own``, whose text stands above, neither where it came from nor, where nothing is marked
    in it, the source.
    """
    said = (
        tag("p", entry["message"], cls=f"message tone-{entry['row']['tone']}") if entry["message"] else None
    )
    source = [tag("h3", "Source"), listing(entry)] if entry["lines"] else None
    return [
        said,
        tag("p", entry["explanation"]) if entry["explanation"] and not (own and said) else None,
        _printed(entry["printed"]),
        None if own else _card(entry),
        _factors(entry),
        [_timing(time) for time in entry["times"]],
        [to_markup(found["drawing"]) for found in entry["rooflines"][:1]],
        _profile(entry["profile"]),
        _numbers(entry),
        talk(entry["conversation"]),
        None if own and not entry["diagnostics"] else source,
    ]


def _printed(printed: Json | None) -> list[object]:
    if printed is None:
        return []
    text = tag("pre", "\n".join(printed["lines"]), cls="code printed")
    return [tag("h3", "What it printed"), tag("p", f"{printed['words']}.", cls="fine"), text]


def _card(entry: Json) -> Markup:
    card = entry["hypothesis"]
    fields: list[tuple[str, object]] = [
        ("Came from", entry["origin"]),
        ("Why it is slow", card["cause"]),
        ("Evidence", tag("ul", [tag("li", text) for text in card["evidence"]]) if card["evidence"] else None),
        ("Seen before", tag("ul", [tag("li", text) for text in card["seen"]]) if card["seen"] else None),
        ("What to do", card["fix"]),
        ("Risk", card["risk"]),
        ("Over its parent", card["gain"]),
        ("Techniques", technique_text(entry)),
        ("Lesson", entry["lesson"]),
        ("Note", entry["note"]),
    ]
    return tag("dl", [[tag("dt", name), tag("dd", text)] for name, text in fields if text])


def _numbers(entry: Json) -> list[object]:
    worst = entry["difference"]
    if worst is None:
        return []
    where = f" Where: {worst['pattern']}." if worst["pattern"] else ""
    error = f"largest error {worst['max_abs_text']}, {worst['allowed']}"
    words = f"{worst['check']}: {error}.{where}"
    rows = [
        [c["case"], c["inputs"], c["seed"], c["max_abs"], c["of_bound"], _check_verdict(c)]
        for c in entry["checks"]
    ]
    return [
        tag("h3", "Numbers against float64"),
        tag("p", words),
        to_markup(worst["heatmap"]) if worst["heatmap"] else None,
        grid(["shape", "inputs", "seed", "largest error", "of the bound", ""], rows, (2, 3, 4)),
    ]


def _profile(profile: Json | None) -> list[object]:
    if profile is None:
        return []
    said = f"{profile['words']}, at {profile['case']}."
    return [tag("h3", "Where the time goes"), tag("p", said, cls="fine"),
            tag("ul", [tag("li", text) for text in profile["sentences"]])]  # fmt: skip


def _check_verdict(check: Json) -> str:
    if not check["covered"]:
        return "not covered"
    return "● within" if check["ok"] else "▲ wrong"


def _repeat(tree: Tree) -> list[object]:
    if tree.opened is None:
        return []
    opened, policy = tree.opened, tree.opened.policy
    command = (
        f"workbench optimize {opened.problem.name}.py --device {opened.device} --brain {opened.brain} "
        f"--rounds {policy.rounds}"
    )
    reference = [tag("div", [tag("span", text, cls=kind) for kind, text in line] or " ")
                 for line in highlight(opened.problem.source)]  # fmt: skip
    hints = [tag("li", f"round {hint.round}: {hint.text}") for hint in tree.hints]
    return [
        tag("h2", "How to repeat it"),
        tag("p", "Save the reference as ", tag("code", f"{opened.problem.name}.py"), " and run:"),
        tag("div", tag("div", command), cls="code listing"),
        tag("p", f"Workbench {opened.version}; search seed {policy.seed}; {opened.target.name}.", cls="fine"),
        [tag("p", "Hints that were given:"), tag("ul", hints)] if hints else None,
        tag("h3", "The reference"),
        tag("div", reference, cls="code listing"),
    ]
