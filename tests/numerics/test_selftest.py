from __future__ import annotations

from collections.abc import Callable, Mapping

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import Case, DType, OpNode, OutputSpec
from workbench.numerics import selftest
from workbench.numerics.selftest import Finding, SelfTest


def found(op: ops.Op) -> tuple[Finding, ...]:
    def call(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return (op.call(**tensors),)

    def oracle(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return call({k: t.double() if t.is_floating_point() else t for k, t in tensors.items()})

    return SelfTest(op.problem, call, oracle).findings()


@pytest.mark.parametrize("name", ops.OPS)
def test_ordinary_problems_have_no_findings(name: str) -> None:
    assert found(ops.OPS[name]()) == ()


DEGENERATE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "always zero": (lambda x: (x.amax(-1, keepdim=True) - x).clamp(max=0), "is zero"),
    "cancels": (lambda x: x.mean(-1) - x.sum(-1) / x.shape[-1], "is zero"),
    "identity": (lambda x: x * 1.0, "a copy of x"),
    "constant": (lambda x: torch.softmax(x.sum(-1, keepdim=True), -1), "does not depend on input 'x'"),
    "within rounding": (
        lambda x: 1 + 2e-7 * torch.tanh(x),
        "other values of input 'x' change the output by no more than rounding may",
    ),
    "always nan": (lambda x: torch.log(-x.abs() - 1), "NaN or infinite for every input"),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_problems_are_refused_with_the_reason(name: str) -> None:
    call, words = DEGENERATE[name]
    op = ops.make(call, {"x": (8, 33)}, ())
    findings = found(op)
    assert any(words in f.message and f.severity == "refuse" for f in findings), findings


X, NAN = ops.ref("x"), ops.node("isnan", "aten.isnan.default", ops.ref("x"), dtype="bool")
RARE: dict[str, tuple[Callable[[Tensor], Tensor], tuple[OpNode, ...], DType]] = {
    "zeros": (lambda x: x == 0, (ops.node("z", "aten.eq.Scalar", X, 0, dtype="bool"),), "bool"),
    "NaN": (torch.isnan, (NAN,), "bool"),
    "a number for NaN": (
        lambda x: torch.where(x.isnan(), 0.5, x),
        (NAN, ops.node("z", "aten.where.ScalarSelf", ops.ref("isnan"), 0.5, X)),
        "f32",
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_what_rare_values_alone_tell_is_no_reason_to_refuse(name: str) -> None:
    call, nodes, out = RARE[name]
    findings = found(ops.make(call, {"x": (8, 3)}, nodes, out=out))
    assert not [f for f in findings if f.severity == "refuse"]


def test_a_nan_that_is_passed_on_is_no_result() -> None:
    for call in (lambda x: x - x, lambda x: x * 0 + 1, lambda x: torch.where(x == x, 2.0, x)):
        assert {f.severity for f in found(ops.make(call, {"x": (8, 33)}, ()))} == {"refuse"}


def test_an_input_without_effect_is_refused_and_a_parameter_warned_about() -> None:
    op = ops.make(
        lambda x, y: x.relu() + 0 * y.floor(),
        {"x": (8, 9), "y": (8, 9)},
        (ops.node("z", "aten.relu.default", ops.ref("x")),),
    )
    findings = found(op)
    assert [f.severity for f in findings] == ["warn"], findings  # y is a parameter here
    tensors = tuple(s.model_copy(update={"role": "input"}) for s in op.problem.tensors)
    refused = found(ops.Op(op.call, op.problem.model_copy(update={"tensors": tensors})))
    assert [f.severity for f in refused] == ["refuse"]
    assert "'y'" in refused[0].message


def nearly_constant(spread: float) -> ops.Op:
    return ops.make(
        lambda x: 1000 + torch.tanh(x) * spread,
        {"x": (8, 50)},
        (
            ops.node("t", "aten.tanh.default", ops.ref("x")),
            ops.node("m", "aten.mul.Tensor", ops.ref("t"), spread),
            ops.node("y", "aten.add.Tensor", ops.ref("m"), 1000),
        ),
    )


def test_nearly_constant_output_is_a_warning() -> None:
    assert [f.severity for f in found(nearly_constant(1e-3))] == ["warn"]


def test_a_small_spread_that_the_bound_resolves_is_none() -> None:
    assert found(nearly_constant(0.5)) == ()


def test_of_a_declared_case_with_large_results_in_between_a_part_is_run() -> None:
    """Pairs of a thousand points are a million, of which the inputs' sizes say nothing. Before the problem is
    refused, a larger part is."""
    ran = []

    def call(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        ran.append(tensors["x"].shape[0])
        return (tensors["x"] * 0.0,)

    op = ops.make(lambda x: x * 0.0, {"x": (8, 3)}, ())
    pairs = OpNode(
        name="pairs", op="aten.mul.Tensor", args=(), outs=(OutputSpec(dtype="f32", dims=("n", "n", 3)),)
    )
    (x,) = op.problem.tensors
    proof, declared = (Case(label=str(n), sizes=(("n", n),)) for n in (8, 2000))
    problem = op.problem.model_copy(
        update={
            "tensors": (x.model_copy(update={"dims": ("n", 3)}),),
            "symbols": ("n",),
            "proofs": (proof,),
            "cases": (declared,),
            "graph": op.problem.graph.model_copy(update={"nodes": (pairs,)}),
        }
    )
    findings = SelfTest(problem, call, call).findings(rarer=False)
    assert any(f.severity == "refuse" for f in findings) and set(ran) == {8, 500, 1000}


@pytest.mark.parametrize(
    ("sizes", "asked"),
    [((8, 16, 32, 64, 100_000), {16, 32, 64}), ((8, 16, 100_000), {8, 16, 100_000})],
)
def test_the_largest_cases_are_asked_up_to_a_size_that_says_enough(
    sizes: tuple[int, ...], asked: set[int]
) -> None:
    """Where an output is nearly constant in one, all of them are asked."""
    findings, ran = _found_at(sizes, nearly_constant(1e-3))
    assert [found.severity for found in findings] == ["warn"] and ran == asked


def test_one_case_is_enough_where_nothing_is_found() -> None:
    findings, ran = _found_at((8, 16, 32, 64, 100_000), nearly_constant(0.5))
    assert findings == () and ran == {16}


def _found_at(sizes: tuple[int, ...], op: ops.Op) -> tuple[tuple[Finding, ...], set[int]]:
    """What is found where there are small cases of so many rows, and the rows it was run with."""
    ran = set()

    def call(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        ran.add(tensors["x"].shape[0])
        return (op.call(**tensors),)

    def oracle(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return call({k: t.double() for k, t in tensors.items()})

    (x,) = op.problem.tensors
    proofs = tuple(Case(label=str(n), sizes=(("n", n),)) for n in sizes)
    changes = {"tensors": (x.model_copy(update={"dims": ("n", 3)}),), "symbols": ("n",), "proofs": proofs}
    return SelfTest(op.problem.model_copy(update=changes), call, oracle).findings(), ran


def test_what_was_run_is_kept_for_what_is_asked_next() -> None:
    """A deep network has a hundred parameters; each is changed alone, once a trial."""
    ran: list[float] = []

    def call(tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        ran.append(float(tensors["x"].sum()))
        return (tensors["x"] * 0.0 + tensors["b"],)

    op = ops.make(lambda x, b: x * 0.0 + b, {"x": (8, 33), "b": (33,)}, ())
    test = SelfTest(op.problem, call, call)
    assert any("'x'" in found.message for found in test.findings(rarer=False))
    first = len(ran)
    assert any("'x'" in found.message for found in test.findings(rarer=False))
    assert len(ran) == first


def test_of_a_declared_case_what_saves_most_is_halved() -> None:
    """Points are few beside the cells of a grid that each of a batch fills."""
    problem = ops.row_sum().problem
    cells = OpNode(name="grid", op="aten.zeros.default", outs=(OutputSpec(dtype="f32", dims=("8*s0", 4096)),))
    graph = problem.graph.model_copy(update={"nodes": (cells, *problem.graph.nodes)})
    points = problem.tensors[0].model_copy(update={"dims": ("s0", "s1")})
    declared = Case(label="256x3000", sizes=(("s0", 256), ("s1", 3000)))
    problem = problem.model_copy(update={"graph": graph, "tensors": (points,), "cases": (declared,)})
    part = selftest._within_reach(problem, declared, selftest.MOST_ELEMENTS[0])
    assert part.size_map == {"s0": 32, "s1": 3000}
    assert selftest._largest(problem, part) <= selftest.MOST_ELEMENTS[0]
