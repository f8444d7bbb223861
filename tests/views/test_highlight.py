"""Highlighting colours text and never changes it."""

from __future__ import annotations

import story
from hypothesis import given
from hypothesis import strategies as st

from workbench.views.highlight import highlight

PIECES = ("/* plan", "*/", "//", '"', "'", "\n", "__global__", " float4 ", "3.0f", "#define", "x", "\\", "{")


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5)).map("".join))
def test_the_text_comes_back_exactly(source: str) -> None:
    lines = highlight(source)
    assert "\n".join("".join(run.text for run in line) for line in lines) == source
    assert len(lines) == source.count("\n") + 1


def test_words_get_their_classes() -> None:
    kinds = {run.text: run.kind for line in highlight(story.kernel(256, 4).source) for run in line}
    assert kinds["__global__"] == "cuda"
    assert kinds["const"] == "word"
    assert kinds["// pass 1: the maximum"] == "comment"
    assert kinds["def plan(x):"] == "plan"
    assert kinds["32"] == "number"
