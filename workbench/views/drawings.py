"""Script-free SVG of the tree for pages that nobody clicks through. Takes the JSON of project.py."""

from __future__ import annotations

from typing import Any

from workbench.views.markup import Markup, tag
from workbench.views.verdicts import SHAPES

Json = dict[str, Any]
ROW, STEP, LEFT = 30, 22, 20
TREE_WIDTH = 960
DEEPEST = 12
"""Levels that are set in; what is below lies under one another, or there is no room for words."""
WORDS_AT, BAR_AT = 560, 726
TITLE_CHARACTERS, TITLE_CHARACTER = 58, 6.6
WORDS_CHARACTERS = 19
"""Bold ones, before the bar begins."""


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
    return LEFT + min(row["depth"], DEEPEST) * STEP, lane * ROW + ROW / 2


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
    flags = "".join(f" · {word}" for word in ("approved", "pruned") if row[word])
    title = _cut(row["title"], min(TITLE_CHARACTERS, int((WORDS_AT - 8 - x - 58) / TITLE_CHARACTER)))
    words = _cut(row["words"], WORDS_CHARACTERS - len(flags)) + flags
    span = 110 * row["score"] / best if row["score"] and best else 0
    return tag(
        "g",
        tag("title", f"{row['title']}: {row['words']}{flags}"),
        tag("circle", cx=x, cy=y, r=10, cls="halo"),
        tag("path", d=SHAPES[row["shape"]], transform=f"translate({x} {y}) scale(6.5)", cls="glyph"),
        tag("text", row["id"], x=x + 18, y=y + 4, cls="id"),
        tag("text", title, x=x + 58, y=y + 4, cls="struck" if row["pruned"] else None),
        tag("text", words, x=WORDS_AT, y=y + 4, cls="verdict"),
        tag("rect", x=BAR_AT, y=y - 5, width=f"{span:.1f}", height=10, rx=2, cls="score") if span else None,
        tag("text", row["label"], x=TREE_WIDTH - 4, y=y + 4, cls="label") if row["label"] else None,
        cls=f"tone-{row['tone']}{' faded' if row['pruned'] else ''}",
    )


def _cut(text: str, most: int) -> str:
    """At most so many characters; the whole is in the line's title."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip(' ,')}…"
