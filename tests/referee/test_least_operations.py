"""Operations that no kernel can leave out: what a mask hides is not among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as every

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from workbench.model import H100, Problem
from workbench.referee.clock.physics import physics_of
from workbench.referee.clock.suspicion import beyond_physics
from workbench.referee.diagonals import Diagonals, in_columns, in_rows, joint
from workbench.referee.least_operations import direct_flops, least_flops
from workbench.referee.roofline import floor_under, floor_us, products_per_s

Tensors = dict[str, Tensor]
QUERIES, KEYS = 8, 12
SEEN = sum(min(query + 1, KEYS) for query in range(QUERIES)) / (QUERIES * KEYS)
WINDOW = sum(min(query + 1, 3) for query in range(QUERIES)) / (QUERIES * KEYS)


def tensors(dtype: torch.dtype = torch.float32) -> Tensors:
    """8 places of 16 numbers that look at 12, a square, and a mask that is given."""
    shapes = {"q": (2, 3, QUERIES, 16), "k": (2, 3, KEYS, 16), "v": (2, 3, KEYS, 16), "s": (8, 8)}
    given = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    return given | {"m": torch.ones(QUERIES, KEYS, dtype=torch.bool)}


def attended(scores: Tensor, t: Tensors) -> Tensor:
    return torch.softmax(scores, -1) @ t["v"]


def scores(t: Tensors) -> Tensor:
    return t["q"] @ t["k"].mT


def plain(t: Tensors) -> Tensor:
    return attended(scores(t), t)


def causal(t: Tensors) -> Tensor:
    return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=True)


def by_hand(t: Tensors) -> Tensor:
    seen = torch.tril(torch.ones(QUERIES, KEYS))
    return attended(scores(t).masked_fill(seen == 0, -math.inf), t)


def added(t: Tensors) -> Tensor:
    return attended(scores(t) + torch.full((QUERIES, KEYS), -math.inf).triu(1), t)


def added_finite(t: Tensors) -> Tensor:
    return attended(scores(t) + (1 - torch.tril(torch.ones(QUERIES, KEYS))) * -10000.0, t)


def window(t: Tensors) -> Tensor:
    behind = torch.arange(QUERIES)[:, None] - torch.arange(KEYS)
    return attended(torch.where((behind >= 0) & (behind < 3), scores(t), -math.inf), t)


def given(t: Tensors) -> Tensor:
    return attended(scores(t).masked_fill(t["m"], -math.inf), t)


def linear(t: Tensors) -> Tensor:
    return torch.tril(scores(t)) @ t["v"]


def projected(t: Tensors) -> Tensor:
    """Products before the scores are needed as a whole; the scores and what they weigh lie under the mask."""
    a = t["q"][0]
    hidden = torch.ones(QUERIES, QUERIES).triu(1) > 0
    return torch.softmax(((a @ t["k"][0].mT) @ t["k"][0] @ a.mT).masked_fill(hidden, -math.inf), -1) @ a


def gated(t: Tensors) -> Tensor:
    """No mask: numbers that are 0 by chance are numbers."""
    return (torch.relu(t["s"] @ t["s"].T) * torch.sigmoid(t["s"])) @ t["s"]


def positions(t: Tensors) -> Tensor:
    """Angles are counted up from 0, and hide nothing."""
    angles = torch.arange(QUERIES)[:, None] * 10000.0 ** (-torch.arange(16) / 16)
    return attended((t["q"] * angles.cos()) @ t["k"].mT, t)


def two_triangles(t: Tensors) -> Tensor:
    return torch.tril(t["s"]) @ torch.tril(t["s"])


def piece(t: Tensors) -> Tensor:
    return (t["s"] @ t["s"].T)[:, 2:6]


def of(call: Callable[[Tensors], Tensor], dtype: torch.dtype = torch.float32) -> Problem:
    return problem_of(call, tensors(dtype), varying=False)


def test_a_bilinear_layer_counts_each_pair_of_features() -> None:
    def call(t: Tensors) -> Tensor:
        return F.bilinear(t["a"], t["b"], t["weight"])

    problem = problem_of(
        call, {"a": torch.randn(6, 4), "b": torch.randn(6, 5), "weight": torch.randn(3, 4, 5)}
    )
    assert least_flops(problem, problem.cases[0]) == 2 * 6 * 3 * 4 * 5


@pytest.mark.many(3)
@pytest.mark.parametrize(
    ("call", "part"),
    [
        (plain, 1.0), (causal, SEEN), (by_hand, SEEN), (added, SEEN), (added_finite, SEEN), (window, WINDOW),
        (given, 0.0), (linear, SEEN), (gated, 1.0), (positions, 1.0), (two_triangles, 120 / 512),
        (piece, 0.5),
    ],
)  # fmt: skip
def test_a_product_counts_as_far_as_it_is_read(call: Callable[[Tensors], Tensor], part: float) -> None:
    problem = of(call)
    case = problem.cases[0]
    assert least_flops(problem, case) == pytest.approx(part * direct_flops(problem, case))
    assert physics_of(problem, case, H100).flops == least_flops(problem, case)


def test_what_is_read_through_rows_that_all_see_something_is_read_whole() -> None:
    problem = of(projected)
    case = problem.cases[0]
    scored, seen = 3 * QUERIES * QUERIES * 16, (QUERIES + 1) / (2 * QUERIES)
    assert least_flops(problem, case) == 2 * (2 * 3 * QUERIES * KEYS * 16 + 2 * scored * seen)


def test_an_honest_kernel_under_a_causal_mask_is_believed() -> None:
    """261 us on an H200 for 32 heads of 4096 places: 1052 TFLOP/s, had it multiplied what the mask hides."""
    big = {name: torch.empty(1, 32, 4096, 128, dtype=torch.bfloat16, device="meta") for name in "qkv"}
    problem = problem_of(causal, big, varying=False).model_copy(
        update={"contract": "16-bit io, fp32 accumulate"}
    )
    physics = physics_of(problem, problem.cases[0], H100)
    assert not beyond_physics(261.0, physics)
    assert "arithmetic" in beyond_physics(120.0, physics)
    floor = floor_us(H100, 0, least_flops(problem, problem.cases[0]), problem.contract)
    assert 100.0 < floor < 261.0
    assert floor_under(H100, problem, problem.cases[0], 90.0) == 90.0


def square(t: Tensors) -> Tensor:
    return t["s"] @ t["s"].mT


def halves(t: Tensors) -> Tensor:
    return (t["s"].bfloat16() @ t["s"].bfloat16().mT).float()


def halves_as_floats(t: Tensors) -> Tensor:
    """Two bfloat16 multiply exactly in float32, so a kernel may do it where they multiply faster."""
    return t["s"].bfloat16().float() @ t["s"].bfloat16().float().mT


@pytest.mark.parametrize(("call", "unit"), [(square, 3.0), (halves, 17.0), (halves_as_floats, 17.0)])
def test_factors_of_fewer_bits_are_multiplied_by_a_faster_unit(
    call: Callable[[Tensors], Tensor], unit: float
) -> None:
    """A step of Muon in bfloat16 does 222 TFLOP/s on an H100, and its gradient is in float32."""
    problem = of(call)
    case = problem.cases[0]
    assert problem.contract == "ieee-fp32"
    direct, physics = direct_flops(problem, case), physics_of(problem, case, H100)
    least_s = direct / (unit * H100.fp32_flops_per_s)
    rate = products_per_s(H100, problem.contract)
    assert least_flops(problem, case) / rate == pytest.approx(least_s)
    assert physics.flops / physics.flops_per_s == pytest.approx(least_s)


def test_diagonals_are_counted_as_a_matrix_has_them() -> None:
    sets = (
        Diagonals((True, False), (1,)),
        Diagonals((False, True, False), (-2, 1)),
        Diagonals((True, False, True), (-1, 3)),
    )
    for chosen, (rows, columns) in every(sets, [(5, 7), (7, 5), (1, 4), (4, 1)]):
        places = [[chosen.at(j - i) for j in range(columns)] for i in range(rows)]
        assert in_rows(chosen, (rows, columns)) == tuple(map(sum, places))
        assert in_columns(chosen, (rows, columns)) == tuple(map(sum, zip(*places, strict=True)))
        inside = chosen.within((rows, columns))
        assert all(inside.at(d) == chosen.at(d) for d in range(1 - rows, columns))
        both = joint(lambda a, b: a and b, chosen, sets[1])
        assert all(both.at(d) == (chosen.at(d) and sets[1].at(d)) for d in range(-9, 9))
