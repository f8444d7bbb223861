"""Drawings: places follow the numbers, text stays text, and the same drawing is JSON and markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import story

from workbench.model import BranchId
from workbench.views.detail import detail
from workbench.views.plots import factors, heatmap, tracks
from workbench.views.svg import draw, text, to_markup


def parts(drawing: Any, name: str, cls: str = "") -> Iterator[dict[str, Any]]:
    """Attributes of the elements of a name, and of a class."""
    if isinstance(drawing, list):
        if drawing[0] == name and (not cls or cls in drawing[1].get("class", "").split()):
            yield drawing[1]
        for child in drawing[2]:
            yield from parts(child, name, cls)


def measured() -> dict[str, Any]:
    return detail(story.measured_tree(), BranchId("b3"))


def test_drawings_are_strict_json_and_well_formed() -> None:
    found = measured()
    for drawing in (
        found["speed"]["drawing"],
        *(one["drawing"] for one in (*found["rooflines"], *found["times"])),
    ):
        assert json.loads(json.dumps(drawing, allow_nan=False)) == drawing
        assert to_markup(drawing).startswith("<svg ") and "aria-label=" in to_markup(drawing)


def test_words_of_others_are_escaped_in_markup() -> None:
    made = to_markup(draw("svg", text("<script>", 1, 2), aria_label='"<'))
    assert "<script>" not in made and '="&quot;&lt;"' in made


def test_a_slower_kernel_lies_left_of_the_line() -> None:
    drawing = measured()["speed"]["drawing"]
    line = next(parts(drawing, "path", "one"))["d"].split()[0].removeprefix("M")
    slower = [dot["cx"] for dot in parts(drawing, "circle", "tone-bad")]
    faster = [dot["cx"] for dot in parts(drawing, "circle", "tone-good")]
    assert slower and faster
    assert max(slower) < float(line) < min(faster)


def test_there_is_no_drawing_of_nothing() -> None:
    assert heatmap([]) is None
    assert factors([{"case": "1", "cells": [None]}]) is None


def test_samples_beyond_the_scale_lie_at_its_edge() -> None:
    track = {"name": "eager", "mine": False, "median_us": 2.0, "low_us": 1.0, "high_us": 3.0,
             "above": "; 1 above", "samples_us": [1.0, 2.0, 3.0, 90.0]}  # fmt: skip
    drawing = tracks([track])
    inside, beyond = (next(parts(drawing, "path", cls))["d"] for cls in ("samples", "beyond"))
    assert inside.count("M") == 3 and beyond.count("M") == 1
    assert beyond.split()[1] == inside.split("M")[3].split()[1]


def test_no_point_lies_above_the_roof() -> None:
    found = measured()["rooflines"][0]
    assert all(point["y"] <= point["x"] + found["bandwidth"] + 1e-3 for point in found["points"])
    places = [float(dot["cy"]) for dot in parts(found["drawing"], "circle", "point")]
    assert len(places) == 3 and all(0 < y < 240 for y in places)
