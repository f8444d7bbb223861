"""Tensors whose axes lie in memory in another order: read as they lie, returned as torch returns them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.problem.layout import memory_order, strides_of

half = torch.float16


def last(**tensors: object) -> dict[str, Tensor]:
    """Channels-last images and volumes; other tensors as they are."""
    made = of(**tensors)()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return {n: t.to(memory_format=formats[t.ndim]) if t.ndim in formats else t for n, t in made.items()}


def turned(**tensors: object) -> dict[str, Tensor]:
    """Matrices stored column by column; other tensors as they are."""
    made = of(**tensors)()
    return {n: t.t().contiguous().t() if t.ndim == 2 else t for n, t in made.items()}


def normed(t: dict[str, Tensor]) -> Tensor:
    return F.silu(F.group_norm(t["x"], 2, t["w"], t["b"])) + t["x"]


def two_convolutions(t: dict[str, Tensor]) -> Tensor:
    return F.relu(F.conv2d(F.relu(F.conv2d(t["x"], t["w"], t["b"], padding=1)), t["v"])) * 0.5


def batch_normed(t: dict[str, Tensor]) -> Tensor:
    return F.batch_norm(t["x"], None, None, t["w"], t["b"], training=True)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "bias": (lambda t: F.relu(t["x"] + t["b"][:, None, None]), last(x=(2, 12, 7, 9), b=(12,))),
    "half": (lambda t: F.relu(t["x"] * 2), last(x=((2, 8, 5, 6), half))),
    "volume": (lambda t: F.gelu(t["x"] + t["y"]), last(x=(2, 4, 3, 5, 6), y=(2, 4, 3, 5, 6))),
    "group norm": (normed, last(x=(2, 8, 9, 7), w=(8,), b=(8,))),
    "instance norm": (lambda t: F.instance_norm(t["x"]), last(x=(2, 8, 9, 7))),
    "batch norm": (batch_normed, last(x=(3, 8, 9, 7), w=(8,), b=(8,))),
    "softmax of channels": (lambda t: F.softmax(t["x"], 1), last(x=(2, 24, 5, 6))),
    "max pool": (lambda t: F.max_pool2d(F.relu(t["x"]), 2), last(x=(2, 8, 8, 6))),
    "mean pool": (lambda t: F.adaptive_avg_pool2d(t["x"], 1), last(x=(2, 40, 9, 7))),
    "mean of pixels": (lambda t: t["x"].mean((2, 3)), last(x=(2, 40, 9, 7))),
    "two convolutions": (two_convolutions, last(x=(2, 6, 8, 9), w=(8, 6, 3, 3), b=(8,), v=(5, 8, 3, 3))),
    "columns": (lambda t: torch.exp(t["x"]) + t["b"], turned(x=(37, 20), b=(20,))),
    "columns of both": (lambda t: t["x"] * t["y"], turned(x=(33, 21), y=(33, 21))),
    "a view of what is made": (lambda t: F.softmax(t["x"], -1).permute(2, 0, 1), of(x=(4, 5, 36))()),
    "a turned result": (lambda t: t["x"].permute(2, 0, 1).exp(), of(x=(4, 5, 36))()),
    "row-major on demand": (lambda t: F.relu(t["x"]).contiguous(), last(x=(2, 5, 7, 9))),
}
VECTORS: tuple[Vector, ...] = ((), (("vector_width", "4"), ("row_cache", "registers")))


def _order(result: object) -> tuple[int, ...] | None:
    assert isinstance(result, Tensor)
    return memory_order(result.shape, result.stride())


@pytest.mark.many(29)
@pytest.mark.parametrize("name", CALLS)
def test_results_lie_in_memory_as_torch_has_them(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "laid")
    for vector in VECTORS:
        execution = check(call, generate(problem, vector).kernel.source, tensors)
        assert _order(execution.outputs[0]) == _order(call(tensors))


ACROSS = ("row-major on demand", "softmax of channels", "instance norm")
"""Results that torch makes row-major from images that are not: either reads or writes go across."""


@pytest.mark.many(11)
@pytest.mark.parametrize("name", [name for name in CALLS if name not in (*ACROSS, "batch norm")])
def test_neighbouring_threads_read_neighbours(name: str) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    sites = check(call, source, tensors, "checked").report.counts.sites
    assert sites
    for site in sites:
        assert site.transactions <= 2 * site.ideal_transactions + 2 * site.requests, site


@pytest.mark.slow
def test_a_convolution_between_kernels_stays_channels_last() -> None:
    call, tensors = CALLS["two convolutions"]
    steps = plan_of(generate(problem_of(call, tensors), ()).kernel.source, tensors).steps
    assert [step.op for step in steps if step.kind == "library"] == ["aten.convolution"] * 2


def test_library_results_that_nothing_uses_are_not_laid_out() -> None:
    tensors = of(x=(6, 9))()
    problem = problem_of(lambda t: torch.sort(t["x"])[0] + 1, tensors)
    source = generate(problem, ()).kernel.source
    assert source.count("aten.contiguous") == 1
    check(lambda t: torch.sort(t["x"])[0] + 1, source, tensors)


def test_a_row_waits_in_registers_in_the_order_of_memory() -> None:
    call, tensors = CALLS["group norm"]
    vector = (*VECTORS[1], ("interleaved", "off"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "x_kept[KEPT][VEC]" in source


@pytest.mark.parametrize(
    ("shape", "strides", "order"),
    [
        ((2, 3, 4), (12, 4, 1), None),
        ((2, 3, 4), (12, 1, 3), (0, 2, 1)),
        ((5, 7), (1, 5), (1, 0)),
        ((5, 7), (1, 6), None),  # a gap
        ((5, 7), (0, 1), None),  # a repeated row
        ((1, 8, 3, 3), (72, 1, 24, 8), (0, 2, 3, 1)),
        ((4, 1, 3, 3), (9, 1, 3, 1), None),  # one channel: both layouts are the same memory
        ((), (), None),
        ((0, 3), (1, 1), None),
    ],
)
def test_the_order_of_axes_in_memory(
    shape: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...] | None
) -> None:
    assert memory_order(shape, strides) == order


def test_strides_are_products_of_sizes() -> None:
    assert strides_of((2, 3, 4), (12, 1, 3), ("s0", "s1 + 1", 4)) == ("(s1 + 1)*4", 1, "(s1 + 1)")
    assert strides_of((2, 3), (3, 1), ("s0", "s1")) is None


@pytest.mark.parametrize(
    "call",
    [lambda t: torch.sort(F.relu(t["x"]), dim=1)[0] * 2, lambda t: torch.sort(t["x"], dim=1)[0] * 2],
    ids=["of a row-major copy", "of the image itself"],
)
def test_library_calls_return_what_is_expected_of_what_they_are_given(call: Call) -> None:
    tensors = last(x=(2, 5, 6, 7))
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert [s.op for s in plan_of(source, tensors).steps if s.kind == "library"] == ["aten.sort"]
    assert _order(check(call, source, tensors).outputs[0]) == (0, 2, 3, 1)


@pytest.mark.parametrize("fusion", ["all", "none"])
def test_a_square_result_comes_back_turned_too(fusion: str) -> None:
    """Turned, it has the shape that it had: only its strides tell."""

    def both(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        chosen = torch.where(t["x"] > 0.25, t["x"], 1.5)
        return chosen.t(), chosen

    tensors = {"x": torch.randn(8, 8)}
    source = generate(problem_of(both, tensors, varying=False), (("fusion", fusion),)).kernel.source
    check(both, source, tensors)
