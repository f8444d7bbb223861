"""The data frame: a row a branch, numbers as numbers."""

from __future__ import annotations

import story

from workbench.tree import Tree
from workbench.views.frame import to_frame


def test_a_row_a_branch_with_numbers() -> None:
    frame = to_frame(story.tree())
    assert list(frame.index) == [
        "b1", "b6", "b7", "b2", "b3", "b3.1", "b4", "b8", "b9", "e1", "b5", "b10",
    ]  # fmt: skip
    best = frame.loc["b4"]
    assert best["score"] == story.tree().nodes["b4"].score
    assert best["time_source"] == "model"
    assert best["registers"] == 32
    assert frame.loc["b5", "verdict"] == "mismatch"
    assert frame["score"].isna().sum() == 8
    assert frame.loc["b8", "verdict"] == "running"


def test_an_empty_tree_has_the_columns() -> None:
    frame = to_frame(Tree())
    assert frame.empty
    assert "time_us" in frame.columns
