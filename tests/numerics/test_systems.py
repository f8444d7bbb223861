"""Systems of equations: what float32 makes of them is within the bound, what is slightly wrong is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workbench.model import Arg, Graph, OpNode, OutputSpec, Ref
from workbench.numerics.bounds import agrees
from workbench.numerics.running import Running
from workbench.numerics.tracked import Tracked

Given = dict[str, Tensor]
OPERATIONS: dict[str, tuple[str, tuple[Arg, ...], dict[str, Arg], Callable[[Given], Tensor]]] = {
    "inv": ("linalg_inv_ex", (Ref(ref="a"),), {}, lambda t: torch.linalg.inv(t["a"])),
    "det": ("_linalg_det", (Ref(ref="a"),), {}, lambda t: torch.linalg.det(t["a"])),
    "solve": (
        "_linalg_solve_ex", (Ref(ref="a"), Ref(ref="b")), {}, lambda t: torch.linalg.solve(t["a"], t["b"]),
    ),
    "one side": (
        "_linalg_solve_ex", (Ref(ref="a"), Ref(ref="x")), {}, lambda t: torch.linalg.solve(t["a"], t["x"]),
    ),
    "factor": ("linalg_cholesky_ex", (Ref(ref="s"),), {}, lambda t: torch.linalg.cholesky(t["s"])),
    "upper factor": (
        "linalg_cholesky_ex", (Ref(ref="s"),), {"upper": True},
        lambda t: torch.linalg.cholesky(t["s"], upper=True),
    ),
    "by a factor": (
        "cholesky_solve", (Ref(ref="b"), Ref(ref="l")), {}, lambda t: torch.cholesky_solve(t["b"], t["l"]),
    ),
    "inverse by a factor": (
        "cholesky_inverse", (Ref(ref="l"),), {}, lambda t: torch.cholesky_inverse(t["l"]),
    ),
    "lower triangle": (
        "linalg_solve_triangular", (Ref(ref="l"), Ref(ref="b")), {"upper": False},
        lambda t: torch.linalg.solve_triangular(t["l"], t["b"], upper=False),
    ),
    "rows": (
        "linalg_solve_triangular", (Ref(ref="l"), Ref(ref="r")), {"upper": False, "left": False},
        lambda t: torch.linalg.solve_triangular(t["l"], t["r"], upper=False, left=False),
    ),
    "of all": (
        "_linalg_solve_ex", (Ref(ref="g"), Ref(ref="b")), {}, lambda t: torch.linalg.solve(t["g"], t["b"]),
    ),
    "upper triangle of ones": (
        "linalg_solve_triangular", (Ref(ref="a"), Ref(ref="b")), {"upper": True, "unitriangular": True},
        lambda t: torch.linalg.solve_triangular(t["a"], t["b"], upper=True, unitriangular=True),
    ),
}  # fmt: skip

RESULTS = {"linalg_inv_ex": 2, "_linalg_det": 3, "_linalg_solve_ex": 4, "linalg_cholesky_ex": 2}


def given(rows: int, scale: float = 1.0) -> Given:
    torch.manual_seed(rows)
    a = torch.randn(40, rows, rows) + 2 * torch.eye(rows)
    s = a @ a.transpose(1, 2) + torch.eye(rows)
    b = torch.randn(40, rows, 2)
    return {
        "a": a * scale,
        "s": s,
        "l": torch.linalg.cholesky(s),
        "b": b,
        "x": b[..., 0],
        "r": b.mT,
        "g": a[:1, None],
    }


def tracked(name: str, tensors: Given) -> Tracked:
    op, args, named, _ = OPERATIONS[name]
    outs = (OutputSpec(dtype="f32", dims=(1,)),) * RESULTS.get(op, 1)
    node = OpNode(name="made", op=f"aten.{op}.default", args=args, kwargs=tuple(named.items()), outs=outs)
    graph = Graph(nodes=(node,), outputs=(Ref(ref="made", item=0),))
    return Running({}).outputs(graph, tensors)[0]


@pytest.mark.parametrize("rows", [2, 3, 6, 24])
@pytest.mark.parametrize("name", OPERATIONS)
def test_float32_is_within_the_bound_and_a_wrong_one_is_not(name: str, rows: int) -> None:
    tensors = given(rows)
    made = tracked(name, tensors)
    found = OPERATIONS[name][3](tensors)
    assert made.value.shape == found.shape
    assert (((found - made.value).abs() <= made.error) | made.error.isinf()).all()
    assert float(made.error.isinf().double().mean()) < 0.1
    wrong = found * 1.01
    assert float(((wrong - made.value).abs() > made.error).double().mean()) > 0.4


def test_one_matrix_that_is_nearly_singular_says_nothing_of_the_others() -> None:
    tensors = given(3)
    alone = tracked("inv", tensors).error
    tensors["a"][7, 2] = tensors["a"][7, 0] + 1e-6 * tensors["a"][7, 2]
    beside = tracked("inv", tensors).error
    assert beside[7].amin() > 100 * alone[7].amax()
    others = [at for at in range(40) if at != 7]
    assert torch.equal(alone[others], beside[others])


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_nothing_is_asked_of_a_matrix_that_has_no_number_somewhere(name: str, value: float) -> None:
    """A NaN in a corner reaches what the library's order of steps lets it reach."""
    tensors = given(4)
    for one in ("a", "s", "l"):
        tensors[one][5, 3, 3] = value
    if name == "of all":
        tensors["b"][5, 3] = value
    error = tracked(name, tensors).error.reshape(40, -1)
    assert error[5].isinf().any() and error[[at for at in range(40) if at != 5]].isfinite().all()


def test_the_determinant_of_a_singular_matrix_is_asked_for() -> None:
    tensors = given(3)
    tensors["a"][4, 2] = 2 * tensors["a"][4, 0]
    tensors["a"][6, 1:] = 0.0
    made = tracked("det", tensors)
    found = torch.linalg.det(tensors["a"])
    assert ((found - made.value).abs() <= made.error).all() and float(made.error[4]) < 1e-4
    assert float(made.error[6]) < 1e-9


def test_errors_of_the_matrix_and_of_the_right_sides_are_passed_on() -> None:
    """Each is a product, which rounds: the solution is off by more than where both are exact."""
    out = (OutputSpec(dtype="f32", dims=(1,)),)
    tensors = given(4)
    scaled = [
        OpNode(name=to, op="aten.mul.Tensor", args=(Ref(ref=of), 1.1), outs=out) for to, of in ("ca", "db")
    ]
    solve = OpNode(
        name="made", op="aten._linalg_solve_ex.default", args=(Ref(ref="c"), Ref(ref="d")), outs=out * 4
    )
    graph = Graph(nodes=(*scaled, solve), outputs=(Ref(ref="made", item=0),))
    both = Running({}).outputs(graph, tensors)[0]
    exact = tracked("solve", tensors)
    assert (both.error > exact.error).all()
    found = torch.linalg.solve(tensors["a"] * 1.1, tensors["b"] * 1.1)
    assert ((found - both.value).abs() <= both.error).all()


def test_nothing_is_asked_of_a_factor_that_does_not_exist() -> None:
    """``cholesky_ex`` leaves what it has come to: who goes on has the root of a negative number."""
    tensors = given(3)
    tensors["s"][9] = -tensors["s"][9]
    tensors["s"][11, 2, 2] = -5.0
    error = tracked("factor", tensors).error
    others = [at for at in range(40) if at not in (9, 11)]
    assert error[others].isfinite().all() and error[9].isinf().any() and error[11].isinf().any()


def test_which_pivot_is_none_is_not_asked_of_what_may_be_singular() -> None:
    tensors = given(3)
    tensors["a"][7, 2] = tensors["a"][7, 0] * 1.1  # rounded: none of its pivots is zero to all libraries
    outs = (OutputSpec(dtype="f32", dims=(1,)), OutputSpec(dtype="i32", dims=(1,)))
    node = OpNode(name="made", op="aten.linalg_inv_ex.default", args=(Ref(ref="a"),), outs=outs)
    error = Running({}).outputs(Graph(nodes=(node,), outputs=(Ref(ref="made", item=1),)), tensors)[0].error
    assert error[7].isinf() and not error[[at for at in range(40) if at != 7]].any()


@pytest.mark.parametrize("name", ["inv", "solve", "one side"])
def test_nothing_is_asked_of_the_inverse_of_a_singular_matrix(name: str) -> None:
    """A library that finds a pivot of zero leaves what it has come to, which may be numbers."""
    tensors = given(3)
    tensors["a"][2] = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
    tensors["a"][3] = 0.0
    error = tracked(name, tensors).error.reshape(40, -1)
    assert error[2:4].isinf().all() and error[4:].isfinite().all()


def test_what_is_clamped_behind_no_inverse_is_not_asked_either() -> None:
    """One library leaves a number where another has NaN, which no range makes a number."""
    out = (OutputSpec(dtype="f32", dims=(1,)),)
    tensors = given(3)
    tensors["a"][4, :2] = 0.0
    inverse = OpNode(name="i", op="aten.linalg_inv_ex.default", args=(Ref(ref="a"),), outs=out * 2)
    clamp = OpNode(name="made", op="aten.clamp.default", args=(Ref(ref="i", item=0), 0, 1), outs=out)
    made = Running({}).outputs(Graph(nodes=(inverse, clamp), outputs=(Ref(ref="made"),)), tensors)[0]
    assert made.error[4].isinf().all() and made.error[5:].isfinite().all()


def test_one_matrix_of_which_nothing_is_asked_leaves_the_others_their_bound() -> None:
    """The graph has no number there, and computes what the reference does all the same."""
    tensors = given(3)
    tensors["a"][4, :2] = 0.0
    made = tracked("inv", tensors)
    assert made.value[4].isnan().all()
    right = torch.linalg.inv_ex(tensors["a"].double()).inverse
    assert agrees(made, right) and not agrees(made, right * 1.01)
