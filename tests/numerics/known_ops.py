"""Problems built by hand for the numerics' tests: reference, graph and tensors of a few well-known ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from workbench.model import (
    Arg,
    Case,
    Contract,
    DType,
    Graph,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    TensorSpec,
)
from workbench.numerics.bounds import OutputBound, bounds
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import InputKind

NORMAL = Sampler(kind="normal")
MAKING = frozenset(
    (
        torch.empty, torch.empty_strided, torch.zeros, torch.ones, torch.full, torch.tensor, torch.as_tensor,
        torch.arange, torch.linspace, torch.eye, torch.scalar_tensor, torch.rand, torch.randn, torch.randint,
    )
)  # fmt: skip


class Placed(TorchFunctionMode):
    """Refuses to make a tensor that is not said to lie anywhere: on a GPU it would lie on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raises ``AssertionError``, which no interpreter of graphs takes for a graph it cannot read."""
        given = kwargs or {}
        assert func not in MAKING or given.get("device") is not None, f"{func.__name__} names no device"
        return func(*args, **given)


def node(name: str, op: str, *args: Arg, dtype: DType = "f32", **kwargs: Arg) -> OpNode:
    """One operation whose shape nobody asks for."""
    outs = (OutputSpec(dtype=dtype, dims=()),)
    return OpNode(name=name, op=op, args=args, kwargs=tuple(sorted(kwargs.items())), outs=outs)


def ref(name: str) -> Ref:
    """Reference to a tensor or node."""
    return Ref(ref=name)


@dataclass(frozen=True)
class Op:
    """A reference with its graph, and the problem around them."""

    call: Callable[..., Tensor]
    problem: Problem

    def judge(
        self, kernel: Callable[..., Tensor], kind: InputKind = "normal", seed: int = 0
    ) -> tuple[float, OutputBound]:
        """Run ``kernel`` in place of the reference: its largest error over the bound, and the bound."""
        tensors = draw(self.problem, self.problem.cases[0], kind, seed)
        bound = self.bound(tensors)
        got = kernel(**tensors)
        with Placed():
            return compare(got, bound).max_ratio, bound

    def bound(self, tensors: dict[str, Tensor]) -> OutputBound:
        """Bound of the only output for these tensors."""
        oracle = Oracle(self.wide(tensors), self.wide)
        native = (self.call(**tensors),)
        with Placed():
            return bounds(self.problem, {}, tensors, oracle, lambda: native)[0]

    def wide(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor]:
        """The reference in float64."""
        return (self.call(**{k: t.double() if t.is_floating_point() else t for k, t in tensors.items()}),)


def make(
    call: Callable[..., Tensor],
    shapes: dict[str, tuple[int, ...]],
    nodes: tuple[OpNode, ...],
    dtype: DType = "f32",
    out: DType | None = None,
    contract: Contract = "ieee-fp32",
    **samplers: Any,
) -> Op:
    """Wrap a reference and a hand-written graph, whose last node is the output.

    Without nodes the graph is empty and the bound falls back to the reference's own error.
    """
    tensors = tuple(
        TensorSpec(
            name=name,
            role="input" if position == 0 else "parameter",
            dtype=samplers.get(f"{name}_dtype", dtype),
            dims=shape,
            sampler=samplers.get(name, NORMAL),
        )
        for position, (name, shape) in enumerate(shapes.items())
    )
    case = Case(label="only", sizes=())
    outputs = (OutputSpec(dtype=out or dtype, dims=()),)
    graph = Graph(nodes=nodes, outputs=(ref(nodes[-1].name if nodes else "none"),))
    problem = Problem(
        name="op",
        source="",
        entry="op",
        kind="function",
        tensors=tensors,
        outputs=outputs,
        cases=(case,),
        graph=graph,
        contract=contract,
    )
    return Op(call, problem)


def softmax(rows: int = 8, columns: int = 300) -> Op:
    return make(
        lambda x: torch.softmax(x, -1),
        {"x": (rows, columns)},
        (
            node("top", "aten.amax.default", ref("x"), (-1,), True),
            node("low", "aten.sub.Tensor", ref("x"), ref("top")),
            node("e", "aten.exp.default", ref("low")),
            node("all", "aten.sum.dim_IntList", ref("e"), (-1,), True),
            node("y", "aten.div.Tensor", ref("e"), ref("all")),
        ),
    )


def log_softmax(rows: int = 8, columns: int = 300) -> Op:
    return make(
        lambda x: torch.log_softmax(x, -1),
        {"x": (rows, columns)},
        (
            node("top", "aten.amax.default", ref("x"), (-1,), True),
            node("low", "aten.sub.Tensor", ref("x"), ref("top")),
            node("e", "aten.exp.default", ref("low")),
            node("all", "aten.sum.dim_IntList", ref("e"), (-1,), True),
            node("lse", "aten.log.default", ref("all")),
            node("y", "aten.sub.Tensor", ref("low"), ref("lse")),
        ),
    )


def layer_norm(rows: int = 8, columns: int = 300) -> Op:
    return make(
        lambda x, w, b: torch.nn.functional.layer_norm(x, (columns,), w, b),
        {"x": (rows, columns), "w": (columns,), "b": (columns,)},
        (
            node("s", "aten.sum.dim_IntList", ref("x"), (-1,), True),
            node("mean", "aten.div.Tensor", ref("s"), columns),
            node("d", "aten.sub.Tensor", ref("x"), ref("mean")),
            node("d2", "aten.mul.Tensor", ref("d"), ref("d")),
            node("ss", "aten.sum.dim_IntList", ref("d2"), (-1,), True),
            node("var", "aten.div.Tensor", ref("ss"), columns),
            node("eps", "aten.add.Tensor", ref("var"), 1e-5),
            node("r", "aten.rsqrt.default", ref("eps")),
            node("n", "aten.mul.Tensor", ref("d"), ref("r")),
            node("nw", "aten.mul.Tensor", ref("n"), ref("w")),
            node("y", "aten.add.Tensor", ref("nw"), ref("b")),
        ),
    )


def row_sum(rows: int = 8, columns: int = 1000) -> Op:
    return make(
        lambda x: x.sum(-1),
        {"x": (rows, columns)},
        (node("y", "aten.sum.dim_IntList", ref("x"), (-1,)),),
    )


def matmul(m: int = 32, k: int = 512, n: int = 32, contract: Contract = "ieee-fp32") -> Op:
    return make(
        lambda x, w: x @ w,
        {"x": (m, k), "w": (k, n)},
        (node("y", "aten.mm.default", ref("x"), ref("w")),),
        contract=contract,
    )


def linear(m: int = 32, k: int = 512, n: int = 32) -> Op:
    return make(
        lambda x, w, b: torch.addmm(b, x, w),
        {"x": (m, k), "w": (k, n), "b": (n,)},
        (node("y", "aten.addmm.default", ref("b"), ref("x"), ref("w")),),
    )


def gelu(size: int = 3000) -> Op:
    return make(
        torch.nn.functional.gelu,
        {"x": (size,)},
        (
            node("half", "aten.mul.Tensor", ref("x"), 0.5),
            node("arg", "aten.mul.Tensor", ref("x"), 0.7071067811865476),
            node("erf", "aten.erf.default", ref("arg")),
            node("one", "aten.add.Tensor", ref("erf"), 1),
            node("y", "aten.mul.Tensor", ref("half"), ref("one")),
        ),
    )


def cross_entropy(rows: int = 64, classes: int = 50) -> Op:
    base = log_softmax().problem.graph.nodes
    return make(
        lambda x, t: torch.nn.functional.cross_entropy(x, t),
        {"x": (rows, classes), "t": (rows,)},
        (
            *base,
            node("i", "aten.view.default", ref("t"), (-1, 1), dtype="i64"),
            node("p", "aten.gather.default", ref("y"), 1, ref("i")),
            node("q", "aten.neg.default", ref("p")),
            node("total", "aten.sum.default", ref("q")),
            node("loss", "aten.div.Tensor", ref("total"), rows),
        ),
        t=Sampler(kind="integers", low=0, high=classes, scalable=False),
        t_dtype="i64",
    )


def argmax(rows: int = 16, columns: int = 200) -> Op:
    return make(
        lambda x: x.argmax(-1),
        {"x": (rows, columns)},
        (node("y", "aten.argmax.default", ref("x"), -1, dtype="i64"),),
        out="i64",
    )


OPS: dict[str, Callable[[], Op]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "row_sum": row_sum,
    "matmul": matmul,
    "linear": linear,
    "gelu": gelu,
    "cross_entropy": cross_entropy,
}
