"""Bars of time, error heatmaps, histograms, factors with their intervals, raw samples: numbers get a place.

Takes the JSON of numbers.py, speed.py and samples.py and gives drawings. Owns no wording of verdicts.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

from workbench.views.phrases import number_text
from workbench.views.svg import Drawing, at, canvas, draw, text

Json = dict[str, Any]
BAR_LABEL, BAR_SPAN, BAR_ROW = 150, 360, 22
FACTOR_LABEL, FACTOR_SPAN, FACTOR_ROW = 150, 380, 17
FACTOR_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
TRACK_LABEL, TRACK_SPAN, TRACK_HEIGHT = 150, 400, 44


def bars(time: Json) -> Drawing:
    """One case: every baseline, this kernel, the speed of light; intervals where they were measured."""
    entries = [(b["name"], b["time_us"], b["time"], "", b.get("interval_us")) for b in time["baselines"]]
    measured = time["measured"]
    own = (measured["low_us"], measured["high_us"]) if measured else None
    entries.append(("this kernel", time["time_us"], time["time"], "mine", own))
    entries.append(("speed of light", time["floor_us"], time["floor"], "floor", None))
    top = max(max(entry[1], entry[4][1] if entry[4] else 0) for entry in entries) or 1.0
    drawn = [_bar(place, entry, BAR_SPAN / top) for place, entry in enumerate(entries)]
    said = ", ".join(f"{name} {words}" for name, _, words, _, _ in entries)
    return canvas(BAR_LABEL + BAR_SPAN + 90, len(entries) * BAR_ROW, said, drawn, cls="bars")


def _bar(place: int, entry: tuple[str, float, str, str, Any], scale: float) -> list[object]:
    name, time_us, words, kind, interval = entry
    y, width = place * BAR_ROW, max(2.0, time_us * scale)
    strong = "bar-text strong" if kind == "mine" else "bar-text"
    ends = [BAR_LABEL + edge * scale for edge in interval] if interval else []
    return [
        text(name, BAR_LABEL - 8, y + 15, strong, "end"),
        draw("rect", x=BAR_LABEL, y=y + 3, width=width, height=14, rx=2, cls=f"bar {kind}".strip()),
        whisker(ends[0], ends[1], y + 10) if ends else None,
        text(words, max([BAR_LABEL + width, *ends]) + 6, y + 15, strong),
    ]


def whisker(low: float, high: float, y: float, half: float = 4) -> Drawing:
    """An interval as a line with ends."""
    middle = f"M{at(low, y)}H{at(high)}"
    ends = f"M{at(low, y - half)}v{at(2 * half)}M{at(high, y - half)}v{at(2 * half)}"
    return draw("path", d=middle + ends, cls="whisker")


def histogram(found: list[Json]) -> Drawing | None:
    """Shares of errors by their size in units of the last place."""
    if not found:
        return None
    top = max(bar["percent"] for bar in found) or 1.0
    drawn = []
    for place, bar in enumerate(found):
        y, width = place * 20, max(1.0, 130 * bar["percent"] / top)
        share = f", {bar['percent']:g}%" if bar["percent"] >= 0.01 else ""
        drawn += [
            text(bar["name"], 48, y + 14, anchor="end"),
            draw("rect", x=54, y=y + 4, width=width if bar["count"] else 0.5, height=12, cls="bar"),
            text(f"{bar['count']:,}{share}", 60 + width, y + 14),
        ]
    said = ", ".join(f"{bar['name']}: {bar['count']:,}" for bar in found)
    return canvas(310, len(found) * 20, said, drawn, cls="bars")


def heatmap(levels: list[list[int]]) -> Drawing | None:
    """Error over bound in bins: rows by columns of the output."""
    if not levels:
        return None
    columns = max(len(row) for row in levels)
    paths: dict[int, list[str]] = defaultdict(list)
    for y, row in enumerate(levels):
        x = 0
        for level, run in itertools.groupby(row):
            width = len(list(run))
            paths[level].append(f"M{x} {y}h{width}v1h-{width}z")
            x += width
    cells = [draw("path", d="".join(parts), cls=f"heat{level}") for level, parts in sorted(paths.items())]
    side = min(10.0, 220 / max(len(levels), columns))
    return draw(
        "svg", cells, viewBox=f"0 0 {columns} {len(levels)}", preserveAspectRatio="none", cls="heatmap",
        width=round(columns * side), height=max(8, round(len(levels) * side)), role="img",
        aria_label="Error over bound, rows by columns of the output",
    )  # fmt: skip


# ------------------------------------------------------------------------------------ factors


def factors(rows: list[Json]) -> Drawing | None:
    """Each shape against each baseline on one logarithmic axis: a dot and its interval, a line at 1x."""
    known = [cell for row in rows for cell in row["cells"] if cell]
    if not known:
        return None
    smallest: float = min(0.8, *(cell["low"] or cell["ratio"] for cell in known)) / 1.6
    largest: float = max(1.25, *(cell["high"] or cell["ratio"] for cell in known)) * 1.15
    scale = FACTOR_SPAN / math.log(largest / smallest)

    def x_of(ratio: float) -> float:
        return FACTOR_LABEL + scale * math.log(ratio / smallest)

    drawn, place = [], 0
    for row in rows:
        drawn.append(text(row["case"], 2, place * FACTOR_ROW + 13, "bar-text strong"))
        place += 1
        for cell in filter(None, row["cells"]):
            drawn.append(_factor(cell, x_of, place * FACTOR_ROW + 9))
            place += 1
    end = place * FACTOR_ROW + 4
    ticks = [_tick(x_of(tick), tick, end) for tick in FACTOR_TICKS if smallest <= tick <= largest]
    said = "; ".join(f"{row['case']}: {_said(row)}" for row in rows)
    return canvas(FACTOR_LABEL + FACTOR_SPAN + 70, end + 30, said, ticks, drawn, cls="factors")


def _factor(cell: Json, x_of: Any, y: float) -> list[object]:
    x = x_of(cell["ratio"])
    low, high = x_of(cell["low"] or cell["ratio"]), x_of(cell["high"] or cell["ratio"])
    return [
        text(cell["name"], FACTOR_LABEL - 8, y + 4, "tick-text", "end"),
        whisker(low, high, y, 3) if cell["low"] else None,
        draw("circle", cx=x, cy=float(y), r=3, cls=f"dot tone-{cell['tone']}"),
        # Away from the line at 1x, so that it crosses no words.
        text(cell["text"], min(x, low) - 7, y + 4, f"dot-text tone-{cell['tone']}", "end")
        if cell["ratio"] < 1
        else text(cell["text"], max(x, high) + 7, y + 4, f"dot-text tone-{cell['tone']}"),
    ]


def _tick(x: float, tick: float, end: float) -> list[object]:
    words = text(f"{tick:g}x", x, end + 12, "tick-text", "middle")
    below = text("slower ◂ ours ▸ faster", x, end + 25, "tick-text", "middle") if tick == 1 else None
    return [draw("path", d=f"M{at(x, 0)}V{at(end)}", cls="one" if tick == 1 else "grid"), words, below]


def _said(row: Json) -> str:
    return ", ".join(f"{cell['text']} against {cell['name']}" for cell in row["cells"] if cell)


# ------------------------------------------------------------------------------------ raw samples


def tracks(found: list[Json]) -> Drawing:
    """Samples in the order they were taken, each contestant on a scale of its own; the line is the median."""
    drawn = [_track(track, place * TRACK_HEIGHT) for place, track in enumerate(found)]
    end = len(found) * TRACK_HEIGHT
    order = text("in the order they were taken →", TRACK_LABEL, end + 12, "tick-text")
    said = ", ".join(f"{track['name']}: median {number_text(track['median_us'])} us" for track in found)
    return canvas(TRACK_LABEL + TRACK_SPAN + 150, end + 18, said, drawn, order, cls="tracks")


def _track(track: Json, top: float) -> list[object]:
    samples, low, high = track["samples_us"], track["low_us"], track["high_us"]
    height = TRACK_HEIGHT - 12
    step, spread = TRACK_SPAN / max(1, len(samples)), float(high - low) or 1.0

    def y_of(time_us: float) -> float:
        return top + 6 + height * float(high - min(max(time_us, low), high)) / spread

    spots = [
        (at(TRACK_LABEL + step * (i + 0.5), y_of(us)), low <= us <= high) for i, us in enumerate(samples)
    ]
    middle, mine = y_of(track["median_us"]), " mine" if track["mine"] else ""
    within = "".join(f"M{spot}h0" for spot, inside in spots if inside)
    beyond = "".join(f"M{spot}h0" for spot, inside in spots if not inside)
    right = TRACK_LABEL + TRACK_SPAN
    return [
        draw("rect", x=TRACK_LABEL, y=top + 3, width=TRACK_SPAN, height=height + 6, cls="track-box"),
        draw("path", d=f"M{at(TRACK_LABEL, middle)}H{at(right)}", cls="median"),
        draw("path", d=within, cls=f"samples{mine}"),
        draw("path", d=beyond, cls="samples beyond") if beyond else None,
        text(track["name"], TRACK_LABEL - 8, top + 18, "bar-text strong" if mine else "bar-text", "end"),
        text(f"{number_text(track['median_us'])} us", TRACK_LABEL - 8, top + 32, "tick-text", "end"),
        text(f"{number_text(high)}{track['above']}", right + 5, top + 12, "tick-text"),
        text(number_text(low), right + 5, top + 9 + height, "tick-text"),
    ]
