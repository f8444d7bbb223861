"""Where the time of a plan of several steps goes: its launches and library calls, longest shown. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.model import CaseTime, StepTime
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
    place: str = ""


def steps_json(time: CaseTime) -> Json | None:
    """A sentence and a drawing of measured steps; None where there are none."""
    steps = time.measured.steps if time.measured else ()
    whole = sum(step.time_us for step in steps)
    if not whole or time.measured is None:
        return None
    between = max(0.0, time.time_us - whole)
    bars = [*_bars(steps), *([_Bar("between the steps", between, "between")] if between else [])]
    return {"words": _words(time, steps, whole, between), "drawing": _drawn(bars, whole + between)}


def step_text(step: StepTime) -> str:
    """``aten.mm (line 57)``; a kernel without its template arguments."""
    name = step.step.partition("<")[0]
    return f"{name} (line {step.line})" if step.line else name


def _words(time: CaseTime, steps: tuple[StepTime, ...], whole: float, between: float) -> str:
    calls = sum(step.kind == "library" for step in steps)
    parts = []
    if calls and time.measured is not None:
        share = f"{time.measured.library_share or 0.0:.0%}"
        parts.append(f"{calls} library call{'s take' if calls > 1 else ' takes'} {share} of it")
    longest = max(steps, key=lambda step: step.time_us)
    parts.append(f"the longest is {step_text(longest)} with {longest.time_us / whole:.0%}")
    if between:
        parts.append(f"{time_text(between)} lie between the steps")
    said = f"{len(steps)} steps take {time_text(whole)} of the device"
    return f"{said}: {'; '.join(parts)}. Caches are cold before the first step alone."


def _bars(steps: tuple[StepTime, ...]) -> list[_Bar]:
    """In the plan's order; the shortest of many in one."""
    longest = sorted(range(len(steps)), key=lambda place: -steps[place].time_us)
    shown = longest if len(steps) <= MOST + 1 else longest[:MOST]
    bars = [
        _Bar(
            step.step.partition("<")[0].removeprefix("aten."),
            step.time_us,
            step.kind,
            f"line {step.line}" if step.line else "",
        )
        for place, step in enumerate(steps)
        if place in set(shown)
    ]
    rest = longest[len(shown) :]
    if rest:
        bars.append(_Bar(f"{len(rest)} shorter steps", sum(steps[place].time_us for place in rest), "rest"))
    return bars


def _drawn(bars: list[_Bar], whole: float) -> Drawing:
    scale = SPAN / max(bar.time_us for bar in bars)
    drawn = [_bar(place, bar, scale, whole) for place, bar in enumerate(bars)]
    said = ", ".join(f"{bar.name} {time_text(bar.time_us)}" for bar in bars)
    return canvas(LABEL + SPAN + WORDS, len(bars) * ROW + FOOT, said, drawn, cls="bars")


def _bar(place: int, bar: _Bar, scale: float, whole: float) -> list[object]:
    y, width = place * ROW, max(1.0, bar.time_us * scale)
    own = bar.kind == "kernel"
    name = bar.name if len(bar.name) <= MOST_LETTERS else f"{bar.name[: MOST_LETTERS - 1]}…"
    said = f"{time_text(bar.time_us)}, {bar.time_us / whole:.0%}"
    return [
        text(name, LABEL - 8, y + 14, "bar-text strong" if own else "bar-text", "end"),
        draw("rect", x=LABEL, y=y + 3, width=width, height=12, rx=2, cls="bar mine" if own else "bar"),
        text(f"{said}, {bar.place}" if bar.place else said, LABEL + width + 6, y + 14, "bar-text"),
    ]
