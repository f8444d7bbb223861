"""Where the time of a plan of several steps goes: its launches and library calls, longest shown. Pure.

Owns the sentence and the drawing; what a step takes is the referee's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.model import CaseTime, Measured, StepTime
from workbench.views.phrases import time_text
from workbench.views.svg import Drawing, canvas, draw, text

Json = dict[str, Any]
MOST = 16
"""Steps with a bar of their own; a deep network has hundreds."""
LABEL, SPAN, WORDS, ROW, FOOT = 180, 260, 160, 20, 6
MOST_LETTERS = 27


class _Bar(NamedTuple):
    name: str
    time_us: float
    kind: str
    told: str
    """What follows the time."""


def steps_json(time: CaseTime) -> Json | None:
    """A sentence and a drawing of measured steps, with shares of what all take; None where there are none."""
    measured = time.measured
    if measured is None or not measured.steps_us:
        return None
    between = max(0.0, time.time_us - measured.steps_us)
    bars = _bars(measured)
    if between:
        bars.append(_Bar("between the steps", between, "between", ""))
    return {"words": _words(measured, between), "drawing": _drawn(bars)}


def _words(measured: Measured, between: float) -> str:
    calls = sum(step.kind == "library" for step in measured.steps)
    parts = []
    if calls:
        share = f"{measured.library_share or 0.0:.0%}"
        parts.append(f"{calls} library call{'s take' if calls > 1 else ' takes'} {share} of it")
    longest = measured.longest_step
    assert longest is not None
    share = f"{longest.time_us / measured.steps_us:.0%}"
    parts.append(f"the longest is {longest.name} (line {longest.line}) with {share}")
    if between:
        parts.append(f"{time_text(between)} lie between the steps")
    said = f"{len(measured.steps)} steps take {time_text(measured.steps_us)} of the device"
    return f"{said}: {'; '.join(parts)}. Caches are cold before the first step alone."


def _bars(measured: Measured) -> list[_Bar]:
    """In the plan's order; the shortest of many in one."""
    steps = measured.steps
    longest = sorted(range(len(steps)), key=lambda place: -steps[place].time_us)
    shown = set(longest if len(steps) <= MOST + 1 else longest[:MOST])
    bars = [_bar_of(step, measured.steps_us) for place, step in enumerate(steps) if place in shown]
    rest = [step.time_us for place, step in enumerate(steps) if place not in shown]
    if rest:
        bars.append(
            _Bar(f"{len(rest)} shorter steps", sum(rest), "rest", _share(sum(rest), measured.steps_us))
        )
    return bars


def _bar_of(step: StepTime, whole: float) -> _Bar:
    told = f"{_share(step.time_us, whole)}, line {step.line}"
    return _Bar(step.name.removeprefix("aten."), step.time_us, step.kind, told)


def _share(time_us: float, whole: float) -> str:
    return f", {time_us / whole:.0%}"


def _drawn(bars: list[_Bar]) -> Drawing:
    scale = SPAN / max(bar.time_us for bar in bars)
    drawn = [_bar(place, bar, scale) for place, bar in enumerate(bars)]
    said = ", ".join(f"{bar.name} {time_text(bar.time_us)}" for bar in bars)
    return canvas(LABEL + SPAN + WORDS, len(bars) * ROW + FOOT, said, drawn, cls="bars")


def _bar(place: int, bar: _Bar, scale: float) -> list[object]:
    y, width = place * ROW, max(1.0, bar.time_us * scale)
    own = bar.kind == "kernel"
    name = bar.name if len(bar.name) <= MOST_LETTERS else f"{bar.name[: MOST_LETTERS - 1]}…"
    return [
        text(name, LABEL - 8, y + 14, "bar-text strong" if own else "bar-text", "end"),
        draw("rect", x=LABEL, y=y + 3, width=width, height=12, rx=2, cls="bar mine" if own else "bar"),
        text(f"{time_text(bar.time_us)}{bar.told}", LABEL + width + 6, y + 14, "bar-text"),
    ]
