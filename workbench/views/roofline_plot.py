"""The drawing of a roofline: both axes logarithmic, as close as the points allow. Takes JSON."""

from __future__ import annotations

import math
from typing import Any

from workbench.views.svg import Drawing, at, canvas, draw, text

Json = dict[str, Any]
LEFT, TOP, WIDTH, HEIGHT = 66, 8, 420, 220
RIGHT = 110
"""Room for labels beside the points."""
LEAST_X, LEAST_Y = 1.0, 0.6
"""Least decades shown, so that a small difference does not look large."""
LABEL_GAP = 14
PREFIXES = ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))


class _Axes:
    """From decades to places on the drawing."""

    def __init__(self, found: Json) -> None:
        shown = [*found["points"], *found["others"], found["ideal"]]
        self.x0, self.x1 = _range([point["x"] for point in shown], LEAST_X)
        self.y0, self.y1 = _range([point["y"] for point in shown], LEAST_Y)

    def x(self, decades: float) -> float:
        return LEFT + WIDTH * (decades - self.x0) / (self.x1 - self.x0)

    def y(self, decades: float) -> float:
        return TOP + HEIGHT * (self.y1 - decades) / (self.y1 - self.y0)


def _range(values: list[float], least: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = max(0.12, (least - (high - low)) / 2)
    return low - pad, high + pad


def roofline_drawing(found: Json) -> Drawing:
    """Roof, the way along first parents, other parents hollow, and the least possible as a diamond."""
    axes = _Axes(found)
    ideal = (axes.x(found["ideal"]["x"]), axes.y(found["ideal"]["y"]))
    way = [(axes.x(point["x"]), axes.y(point["y"])) for point in found["points"]]
    least = draw("path", d=f"M{at(*ideal)}V{TOP + HEIGHT}", cls="least")
    diamond = draw("path", d=f"M{at(ideal[0], ideal[1] - 6)}l6 6l-6 6l-6 -6z", cls="ideal")
    line = "".join(f"{'L' if place else 'M'}{at(*spot)}" for place, spot in enumerate(way))
    return canvas(
        LEFT + WIDTH + RIGHT, TOP + HEIGHT + 36, found["words"],
        _grid(axes), _roof(axes, found), least, draw("path", d=line, cls="way") if len(way) > 1 else None,
        diamond, text("least possible", ideal[0] + 10, ideal[1] - 7, "tick-text"),
        _points(found, axes), _names(), cls="roofline",
    )  # fmt: skip


def _roof(axes: _Axes, found: Json) -> Drawing:
    """Bandwidth up to the ridge, then the peak, as far as it is in sight."""
    bandwidth, peak = found["bandwidth"], found["peak"]
    start, end = max(axes.x0, axes.y0 - bandwidth), min(axes.x1, axes.y1 - bandwidth)
    corner = min(end, peak - bandwidth)
    path = f"M{at(axes.x(start), axes.y(start + bandwidth))}L{at(axes.x(corner), axes.y(corner + bandwidth))}"
    if peak - bandwidth < end:
        path += f"H{at(axes.x(axes.x1))}"
    return draw("path", d=path, cls="roof")


def _grid(axes: _Axes) -> list[object]:
    drawn: list[object] = []
    for tick in _ticks(axes.x0, axes.x1):
        x = axes.x(tick)
        drawn.append(draw("path", d=f"M{at(x, TOP)}V{TOP + HEIGHT}", cls="grid"))
        drawn.append(text(_amount(tick), x, TOP + HEIGHT + 14, "tick-text", "middle"))
    for tick in _ticks(axes.y0, axes.y1):
        y = axes.y(tick)
        drawn.append(draw("path", d=f"M{at(LEFT, y)}H{LEFT + WIDTH}", cls="grid"))
        drawn.append(text(_amount(tick), LEFT - 6, y + 4, "tick-text", "end"))
    return drawn


def _ticks(low: float, high: float) -> list[float]:
    """Ones, twos and fives of every decade in sight."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [decade + math.log10(step) for decade in decades for step in (1, 2, 5)]
    return [tick for tick in ticks if low <= tick <= high]


def _amount(decades: float) -> str:
    """``0.5``, ``20``, ``5 T``, ``100 T``."""
    for power, prefix in PREFIXES:
        if decades >= power - 1e-9 or power == 0:
            return f"{float(f'{10 ** (decades - power):.2g}'):g} {prefix}".strip()
    raise AssertionError("unreachable: the last prefix always returns")


def _points(found: Json, axes: _Axes) -> list[object]:
    """Dots with their names, pushed apart where they would lie on each other."""
    listed = [(point, "mine" if point is found["points"][-1] else "") for point in found["points"]]
    listed += [(point, "other") for point in found["others"]]
    drawn: list[object] = []
    lowest = -math.inf
    for point, kind in sorted(listed, key=lambda entry: -entry[0]["y"]):
        x, y = axes.x(point["x"]), axes.y(point["y"])
        lowest = max(y, lowest + LABEL_GAP)
        label = f"{point['id']} {point['share']}%, {point['label']}"
        drawn.append(draw("circle", cx=x, cy=y, r=5 if kind == "mine" else 3.5, cls=f"point {kind}".strip()))
        drawn.append(draw("path", d=f"M{at(x + 6, y)}L{at(x + 14, lowest)}", cls="lead"))
        drawn.append(text(label, x + 17, lowest + 4, "bar-text strong" if kind == "mine" else "bar-text"))
    return drawn


def _names() -> list[object]:
    return [
        text("operations per byte moved", LEFT + WIDTH / 2, TOP + HEIGHT + 30, "tick-text", "middle"),
        draw("text", "operations per second", cls="tick-text", text_anchor="middle",
             transform=f"translate(12 {TOP + HEIGHT / 2:g}) rotate(-90)"),
    ]  # fmt: skip
