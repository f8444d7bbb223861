"""Rows that go through several steps on the chip: each step reads what the one before has left in the row."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.errors import NotCovered
from workbench.model import H100, Vector
from workbench.playbook.analysis.banks import Access, best_spread, clocks_of
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import number
from workbench.playbook.ir.views import Axis, View
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

BLOCKS: Vector = (("block_size", "64"), ("steps_by", "block"))
WARPS: Vector = (("block_size", "64"), ("index_width", "32"), ("steps_by", "warp"), ("vector_width", "4"))
half, bfloat = torch.float16, torch.bfloat16


def hadamard(t: dict[str, Tensor]) -> Tensor:
    x, step = t["x"], 1
    rows, columns = x.shape
    while step < columns:
        first, second = x.view(rows, columns // (2 * step), 2, step).unbind(2)
        x = torch.stack((first + second, first - second), 2).view(rows, columns)
        step *= 2
    return x / math.sqrt(columns)


def fourier(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Two tensors go through the steps together, with factors that no row has to itself."""
    re, im = t["re"], t["im"]
    rows, columns = re.shape
    step = columns // 2
    while step:
        a, b = (x.view(rows, columns // (2 * step), 2, step) for x in (re, im))
        angles = torch.arange(step) * (-math.pi / step)
        cos, sin = torch.cos(angles), torch.sin(angles)
        left, right = a[:, :, 0] - a[:, :, 1], b[:, :, 0] - b[:, :, 1]
        re = torch.stack((a[:, :, 0] + a[:, :, 1], left * cos - right * sin), 2).view(rows, columns)
        im = torch.stack((b[:, :, 0] + b[:, :, 1], left * sin + right * cos), 2).view(rows, columns)
        step //= 2
    return re, im


def bitonic(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    rows, columns = x.shape
    place = torch.arange(columns)
    size = 2
    while size <= columns:
        step = size // 2
        while step:
            other = x.view(rows, -1, 2, step).flip(2).reshape(rows, columns)
            smaller = ((place & step) == 0) == ((place & size) == 0)
            x = torch.where(smaller, torch.minimum(x, other), torch.maximum(x, other))
            step //= 2
        size *= 2
    return x


def doubling(t: dict[str, Tensor]) -> Tensor:
    x, step = t["x"], 1
    while step < x.shape[1]:
        x = x + F.pad(x[:, :-step], (step, 0))
        step *= 2
    return x


def lifted(t: dict[str, Tensor]) -> Tensor:
    """A step makes fewer than the one before, beside what waits."""
    x, columns = t["x"], t["x"].shape[1]
    for level in range(3):
        pairs = x[:, : columns >> level].reshape(x.shape[0], -1, 2)
        means, details = pairs.sum(2) * 0.5, pairs[:, :, 0] - pairs[:, :, 1]
        x = torch.cat([means, details, x[:, columns >> level :]], 1)
    return x


def blurred(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for _ in range(3):
        x = torch.relu(0.25 * torch.roll(x, 1, -1) + 0.5 * x + 0.25 * torch.roll(x, -1, -1))
    return x


def weighed(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for step in range(3):
        x = (x + x.flip(1)[:, :1] + torch.roll(x, 1, 1)) * t["w"][step] + t["b"][:, None]
    return x + t["x"]


def looked_up(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for _ in range(3):
        x = x + 0.5 * x.gather(1, t["i"])
    return x


def longer(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for _ in range(3):
        x = torch.cat([x + x.flip(1), x - 0.5 * x.flip(1)], 1)
    return x


def automaton(t: dict[str, Tensor]) -> Tensor:
    cells = t["x"]
    for _ in range(4):
        left, right = torch.roll(cells, 1, 1), torch.roll(cells, -1, 1)
        cells = (cells | right) & ~(left & cells & right)
    return cells


places = torch.arange(3 * 33).reshape(3, 33) * 7 % 33
CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "hadamard": (hadamard, of(x=(5, 256))()),
    "hadamard of few, in halves": (hadamard, of(x=((7, 16), half))()),
    "fourier": (fourier, of(re=(3, 16), im=(3, 16))()),
    "bitonic": (bitonic, of(x=(3, 16))()),
    "doubling": (doubling, of(x=(3, 129))()),
    "doubling one row": (doubling, of(x=(1, 127))()),
    "lifted": (lifted, of(x=(5, 48))()),
    "blurred": (blurred, of(x=(2, 3, 127))()),
    "blurred in bfloat": (blurred, of(x=((9, 40), bfloat))()),
    "blurred, turned": (blurred, {"x": torch.randn(33, 7).t()}),
    "blurred in double": (blurred, {"x": torch.randn(2, 12, dtype=torch.float64)}),
    "weighed": (weighed, of(x=(5, 33), w=(3, 33), b=(5,))()),
    "looked up": (looked_up, of(x=(3, 33), i=places)()),
    "longer": (longer, of(x=(3, 5))()),
    "automaton": (automaton, {"x": torch.rand(3, 65) > 0.5}),
}


def chains(call: Call, tensors: dict[str, Tensor], varying: bool = False) -> list[int]:
    """Steps before the last one, of each kernel."""
    problem = problem_of(call, tensors, varying=varying)
    steps = program_of(problem, True, frozenset(["whole_records"])).steps  # where a row is not a thread's
    return [len(step.steps.kernels) if step.steps else 0 for step in steps if isinstance(step, Kernel)]


@pytest.mark.many(41)
@pytest.mark.parametrize("vector", [BLOCKS, WARPS], ids=["blocks", "warps"])
@pytest.mark.parametrize("name", CALLS)
def test_one_kernel_goes_through_all_steps(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, settled(problem, vector)).kernel.source
    assert source.count("__global__") == 1
    assert ("__syncwarp" if vector is WARPS else "__syncthreads") in source
    check(call, source, tensors)


@pytest.mark.many(5)
@pytest.mark.parametrize("rows", [1, 127, 129])
def test_teams_with_rows_to_spare(rows: int) -> None:
    problem = problem_of(blurred, of(x=(6, 12))())
    for vector in (BLOCKS, WARPS):
        source = generate(problem, settled(problem, vector)).kernel.source
        check(blurred, source, of(x=(rows, 12))())
        check(blurred, source, of(x=(rows, 7))())


WIDE: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "blurred": (blurred, of(x=(7, 48))()),
    "blurred in bfloat": (blurred, of(x=((9, 64), bfloat))()),
    "weighed": (weighed, of(x=(5, 32), w=(3, 32), b=(5,))()),
    "doubling": (doubling, of(x=(3, 128))()),
    "automaton": (automaton, {"x": torch.rand(9, 64) > 0.5}),
}


@pytest.mark.many(41)
@pytest.mark.parametrize("width", ["2", "4", "8", "16"])
@pytest.mark.parametrize("team", ["block", "warp"])
@pytest.mark.parametrize("name", WIDE)
def test_steps_read_their_rows_in_vectors(name: str, team: str, width: str) -> None:
    """Rows that the width divides and rows that it does not; hints for memory are none for shared memory."""
    call, tensors = WIDE[name]
    vector = (("block_size", "64"), ("steps_by", team), ("stream_hints", "on"), ("vector_width", width))
    problem = problem_of(call, tensors)
    chosen = dict(settled(problem, vector))
    source = generate(problem, settled(problem, vector)).kernel.source
    if chosen["vector_width"] == width:
        assert source.count("load<VEC>(kept") + source.count("load<VEC>(&kept") >= 2
    check(call, source, tensors)
    if name != "weighed":
        check(call, source, {"x": tensors["x"][:, :-3].contiguous()})


def test_rows_that_have_no_room_are_refused() -> None:
    problem = problem_of(blurred, of(x=(6, 12))())
    source = generate(problem, settled(problem, BLOCKS)).kernel.source
    with pytest.raises(NotCovered, match="fit"):
        plan_of(source, of(x=(2, 30_000))())
    assert chains(blurred, of(x=(2, 30_000))()) == [0] * len(chains(blurred, of(x=(2, 30_000))()))


def test_a_thread_makes_several_steps_of_what_it_has() -> None:
    assert chains(*CALLS["hadamard"]) == [3]  # the rows, and three steps twice, before two more
    assert chains(*CALLS["bitonic"]) == [3]  # the rows, and ten steps in three


# ------------------------------------------------------------------------------------ what does not wait


def flattened(t: dict[str, Tensor]) -> Tensor:
    """The first of a row follows the last of the row before."""
    x = t["x"]
    for step in (1, 2, 4):
        flat = x.flatten()
        x = x + torch.cat([flat[-step:], flat[:-step]]).view(x.shape)
    return x


def shifted_lines(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for step in (1, 2, 4):
        x = x + F.pad(x.flatten()[:-step], (step, 0)).view(x.shape)
    return x


def upside_down(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for _ in range(3):
        x = x + 0.5 * x.flip(0) + x.flip(1)
    return x


def of_the_first_row(t: dict[str, Tensor]) -> Tensor:
    x = t["x"]
    for _ in range(3):
        x = x + x.flip(1) + x[0]
    return x


def also_returned(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    once = blurred(t)
    return blurred({"x": once}), once


def turned_back(t: dict[str, Tensor]) -> Tensor:
    return blurred(t).t().contiguous()


def summed(t: dict[str, Tensor]) -> Tensor:
    x = blurred(t)
    return x / x.square().sum(1, keepdim=True)


ELSEWHERE = (flattened, shifted_lines, upside_down, of_the_first_row, also_returned, turned_back, summed)


@pytest.mark.many(11)
@pytest.mark.parametrize("call", ELSEWHERE, ids=lambda call: call.__name__)
def test_what_other_rows_or_others_need_is_not_kept(call: Call) -> None:
    tensors = of(x=(5, 16))()
    assert not any(chains(call, tensors))
    problem = problem_of(call, tensors, varying=False)
    check(call, generate(problem, ()).kernel.source, tensors)


def test_two_steps_are_no_chain() -> None:
    def twice(t: dict[str, Tensor]) -> Tensor:
        once = t["x"] + torch.roll(t["x"], 1, 1)
        return once + torch.roll(once, 1, 1)

    assert not any(chains(twice, of(x=(5, 16))()))


# ------------------------------------------------------------------------------------ what is expected of it


@pytest.mark.slow
def test_a_search_starts_from_rows_on_the_chip() -> None:
    problem = problem_of(hadamard, of(x=(65536, 256))(), varying=False)
    best = dict(seed_vectors(problem, H100, 3)[-1].vector)
    assert best["row_steps"] == "on"
    sizes = problem.cases[0].size_map
    on, off = (
        estimate(problem, settled(problem, (*WARPS, ("row_steps", way))), H100, sizes)
        for way in ("on", "off")
    )
    assert 3 * on.us < off.us and on.launches == 1


def test_what_lies_a_power_of_two_apart_is_spread_over_banks() -> None:
    apart = Access(View((Axis(number(32), number(8)),)), places=32, width=256, size=4)
    assert clocks_of(apart, 0, {}) == 8
    assert clocks_of(apart, 8, {}) < 2
    beside = Access(View((Axis(number(256), number(1)),)), places=256, width=256, size=4)
    assert (best_spread([apart], {}), best_spread([beside], {})) == (8, 0)
