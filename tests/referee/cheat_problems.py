"""The small problems that the cheats and the honest kernels of this folder belong to."""

from __future__ import annotations

from workbench.model import (
    Arg,
    Case,
    Dim,
    DType,
    Graph,
    OpNode,
    OutputSpec,
    Problem,
    Ref,
    Sampler,
    TensorSpec,
)

NORMAL = Sampler(kind="normal")
SCALE = Sampler(kind="uniform", low=0.01, high=1.01, scalable=False)
X = Ref(ref="x")


def _case(sizes: dict[str, int], declared: bool = False) -> Case:
    label = "x".join(map(str, sizes.values()))
    return Case(label=label, sizes=tuple(sizes.items()), origin="declared" if declared else "proof")


def _tensor(
    name: str, *dims: Dim, role: str = "input", dtype: DType = "f32", sampler: Sampler = NORMAL
) -> TensorSpec:
    return TensorSpec.model_validate(
        {"name": name, "role": role, "dtype": dtype, "dims": dims, "sampler": sampler, "path": name}
    )


def _node(name: str, op: str, *args: Arg, dtype: DType = "f32", **kwargs: Arg) -> OpNode:
    outs = (OutputSpec(dtype=dtype, dims=()),)
    return OpNode(name=name, op=f"aten.{op}", args=args, kwargs=tuple(kwargs.items()), outs=outs)


def _problem(
    name: str,
    code: str,
    tensors: tuple[TensorSpec, ...],
    nodes: tuple[OpNode, ...],
    sizes: tuple[tuple[int, ...], ...],
    out: tuple[Dim, ...],
    dtype: DType = "f32",
) -> Problem:
    """``sizes``: the declared ones first, then the proofs."""
    symbols = tuple(dict.fromkeys(d for spec in tensors for d in spec.dims if isinstance(d, str)))
    cases = [dict(zip(symbols, given, strict=True)) for given in sizes]
    return Problem(
        name=name,
        source=f"import torch\nimport torch.nn as nn\n\n{code}\n",
        entry=name,
        kind="module_class" if code.startswith("class") else "function",
        tensors=tensors,
        signature=tuple(spec.name for spec in tensors if spec.role == "input"),
        symbols=symbols,
        outputs=(OutputSpec(dtype=dtype, dims=out),),
        cases=(_case(cases[0], declared=True),),
        proofs=tuple(map(_case, cases[1:])),
        graph=Graph(nodes=nodes, outputs=(Ref(ref=nodes[-1].name),)),
        contract="16-bit io, fp32 accumulate" if tensors[0].dtype == "f16" else "ieee-fp32",
    )


ROWS = ((4096, 4096), (3, 7), (1, 1), (5, 127), (4, 128), (2, 1025), (33, 33), (2, 4096))
PRODUCTS = ((1024, 1024, 1024), (1, 1, 1), (3, 5, 7), (16, 48, 16), (33, 65, 31), (64, 128, 64), (7, 512, 5))
BOXES = ((64, 128, 256), (1, 1, 1), (2, 3, 5), (3, 16, 32), (5, 7, 33), (2, 33, 128), (4, 4, 256))
S = ("s0", "s1")

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        _problem(
            "softmax",
            "def softmax(x):\n    return torch.softmax(x, dim=1)",
            (_tensor("x", *S),),
            (
                _node("top", "amax.default", X, (-1,), True),
                _node("low", "sub.Tensor", X, Ref(ref="top")),
                _node("e", "exp.default", Ref(ref="low")),
                _node("all", "sum.dim_IntList", Ref(ref="e"), (-1,), True),
                _node("y", "div.Tensor", Ref(ref="e"), Ref(ref="all")),
            ),
            ROWS,
            S,
        ),
        _problem(
            "normalised",
            "def normalised(x):\n"
            "    return x / torch.clamp(torch.sqrt((x * x).sum(dim=1, keepdim=True)), min=1e-12)",
            (_tensor("x", *S),),
            (
                _node("square", "mul.Tensor", X, X),
                _node("all", "sum.dim_IntList", Ref(ref="square"), (1,), True),
                _node("length", "sqrt.default", Ref(ref="all")),
                _node("least", "clamp.default", Ref(ref="length"), 1e-12),
                _node("y", "div.Tensor", X, Ref(ref="least")),
            ),
            ROWS,
            S,
        ),
        _problem(
            "rowsum",
            "def rowsum(x):\n    return x.sum(dim=1)",
            (_tensor("x", *S),),
            (_node("y", "sum.dim_IntList", X, (1,), False),),
            ROWS,
            ("s0",),
        ),
        _problem(
            "variance",
            "def variance(x):\n    return x.var(dim=1, unbiased=False)",
            (_tensor("x", *S),),
            (
                _node("mean", "mean.dim", X, (1,), True),
                _node("off", "sub.Tensor", X, Ref(ref="mean")),
                _node("square", "mul.Tensor", Ref(ref="off"), Ref(ref="off")),
                _node("y", "mean.dim", Ref(ref="square"), (1,), False),
            ),
            ROWS,
            ("s0",),
        ),
        _problem(
            "argmax",
            "def argmax(x):\n    return x.argmax(dim=1)",
            (_tensor("x", *S),),
            (_node("y", "argmax.default", X, 1, dtype="i64"),),
            ROWS,
            ("s0",),
            "i64",
        ),
        _problem(
            "residual",
            "def residual(x):\n    return x + 1e-3 * torch.tanh(x)",
            (_tensor("x", *S),),
            (
                _node("t", "tanh.default", X),
                _node("s", "mul.Tensor", Ref(ref="t"), 1e-3),
                _node("y", "add.Tensor", X, Ref(ref="s")),
            ),
            ROWS,
            S,
        ),
        _problem(
            "Affine",
            "class Affine(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.w = nn.Parameter(torch.ones(64))\n"
            "        self.b = nn.Parameter(torch.zeros(64))\n\n"
            "    def forward(self, x):\n"
            "        return x * self.w + self.b",
            (
                _tensor("x", "s0", 64),
                _tensor("w", 64, role="parameter"),
                _tensor("b", 64, role="parameter"),
            ),
            (
                _node("p", "mul.Tensor", X, Ref(ref="w")),
                _node("y", "add.Tensor", Ref(ref="p"), Ref(ref="b")),
            ),
            ((4096,), (1,), (5,), (32,), (127,), (256,)),
            ("s0", 64),
        ),
        _problem(
            "product",
            "def product(a, b):\n    return a @ b",
            (_tensor("a", "s0", "s1"), _tensor("b", "s1", "s2")),
            (_node("y", "mm.default", Ref(ref="a"), Ref(ref="b")),),
            PRODUCTS,
            ("s0", "s2"),
        ),
        _problem(
            "gate",
            "def gate(x, g):\n    return x * torch.sigmoid(g)",
            (_tensor("x", "s0", "s1", "s2"), _tensor("g", "s0", "s1", "s2")),
            (
                _node("s", "sigmoid.default", Ref(ref="g")),
                _node("y", "mul.Tensor", X, Ref(ref="s")),
            ),
            BOXES,
            ("s0", "s1", "s2"),
        ),
        _problem(
            "transposed",
            "def transposed(x):\n    return (2 * x).t().contiguous()",
            (_tensor("x", *S),),
            (
                _node("d", "mul.Tensor", X, 2.0),
                _node("p", "permute.default", Ref(ref="d"), (1, 0)),
                _node("y", "clone.default", Ref(ref="p")),
            ),
            ROWS,
            ("s1", "s0"),
        ),
        _problem(
            "halfsum",
            "def halfsum(x):\n    return x.sum(dim=1)",
            (_tensor("x", *S, dtype="f16"),),
            (_node("y", "sum.dim_IntList", X, (1,), False, dtype="f16"),),
            ROWS,
            ("s0",),
            "f16",
        ),
        _problem(
            "quantised",
            "def quantised(x, s):\n    return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)",
            (_tensor("x", *S, dtype="f16"), _tensor("s", "s0", 1, dtype="f16", sampler=SCALE)),
            (
                _node("v", "div.Tensor", X, Ref(ref="s"), dtype="f16"),
                _node("r", "round.default", Ref(ref="v"), dtype="f16"),
                _node("c", "clamp.default", Ref(ref="r"), -128, 127, dtype="f16"),
                _node("y", "_to_copy.default", Ref(ref="c"), dtype="i8"),
            ),
            ROWS,
            S,
            "i8",
        ),
        _problem(
            "fakequant",
            "def fakequant(x):\n"
            "    scale = x.abs().amax(dim=-1, keepdim=True) / 127.0\n"
            "    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8).to(x.dtype) * scale",
            (_tensor("x", *S, dtype="f16"),),
            (
                _node("a", "abs.default", X, dtype="f16"),
                _node("m", "amax.default", Ref(ref="a"), (-1,), True, dtype="f16"),
                _node("s", "div.Tensor", Ref(ref="m"), 127.0, dtype="f16"),
                _node("v", "div.Tensor", X, Ref(ref="s"), dtype="f16"),
                _node("r", "round.default", Ref(ref="v"), dtype="f16"),
                _node("c", "clamp.default", Ref(ref="r"), -128, 127, dtype="f16"),
                _node("q", "_to_copy.default", Ref(ref="c"), dtype="i8"),
                _node("w", "_to_copy.default", Ref(ref="q"), dtype="f16"),
                _node("y", "mul.Tensor", Ref(ref="w"), Ref(ref="s"), dtype="f16"),
            ),
            ROWS,
            S,
            "f16",
        ),
    )
}
