"""Running totals that are reduced along their rows: one kernel that reads everything once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]


def rendered(t: Tensors) -> tuple[Tensor, Tensor]:
    alpha = 1 - torch.exp(-torch.relu(t["x"]) * t["y"])
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], 1), 1)
    weights = alpha * clear
    return (weights[..., None] * t["c"]).sum(1), weights


def depths(t: Tensors) -> tuple[Tensor, Tensor]:
    """Nothing but sums, of one result a ray."""
    alpha = torch.sigmoid(t["x"])
    weights = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
    return (weights * t["y"]).sum(1) / weights.sum(1), (weights * weights).sum(1)


def in_planes(t: Tensors) -> Tensor:
    """Colours of a ray in planes, a channel behind the other."""
    totals = torch.cumsum(t["x"], 1)
    return (totals[:, None, :] * t["p"]).sum(2)


def totals_too(t: Tensors) -> tuple[Tensor, Tensor]:
    totals = torch.cumsum(t["x"] * t["y"], 1)
    return totals, (totals[..., None] * t["c"]).amax(1) + t["c"][:, 0]


def behind_zero(t: Tensors) -> tuple[Tensor, Tensor]:
    before = torch.cat([torch.zeros_like(t["x"][:, :1]), t["x"][:, :-1]], 1).cumsum(1)
    return before, (before * t["x"] * t["y"]).sum(1)


def shorter(t: Tensors) -> Tensor:
    """The last column of what is scanned does not exist: nothing may be read there."""
    before = torch.cat([torch.ones_like(t["x"][:, :1]), t["s"]], 1).cumprod(1)
    return (before[..., None] * t["c"]).sum(1)


def colours(t: Tensors) -> Tensor:
    """No totals: the weights are a softmax."""
    return (t["y"].softmax(1)[..., None] * t["c"]).sum(1)


def means(t: Tensors) -> Tensor:
    weights = torch.sigmoid(t["y"])
    return (weights[..., None] * t["c"]).sum(1) / weights.sum(1, keepdim=True)


def of_chances(t: Tensors) -> Tensor:
    """What is scanned needs a walk of its own before: it goes through memory."""
    before = torch.exp(t["x"] - t["x"].amax(1, keepdim=True)).cumsum(1)
    return (before[..., None] * t["c"]).sum(1) / t["x"].sum(1, keepdim=True)


CALLS: dict[str, Call] = {
    "rendered": rendered,
    "depths": depths,
    "in planes": in_planes,
    "totals too": totals_too,
    "behind zero": behind_zero,
    "shorter": shorter,
    "colours": colours,
    "means": means,
    "of chances": of_chances,
}
PLAIN: Vector = (("row_sums", "warp"), ("block_size", "128"), ("vector_width", "4"))
VECTORS: dict[str, Vector] = {
    "warps": PLAIN,
    "scalars": (("row_sums", "warp"), ("block_size", "64"), ("vector_width", "1")),
    "blocks": (("row_sums", "block"), ("block_size", "64"), ("vector_width", "4")),
    "streamed": (*PLAIN, ("stream_hints", "on"), ("single_pass", "on")),
    "blocks of scalars": (("row_sums", "block"), ("block_size", "64"), ("vector_width", "1")),
}
SIZES = ((5, 132, 3), (3, 260, 3), (2, 67, 2), (1, 4, 1), (4, 30, 5))


def tensors(call: Call, rows: int, columns: int, beside: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(rows * columns)
    given = {
        "x": torch.rand(rows, columns) / 4,
        "y": torch.rand(rows, columns),
        "c": torch.rand(rows, columns, beside),
        "p": torch.rand(rows, beside, columns),
        "s": torch.rand(rows, columns - 1) / 4 + 0.75,
    }
    wanted = {
        rendered: "xyc",
        depths: "xy",
        in_planes: "xp",
        totals_too: "xyc",
        behind_zero: "xy",
        shorter: "xcs",
        colours: "yc",
        means: "yc",
        of_chances: "xc",
    }
    return {name: given[name].to(dtype) for name in wanted[call]}


def launches(source: str) -> int:
    return source.partition("*/")[0].count("launch(")


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_one_kernel_reads_everything_once(name: str, vector: str) -> None:
    call = CALLS[name]
    source = generate(problem_of(call, tensors(call, *SIZES[0])), VECTORS[vector]).kernel.source
    assert launches(source) == 1
    for rows, columns, beside in SIZES:
        check(call, source, tensors(call, rows, columns, beside), "checked")


@pytest.mark.many(11)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("call", [rendered, depths, means])
def test_of_other_types(call: Call, dtype: torch.dtype) -> None:
    given = tensors(call, 3, 132, 3, dtype)
    check(call, generate(problem_of(call, given), VECTORS["warps"]).kernel.source, given, "checked")


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    name=st.sampled_from(sorted(CALLS)),
    rows=st.integers(1, 9),
    columns=st.integers(2, 300),
    beside=st.integers(1, 9),
    vector=st.sampled_from(sorted(VECTORS)),
)
def test_right_at_any_size(name: str, rows: int, columns: int, beside: int, vector: str) -> None:
    """Kernels are for one shape and right at others: rows that are no vectors, lanes without columns."""
    source = generate(problem_of(CALLS[name], tensors(CALLS[name], *SIZES[0])), VECTORS[vector]).kernel.source
    check(CALLS[name], source, tensors(CALLS[name], rows, columns, beside), "checked")


def test_everything_is_asked_for_before_the_scan_in_vectors() -> None:
    source = generate(problem_of(rendered, tensors(rendered, 5, 132, 3)), VECTORS["warps"]).kernel.source
    walk = source[source.index("void op(") :]
    asked, behind = walk.split("lane_scan<Product, 32>")
    assert asked.count("load<VEC>(") == 3 and "load<VEC>(" not in behind
    assert "earlier" in behind and "totals[k - 1]" in behind  # exclusive: of what the column itself has


def test_nothing_is_read_beyond_what_exists() -> None:
    """What is scanned one column later, and is read nowhere else, may end one column earlier."""
    source = generate(problem_of(shorter, tensors(shorter, 5, 132, 3)), VECTORS["warps"]).kernel.source
    assert "earlier" not in source and "< 1 ? 1.0f" in source


def across(t: Tensors) -> Tensor:
    """Totals down the columns, sums along the rows."""
    return torch.cumsum(t["x"], 0).sum(1)


def shifted(t: Tensors) -> Tensor:
    """Totals of other columns."""
    return (torch.cumsum(t["x"], 1).roll(3, 1) * t["y"]).sum(1)


def two_steps(t: Tensors) -> Tensor:
    """The largest total must be known before anything is summed."""
    return torch.cumsum(t["x"], 1).softmax(1).square().sum(1)


def wide(t: Tensors) -> Tensor:
    return (torch.cumsum(t["x"], 1)[..., None] * t["c"]).sum(1)


@pytest.mark.parametrize(
    ("call", "names", "beside"), [(across, "x", 3), (shifted, "xy", 3), (two_steps, "x", 3), (wide, "xc", 40)]
)
def test_not_offered_where_a_row_is_not_summed_in_one_walk(call: Call, names: str, beside: int) -> None:
    given = {"x": torch.rand(5, 132), "y": torch.rand(5, 132), "c": torch.rand(5, 132, beside)}
    problem = problem_of(call, {name: given[name] for name in names})
    assert "row_sums" not in dict(settled(problem, VECTORS["warps"]))


def test_what_others_want_is_a_kernel_of_its_own() -> None:
    """A row's largest score is a result too: the walk that makes it is not taken along."""

    def with_largest(t: Tensors) -> tuple[Tensor, Tensor]:
        return (t["y"].softmax(1)[..., None] * t["c"]).sum(1), t["y"].amax(1)

    given = tensors(colours, 5, 132, 3)
    source = generate(problem_of(with_largest, given), VECTORS["warps"]).kernel.source
    assert launches(source) == 2
    check(with_largest, source, given, "checked")


def test_totals_that_others_need_are_written() -> None:
    def both(t: Tensors) -> tuple[Tensor, Tensor]:
        totals = torch.cumsum(t["x"], 1)
        return (totals * t["y"]).sum(1), totals.t() @ t["y"]

    given = {"x": torch.rand(6, 132), "y": torch.rand(6, 132)}
    check(both, generate(problem_of(both, given), VECTORS["warps"]).kernel.source, given, "checked")


def test_a_search_begins_with_one_walk() -> None:
    given = {
        "x": torch.empty(32768, 128, device="meta"),
        "y": torch.empty(32768, 128, device="meta"),
        "c": torch.empty(32768, 128, 3, device="meta"),
    }
    problem = problem_of(rendered, given)
    best = max(seed_vectors(problem, H100, 6), key=lambda card: card.predicted_factor)
    assert dict(best.vector)["row_sums"] == "warp" and best.technique == "row_sums"
    moved = 4 * 32768 * (128 * 6 + 3)
    modelled = estimate(problem, best.vector, H100, problem.cases[0].size_map).us
    assert 1e6 * moved / H100.dram_bytes_per_s < modelled < 1.3e6 * moved / H100.dram_bytes_per_s
