"""The terminal: words that carry the verdict without colour, and plain lines into a file."""

from __future__ import annotations

import io

import story
from rich.console import Console

from workbench.tree import Tree
from workbench.views.terminal import follow, progress, summary


class Replay:
    """A session that is one round further each time it is looked at."""

    def __init__(self) -> None:
        self.rounds = 0

    @property
    def tree(self) -> Tree:
        return story.tree(self.rounds)

    def finished(self, timeout: float) -> bool:
        self.rounds += 1
        return self.rounds == 3


def written(*, terminal: bool) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=terminal, width=170, color_system=None), file


def test_the_summary_has_tree_table_and_best() -> None:
    out, file = written(terminal=False)
    out.print(summary(story.tree()))
    text = file.getvalue()
    for words in ("★ b4", "▲ b5", "■ b3", "does not compile", "same as b1", "1.94x (model)", "sm_90a"):
        assert words in text
    assert "time: model, at 4096x32768" in text
    assert "Best: b4 Keep the row in registers, 1.94x (model) over the fastest baseline." in text


def test_a_session_without_a_correct_kernel_says_so() -> None:
    out, file = written(terminal=False)
    out.print(summary(story.tree(0)))
    assert "No correct kernel was found." in file.getvalue()


def test_words_are_never_read_as_markup() -> None:
    out, file = written(terminal=False)
    out.print(progress(story.tree()))
    assert "<b2>" in file.getvalue()


def test_into_a_file_every_settled_branch_is_one_line() -> None:
    out, file = written(terminal=False)
    follow(Replay(), out)
    lines = file.getvalue().splitlines()
    settled = [node.id for node in story.tree().nodes.values() if node.settled]
    assert len(lines) == len(settled)
    assert all(any(f" {id} " in line for line in lines) for id in settled)


def test_in_a_terminal_it_ends_when_the_session_does() -> None:
    out, file = written(terminal=True)
    follow(Replay(), out)
    assert "softmax" in file.getvalue()
