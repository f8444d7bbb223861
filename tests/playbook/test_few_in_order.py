"""Rows of few elements in order: networks of comparators, and what is taken of their results."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of
from tests.problem.test_intake import opened
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.playbook.generate import generate
from workbench.playbook.graph.few_in_order import network
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.problem.few_axes import SORTED

Tensors = dict[str, torch.Tensor]


def awkward(rows: int, columns: int) -> torch.Tensor:
    """Rows of equal elements, infinities, both zeros, NaN of both signs."""
    x = torch.randn(rows, columns).round(decimals=1)
    x[0] = -torch.inf
    x[1, :3] = torch.tensor([torch.nan, torch.inf, -torch.nan])
    x[2] = 0.0
    x[2, ::2] = -0.0
    return x


def whole(rows: int, columns: int) -> torch.Tensor:
    return torch.randint(-3, 4, (rows, columns))


CALLS: dict[str, tuple[Call, Tensors]] = {
    "along rows": (lambda t: torch.sort(t["x"], stable=True), {"x": awkward(9, 5)}),
    "the largest first": (lambda t: torch.sort(t["x"], stable=True, descending=True), {"x": awkward(9, 7)}),
    "sixteen": (lambda t: torch.sort(t["x"], dim=-1, stable=True), {"x": awkward(6, 16)}),
    "along columns": (lambda t: torch.sort(t["x"], dim=1, stable=True), {"x": torch.randn(3, 4, 21)}),
    "halves": (lambda t: torch.sort(t["x"], stable=True), {"x": awkward(6, 8).bfloat16()}),
    "values alone": (lambda t: torch.sort(t["x"]).values, {"x": awkward(6, 9)}),
    "places alone": (lambda t: t["x"].argsort(stable=True), {"x": awkward(6, 4)}),
    "whole numbers": (lambda t: torch.sort(t["x"], stable=True), {"x": whole(6, 6).to(torch.int32)}),
    "long whole numbers": (lambda t: torch.sort(t["x"], descending=True).values, {"x": whole(6, 3) << 40}),
    "bytes": (lambda t: torch.sort(t["x"], stable=True), {"x": whole(6, 5).to(torch.int8)}),
    "two of four": (lambda t: torch.topk(t["x"], 2), {"x": torch.randn(9, 4)}),
    "the three smallest": (lambda t: torch.topk(t["x"], 3, largest=False), {"x": torch.randn(9, 8)}),
    "trimmed": (lambda t: torch.sort(t["x"], 0).values[2:-2].mean(0), {"x": torch.randn(11, 40)}),
    "an end from behind": (lambda t: torch.sort(t["x"], 0).values[-2], {"x": torch.randn(6, 40)}),
}
VECTORS: list[Vector] = [
    (),
    (("vector_width", "4"),),
    (("row_cache", "registers"), ("threads_per_row", "warp")),
]


def results(call: Call, tensors: Tensors, vector: Vector) -> tuple[list[torch.Tensor], str]:
    source = generate(problem_of(call, tensors, varying=False), vector).kernel.source
    plan = plan_of(source, tensors)
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="races", races=True))
    assert not done.report.hazards, done.report.hazards[0].message
    return list(done.outputs), source


@pytest.mark.many(6)
@pytest.mark.parametrize("name", CALLS)
def test_as_torch_has_them(name: str) -> None:
    call, tensors = CALLS[name]
    wanted = call(tensors)
    for vector in VECTORS:
        found, source = results(call, tensors, vector)
        assert "call(" not in source
        for one, right in zip(found, [wanted] if isinstance(wanted, torch.Tensor) else wanted, strict=True):
            torch.testing.assert_close(one, right, equal_nan=True, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", range(2, SORTED + 1))
def test_a_network_puts_everything_in_order(count: int) -> None:
    """What orders all rows of zeros and ones orders all rows (Knuth, TAOCP 3, 5.3.4, theorem Z)."""
    rows = torch.tensor(list(itertools.product((0, 1), repeat=count)))
    for low, high in network(count):
        pair = rows[:, [low, high]]
        rows[:, low], rows[:, high] = pair.amin(1), pair.amax(1)
    assert bool((rows.diff(dim=1) >= 0).all())


MEDIANS = {
    "median": ("x.median({dim})", 9),
    "of an even number": ("x.median({dim}, keepdim=True)", 4),
    "of numbers": ("x.nanmedian({dim})", 6),
    "third": ("x.kthvalue(3, {dim})", 7),
    "quantile": ("torch.quantile(x, 0.3, {dim})", 10),
    "whole quantile": ("torch.quantile(x, 0.25, {dim}, keepdim=True)", 9),
    "the largest": ("torch.quantile(input=x, q=1, dim={dim})", 6),
    "nearest quantile": ("torch.quantile(x, 0.7, {dim}, interpolation='nearest')", 6),
    "midpoint": ("torch.quantile(x, 0.9, {dim}, interpolation='midpoint')", 6),
    "lower": ("torch.quantile(x, 0.6, {dim}, interpolation='lower')", 6),
}


@pytest.mark.many(8)
@pytest.mark.parametrize("name", MEDIANS)
@pytest.mark.parametrize("dim", [1, 2])
def test_order_statistics(name: str, dim: int) -> None:
    body, few = MEDIANS[name]
    shape = [5, few, 33] if dim == 1 else [5, 33, few]
    large = [256, *shape[1:]]
    body = body.format(dim=dim) + ("" if "quantile" in body else ".values")
    text = f"def f(x):\n    return {body}\ninputs = [torch.randn({large})]\n"
    problem = opened(text)
    assert problem.tensors[0].dims[dim] == few, "a size that is fixed"
    assert any(f"{few} along axis {dim} of x" in note for note in problem.notes)
    assert not any("needless" in note for note in problem.notes)
    x = torch.randn(shape)
    x[0, 0] = torch.nan
    x[1, :, 0] = torch.nan
    x[2] = x[2].round()
    source = generate(problem, ()).kernel.source
    assert "call(" not in source and source.count("__global__") == 1
    tensors = {problem.tensors[0].name: x}
    plan = plan_of(source, tensors)
    done = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="medians"))
    wanted = eval(body, {"x": x, "torch": torch})
    torch.testing.assert_close(done.outputs[0], wanted, equal_nan=True, rtol=1e-6, atol=1e-6)


def test_a_median_compares_less_than_a_sort() -> None:
    x = {"x": torch.randn(9, 300)}
    middle = results(lambda t: torch.sort(t["x"], 0).values[4], x, ())[1]
    everything = results(lambda t: torch.sort(t["x"], 0).values, x, ())[1]
    assert middle.count("larger(") + middle.count("smaller(") < everything.count(
        "larger("
    ) + everything.count("smaller(")


def test_the_network_is_what_is_tried_first() -> None:
    problem = problem_of(lambda t: torch.sort(t["x"]), {"x": torch.empty(1 << 20, 4)}, varying=False)
    best = max(seed_vectors(problem, H100, 4), key=lambda seed: seed.predicted_factor)
    assert dict(best.vector)["few_in_order"] == "on"


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.sort(t["x"]).values,
        lambda t: torch.sort(t["y"].double()).values,
        lambda t: torch.sort(t["y"].long()),
        lambda t: torch.sort(t["y"] > 0).values,
    ],
)
def test_others_stay_with_the_library(call: Call) -> None:
    problem = problem_of(call, {"x": torch.randn(8, 17), "y": torch.randn(8, 4)}, varying=False)
    assert "few_in_order" not in dict(settled(problem, ()))
    assert "aten.sort" in generate(problem, ()).note


def around(t: Tensors) -> torch.Tensor:
    padded = torch.nn.functional.pad(t["x"], (1, 1, 1, 1))
    height, width = t["x"].shape
    windows = [padded[dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3)]
    return torch.stack(windows).sort(dim=0).values[4]


@pytest.mark.parametrize(
    "call",
    [
        around,
        lambda t: torch.stack([t["x"], t["x"] * 2], -1)[..., 1] + t["x"],
        lambda t: torch.cat([t["x"][:3], t["x"][3:] * 2])[4],
        lambda t: torch.cat([t["x"][:1], t["x"][3:4] * 2, t["x"][5:6]])[1:].sum(0),
        lambda t: torch.cat([t["x"].half(), t["x"]])[3] * 1.001,
        lambda t: torch.cat([t["x"][:1].half(), t["x"][1:2]])[0],
        lambda t: torch.cat([t["x"][:1].half(), t["x"][1:2], t["x"][2:3]])[:2] * 1.001,
    ],
)
def test_what_is_joined_to_be_taken_apart_is_not_written(call: Call) -> None:
    tensors = {"x": torch.randn(7, 9)}
    found, source = results(call, tensors, ())
    assert source.count("__global__") == 1
    torch.testing.assert_close(found[0], call(tensors), rtol=1e-6, atol=1e-6)
