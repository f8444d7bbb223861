"""How a stage or a verdict looks: a shape, a tone and words, so that colour alone never carries it.

Owns the one vocabulary that the panel, the report and the terminal share.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from workbench.model import (
    CompileFailed,
    Crashed,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Stage,
    Suspect,
    TimedOut,
)

Tone = Literal["good", "best", "bad", "warn", "busy", "quiet"]


class Look(NamedTuple):
    """``symbol`` is the shape as one character, ``shape`` its name in :data:`SHAPES`."""

    symbol: str
    shape: str
    tone: Tone
    words: str


BEST = Look("★", "star", "best", "best so far")
STAGES: dict[Stage, Look] = {
    "waiting": Look("○", "ring", "quiet", "waiting"),
    "writing": Look("◔", "quarter", "busy", "writing"),
    "compiling": Look("◑", "half", "busy", "compiling"),
    "running": Look("◕", "three_quarters", "busy", "running"),
    "done": Look("○", "ring", "quiet", "done"),
}
ABANDONED = Look("–", "dash", "quiet", "no kernel")
DUPLICATE = Look("–", "dash", "quiet", "duplicate")

_HAZARDS = {
    "out_of_bounds": "out of bounds",
    "misaligned": "misaligned access",
    "race": "data race",
    "barrier": "divergent barrier",
    "uninitialised": "uninitialised read",
    "warp_sync": "unsynchronised warp",
    "input_written": "writes its input",
}
_COMPILE_STAGES = {"plan": "plan error", "nvrtc": "does not compile", "emulator": "emulator build failed"}


def look_of(outcome: Outcome) -> Look:
    """Shape, tone and words of a verdict."""
    match outcome:
        case Passed(not_covered=missing):
            return Look("●", "circle", "good", "correct where covered" if missing else "correct")
        case CompileFailed(stage=stage):
            return Look("■", "square", "bad", _COMPILE_STAGES[stage])
        case LaunchFailed():
            return Look("◆", "diamond", "bad", "launch refused")
        case Crashed():
            return Look("✖", "cross", "bad", "crashed")
        case TimedOut():
            return Look("◴", "hourglass", "bad", "ran too long")
        case Mismatch():
            return Look("▲", "triangle_up", "bad", "wrong numbers")
        case Hazard(hazard=hazard):
            return Look("▼", "triangle_down", "warn", _HAZARDS[hazard])
        case Suspect():
            return Look("?", "hexagon", "warn", "suspect")


def _polygon(corners: int, start: float, radii: tuple[float, ...] = (1.0,)) -> str:
    points = []
    for index in range(corners):
        angle = math.radians(start + 360 * index / corners)
        radius = radii[index % len(radii)]
        points.append(f"{radius * math.cos(angle):.3f} {radius * math.sin(angle):.3f}")
    return f"M{'L'.join(points)}Z"


def _pie(share: float) -> str:
    """A ring with a sector filled clockwise from the top."""
    end = math.radians(360 * share - 90)
    large = int(share > 0.5)
    ring = "M0 -1A1 1 0 1 1 0 1A1 1 0 1 1 0 -1ZM0 -.72A.72 .72 0 1 0 0 .72A.72 .72 0 1 0 0 -.72Z"
    if not share:
        return ring
    return f"{ring}M0 0L0 -.75A.75 .75 0 {large} 1 {0.75 * math.cos(end):.3f} {0.75 * math.sin(end):.3f}Z"


SHAPES: dict[str, str] = {
    "circle": "M0 -.9A.9 .9 0 1 1 0 .9A.9 .9 0 1 1 0 -.9Z",
    "star": _polygon(10, -90, (1.2, 0.52)),
    "square": "M-.8 -.8H.8V.8H-.8Z",
    "diamond": _polygon(4, -90, (1.1,)),
    "cross": "M-.9 -.45L-.45 -.9L0 -.45L.45 -.9L.9 -.45L.45 0L.9 .45L.45 .9L0 .45L-.45 .9L-.9 .45L-.45 0Z",
    "hourglass": "M-.8 -.95H.8L.12 0L.8 .95H-.8L-.12 0Z",
    "triangle_up": _polygon(3, -90, (1.15,)),
    "triangle_down": _polygon(3, 90, (1.15,)),
    "hexagon": _polygon(6, 0),
    "dash": "M-.8 -.2H.8V.2H-.8Z",
    "ring": _pie(0.0),
    "quarter": _pie(0.25),
    "half": _pie(0.5),
    "three_quarters": _pie(0.75),
}
"""SVG path data in a box of about -1..1, drawn by the panel and the report alike (even-odd filled)."""
