"""Script-free SVG: the tree, bars of time, error heatmaps. Takes the JSON of project.py and detail.py."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from workbench.views.markup import Markup, tag
from workbench.views.verdicts import SHAPES

Json = dict[str, Any]
ROW, STEP, LEFT = 30, 22, 20
TREE_WIDTH = 960
TITLE_CHARACTERS = 58
BAR_LABEL, BAR_SPAN, BAR_ROW = 130, 420, 24


def glyph(row: Json, size: float = 7) -> Markup:
    """The shape of a verdict as an inline drawing."""
    mark = tag("path", d=SHAPES[row["shape"]], cls="glyph")
    side = 2.6 * size
    return tag("svg", mark, width=side, height=side, viewBox="-1.3 -1.3 2.6 2.6", cls=f"tone-{row['tone']}")


def tree_svg(view: Json) -> Markup:
    """The whole tree, a line a branch: shape, id, title, verdict, speedup."""
    lanes = {row["id"]: (lane, row) for lane, row in enumerate(view["rows"])}
    best = max((row["score"] or 0 for row in view["rows"]), default=0)
    edges = [_edge(lanes, row, index) for row in view["rows"] for index in range(len(row["parents"]))]
    lines = [_line(row, lane, best) for lane, row in lanes.values()]
    height = max(1, len(lanes)) * ROW
    words = f"Tree of {len(lanes)} branches"
    return tag(
        "svg", edges, lines, viewBox=f"0 0 {TREE_WIDTH} {height}", cls="tree", role="img", aria_label=words
    )


def _at(lane: int, row: Json) -> tuple[float, float]:
    return LEFT + row["depth"] * STEP, lane * ROW + ROW / 2


def _edge(lanes: dict[str, tuple[int, Json]], row: Json, index: int) -> Markup:
    px, py = _at(*lanes[row["parents"][index]])
    x, y = _at(*lanes[row["id"]])
    if index == 0:
        return tag("path", d=f"M{px} {py}V{y - 8}Q{px} {y} {px + 8} {y}H{x}", cls="edge")
    down = 1 if y > py else -1
    curve = f"M{px} {py}C{px + 14} {py + 18 * down} {x - 4} {y - 20 * down} {x} {y}"
    return tag("path", d=curve, cls="edge second")


def _line(row: Json, lane: int, best: float) -> Markup:
    x, y = _at(lane, row)
    flags = "".join(f"  · {word}" for word in ("approved", "pruned") if row[word])
    title = row["title"]
    if len(title) > TITLE_CHARACTERS:
        title = f"{title[: TITLE_CHARACTERS - 1]}…"
    span = 110 * row["score"] / best if row["score"] and best else 0
    return tag(
        "g",
        tag("circle", cx=x, cy=y, r=10, cls="halo"),
        tag("path", d=SHAPES[row["shape"]], transform=f"translate({x} {y}) scale(6.5)", cls="glyph"),
        tag("text", row["id"], x=x + 18, y=y + 4, cls="id"),
        tag("text", title, x=x + 58, y=y + 4, cls="struck" if row["pruned"] else None),
        tag("text", row["words"] + flags, x=560, y=y + 4, cls="verdict"),
        tag("rect", x=726, y=y - 5, width=f"{span:.1f}", height=10, rx=2, cls="score") if span else None,
        tag("text", row["label"], x=TREE_WIDTH - 4, y=y + 4, cls="label") if row["label"] else None,
        cls=f"tone-{row['tone']}{' faded' if row['pruned'] else ''}",
    )


def bars_svg(time: Json) -> Markup:
    """One case: every baseline, this kernel, the speed of light."""
    entries = [(b["name"], b["time_us"], b["time"], "") for b in time["baselines"]]
    entries.append(("this kernel", time["time_us"], time["time"], "mine"))
    entries.append(("speed of light", time["floor_us"], time["floor"], "floor"))
    top = max(entry[1] for entry in entries)
    drawn = [_bar(i, entry, BAR_SPAN * entry[1] / top) for i, entry in enumerate(entries)]
    box = f"0 0 {BAR_LABEL + BAR_SPAN + 90} {len(entries) * BAR_ROW}"
    said = ", ".join(f"{name} {text}" for name, _, text, _ in entries)
    return tag("svg", drawn, viewBox=box, cls="bars", role="img", aria_label=said)


def _bar(index: int, entry: tuple[str, float, str, str], width: float) -> list[Markup]:
    name, _, text, kind = entry
    y = index * BAR_ROW
    strong = "bar-text strong" if kind == "mine" else "bar-text"
    width = max(2.0, width)
    return [
        tag("text", name, x=BAR_LABEL - 8, y=y + 16, text_anchor="end", cls=strong),
        tag("rect", x=BAR_LABEL, y=y + 4, width=f"{width:.1f}", height=15, rx=2, cls=f"bar {kind}"),
        tag("text", text, x=f"{BAR_LABEL + width + 6:.1f}", y=y + 16, cls=strong),
    ]


def heatmap_svg(levels: list[list[int]]) -> Markup:
    """Error over bound in bins: rows by columns of the output."""
    columns = max(len(row) for row in levels)
    paths: dict[int, list[str]] = defaultdict(list)
    for y, row in enumerate(levels):
        x = 0
        for level, run in itertools.groupby(row):
            width = len(list(run))
            paths[level].append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    cells = [tag("path", d="".join(parts), cls=f"heat{level}") for level, parts in paths.items()]
    side = min(10.0, 220 / max(len(levels), columns))
    return tag(
        "svg", cells, viewBox=f"0 0 {columns} {len(levels)}", preserveAspectRatio="none", cls="heatmap",
        width=round(columns * side), height=max(8, round(len(levels) * side)), role="img",
        aria_label="Error over bound, rows by columns of the output",
    )  # fmt: skip
