"""Reductions of few terms: written out, one kernel without rows, and the same numbers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite
from workbench.playbook.techniques.traits import traits_of

Tensors = dict[str, Tensor]


def mixed(t: Tensors) -> Tensor:
    return (t["rows"][t["places"]] * t["shares"][..., None]).sum(1)


def gated(t: Tensors) -> Tensor:
    return (t["x"] * t["shares"].softmax(1)[..., None]).sum(1)


def spread(t: Tensors) -> Tensor:
    return t["x"].amax(1, keepdim=True) - t["x"].amin(1, keepdim=True) + t["x"].mean(1, keepdim=True)


def products(t: Tensors) -> Tensor:
    return t["x"].prod(1)


def shares(t: Tensors) -> Tensor:
    return t["x"].softmax(1)


def directions(t: Tensors) -> Tensor:
    return F.normalize(t["shares"], dim=-1)


def tensors_of(dtype: torch.dtype, few: int, beside: int = 36) -> Tensors:
    return {
        "x": torch.randn(5, few, beside).to(dtype),
        "rows": torch.randn(11, beside).to(dtype),
        "places": torch.randint(-11, 11, (5, few)),
        "shares": torch.rand(5, few).to(dtype),
    }


def used(call: Call, tensors: Tensors) -> Tensors:
    """The tensors that a call reads."""
    names = {mixed: ("rows", "places", "shares"), gated: ("x", "shares"), directions: ("shares",)}
    return {name: tensors[name] for name in names.get(call, ("x",))}  # type: ignore[call-overload]


@pytest.mark.many(29)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("call", [mixed, gated, spread, products, shares, directions])
def test_few_terms_are_written_out(call: Call, dtype: torch.dtype) -> None:
    tensors = used(call, tensors_of(dtype, 4))
    problem = problem_of(call, tensors, varying=False)
    assert traits_of(problem).rows == () and "few_terms" in traits_of(problem).rewrites
    for vector in ((("vector_width", "4"),), (("axis_a_thread", "on"), ("vector_width", "4"))):
        source = generate(problem, vector).kernel.source
        assert source.count("__global__") == 1 and "for (int col" not in source
        check(call, source, tensors, "checked")
    check(call, generate(problem, (("few_terms", "off"),)).kernel.source, tensors, "checked")


def test_a_thread_has_neighbours_of_the_rows_that_are_looked_up() -> None:
    tensors = used(mixed, tensors_of(torch.float32, 2))
    source = generate(problem_of(mixed, tensors, varying=False), (("vector_width", "4"),)).kernel.source
    assert source.count("load<VEC>(rows + ") == 2 and "store(out + i, out_pack)" in source


@pytest.mark.parametrize(("few", "beside"), [(9, 36), (4, 31)])
def test_many_terms_and_few_neighbours_stay_rows(few: int, beside: int) -> None:
    tensors = used(products, tensors_of(torch.float32, few, beside))
    assert traits_of(problem_of(products, tensors, varying=False)).rows


def test_what_is_seen_through_windows_is_not_made_again_for_every_term() -> None:
    def centred(t: Tensors) -> Tensor:
        pooled = F.avg_pool2d(t["x"], 3, 1, 1)
        return pooled - pooled.mean(2, keepdim=True)

    problem = problem_of(centred, {"x": torch.randn(2, 3, 5, 40)}, varying=False)
    assert "few_terms" not in traits_of(problem).rewrites


@pytest.mark.parametrize("few", [4, 5])
def test_beside_longer_rows_only_sums_of_a_point_s_coordinates_are_written_out(few: int) -> None:
    """Others would be made again by every pass over the longer row."""

    def totals(t: Tensors) -> Tensor:
        return t["x"].sum(1).softmax(-1)

    tensors = used(totals, tensors_of(torch.float32, few))
    problem = problem_of(totals, tensors, varying=False)
    assert ("few_terms" in traits_of(problem).rewrites) == (few == 4)
    source = generate(problem, ()).kernel.source
    check(totals, source, tensors, "checked")
    assert source.count("__global__") == (1 if few == 4 else 2)


def discounted(t: Tensors) -> Tensor:
    """Rewards of the next steps, as long as nothing ends."""
    windows = F.pad(t["x"], (0, 0, 0, 4)).unfold(1, 5, 1)
    alive = torch.cumprod((windows > -1).to(windows.dtype), -1)
    before = torch.cat([torch.ones_like(alive[..., :1]), alive[..., :-1]], -1)
    return (windows * before).sum(-1) + alive[..., -1]


def second_total(t: Tensors) -> Tensor:
    return torch.cumsum(t["x"], 1)[:, 1] * 2


def all_totals(t: Tensors) -> Tensor:
    return torch.cumsum(t["x"], 1)


@pytest.mark.many(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("call", "scans"), [(discounted, 0), (second_total, 0), (all_totals, 1)])
def test_running_totals_of_few_are_written_out_where_they_are_no_result(
    call: Call, scans: int, dtype: torch.dtype
) -> None:
    tensors = {"x": torch.randn(5, 6, 36).to(dtype)}
    problem = problem_of(call, tensors, varying=False)
    program = traits_of(problem)
    assert len(program.scans) == scans and ("few_terms" in program.rewrites) == (scans == 0)
    for vector in ((("vector_width", "4"),), (("few_terms", "off"),)):
        source = generate(problem, vector).kernel.source
        check(call, source, tensors, "checked")
        assert source.count("__global__") == 1 or "few_terms" in dict(vector)


def test_sums_of_halves_are_added_in_32_bits() -> None:
    """2048 + 1 + 1 is 2048 where each addition rounds to 16 bits."""
    values = torch.tensor([2048.0, 1.0, 1.0], dtype=torch.float16)

    def total(t: Tensors) -> Tensor:
        return t["x"].sum(1)

    tensors = {"x": values[None, :, None].expand(2, 3, 32).contiguous()}
    problem = problem_of(total, tensors, varying=False)
    added = [node for node in rewrite(problem).nodes if node.op == "aten.add.Tensor"]
    assert [node.outs[0].dtype for node in added] == ["f32", "f32"]
    source = generate(problem, ()).kernel.source
    found = check(total, source, tensors, "checked").outputs[0]
    assert (found == 2050).all()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    few=st.integers(2, 8),
    beside=st.sampled_from([1, 32, 33, 40]),
    rows=st.integers(1, 7),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    op=st.sampled_from(["sum", "amax", "amin", "softmax", "logsumexp", "prod"]),
    width=st.sampled_from(["1", "2", "4"]),
    apart=st.sampled_from(["off", "on"]),
)
def test_any_reduction_of_few_is_right(
    few: int, beside: int, rows: int, dtype: torch.dtype, op: str, width: str, apart: str
) -> None:
    def call(t: Tensors) -> Tensor:
        scaled = t["x"] * 0.5 + t["y"][:, None]
        found: Tensor = getattr(scaled, op)(1)
        return found

    tensors = {"x": torch.randn(rows, few, beside).to(dtype), "y": torch.randn(rows, beside).to(dtype)}
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, (("axis_a_thread", apart), ("vector_width", width))).kernel.source
    check(call, source, tensors, "checked")
