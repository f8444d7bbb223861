"""The terminal: words that carry the verdict without colour, and plain lines into a file."""

from __future__ import annotations

import io
from dataclasses import replace

import story
from rich.console import Console

from workbench.model import BranchId, Diagnostic, LaunchFailed
from workbench.tree import Tree
from workbench.views.phrases import factor_text, spread_text
from workbench.views.project import standing
from workbench.views.report import summary_text, to_fragment, to_html
from workbench.views.terminal import follow, progress, reasons, summary


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
    assert "By shape:" not in text, "all shapes are as good"


def test_a_best_kernel_that_is_slower_than_torch_is_told_as_that() -> None:
    tree = story.tree()
    node = tree.nodes[BranchId("b4")]
    assert node.evaluation is not None
    times = tuple(
        time.model_copy(
            update={"time_us": 10.0, "baselines": (("eager (model)", 90.0), ("torch.compile (model)", 8.0))}
        )
        for time in node.evaluation.times
    )
    judged = replace(node, evaluation=node.evaluation.model_copy(update={"times": times}))
    others = {n: replace(o, evaluation=None) if n != node.id else judged for n, o in tree.nodes.items()}
    slow = replace(tree, nodes=others)
    out, file = written(terminal=False)
    out.print(summary(slow))
    assert "0.80x (model): slower than torch.compile by the model." in file.getvalue()
    assert "over the fastest baseline" not in file.getvalue()
    assert "correct, slower than torch.compile by the model" in file.getvalue()
    for page in (to_fragment(slow), to_html(slow), summary_text(slow)):
        assert "slower than torch.compile by the model" in page


def test_a_plan_that_only_calls_the_library_is_told_as_that() -> None:
    tree = story.tree()
    node = tree.nodes[BranchId("b4")]
    assert node.evaluation is not None and "library" not in standing(node)
    calls = {"launches": 0, "library_calls": ("aten.mm",)}
    facts = tuple(one.model_copy(update=calls) for one in node.evaluation.facts)
    only = replace(node, evaluation=node.evaluation.model_copy(update={"facts": facts}))
    called = replace(tree, nodes={**tree.nodes, node.id: only})
    out, file = written(terminal=False)
    out.print(summary(called))
    for told in (file.getvalue(), to_html(called)):
        assert "it only calls the library (aten.mm)" in " ".join(told.split())


def test_what_a_speed_up_is_over_several_shapes_is_named() -> None:
    out, file = written(terminal=False)
    out.print(summary(story.tree()))
    assert "speed-up: the geometric mean over all shapes" in " ".join(file.getvalue().split())


def test_a_repair_that_wrote_nothing_is_told_with_its_reason() -> None:
    tree = story.tree()
    node = replace(tree.nodes[BranchId("b4")], evaluation=None, abandoned="the compiler failed: no answer")
    assert reasons(replace(tree, nodes={node.id: node})) == ["b4: no kernel: the compiler failed: no answer"]


def test_a_very_small_factor_has_digits() -> None:
    factors = (2.134, 12.34, 0.8, 0.094, 0.0042, 0.00001, 0.0)
    assert [factor_text(f) for f in factors] == [
        *("2.13x", "12.3x", "0.80x", "0.094x", "0.0042x", "under 0.0001x", "0.00x"),
    ]


def test_the_spread_over_shapes_is_told() -> None:
    tree = story.tree()
    node = tree.nodes[BranchId("b4")]
    assert node.evaluation is not None and len(node.evaluation.times) > 1
    first, *rest = node.evaluation.times
    times = (first.model_copy(update={"time_us": first.time_us / 2}), *rest)
    judged = replace(node, evaluation=node.evaluation.model_copy(update={"times": times}))
    out, file = written(terminal=False)
    out.print(summary(replace(tree, nodes={**tree.nodes, node.id: judged})))
    assert f" to {2 * first.speedup:.2f}x at {first.case}." in file.getvalue()
    factors = [("4096x1024", 0.74), ("16x16384", 1.0), ("1x1048576", 1.58)]
    assert spread_text(factors) == "0.74x at 4096x1024 to 1.58x at 1x1048576"
    assert spread_text(factors[:1]) == "" == spread_text([("a", 1.001), ("b", 1.0)])


def test_a_session_without_a_correct_kernel_says_so() -> None:
    out, file = written(terminal=False)
    out.print(summary(story.tree(0)))
    assert "No correct kernel was found." in file.getvalue()


def test_without_a_correct_kernel_every_reason_is_told_once() -> None:
    tree = story.tree()
    why = Diagnostic(line=3, message="block x is 2048, a card takes at most 1024")
    refused = LaunchFailed(case="4x4", diagnostics=(why,))
    nodes = {
        id: replace(node, evaluation=node.evaluation.model_copy(update={"outcome": refused}))
        for id, node in tree.nodes.items()
        if node.evaluation is not None
    }
    (line,) = reasons(replace(tree, nodes=nodes))
    assert line.endswith("launch refused: line 3: block x is 2048, a card takes at most 1024")
    assert all(id in line for id in nodes)


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
