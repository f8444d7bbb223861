"""Rows that read the same of an input follow one another: the same numbers, and where it is worth it."""

import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

ALIKE: Vector = (("row_order", "alike"), ("threads_per_row", "warp"), ("vector_width", "4"))
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
Tensors = dict[str, Tensor]


def embedded(t: Tensors) -> Tensor:
    """Words and their places, and a norm of both."""
    places = torch.arange(t["words"].shape[1], device=t["words"].device)
    summed = t["table"][t["words"]] + t["places"][places]
    return F.layer_norm(summed, (summed.shape[-1],), t["w"], t["w"])


def biased(t: Tensors) -> Tensor:
    """Scores of all heads with one bias, which each sentence has of its own."""
    return torch.softmax(t["x"] + t["bias"], -1)


def farthest(t: Tensors) -> Tensor:
    """A value a row, of rows that repeat from the first axis to the next."""
    return torch.logsumexp(t["x"] * t["scale"][None, None], -1)


def tensors_of(call: Call, columns: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(0)
    rows = 70
    made = {
        "words": torch.randint(0, 9, (3, rows)),
        "table": torch.randn(9, columns).to(dtype),
        "places": torch.randn(rows, columns).to(dtype),
        "w": torch.rand(columns).to(dtype),
        "x": torch.randn(2, 3, rows, columns).to(dtype),
        "bias": torch.randn(2, 1, rows, columns).to(dtype),
        "scale": torch.rand(rows, columns).to(dtype),
    }
    names = {embedded: ("words", "table", "places", "w"), biased: ("x", "bias"), farthest: ("x", "scale")}
    return {name: made[name] for name in names[call]}


CALLS: list[Call] = [embedded, biased, farthest]


def problem(call: Call, columns: int = 512, varying: bool = False) -> Problem:
    inputs = {name: value.to("meta") for name, value in tensors_of(call, columns).items()}
    return problem_of(call, inputs, varying=varying)


@pytest.mark.parametrize(("call", "dtype"), crossed(CALLS, DTYPES))
@pytest.mark.parametrize("columns", [520, 523])
def test_the_same_numbers_in_another_order(call: Call, dtype: torch.dtype, columns: int) -> None:
    columns = columns if dtype == torch.float32 else 2 * columns
    tensors = tensors_of(call, columns, dtype)
    posed = problem_of(call, tensors, varying=False)
    cache = "reread" if columns % 2 else "registers"
    source = generate(posed, (*ALIKE, ("row_cache", cache))).kernel.source
    assert "const int turn = " in source
    check(call, source, tensors, "checked")


@pytest.mark.parametrize(("call", "more"), crossed(CALLS, [("block_size", "64"), ("rows_a_warp", "2")]))
def test_sizes_that_vary_and_blocks_of_other_sizes(call: Call, more: tuple[str, str]) -> None:
    tensors = tensors_of(call, 512)
    source = generate(problem_of(call, tensors), (*ALIKE, more)).kernel.source
    check(call, source, tensors, "checked")


def order_of(call: Call) -> list[str]:
    """The lines by which a warp finds its row."""
    body = generate(problem(call), (*ALIKE, ("block_size", "128"))).kernel.source
    body = body[body.index("// Rows ") :]
    return [line.strip() for line in body[: body.index("row = ") + 80].splitlines()[:6]]


def test_text_where_the_first_axis_repeats() -> None:
    assert order_of(embedded) == [
        "// Rows 70 apart read the same of places: they follow one another, and L1 has it.",
        "const int turn = blockIdx.x * 4 + threadIdx.x / 32;",
        "if (turn >= ROWS) {",
        "return;",
        "}",
        "const int row = turn % 3 * 70 + turn / 3;",
    ]


def test_text_where_an_axis_within_repeats() -> None:
    assert order_of(biased)[-1] == "const int row = (turn / 3 / 70 * 3 + turn % 3) * 70 + turn / 3 % 70;"


@pytest.mark.parametrize("call", CALLS)
def test_every_row_has_one_warp_and_neighbours_share(call: Call) -> None:
    """The line that is written, evaluated: a permutation in which as many as repeat follow one another."""
    text = order_of(call)[-1].removeprefix("const int row = ").removesuffix(";").replace("/", "//")
    count, times = 210 if call is embedded else 420, 6 if call is farthest else 3
    rows = [eval(text, {"turn": turn}) for turn in range(count)]
    assert sorted(rows) == list(range(count))
    groups = [rows[at : at + times] for at in range(0, count, times)]
    assert all(row % 70 == group[0] % 70 for group in groups for row in group)
    if call is biased:
        assert all(row // 210 == group[0] // 210 for group in groups for row in group)


def offered(posed: Problem, vector: Vector = ALIKE) -> bool:
    return dict(settled(posed, vector)).get("row_order") == "alike"


def normed(t: Tensors) -> Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[-1],), t["w"], t["w"])


def neighbours(t: Tensors) -> Tensor:
    return torch.softmax(t["x"] + t["bias"], -1)


def distances(t: Tensors) -> Tensor:
    return (t["x"][:, None] - t["y"][None]).abs().sum(-1)


def test_not_where_nothing_is_gained() -> None:
    assert offered(problem(embedded))
    assert not offered(problem(embedded), (*ALIKE, ("persistent_grid", "on")))
    assert not offered(problem(embedded), (("row_order", "alike"), ("threads_per_row", "block")))
    assert not offered(problem(embedded, 128))  # L1 has 70 such rows anyway
    shared = {"x": torch.empty(64, 32768, device="meta"), "w": torch.empty(32768, device="meta")}
    assert not offered(problem_of(normed, shared, varying=False))
    follow = {
        "x": torch.empty(70, 3, 512, device="meta"),
        "bias": torch.empty(70, 1, 512, device="meta"),
    }
    assert not offered(problem_of(neighbours, follow, varying=False))
    pairs = {name: torch.empty(70, 512, device="meta") for name in ("x", "y")}
    assert not offered(problem_of(distances, pairs, varying=False))  # one is shared in either order


def test_the_model_counts_what_l2_sends_again() -> None:
    """More warps a block share more; a search meets the order among its first kernels."""
    torch.manual_seed(0)
    meta = {
        "x": torch.empty(8, 16, 512, 768, device="meta"),
        "bias": torch.empty(8, 1, 512, 768, device="meta"),
    }
    posed = problem_of(biased, meta, varying=False)
    sizes = posed.cases[0].size_map

    def us(threads: str, order: str) -> float:
        vector = (*ALIKE, ("block_size", threads), ("row_order", order), ("row_cache", "registers"))
        return estimate(posed, vector, H100, sizes).us

    assert us("256", "alike") < us("256", "memory")
    gains = [us(threads, "memory") - us(threads, "alike") for threads in ("64", "128", "256")]
    assert gains == sorted(gains)
    seeds = [dict(card.vector or ()) for card in seed_vectors(posed, H100, 8)]
    assert any(seed.get("row_order") == "alike" for seed in seeds)


def test_a_comment_names_what_is_shared() -> None:
    source = generate(problem(biased), ALIKE).kernel.source
    assert re.search(r"read the same of bias\b", source)


def three_summed(t: Tensors) -> Tensor:
    summed = t["x"] + t["y"] + t["z"]
    return F.layer_norm(summed, (summed.shape[-1],))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_waits_in_a_warp_and_not_its_parts(dtype: torch.dtype) -> None:
    """768 columns are 24 values a lane where the sum waits; its parts would be 72, of at most 64."""
    torch.manual_seed(0)
    tensors = {name: torch.randn(5, 768).to(dtype) for name in ("x", "y", "z")}
    for threads in ("256", "64"):
        vector: Vector = (("block_size", threads), ("row_cache", "registers"), ("threads_per_row", "warp"))
        source = generate(problem_of(three_summed, tensors), (*vector, ("vector_width", "4"))).kernel.source
        assert "_kept[KEPT]" in source and "_reread" not in source
        check(three_summed, source, tensors, "checked")
