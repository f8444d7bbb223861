"""Results that are pairs of rows, in tiles: right at odd sizes, in every type, and without bank conflicts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.drawn_pairs import drawn_pairs
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled

half, brain = torch.float16, torch.bfloat16


def similarity(t: dict[str, Tensor]) -> Tensor:
    normal = torch.nn.functional.normalize(t["x"], dim=-1)
    return (normal[:, None] * normal[None]).sum(-1)


def weighted(t: dict[str, Tensor]) -> Tensor:
    """A weight a column, a scale a row of either side, and a table of the results behind it."""
    apart = (t["a"][:, None] * t["s"][:, None, None] - t["b"][None]).abs() * t["w"]
    return apart.mean(-1) * t["s"][:, None] + t["m"]


def both(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    apart = t["a"][:, None] - t["b"][None]
    return apart.amax(-1), apart.amin(-1)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "similarity": (similarity, of(x=(37, 20))()),
    "distances": (lambda t: (t["a"][:, None] - t["b"][None]).abs().sum(-1), of(a=(35, 9), b=(70, 9))()),
    "batched": (
        lambda t: torch.exp(-((t["a"][:, :, None] - t["b"][:, None]) ** 2).sum(-1)),
        of(a=(3, 17, 33), b=(3, 33, 33))(),
    ),
    "max plus": (lambda t: (t["a"][:, :, None] + t["b"][None]).amax(1), of(a=(33, 40), b=(40, 50))()),
    "from columns": (
        lambda t: (t["a"][:, :, None] * t["b"][:, None]).sum(0),
        of(a=(21, 33), b=(21, 47))(),
    ),
    "weighted": (weighted, of(a=(34, 10), b=(18, 10), w=(10,), s=(34,), m=(34, 18))()),
    "two results": (both, of(a=(20, 12), b=(40, 12))()),
    "half": (
        lambda t: (t["a"][:, None] - t["b"][None]).abs().sum(-1),
        of(a=((35, 18), half), b=((20, 18), half))(),
    ),
    "brain": (
        lambda t: torch.maximum(t["a"][:, None], t["b"][None]).mean(-1),
        of(a=((35, 16), brain), b=((20, 16), brain))(),
    ),
    "truth": (
        lambda t: ((t["a"][:, None] > t["b"][None]).any(-1), (t["a"][:, None] > t["b"][None] - 3).all(-1)),
        of(a=(35, 8), b=(20, 8))(),
    ),
    "integers": (
        lambda t: (t["a"][:, None] == t["b"][None]).sum(-1),
        of(a=torch.randint(0, 3, (35, 11)), b=torch.randint(0, 3, (20, 11)))(),
    ),
    "double": (
        lambda t: (t["a"][:, None] * t["b"][None]).sum(-1),
        of(a=((20, 13), torch.float64), b=((21, 13), torch.float64))(),
    ),
    "looked up": (
        lambda t: (t["a"][t["i"]][:, None] * t["b"][None]).sum(-1),
        of(a=(9, 16), b=(20, 16), i=torch.randint(0, 9, (35,)))(),
    ),
    "sliced": (
        lambda t: (t["a"][1:, None, ::2] * t["b"][None, :, 3:].flip(-1)).sum(-1),
        of(a=(35, 20), b=(20, 13))(),
    ),
}
VECTORS: tuple[Vector, ...] = (
    (("block_size", "64"), ("pair_tile", "32")),
    (("block_size", "256"), ("pair_tile", "64"), ("vector_width", "4")),
)


@pytest.mark.many(29)
@pytest.mark.parametrize("name", CALLS)
def test_right_at_odd_sizes_without_bank_conflicts(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "paired")
    for vector in VECTORS if name in ("batched", "weighted", "double") else VECTORS[:1]:
        source = generate(problem, vector).kernel.source
        assert "[TILE][PIECE + " in source
        execution = check(call, source, tensors, "checked")
        for site in execution.report.counts.sites:
            if site.kind == "load" or site.space == "shared":
                assert site.transactions <= 2 * site.ideal_transactions + 2 * site.requests, site


@pytest.mark.many(5)
@pytest.mark.parametrize("seed", range(4))
def test_right_for_random_pairs(seed: int) -> None:
    call, tensors, vector = drawn_pairs(seed)
    source = generate(problem_of(call, tensors, "drawn"), vector).kernel.source
    assert "[PIECE" in source
    check(call, source, tensors, "checked")


def test_each_row_is_read_once_a_tile_and_each_norm_is_divided_by_there() -> None:
    source = generate(problem_of(*CALLS["similarity"]), VECTORS[0]).kernel.source
    summed = source[source.index("const int there") :]
    assert "row_larger" not in summed and "x[" not in summed
    call, tensors = CALLS["distances"]
    source = generate(problem_of(call, tensors), VECTORS[0]).kernel.source
    sites = check(call, source, tensors, "checked").report.counts.sites
    read = sum(site.requests for site in sites if (site.space, site.kind) == ("global", "load"))
    # Two rows of tiles by three, of 32 rows of either operand and one piece of 16 columns.
    assert read == 2 * 3 * 2 * 32 * 16 // 32


def test_rows_beyond_the_last_do_no_harm_where_numbers_are_special() -> None:
    call, tensors = CALLS["two results"]
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    tensors["a"][-1, -1], tensors["b"][-1, 0], tensors["b"][3, 3] = torch.nan, torch.inf, -torch.inf
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    check(call, source, tensors, "checked")


@pytest.mark.slow
def test_the_tile_is_among_the_first_seeds_and_on_the_card() -> None:
    call, tensors = CALLS["similarity"]
    problem = problem_of(call, tensors, cases=({"s0": 512, "s1": 128},))
    (card, *_) = [c for c in seed_vectors(problem, H100, 4) if "share their rows in shared memory" in c.title]
    assert dict(card.vector or ())["pair_tile"] != "off"
    rows = estimate_of(problem, (("threads_per_row", "eight"), ("vector_width", "4")))
    assert estimate_of(problem, card.vector or ()) < 0.5 * rows


def estimate_of(problem: Problem, vector: Vector) -> float:
    return mean_us(problem, settled(problem, vector), H100)


ODD: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "places": (
        lambda t: torch.where(
            torch.arange(35)[:, None, None] < torch.arange(20)[:, None], t["a"], t["b"]
        ).sum(-1),
        of(a=(35, 1, 16), b=(20, 16))(),
    ),
    "padded": (
        lambda t: (t["a"][:, None] * torch.nn.functional.pad(t["b"], (2, 2))[None]).sum(-1),
        of(a=(35, 20), b=(20, 16))(),
    ),
    "two axes summed": (
        lambda t: (t["a"].permute(2, 0, 1)[:, None] - t["b"].permute(0, 2, 1)).abs().sum((-1, -2)),
        of(a=(4, 6, 35), b=(20, 6, 4))(),
    ),
    "batch last": (lambda t: (t["a"][:, None] * t["b"][None]).sum(2), of(a=(17, 9, 5), b=(18, 9, 5))()),
}


@pytest.mark.many(7)
@pytest.mark.parametrize("name", ODD)
def test_right_however_operands_lie(name: str) -> None:
    call, tensors = ODD[name]
    source = generate(problem_of(call, tensors, "odd"), VECTORS[1]).kernel.source
    assert "[PIECE" in source
    check(call, source, tensors, "checked")


OTHERS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "few rows": (CALLS["distances"][0], of(a=(8, 64), b=(70, 64))()),
    "few columns": (CALLS["distances"][0], of(a=(70, 6), b=(70, 6))()),
    "of both": (lambda t: (t["a"][:, None] * t["p"]).sum(-1), of(a=(35, 16), p=(35, 40, 16))()),
    "one row each": (lambda t: (t["a"] * t["b"]).sum(-1), of(a=(35, 16), b=(35, 16))()),
    "an element each": (lambda t: t["a"][:, None] - t["b"][None], of(a=(35, 16), b=(20, 16))()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_pair_of_long_rows_has_no_tiles(name: str) -> None:
    problem = problem_of(*OTHERS[name])
    assert "pair_tile" not in dict(settled(problem, (("pair_tile", "32"),)))


def test_sizes_that_change_are_right_under_one_plan() -> None:
    """One file for all sizes: what was written for large ones is right for small ones too."""
    call, tensors = CALLS["distances"]
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    for rows, others, columns in ((1, 1, 1), (65, 3, 33), (16, 129, 50)):
        check(call, source, of(a=(rows, columns), b=(others, columns))(), "checked")


def test_nvrtc_takes_it_without_warnings_and_spills_nothing() -> None:
    tensors = of(x=(512, 128))()
    problem = problem_of(similarity, tensors)
    for tile, threads in (("32", "128"), ("64", "256"), ("128", "256")):
        vector = (("block_size", threads), ("pair_tile", tile), ("vector_width", "4"))
        source = generate(problem, vector).kernel.source
        report = compile_kernel(source, plan_of(source, tensors).instances)
        assert isinstance(report, CompileReport) and not report.warnings
        assert not any(kernel.spill_store_bytes for kernel in report.kernels)
