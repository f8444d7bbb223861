"""Which tensors may be drawn with any sign; a deep network is not asked about each of its tensors alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from problem.cells import opened
from torch import Tensor

from workbench.model import Problem
from workbench.problem import domains

DEEP = """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Tanh()) for _ in range({blocks})]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x):
        return self.blocks(x)

module = Deep()
inputs = [torch.randn(6, 5)]
"""
ROOTS = """
class Scaled(nn.Module):
    def __init__(self, root):
        super().__init__()
        self.root = root
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x):
        return x * torch.{function}(self.scale / 2) if self.root else x * self.scale

class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain, self.rooted = Scaled(False), Scaled(True)

    def forward(self, x):
        return self.rooted(self.plain(x))

module = Both()
inputs = [torch.randn(6, 5)]
"""


@pytest.mark.slow
def test_norms_of_a_deep_network_are_asked_about_together(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    drawn: list[str] = []
    plain, draws = domains.run, domains.draw

    def counted(form: Any, tensors: Mapping[str, Tensor]) -> Any:
        runs[-1] += 1
        return plain(form, tensors)

    def noted(problem: Problem, *rest: Any) -> dict[str, Tensor]:
        drawn.extend(spec.name for spec in problem.tensors)
        return draws(problem, *rest)

    monkeypatch.setattr(domains, "run", counted)
    monkeypatch.setattr(domains, "draw", noted)
    for blocks in (2, 6):
        runs.append(0)
        drawn.clear()
        problem = opened(DEEP.replace("{blocks}", str(blocks)), "module")
    assert runs[0] == runs[1] > 0
    assert drawn.count("blocks_0_0_weight") == 1 + len(problem.proofs), "only what is widened is drawn anew"
    samplers = {spec.path.rpartition(".")[2]: spec.sampler for spec in problem.tensors if ".1." in spec.path}
    assert samplers["running_mean"].kind == samplers["bias"].kind == "normal"
    assert samplers["running_var"].kind == "uniform" and samplers["running_var"].low > 0


@pytest.mark.parametrize(
    ("function", "plain", "scalable"),
    [("sqrt", "uniform", True), ("asin", "normal", False)],
    ids=["together they may be larger", "nothing is harmless for both"],
)
def test_where_any_sign_does_harm(function: str, plain: str, scalable: bool) -> None:
    problem = opened(ROOTS.replace("{function}", function), "module")
    samplers = {spec.path: spec.sampler for spec in problem.tensors}
    assert samplers["plain.scale"].kind == plain
    assert samplers["rooted.scale"].kind == "uniform" and samplers["rooted.scale"].low > 0
    assert samplers["rooted.scale"].scalable == scalable
