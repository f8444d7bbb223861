"""The text of one kernel, whole: what a student reads. Change it on purpose or not at all."""

from pathlib import Path

import torch

from tests.playbook.problems import problem_of
from workbench.playbook.generate import generate

GOLDEN = Path(__file__).parent / "golden"


def test_softmax_in_registers() -> None:
    problem = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": torch.randn(6, 36)}, "softmax")
    draft = generate(problem, (("row_cache", "registers"), ("vector_width", "4")))
    assert draft.kernel.source == (GOLDEN / "softmax.cu").read_text()
    assert draft.note == "1 kernel"


def test_lines_fit_a_screen() -> None:
    assert max(map(len, (GOLDEN / "softmax.cu").read_text().splitlines())) <= 110
