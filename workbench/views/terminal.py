"""A session in the terminal: live progress, then the tree and a table; plain lines into a file.

Takes the JSON of project.py and detail.py. Text from kernels and models is never read as rich markup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Branches

from workbench.tree import Tree
from workbench.views.detail import detail
from workbench.views.numbers import technique_text, verdict_message
from workbench.views.phrases import listed, plural
from workbench.views.project import project, spread_label
from workbench.views.verdicts import look_of

Json = dict[str, Any]
STYLES = {
    "good": "green",
    "best": "bold yellow",
    "bad": "red",
    "warn": "magenta",
    "busy": "cyan",
    "quiet": "dim",
}
MOST_REASONS = 4
"""Told below a search in which no kernel was right."""
PLAIN_WIDTH = 160
"""Columns where there is no terminal to ask."""
REFRESH_S = 0.2


class Watched(Protocol):
    """A session that goes on while it is looked at."""

    @property
    def tree(self) -> Tree: ...

    def finished(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; True once there is nothing more to wait for."""
        ...


def console() -> Console:
    """A console for standard output, wide enough for the table where output goes to a file."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def follow(watched: Watched, out: Console) -> None:
    """Show a running session until it is finished."""
    if not out.is_terminal:
        return _follow_plain(watched, out)
    with Live(progress(watched.tree), console=out, refresh_per_second=8, transient=True) as live:
        while not watched.finished(REFRESH_S):
            live.update(progress(watched.tree))
    return None


def _follow_plain(watched: Watched, out: Console) -> None:
    told: set[str] = set()
    over = False
    while not over:
        over = watched.finished(REFRESH_S)
        view = project(watched.tree)
        for row in view["rows"]:
            if row["id"] not in told and row["stage"] == "done":
                told.add(row["id"])
                done = f"[{len(told)}/{view['progress']['expected']}]"
                out.print(Text(f"{done:>8} "), _line(row), sep="", soft_wrap=True)


def progress(tree: Tree) -> RenderableType:
    """State, bar and tree of a session in flight."""
    view = project(tree)
    share = view["progress"]["percent"]
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(view["problem"]["name"], style="bold"),
        Text(view["state"]["words"], style=STYLES[view["state"]["tone"]]),
        ProgressBar(total=100, completed=share, width=24),
        Text(view["progress"]["words"], style="dim"),
    )
    messages = [Text(text, style="red") for text in view["messages"]]
    return Group(head, *messages, tree_text(view))


def tree_text(view: Json) -> RenderableType:
    """The tree with a shape, words and a score for each branch."""
    root = Branches(Text(view["subtitle"], style="dim"), guide_style="dim")
    places: dict[str, Branches] = {}
    for row in view["rows"]:
        above = places[row["parents"][0]] if row["parents"] else root
        places[row["id"]] = above.add(_line(row))
    return root


def _line(row: Json) -> Text:
    tone = STYLES[row["tone"]]
    line = Text.assemble((f"{row['symbol']} ", tone), (f"{row['id']} ", "bold"), row["title"], "  ")
    line.append(row["words"], style=tone)
    if row["label"]:
        line.append(f"  {row['label']}", style="bold")
    for flag in ("best", "approved", "pruned"):
        if row[flag]:
            line.append(f"  {flag}", style="dim")
    return line


def summary(tree: Tree) -> RenderableType:
    """The final tree and table, with what was found best."""
    view = project(tree)
    parts: list[RenderableType] = [tree_text(view), Text(), table(tree)]
    if best := view["best"]:
        words = f"Best: {best['id']} {best['title']}, {best['standing']}."
        parts.append(Text(words, style="bold"))
        if spread := spread_label(tree.nodes[best["id"]]):
            parts.append(Text(f"By shape: {spread}."))
    else:
        parts.append(Text("No correct kernel was found.", style="bold red"))
        parts += [Text(line) for line in reasons(tree)]
    parts += [Text(f"Note: {note}.", style="dim") for note in view["problem"]["notes"]]
    parts.append(Text(_sentence(view["state"]["words"]), style="dim"))
    return Group(*parts)


def reasons(tree: Tree) -> list[str]:
    """Why kernels were turned away, each reason once with its branches; the commonest first."""
    found: dict[str, list[str]] = {}
    for node in tree.nodes.values():
        if node.evaluation is not None and not node.passed:
            outcome = node.evaluation.outcome
            reason = f"{look_of(outcome).words}: {verdict_message(outcome)}"
            found.setdefault(reason, []).append(node.id)
        elif node.abandoned and not node.duplicate_of:
            found.setdefault(f"no kernel: {node.abandoned}", []).append(node.id)
    commonest = sorted(found.items(), key=lambda one: -len(one[1]))
    lines = [f"{listed(branches)}: {reason}" for reason, branches in commonest[:MOST_REASONS]]
    more = len(commonest) - len(lines)
    return [*lines, f"and {plural(more, 'other reason')}"] if more else lines


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


COLUMNS: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("regs", lambda entry: str(max((k["registers"] for k in _kernels(entry)), default="–"))),
    ("shared", lambda entry: _kernels(entry)[0]["shared"] if _kernels(entry) else "–"),
    ("spills", lambda entry: f"{sum(k['spill_bytes'] for k in _kernels(entry))}" if _kernels(entry) else "–"),
    ("error", lambda entry: entry["difference"]["share_text"] if entry["difference"] else "–"),
    ("sectors", lambda entry: f"{entry['counts'][-1]['sectors']:,}" if entry["counts"] else "–"),
    ("launches", lambda entry: str(entry["facts"][0]["launches"]) if entry["facts"] else "–"),
    ("time", lambda entry: entry["times"][0]["time"] if entry["times"] else "–"),
    ("speed-up", lambda entry: entry["row"]["label"] or "–"),
)
"""Columns of numbers, after branch, hypothesis, techniques and verdict."""


def _kernels(entry: Json) -> list[Json]:
    return entry["compile"]["kernels"] if entry["compile"] else []


def table(tree: Tree) -> Table:
    """A row a branch: what was tried, what NVRTC and the referee found, what the clock or the model says."""
    view = project(tree)
    case = view["problem"]["cases"][0] if view["problem"]["cases"] else ""
    source = "measured" if view.get("device") == "cuda" else "model"
    caption = (
        f"regs, shared, spills: NVRTC for {tree.opened.target.arch if tree.opened else ''}; "
        "error: of what is allowed; "
        f"sectors of 32 bytes counted at a small shape; time: {source}, at {case}"
    )
    if len(view["problem"]["cases"]) > 1:
        caption += "; speed-up: the geometric mean over all shapes"
    made = Table(header_style="bold", caption=caption, caption_justify="left", pad_edge=False, box=None)
    for name in ("branch", "hypothesis", "techniques", "verdict"):
        made.add_column(name, overflow="fold")
    for name, _ in COLUMNS:
        made.add_column(name, justify="right", no_wrap=True)
    for row in view["rows"]:
        entry = detail(tree, row["id"])
        tone = STYLES[row["tone"]]
        cells = [Text(str(read(entry))) for _, read in COLUMNS]
        branch = Text(f"{row['symbol']} {row['id']}", style=tone)
        words = Text(row["words"], style=tone)
        made.add_row(branch, Text(row["title"]), Text(technique_text(entry), style="dim"), words, *cells)
    return made
