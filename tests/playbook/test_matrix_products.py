"""Products of matrices on tensor cores: as exact as float32's, at sizes that fill no tile."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, run
from workbench.model import H100, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.kernels.product_tiling import SPLITS
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled

TENSOR_CORES: Vector = (("matrix_product", "three_tf32"),)


def linear(t: dict[str, Tensor]) -> Tensor:
    return F.gelu(F.linear(t["x"], t["w"], t["b"])) * 0.5


def plain(t: dict[str, Tensor]) -> Tensor:
    return t["x"] @ t["w"]


def turned(t: dict[str, Tensor]) -> Tensor:
    return t["x"].t() @ t["w"]


def both_turned(t: dict[str, Tensor]) -> Tensor:
    return t["x"].t() @ t["w"].t() + t["r"]


def batched(t: dict[str, Tensor]) -> Tensor:
    return torch.relu(t["x"] @ t["w"] - t["r"])


def shared_left(t: dict[str, Tensor]) -> Tensor:
    """One matrix for all of a batch."""
    return torch.bmm(t["x"][None].expand(3, -1, -1), t["w"])


def parts(t: dict[str, Tensor]) -> Tensor:
    """Factors that lie further apart than they are long, and begin inside their tensors."""
    return t["x"][:, 8:136] @ t["w"][:, 8:136].t()


def normed(t: dict[str, Tensor]) -> Tensor:
    """Rows are needed whole behind it."""
    return F.softmax(F.linear(t["x"], t["w"], t["b"]) * 0.02, dim=-1)


def row_added(t: dict[str, Tensor]) -> Tensor:
    return torch.addmm(t["r"], t["x"], t["w"])


def two_results(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    made = t["x"] @ t["w"]
    return made, torch.sigmoid(made) + t["r"]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "linear": (linear, of(x=(130, 160), w=(70, 160), b=(70,))()),
    "terms that are no whole vectors": (linear, of(x=(66, 131), w=(65, 131), b=(65,))()),
    "plain": (plain, of(x=(70, 136), w=(136, 132))()),
    "columns that are no whole vectors": (plain, of(x=(65, 130), w=(130, 67))()),
    "left turned": (turned, of(x=(128, 132), w=(128, 72))()),
    "both turned": (both_turned, of(x=(133, 68), w=(66, 133), r=(68, 66))()),
    "batched": (batched, of(x=(3, 64, 128), w=(3, 128, 64), r=(64,))()),
    "one for all": (shared_left, of(x=(64, 132), w=(3, 132, 68))()),
    "a row added": (row_added, of(x=(65, 131), w=(131, 66), r=(66,))()),
    "a column added": (row_added, of(x=(65, 131), w=(131, 66), r=(65, 1))()),
    "parts of tensors": (parts, of(x=(70, 140), w=(65, 140))()),
    "rows behind it": (normed, of(x=(65, 128), w=(96, 128), b=(96,))()),
    "few terms": (linear, of(x=(130, 32), w=(70, 32), b=(70,))()),
    "few terms, no whole vectors": (plain, of(x=(66, 61), w=(61, 65))()),
    "two results": (two_results, of(x=(64, 129), w=(129, 64), r=(64, 64))()),
}
NAMES = pytest.mark.parametrize("name", CALLS)


def made(call: Call, tensors: dict[str, Tensor], vector: Vector = TENSOR_CORES) -> tuple[Problem, str]:
    problem = problem_of(call, tensors)
    return problem, generate(problem, vector).kernel.source


@pytest.mark.many(17)
@NAMES
def test_products_are_right_and_without_hazards(name: str) -> None:
    call, tensors = CALLS[name]
    _, source = made(call, tensors)
    assert "multiply_add(sums" in source
    assert "library(" not in source
    check(call, source, tensors, mode="checked")


def test_many_tiles_are_taken_in_turns() -> None:
    """Nine tiles and their pieces, one after the other, by fewer blocks than there are tiles."""
    call, tensors = linear, of(x=(300, 288), w=(300, 288), b=(300,))()
    _, source = made(call, tensors)
    source = source.replace("gpu.sm_count", "2")
    check(call, source, tensors, mode="checked")


SHARED: dict[str, tuple[str, Call, dict[str, Tensor]]] = {
    "two blocks": ("2", linear, of(x=(130, 164), w=(70, 164), b=(70,))()),
    "three blocks, terms that are no whole vectors": ("3", plain, of(x=(66, 259), w=(259, 65))()),
    "sixteen blocks, some with nothing but zeros": (
        "16",
        row_added,
        of(x=(65, 1030), w=(1030, 66), r=(66,))(),
    ),
    "sixteen blocks of few rows": ("16", both_turned, of(x=(1028, 64), w=(72, 1028), r=(64, 72))()),
    "sixteen blocks of two pieces": ("16", plain, of(x=(66, 1024), w=(1024, 68))()),
    "two blocks, batched": ("2", batched, of(x=(3, 64, 128), w=(3, 128, 64), r=(64,))()),
    "two blocks, rows behind it": ("2", normed, of(x=(65, 128), w=(96, 128), b=(96,))()),
}


@pytest.mark.many(9)
@pytest.mark.parametrize("name", SHARED)
def test_the_blocks_of_a_cluster_share_the_terms_of_a_tile(name: str) -> None:
    blocks, call, tensors = SHARED[name]
    _, source = made(call, tensors, (*TENSOR_CORES, ("split_k", blocks)))
    assert f"cluster={blocks}" in source
    check(call, source, tensors, mode="checked")


def test_clusters_take_many_tiles_in_turns() -> None:
    """Four tiles, one after the other, by a cluster of two."""
    call, tensors = linear, of(x=(200, 160), w=(200, 160), b=(200,))()
    _, source = made(call, tensors, (*TENSOR_CORES, ("split_k", "2")))
    assert "gpu.sm_count * 66 // 132" in source
    check(call, source.replace("gpu.sm_count * 66 // 132", "1"), tensors, mode="checked")


def test_terms_are_shared_where_tiles_are_few() -> None:
    problem = problem_of(linear, of(x=(128, 16384), w=(4096, 16384), b=(4096,))())
    picked = min(seed_vectors(problem, H100, 8), key=lambda card: mean_us(problem, card.vector, H100))
    assert dict(picked.vector)["split_k"] == "3"
    many = problem_of(linear, of(x=(4096, 4096), w=(4096, 4096), b=(4096,))())
    assert all("split_k" not in dict(card.vector) for card in seed_vectors(many, H100, 8))


def many_and_few(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return t["x"] @ t["w"], t["y"] @ t["v"]


def test_a_product_of_many_tiles_shares_none_where_another_of_the_plan_does() -> None:
    tensors = of(x=(4096, 256), w=(256, 4096), y=(128, 2048), v=(2048, 128))()
    _, source = made(many_and_few, tensors, (*TENSOR_CORES, ("split_k", "4")))
    assert source.count("cluster=4") == 1
    assert source.count("launch(") == 2


def three_sizes(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
    return t["x"] @ t["w"], t["y"] @ t["v"], t["z"] @ t["u"]


THREE = of(x=(4096, 256), w=(256, 4096), y=(128, 8192), v=(8192, 128), z=(128, 2048), u=(2048, 7840))


def test_each_product_of_a_plan_has_the_number_of_blocks_that_suits_it() -> None:
    """1024 tiles are enough; one has all blocks that there may be; 62 are a round of two blocks each."""
    tensors = THREE()
    problem, source = made(three_sizes, tensors, (*TENSOR_CORES, ("split_k", "each")))
    assert source.count("launch(") == 3
    assert (source.count("cluster=16"), source.count("cluster=2,")) == (1, 1)
    each = mean_us(problem, (*TENSOR_CORES, ("split_k", "each")), H100)
    numbers = [mean_us(problem, (*TENSOR_CORES, ("split_k", str(n))), H100) for n in SPLITS]
    assert each < min(numbers)
    assert any(("split_k", "each") in card.vector for card in seed_vectors(problem, H100, 4))


def test_a_single_product_has_a_number_of_blocks_and_no_choice_of_its_own() -> None:
    problem = problem_of(linear, of(x=(128, 16384), w=(4096, 16384), b=(4096,))())
    assert ("split_k", "1") in settled(problem, (*TENSOR_CORES, ("split_k", "each")))
    assert all(("split_k", "each") not in card.vector for card in seed_vectors(problem, H100, 8))


@pytest.mark.many(2)
@pytest.mark.parametrize("terms", [32, 64])
def test_many_tiles_of_few_terms_are_taken_in_turns(terms: int) -> None:
    """A round is a tile: its pieces are at another place each time."""
    call, tensors = linear, of(x=(300, terms), w=(300, terms), b=(300,))()
    _, source = made(call, tensors)
    check(call, source.replace("gpu.sm_count", "2"), tensors, mode="checked")


def test_sums_are_as_exact_as_those_of_float32() -> None:
    tensors = of(x=(64, 1024), w=(1024, 64))()
    _, source = made(plain, tensors)
    (got,) = run(source, tensors).outputs
    want = tensors["x"].double() @ tensors["w"].double()
    error = (got.double() - want).square().mean().sqrt()
    usual = (plain(tensors).double() - want).square().mean().sqrt()
    rounded = (tensors["x"].bfloat16().float() @ tensors["w"].bfloat16().float()).double()
    assert error < 3 * usual
    assert error < 1e-3 * (rounded - want).square().mean().sqrt()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, torch.finfo(torch.float32).max])
def test_infinities_and_the_largest_floats_come_out_as_they_do_otherwise(value: float) -> None:
    """An infinity has no low part, nor has a float that TF32 rounds to one."""
    tensors = of(x=(65, 128), w=(128, 66))()
    tensors["x"][3, 5] = value
    tensors["x"][4] = tensors["x"][4] * 1e-3
    tensors["w"][5] *= 1e-2
    tensors["w"][5, 7] = 0.0
    _, source = made(plain, tensors)
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, plain(tensors), rtol=1e-4, atol=1e-3, equal_nan=True)


def test_large_products_are_left_to_tensor_cores_and_small_ones_to_the_library() -> None:
    small = of(x=(8, 6), w=(6, 5))()
    problem = problem_of(plain, small, cases=({"s0": 2048, "s1": 2048, "s2": 1024},))
    problem = problem.model_copy(update={"cases": problem.cases[1:]})
    picked = min(seed_vectors(problem, H100, 8), key=lambda card: mean_us(problem, card.vector, H100))
    assert ("matrix_product", "three_tf32") in picked.vector
    assert "library" not in picked.risk
    few = problem_of(plain, small)
    assert not any("matrix_product" in dict(card.vector) for card in seed_vectors(few, H100, 8))
