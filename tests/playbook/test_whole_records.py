"""Results with a few numbers a row that have much in common: a thread makes all of them."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import reference, run
from workbench.model import H100, Passed
from workbench.playbook.generate import generate
from workbench.playbook.graph.elements import Merged, seen_before
from workbench.playbook.graph.whole_records import MOST_STEPS
from workbench.playbook.ir.sizes import Sizes
from workbench.playbook.techniques.traits import traits_of
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

Tensors = dict[str, torch.Tensor]
ROWS = 70
HEAD = "import torch\nfrom torch.nn import functional as F\n"


def inverse(m: torch.Tensor) -> torch.Tensor:
    """Of two rows and columns, as a person writes it."""
    a, b, c, d = m[..., 0, 0], m[..., 0, 1], m[..., 1, 0], m[..., 1, 1]
    there = torch.stack([d, -b, -c, a], -1).view(*m.shape[:-2], 2, 2)
    return there / (a * d - b * c + 9)[..., None, None]


def filtered(t: Tensors) -> tuple[torch.Tensor, ...]:
    turn, matrix = t["turn"], t["matrix"]
    predicted = turn @ matrix @ turn.T
    gain = predicted @ inverse(predicted)
    return predicted - gain @ predicted, (gain @ t["x"].unsqueeze(-1)).squeeze(-1)


def colours(t: Tensors) -> torch.Tensor:
    """Channels before pixels."""
    image = t["image"]
    light = (image * torch.tensor([0.2, 0.7, 0.1]).view(3, 1, 1)).sum(1, keepdim=True).exp()
    return (image / (1 + light + light.sqrt() * light.sin())).clamp(0, 1) ** 0.45


def twice(m: torch.Tensor) -> torch.Tensor:
    return inverse(inverse(m) @ m.transpose(-1, -2) + 3)


def put_in_place(t: Tensors) -> torch.Tensor:
    """Component by component, into three of four columns."""
    a, b, c = t["three"].unbind(-1)
    far = (a * a + b * b + c * c).sqrt()
    by = 2 * torch.atan2(far, a.cos()) / (far + 1)
    out = torch.zeros(len(a), 4)[:, :3]
    out[:, 0] += a * by
    out[:, 1] += b * by
    out[:, 2] -= c * by
    return out


def of_pieces(t: Tensors) -> torch.Tensor:
    """What a tensor is split into, and a choice by all of its components."""
    a, bc = t["three"].split([1, 2], -1)
    b, c = bc.chunk(2, -1)
    far = (a * a + b * b + c * c).sqrt()
    inside = ((t["three"] > -1) & (t["three"] < 1.5)).all(-1, keepdim=True)
    return torch.cat([b * far.sin(), c * far.cos(), a / (1 + far)], -1).tanh() * inside


CALLS: dict[str, Call] = {
    "put in place": put_in_place,
    "pieces": of_pieces,
    "matrices": filtered,
    "points of several": lambda t: ((t["points"] @ t["turn3"]).tanh() @ t["turn3"].T).exp() @ t["turn3"],
    "turned over": lambda t: t["three"] / (t["three"].flip(1).exp() * t["three"].sin()).sum(1, keepdim=True),
    "channels": colours,
    "rows of neighbours": lambda t: (t["x"][1:, None] - t["x"][:-1, None]) @ twice(t["matrix"])[1:],
    "of half": lambda t: (
        ((t["matrix"].half() @ t["matrix"].half()).tanh() @ t["matrix"].half()).sin() @ t["matrix"].half()
    ),
}


def tensors() -> Tensors:
    shapes = {
        "x": (ROWS, 2), "matrix": (ROWS, 2, 2), "turn": (2, 2), "points": (4, 33, 3), "turn3": (3, 3),
        "three": (40, 3), "image": (2, 3, 9, 11),
    }  # fmt: skip
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def called(call: Call) -> Tensors:
    """The tensors that a call reads."""
    read, every = dict[str, torch.Tensor](), tensors()

    class Noted(dict[str, torch.Tensor]):
        def __getitem__(self, name: str) -> torch.Tensor:
            read[name] = every[name]
            return every[name]

    call(Noted())
    return read


@pytest.mark.parametrize("name", CALLS)
def test_a_thread_makes_all_of_a_row(name: str) -> None:
    call, rtol = CALLS[name], 2e-2 if name == "of half" else 1e-4
    given = called(call)
    problem = problem_of(call, given, varying=False)
    assert "whole_records" in traits_of(problem).rewrites
    for use in ("on", "off"):
        done = run(generate(problem, (("whole_records", use),)).kernel.source, given, "checked", races=True)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, right in zip(done.outputs, reference(call, given), strict=True):
            torch.testing.assert_close(got.double(), right.double(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    "cell",
    [
        "def f(rgb, turn):\n"
        "    light = torch.where(rgb > 0.04, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)\n"
        "    return (turn @ light.flatten(2)).view_as(rgb).sqrt()\n"
        "inputs = [torch.rand(2, 3, 36, 60), torch.rand(3, 3)]\n",
        "def f(rgb, turn):  # whose result has channels first in memory\n"
        "    light = torch.where(rgb > 0.04, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)\n"
        "    return torch.einsum('ij,bjhw->bihw', turn, light).sqrt()\n"
        "inputs = [torch.rand(2, 3, 36, 60), torch.rand(3, 3)]\n",
        "def f(points, turn):\n"
        "    bent = (points @ turn).tanh() @ turn.T\n"
        "    return F.normalize(bent, dim=-1)\n"
        "inputs = [torch.randn(4, 1030, 3), torch.randn(3, 3)]\n",
    ],
)
def test_axes_that_are_merged_may_have_any_size(cell: str) -> None:
    problem = open_problem(read_cell(HEAD + cell))
    assert "whole_records" in traits_of(problem).rewrites and len(problem.symbols) > 1
    kernel = generate(problem, ()).kernel
    assert kernel.source.count("__global__") == 1
    assert judge(problem, kernel, H100, JudgeOptions(), lambda stage: None).outcome == Passed()


def test_all_results_are_one_kernel() -> None:
    given = called(filtered)
    problem = problem_of(filtered, given, varying=False)
    assert generate(problem, ()).kernel.source.count("__global__") == 1
    assert generate(problem, (("whole_records", "off"),)).kernel.source.count("__global__") > 1


def with_many_steps(t: Tensors) -> torch.Tensor:
    x = t["x"].repeat(1, 16)
    for step in range(MOST_STEPS // 60):
        x = x.sin() + x.flip(1) * step
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t["x"] * 2 + 1,
        lambda t: t["matrix"].sum((1, 2)),
        lambda t: t["x"].tanh().T,
        with_many_steps,
    ],
)
def test_elements_that_have_little_in_common_are_a_thread_each(call: Call) -> None:
    problem = problem_of(call, called(call), varying=False)
    assert "whole_records" not in traits_of(problem).rewrites


def test_an_axis_that_is_seen_as_several_has_a_place_along_each() -> None:
    sizes = Sizes(("n", "m"))
    assert seen_before(sizes, ("4*n", 3), ("n", 4, 3), (None, 1, 2)) == (Merged(("n", 4), (None, 1)), 2)
    assert seen_before(sizes, ("n", 4, 3), ("4*n", 3), (Merged(("n", 4), (None, 1)), 2)) == (None, 1, 2)
    assert seen_before(sizes, ("n*m", 3), ("n", "m", 3), (None, None, 2)) == (None, 2)
    assert seen_before(sizes, ("n", "m", 3), ("n*m", 3), (None, 2)) == (None, None, 2)
    assert seen_before(sizes, ("n", "m"), ("n*m",), (3,)) is None
    assert seen_before(sizes, ("m*n", 3), ("n", "3*m"), (None, None)) == (None, None)
    assert seen_before(sizes, ("m*n", 3), ("n", "3*m"), (None, 2)) is None
