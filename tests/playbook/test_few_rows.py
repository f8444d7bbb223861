"""A few rows that meet many: each of the many is read once, whatever the numbers of rows and blocks."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates.estimate import estimate_steps
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import LibraryCall
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of
from workbench.referee.work import LIBRARY_EFFICIENCY, library_operations


def linear(t: dict[str, Tensor]) -> Tensor:
    return F.silu(F.linear(t["x"], t["w"], t["b"]))


def gated(t: dict[str, Tensor]) -> Tensor:
    """Two products of the same rows: a gate and what it lets through."""
    return F.silu(t["x"] @ t["w"].t()) * (t["x"] @ t["u"].t())


def in_bytes(t: dict[str, Tensor]) -> Tensor:
    """Weights in 8 bits, scaled where they are read."""
    return F.linear(t["x"], t["w"].to(t["x"].dtype) * t["b"][:, None])


def scores(t: dict[str, Tensor]) -> Tensor:
    """A few queries of each of several heads."""
    return (t["x"] @ t["w"].transpose(-1, -2)) * 0.125


def routed(t: dict[str, Tensor]) -> Tensor:
    """Few columns instead of few rows."""
    return torch.softmax(t["x"] @ t["w"].t(), -1)


def furthest(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """No product at all: what rows are of one another."""
    apart = (t["x"][:, None] - t["w"][None]).abs()
    return apart.amax(-1), apart.amin(-1)


def weighed(t: dict[str, Tensor]) -> Tensor:
    """Every column has a weight that all rows share, each of the few a scale."""
    return ((t["x"][:, None] * t["s"][:, None, None] - t["w"][None]).square() * t["c"]).sum(-1)


def parts(t: dict[str, Tensor]) -> Tensor:
    """Rows that lie further apart than they are long, and begin inside their tensors."""
    return t["x"][:, 3:259] @ t["w"][:, 4:260].t()


def added(t: dict[str, Tensor]) -> Tensor:
    return torch.addmm(t["b"], t["x"], t["w"].t())


BYTES = torch.randint(-127, 128, (300, 256), generator=torch.Generator().manual_seed(0)).to(torch.int8)
HALVES = {name: one.bfloat16() for name, one in of(x=(7, 264), w=(270, 264), b=(270,))().items()}
CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "linear": (linear, of(x=(4, 260), w=(270, 260), b=(270,))()),
    "odd rows": (linear, of(x=(3, 259), w=(257, 259), b=(257,))()),
    "halves": (linear, HALVES),
    "sixteen rows": (added, of(x=(13, 320), w=(210, 320), b=(210,))()),
    "gated": (gated, of(x=(5, 256), w=(260, 256), u=(260, 256))()),
    "in bytes": (in_bytes, {**of(x=(6, 256), b=(300,))(), "w": BYTES}),
    "scores": (scores, of(x=(2, 3, 4, 64), w=(2, 3, 1030, 64))()),
    "routed": (routed, of(x=(300, 256), w=(6, 256))()),
    "furthest": (furthest, of(x=(4, 128), w=(200, 128))()),
    "weighed": (weighed, of(x=(3, 132), w=(150, 132), c=(132,), s=(3,))()),
    "parts": (parts, of(x=(4, 262), w=(270, 264))()),
}
VECTORS: dict[str, Vector] = {
    "plain": (),
    "shared": (("few_rows", "2"), ("few_split", "2"), ("loads_in_flight", "2"), ("vector_width", "4")),
    "most": (
        ("block_size", "128"),
        ("few_rows", "4"),
        ("few_split", "4"),
        ("loads_in_flight", "4"),
        ("vector_width", "8"),
    ),
}


def source_of(problem: Problem, vector: Vector) -> str:
    return generate(problem, vector).kernel.source


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("name", CALLS)
def test_few_rows_meet_many(name: str, vector: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "few")
    source = source_of(problem, VECTORS[vector])
    assert "constexpr int FEW" in source
    check(call, source, tensors)
    check(call, source, tensors, "checked")


@pytest.mark.parametrize("rows", [1, 4, 5, 11])
def test_there_may_be_more_rows_than_were_declared(rows: int) -> None:
    """Then the few are gone through in turns, each of which reads the many."""
    call, tensors = CALLS["linear"]
    source = source_of(problem_of(call, tensors, "few"), VECTORS["shared"])
    check(call, source, {**tensors, "x": torch.randn(rows, 260)})


def test_a_gate_and_what_it_lets_through_are_one_kernel() -> None:
    call, tensors = CALLS["gated"]
    draft = generate(problem_of(call, tensors, "few"), ())
    assert draft.note == "1 kernel"
    assert draft.kernel.source.count("__shared__ __align__(16) float x_rows") == 1


def test_what_is_left_to_the_library() -> None:
    """Too many rows, rows that tensor cores have room for, a matrix that lies across, and small ones."""
    cases: dict[str, tuple[Call, dict[str, Tensor]]] = {
        "seventeen rows": (added, of(x=(17, 320), w=(210, 320), b=(210,))()),
        "nine halves": (linear, {**HALVES, "x": torch.randn(9, 264).bfloat16()}),
        "across": (lambda t: t["x"] @ t["w"], of(x=(4, 260), w=(260, 270))()),
        "small": (linear, of(x=(4, 70), w=(70, 70), b=(70,))()),
    }
    for name, (call, tensors) in cases.items():
        problem = problem_of(call, tensors, "library")
        assert "summed_products" not in traits_of(problem).rewrites, name
        assert "few_rows" not in dict(settled(problem, ())), name


def test_the_library_is_a_choice() -> None:
    problem = problem_of(*CALLS["linear"], "few")
    left = settled(problem, (("summed_products", "off"),))
    assert "few_rows" not in dict(left)
    assert "library" in generate(problem, left).note
    assert "few_rows" not in dict(settled(problem, (("fusion", "none"),)))


def test_every_result_by_itself_is_a_choice_too() -> None:
    """Rows that are read again and again: what a kernel was without the technique."""
    call, tensors = CALLS["furthest"]
    source = source_of(problem_of(call, tensors, "few"), (("few_rows", "off"), ("vector_width", "4")))
    assert "FEW" not in source
    check(call, source, tensors)


def test_the_model_prefers_to_read_the_many_once() -> None:
    """Four rows times 4096 x 4096 take as long as the weights take to be read, or half as long again."""
    big = of(x=(4, 4096), w=(4096, 4096), b=(4096,))()
    problem = problem_of(linear, big, "large")
    seeds = [card.vector for card in seed_vectors(problem, H100, 4)]
    best = min(seeds, key=lambda vector: mean_us(problem, vector, H100))
    assert int(dict(best)["few_rows"]) > 1
    least = 2**26 / H100.dram_bytes_per_s * 1e6
    assert least < mean_us(problem, best, H100) < 1.5 * least
    each = mean_us(problem, (*best, ("few_rows", "off")), H100)
    assert each > mean_us(problem, best, H100)


def test_more_rows_take_longer_and_no_more_bytes() -> None:
    found = []
    for rows in (4, 16):
        problem = problem_of(linear, of(x=(rows, 2048), w=(4096, 2048), b=(4096,))(), "rows")
        vector = settled(problem, (("few_rows", "4"), ("few_split", "2"), ("vector_width", "4")))
        ((_, estimate),) = estimate_steps(problem, schedule_of(vector), H100, problem.cases[0].size_map)
        found.append(estimate)
    assert found[0].us < found[1].us
    assert found[1].dram_bytes < 1.05 * found[0].dram_bytes


def test_the_library_takes_longer_for_few_rows_than_for_their_bytes() -> None:
    """By both models of time: of float32, where it has no tensor cores."""
    for rows, more in ((1, 1.0), (4, 8.0), (16, 8.0), (17, 1.0)):
        shapes, direct = [(rows, 512), (512, 1024)], 2.0 * rows * 512 * 1024
        found = library_operations("mm", shapes, (rows, 1024), (), "ieee-fp32", 4)
        assert found == pytest.approx(direct * (more * LIBRARY_EFFICIENCY if more > 1 else 1.0))
    assert library_operations("mm", shapes, (4, 1024), (), "ieee-fp32", 2) < direct
    times = {}
    for dtype in (torch.float32, torch.bfloat16):
        tensors = {name: one.to(dtype) for name, one in of(x=(16, 2048), w=(4096, 2048), b=(4096,))().items()}
        problem = problem_of(linear, tensors, "library")
        left = schedule_of(settled(problem, (("summed_products", "off"),)))
        steps = estimate_steps(problem, left, H100, problem.cases[0].size_map)
        (times[dtype],) = [made.us for step, made in steps if isinstance(step, LibraryCall)]
    assert times[torch.float32] > 3 * 2**25 / H100.dram_bytes_per_s * 1e6 > 3 * times[torch.bfloat16]


@pytest.mark.many(6)
@pytest.mark.parametrize("seed", range(60))
def test_drawn(seed: int) -> None:
    """Sizes, types, layouts and numbers drawn at random."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    few, many = draw.randint(2, 16 if dtype == torch.float32 else 8), draw.randint(64, 400)
    terms = draw.choice([128, 160, 256, 264, 512, 640, draw.randint(164, 700)])
    many = max(many, 2**16 // terms + 1)
    batch = draw.choice([(), (), (2,), (2, 2)])
    turned = draw.random() < 0.3
    sizes = (many, few) if turned else (few, many)
    tensors = {
        "x": torch.randn(*batch, sizes[0], terms).to(dtype),
        "w": (torch.randn(*batch, sizes[1], terms) / 16).to(dtype),
    }
    scaled, shift = draw.random() < 0.5, draw.random() < 0.5

    def call(t: dict[str, Tensor]) -> Tensor:
        x = t["x"] * 0.5 if scaled else t["x"]
        made = x @ t["w"].transpose(-1, -2)
        return torch.sigmoid(made) + 0.25 if shift else made

    problem = problem_of(call, tensors, "drawn", varying=False)
    vector: Vector = (
        ("block_size", draw.choice(["64", "128", "256", "512"])),
        ("few_rows", draw.choice(["1", "2", "4"])),
        ("few_split", draw.choice(["1", "2", "4"])),
        ("loads_in_flight", draw.choice(["1", "2", "4"])),
        ("vector_width", draw.choice(["1", "2", "4", "8"])),
    )
    source = source_of(problem, settled(problem, vector))
    assert "constexpr int FEW" in source
    check(call, source, tensors)
