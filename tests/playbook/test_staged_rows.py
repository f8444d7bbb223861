"""Rows of results that are made in parts: whole in shared memory, then stored as vectors side by side."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, AccessSite
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import number
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.staged_rows import staged_rows
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

Tensors = dict[str, Tensor]
ON = ("staged_rows", "on")
NARROW = (("index_width", "32"), ("stores", "streamed"))
ON = ("staged_rows", "on")


def nine(t: Tensors) -> Tensor:
    w, x, y, z = (t["q"] / t["q"].norm(dim=-1, keepdim=True)).unbind(-1)
    first = (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z))
    rest = (1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x))
    return torch.stack((*first, *rest, 1 - 2 * (x * x + y * y)), -1)


def twelve(t: Tensors) -> Tensor:
    w, x, y, z = t["q"].unbind(-1)
    return torch.stack([a * b for a in (w, x, y) for b in (w - x, y, z, w + z)], -1)


def features(t: Tensors) -> Tensor:
    scaled = t["p"][..., None, :] * torch.arange(1, 5)[:, None]
    return torch.cat([t["p"], torch.sin(scaled).flatten(-2), torch.cos(scaled).flatten(-2)], -1)


def both(t: Tensors) -> tuple[Tensor, ...]:
    crossed = torch.cross(t["p"], t["r"], dim=-1)
    return F.normalize(crossed, dim=-1), t["p"] - crossed


def woven(t: Tensors) -> Tensor:
    return torch.stack((t["p"], t["r"] * 2, t["p"] - t["r"]), -1).flatten(-2)


def mixed(t: Tensors) -> Tensor:
    q = t["q"]
    return torch.cat([q[:, :1] + 1, q.exp(), q[:, 1:] * 3, q[:, :2], q[:, 3:] - q[:, :1]], -1)


ALL: tuple[Call, ...] = (nine, twelve, features, both, woven, mixed)
NAMES = {nine: "q", twelve: "q", features: "p", both: "pr", woven: "pr", mixed: "q"}
APART = {both: ("axis_a_thread", "on"), woven: ("axis_a_thread", "on")}


def tensors_of(call: Call, rows: int, dtype: torch.dtype = torch.float32, width: int = 3) -> Tensors:
    shapes = {"q": (rows, 4), "p": (rows, width), "r": (rows, width)}
    return {name: torch.randn(*shapes[name]).to(dtype) for name in NAMES[call]}


def source_of(call: Call, tensors: Tensors, *more: tuple[str, str]) -> str:
    apart = [APART[call]] if call in APART else []
    vector = (ON, ("block_size", "64"), *apart, *more)
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "_tile" in source and source.count("__global__") == 1
    return source


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("call", "more"), [*((call, ()) for call in ALL), (twelve, NARROW), (features, NARROW)]
)
def test_rows_are_whole_before_they_are_stored(call: Call, more: tuple[tuple[str, str], ...]) -> None:
    source = source_of(call, tensors_of(call, 70), *more)
    for rows in (1, 127, 129):
        check(call, source, tensors_of(call, rows), "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("call", "dtype"), [(nine, torch.bfloat16), (twelve, torch.float64), (features, torch.float16)]
)
def test_of_any_type(call: Call, dtype: torch.dtype) -> None:
    tensors = tensors_of(call, 70, dtype)
    check(call, source_of(call, tensors), tensors, "checked")


def test_inputs_may_be_strided() -> None:
    def every_second(t: Tensors) -> Tensor:
        return features({"p": t["x"][:, ::2]})

    tensors = {"x": torch.randn(70, 6)}
    source = generate(problem_of(every_second, tensors, varying=False), (ON,)).kernel.source
    assert "_tile" in source
    check(every_second, source, tensors, "checked")


def test_rows_too_long_for_shared_memory_go_to_memory() -> None:
    """One kernel for rows of any length: what fits is known when it is compiled for a size."""
    source = source_of(features, tensors_of(features, 70))
    assert "FIT > 0" in source
    check(features, source, tensors_of(features, 3, width=129), "checked")


def counted(call: Call, tensors: Tensors, *more: tuple[str, str]) -> list[AccessSite]:
    source = generate(problem_of(call, tensors), (("index_width", "32"), *more)).kernel.source
    plan = plan_of(source, tensors)
    report = execute(plan, build(source, plan.instances, "checked"), tensors, Options(races=True)).report
    assert not report.hazards and report.counts is not None
    return [site for site in report.counts.sites if site.kind == "store" or site.space == "shared"]


@pytest.mark.many(3)
@pytest.mark.parametrize(("call", "most"), [(nine, 1.0), (twelve, 1.5), (features, 2.0)])
def test_stores_are_whole_sectors_and_banks_are_met_once(call: Call, most: float) -> None:
    before = [site for site in counted(call, tensors_of(call, 1024)) if site.space == "global"]
    sites = counted(call, tensors_of(call, 1024), ON)
    stores = [site for site in sites if site.space == "global"]
    assert all(site.transactions == site.ideal_transactions and site.width_bytes == 16 for site in stores)
    assert sum(site.transactions for site in before) > 1.3 * sum(site.transactions for site in stores)
    shared = [site for site in sites if site.space == "shared"]
    met, least = sum(site.transactions for site in shared), sum(site.ideal_transactions for site in shared)
    assert met <= most * least


def test_parts_that_are_whole_sectors_stay_as_they_are() -> None:
    def halves(t: Tensors) -> Tensor:
        x = t["x"]
        return torch.cat([x, x.sin(), x.cos(), x * 2, x * 3], -1)

    for width, able in ((8, 0), (9, 5), (256, 0)):
        problem = problem_of(halves, {"x": torch.randn(40, width)}, varying=False)
        assert min(1, traits_of(problem).staged[0]) == min(1, able)


def test_a_part_made_of_another_is_not_joined_with_it() -> None:
    """The kernel that reads the argument makes a part of both results; the second's others read the first."""

    def remade(t: Tensors) -> tuple[Tensor, ...]:
        q = t["q"]
        first = torch.cat([q.exp(), q[:, :1], q[:, 1:] * 2, q, q[:, :3]], -1)
        return first, torch.cat([first[:, 1:4] * 3, first, q, first[:, :1], first[:, 2:4]], -1)

    tensors = {"q": torch.randn(70, 4)}
    source = generate(problem_of(remade, tensors), (ON, ("block_size", "64"))).kernel.source
    assert source.count("__shared__") == 1
    check(remade, source, tensors, "checked")


def test_rows_with_a_gap_are_not_staged() -> None:
    program = program_of(problem_of(features, tensors_of(features, 70), varying=False), True)
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    assert staged_rows(program, kernels, False, [{}]) is not None
    first = kernels[0].stores[0]
    onto_others = replace(first, view=View(first.view.axes, first.view.offset + number(1)))
    kernels[0] = Kernel([onto_others, *kernels[0].stores[1:]])
    assert staged_rows(program, kernels, False, [{}]) is None


def test_seeds_have_it_where_stores_lie_apart_and_the_model_of_time_knows() -> None:
    """Nine numbers for each of a million threads took 53.7 us on a card; the bytes alone take 13."""
    problem = problem_of(nine, tensors_of(nine, 1_000_000))
    assert any(ON in card.vector for card in seed_vectors(problem, H100, 3) if card.vector)
    sizes = problem.cases[0].size_map
    staged, *others = (
        estimate(problem, settled(problem, (one, ("index_width", "32"))), H100, sizes).us
        for one in (ON, ("vector_width", "4"), ("vector_width", "1"))
    )
    assert staged < 20 and all(45 < us < 80 for us in others)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=5, max_size=8),
    rows=st.integers(1, 70),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.int32, torch.bool]),
    narrow=st.sampled_from(["32", "64"]),
)
def test_parts_of_any_widths_are_right(widths: list[int], rows: int, dtype: torch.dtype, narrow: str) -> None:
    def call(t: Tensors) -> Tensor:
        x = t["x"]
        return torch.cat([(x + at if dtype != torch.bool else ~x)[:, :n] for at, n in enumerate(widths)], -1)

    tensors = {"x": (torch.randn(rows, 6) * 8).to(dtype)}
    vector = (ON, ("block_size", "64"), ("index_width", narrow))
    check(call, generate(problem_of(call, tensors, varying=False), vector).kernel.source, tensors, "checked")
