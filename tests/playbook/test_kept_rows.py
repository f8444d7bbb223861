"""A row kept in registers: no kernel is unrolled for rows that another kernel takes."""

from __future__ import annotations

import re

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

KEPT = re.compile(r"constexpr int KEPT = (.*);")


def test_a_kernel_without_a_template_keeps_no_more_than_it_may() -> None:
    """NVRTC compiles it at every size, also at those whose rows are read again instead."""
    problem = problem_of(
        lambda t: torch.softmax(t["x"], 0),
        {"x": torch.empty(16, 5000)},
        cases=({"s0": 20_000, "s1": 64},),
    )
    source = generate(problem, (("fusion", "all"), ("row_cache", "registers"))).kernel.source
    assert KEPT.findall(source) == ["ROWS < 64 ? ROWS : 64"]


def test_a_template_is_compiled_only_where_it_is_launched() -> None:
    problem = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": torch.empty(64, 4096)})
    vector = (("fusion", "all"), ("row_cache", "registers"), ("vector_width", "4"))
    (kept,) = KEPT.findall(generate(problem, vector).kernel.source)
    assert "?" not in kept


def test_a_shortened_row_in_shared_memory_has_room_for_all_of_it() -> None:
    def call(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(t["x"][:, 1:] * 2.0, 1)

    tensors = {"x": torch.rand(5, 33)}
    source = generate(problem_of(call, tensors), (("fusion", "all"), ("row_cache", "shared"))).kernel.source
    assert "extern __shared__" in source
    check(call, source, tensors, mode="checked")


def with_slopes(t: dict[str, torch.Tensor]) -> torch.Tensor:
    places = torch.arange(t["x"].shape[-1])
    return torch.softmax(0.5 * t["x"] + t["slope"][:, None, None] * (places[None] - places[:, None]), -1)


def hidden(t: dict[str, torch.Tensor]) -> torch.Tensor:
    rows, columns = t["x"].shape[-2:]
    later = torch.ones(rows, columns, dtype=torch.bool).triu(1)
    return torch.softmax((t["x"] * t["slope"][:, None, None]).masked_fill(later, -torch.inf), -1)


@pytest.mark.many(29)
@pytest.mark.parametrize("cache", ["registers", "shared"])
@pytest.mark.parametrize("team", ["block", "warp"])
@pytest.mark.parametrize(("call", "size"), [(with_slopes, 40), (hidden, 40), (with_slopes, 37), (hidden, 37)])
def test_what_waits_is_what_later_passes_need(call: Call, size: int, team: str, cache: str) -> None:
    """A score with what is added to it for its place, and then its exponential: each is computed once."""
    tensors = {"x": torch.randn(3, size, size), "slope": torch.rand(3)}
    vector = (("fusion", "all"), ("row_cache", cache), ("threads_per_row", team), ("vector_width", "4"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    walks = 1 if size % 4 == 0 else 2  # a row's edges are taken in beside the walk along its vectors
    assert source.count("expf(") == walks
    check(call, source, tensors, "checked")
    again = (("fusion", "all"), ("row_cache", "reread"), ("threads_per_row", team), ("vector_width", "4"))
    assert generate(problem_of(call, tensors), again).kernel.source.count("expf(") == 2 * walks


@pytest.mark.many(5)
@pytest.mark.parametrize("reciprocal", ["off", "on"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_a_number_divides_is_one_value_in_all_passes(dtype: torch.dtype, reciprocal: str) -> None:
    """Where only the last pass divided without a jump, a capped score was three values, and three tanh."""

    def capped(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.softmax(50 * torch.tanh(t["x"] / 50), -1)

    tensors = {"x": 40 * torch.randn(3, 64, dtype=dtype)}
    vector = (
        ("fusion", "all"),
        ("reciprocal", reciprocal),
        ("row_cache", "registers"),
        ("vector_width", "4"),
    )
    source = generate(problem_of(capped, tensors), vector).kernel.source
    assert source.count("tanhf(") == source.count("expf(") == 1
    assert " / 5e+01f" not in source
    check(capped, source, tensors, "checked")


def normed_sum(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.layer_norm(t["x"] + 2 * t["y"], t["x"].shape[-1:])


def masked(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(torch.where(t["seen"], t["x"], -1e9), -1)


def both_again(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(t["x"] * t["y"], -1) * t["y"]


@pytest.mark.many(23)
@pytest.mark.parametrize("cache", ["registers", "shared"])
@pytest.mark.parametrize("size", [48, 37])
@pytest.mark.parametrize(("call", "kept"), [(normed_sum, 1), (masked, 1), (both_again, 2)])
def test_what_later_passes_need_of_two_rows_is_one(call: Call, kept: int, size: int, cache: str) -> None:
    """A sum waits, not what it is the sum of; what is needed by itself waits too."""
    tensors = {"x": torch.randn(5, size), "y": torch.randn(5, size), "seen": torch.rand(5, size) < 0.7}
    tensors["seen"][:, 0] = True
    read = {"seen": (masked,), "y": (normed_sum, both_again)}
    tensors = {name: t for name, t in tensors.items() if name not in read or call in read[name]}
    vector = (("fusion", "all"), ("row_cache", cache), ("threads_per_row", "warp"), ("vector_width", "4"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    held = r"float \w+_kept\[KEPT\]" if cache == "registers" else r"float\* \w+_kept = shared"
    assert len(re.findall(held, source)) == kept
    check(call, source, tensors, "checked")


def three_summed(t: dict[str, torch.Tensor]) -> torch.Tensor:
    summed = t["x"] + t["y"] + t["z"]
    return torch.layer_norm(summed, summed.shape[-1:])


@pytest.mark.many(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("threads", ["256", "64"])
def test_a_sum_waits_in_a_warp_and_not_its_parts(dtype: torch.dtype, threads: str) -> None:
    """768 columns are 24 values a lane where the sum waits; its parts would be 72, of at most 64."""
    torch.manual_seed(0)
    tensors = {name: torch.randn(5, 768).to(dtype) for name in ("x", "y", "z")}
    vector = (
        ("block_size", threads),
        ("row_cache", "registers"),
        ("threads_per_row", "warp"),
        ("vector_width", "4"),
    )
    source = generate(problem_of(three_summed, tensors), vector).kernel.source
    assert "_kept[KEPT]" in source and "_reread" not in source
    check(three_summed, source, tensors, "checked")
