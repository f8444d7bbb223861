"""Random op graphs as the intake would write them: core ATen nodes, sizes by symbol or number, inputs.

Owns what is drawn from a seed: the same graph on every machine. Never runs one: random_graphs.py does.
Values stay within a few hundred whatever is applied to them, so that 16-bit results are finite.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

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
    Sym,
    TensorSpec,
    Vector,
    size_of,
)
from workbench.playbook.techniques.table import TECHNIQUES

TORCH: dict[str, torch.dtype] = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "bool": torch.bool, "u8": torch.uint8,
}  # fmt: skip
FLOATS = ("f32", "f32", "f32", "f16", "bf16")
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 33)
LONG = (64, 100, 129, 257, 512, 1000)
MOST_ELEMENTS = 6000
LONGEST_ROW = 9000
"""Of the few graphs with long rows, which several blocks may share."""
WINDOWS_FROM = 10**9
"""Seeds from here on begin with windows over planes, and are mostly written as walks down them. Among all
graphs one in some hundred is."""
LAST_FROM = 2 * 10**9
"""The images of seeds from here on lie channels last, those that come in and those that are returned."""
COLUMNS_FROM = 3 * 10**9
"""Seeds from here on begin with statistics of columns, over the first or a middle axis with so many rows that
several blocks share them, and are mostly written as bundles of columns in pieces."""
TALL = (65, 129, 192, 257, 400, 513, 700)
MOST_TALL = 16000
"""Rows of such columns, and elements."""
WINDOWS = ((2, 2, 0), (3, 1, 1), (3, 2, 1), (3, 2, 0), (2, 1, 0))
"""Extent, step and padding."""
OVERLAPPING = ((2, 1, 0), (3, 1, 1), (3, 2, 1), (4, 1, 1), (5, 1, 0), (5, 1, 2), (5, 2, 2), (7, 1, 3))


@dataclass(frozen=True)
class Sample:
    """One graph, its inputs and the technique vector to write it with."""

    seed: int
    problem: Problem
    tensors: dict[str, Tensor]
    vector: Vector
    kinds: tuple[str, ...]
    """Families of operations, in order."""


@dataclass(frozen=True)
class Made:
    """A tensor of the graph being drawn."""

    ref: Ref
    dtype: DType
    dims: tuple[Dim, ...]


def sample(seed: int) -> Sample:
    """The sample of a seed."""
    return _Maker(seed).sample()


def _times(*dims: Dim) -> Dim:
    whole = 1
    texts = []
    for dim in dims:
        if isinstance(dim, int):
            whole *= dim
        else:
            texts.append(dim if dim.isidentifier() else f"({dim})")
    if whole != 1 or not texts:
        texts.insert(0, str(whole))
    return int(texts[0]) if texts[0].isdigit() and len(texts) == 1 else "*".join(texts)


def _plus(dim: Dim, more: int) -> Dim:
    return dim + more if isinstance(dim, int) else f"{dim} + {more}" if more >= 0 else f"{dim} - {-more}"


def _arg(dim: Dim) -> Arg:
    return dim if isinstance(dim, int) else Sym(sym=dim)


@dataclass
class _Maker:
    seed: int
    dice: random.Random = field(init=False)
    nodes: list[OpNode] = field(default_factory=list)
    specs: list[TensorSpec] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    down: tuple[int, ...] | None = None
    """Axes of the statistics that are being drawn."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.laid = random.Random(self.seed + 1)
        self.random = torch.Generator().manual_seed(self.seed)

    # -------------------------------------------------------------------------------- the whole

    def sample(self) -> Sample:
        dice = self.dice
        varying = dice.random() < 0.6
        if self.tall:
            kept = [self.input(self._tall_shape(varying), dice.choice(FLOATS))]
            kept += self._statistics(self._unlike(kept[0]))
        elif self.windowed:
            kept = [self.input(self._planes(varying), dice.choice(FLOATS))]
            kept += [self._unary(self.real(kept[0]))] if dice.random() < 0.3 else []
            kept.append(self._first_windows(self.real(kept[-1])))
        else:
            dims = tuple(self._axis(size, varying) for size in self._shape())
            kept = [self.input(dims, dice.choice(FLOATS))]
        for _ in range(dice.choice((0, 0, 1, 2)) if self.tall else dice.randint(*self.steps)):
            kept.append(self.step(dice.choice(kept[-2:])))
        outputs = list(dict.fromkeys([kept[-1].ref, *(dice.choice(kept[1:]).ref for _ in range(2))]))
        outputs = [self._computed(ref, kept) for ref in outputs[: dice.choice((1, 1, 2, 3))]]
        by_ref = {made.ref: made for made in kept}
        problem = Problem(
            name="op",
            source="",
            entry="op",
            kind="function",
            tensors=tuple(self.specs),
            symbols=tuple(self.sizes),
            outputs=tuple(self._returned(by_ref[ref]) for ref in outputs),
            returns_tuple=len(outputs) > 1,
            cases=(Case(label="drawn", sizes=tuple(self.sizes.items())),),
            graph=Graph(nodes=tuple(self.nodes), outputs=tuple(outputs)),
        )
        return Sample(self.seed, problem, self.tensors, self._vector(), tuple(self.kinds))

    def _returned(self, made: Made) -> OutputSpec:
        """An output, at times with its axes in another order in memory."""
        order = list(range(len(made.dims)))
        self.laid.shuffle(order)
        other = order != sorted(order) and self.laid.random() < 0.4
        if self.last and len(order) == 4:
            order, other = [0, 2, 3, 1], True
        return OutputSpec(dtype=made.dtype, dims=made.dims, order=tuple(order) if other else None)

    @property
    def steps(self) -> tuple[int, int]:
        """Operations that follow the first, at least and at most."""
        return (0, 2) if self.windowed else (1, 7)

    @property
    def windowed(self) -> bool:
        """True for the seeds that begin with windows."""
        return WINDOWS_FROM <= self.seed < COLUMNS_FROM

    @property
    def last(self) -> bool:
        """True for the seeds whose images lie channels last."""
        return LAST_FROM <= self.seed < COLUMNS_FROM

    @property
    def tall(self) -> bool:
        """True for the seeds that begin with statistics of columns."""
        return self.seed >= COLUMNS_FROM

    def _tall_shape(self, varying: bool) -> tuple[Dim, ...]:
        dice = self.dice
        before = (dice.randint(2, 3),) if dice.random() < 0.35 else ()
        rows = dice.choice(TALL)
        room = MOST_TALL // (rows * before[0] if before else rows)
        columns = dice.choice([n for n in (1, 3, 4, 7, 8, 12, 16, 20, 32, 33, 64, 72, 128) if n <= room])
        return tuple(self._axis(size, varying) for size in (*before, rows, columns))

    def _unlike(self, x: Made) -> Made:
        """Columns with means of their own: no other column's will do."""
        shift = self.input(x.dims[-1:], "f32")
        return self.one("add.Tensor", self.wide(x), shift.ref)

    def _statistics(self, x: Made) -> list[Made]:
        """Of columns: moments, or another family along the axis before the last."""
        last = len(x.dims) - 2
        self.down = tuple(range(last + 1)) if self.dice.random() < 0.25 else (last,)
        names = {"softmax": self._softmax, "norm": self._norm, "logsumexp": self._logsumexp}
        name = self.dice.choice(("moments", "moments", "moments", *names))
        if name == "softmax" or name == "logsumexp":
            self.down = (last,)
        self.kinds.append(name)
        found = self._moments(x, self.down) if name == "moments" else [names[name](x)]
        self.down = None
        return [made for made in found if made is not None]

    def _moments(self, x: Made, axes: tuple[int, ...]) -> list[Made]:
        """Mean, variance or its root, and the distances from the mean, as decompositions have them."""
        count = _times(*(x.dims[axis] for axis in axes))
        mean = self.mean(x, axes)
        less = self.one("sub.Tensor", x, mean.ref)
        squares = self.total(self.one("mul.Tensor", less, less.ref), axes)
        spread = self.one(
            "div.Tensor", squares, _arg(_plus(count, -1) if self.dice.random() < 0.5 else count)
        )
        if self.dice.random() < 0.4:
            spread = self.one("sqrt.default", spread)
        if self.dice.random() < 0.6:
            return self.dice.sample([mean, spread], self.dice.randint(1, 2))
        scale = self.one("rsqrt.default", self.one("add.Scalar", spread, 0.01))
        return [mean, spread, self.one("mul.Tensor", less, scale.ref)]

    def _planes(self, varying: bool) -> tuple[Dim, ...]:
        dice = self.dice
        height, width = dice.randint(3, 24), dice.choice((3, 4, 7, 8, 13, 16, 30, 33, 40))
        batch, channels = self._axis(dice.randint(1, 3), varying), dice.randint(1, 4)
        return (batch, dice.choice((2, 4, 6, 8)) if self.last else channels, height, width)

    def _first_windows(self, x: Made) -> Made:
        while (found := self._pool(x)) is None or min(self.at(dim) for dim in found.dims) < 1:
            continue
        self.kinds.append("pool")
        return found

    def _computed(self, ref: Ref, kept: list[Made]) -> Ref:
        return ref if ref != kept[0].ref else kept[-1].ref

    def _vector(self) -> Vector:
        if self.dice.random() < 0.15:
            return ()
        drawn = {name: self.dice.choice(known.values) for name, known in TECHNIQUES.items()}
        if self.windowed and self.dice.random() < 0.8:
            walks = self.dice.random() < 0.7
            drawn |= {"fusion": "all", "depthwise": "on", "walk_down": "off"}
            drawn |= {"strip": "off", "walk_down": self.dice.choice("1248")} if walks else {}
        if self.tall and self.dice.random() < 0.8:
            team = self.dice.choice(("bundle", "bundle", "thread"))
            drawn |= {"fusion": "all", "threads_per_row": team, "grid_split": "on", "columns_by": "bundle"}
            drawn |= {"block_size": self.dice.choice(("128", "256", "512")), "cluster": "1"}
            drawn |= {"vector_width": self.dice.choice("124"), "by_shape": "one"}
            drawn |= {"single_pass": self.dice.choice(("on", "on", "off"))}
        return tuple(sorted(drawn.items()))

    def _shape(self) -> tuple[int, ...]:
        dice = self.dice
        if dice.random() < 0.06:
            return (dice.randint(1, 3), dice.randint(2000, LONGEST_ROW))
        shape: list[int] = []
        for _ in range(dice.choice((1, 2, 2, 3, 3, 4))):
            room = MOST_ELEMENTS
            for size in shape:
                room //= size
            pool = SIZES + LONG if not shape or dice.random() < 0.3 else SIZES
            shape.append(dice.choice([size for size in pool if size <= max(room, 1)]))
        dice.shuffle(shape)
        return tuple(shape)

    def _axis(self, size: int, varying: bool) -> Dim:
        if not varying or size == 1 or self.dice.random() < 0.3:
            return size
        name = f"s{len(self.sizes)}"
        self.sizes[name] = size
        return name

    def at(self, dim: Dim) -> int:
        """A size as a number."""
        return size_of(dim, self.sizes)

    def count(self, dims: tuple[Dim, ...]) -> int:
        """Elements."""
        total = 1
        for dim in dims:
            total *= self.at(dim)
        return total

    # -------------------------------------------------------------------------------- inputs

    def input(self, dims: tuple[Dim, ...], dtype: DType, high: int = 0) -> Made:
        """A new argument; integers below ``high``. One in three is not contiguous."""
        name = "xyzuvwabcdefgh"[len(self.specs)] if len(self.specs) < 14 else f"t{len(self.specs)}"
        strides = self._strides(dims) if self.dice.random() < 0.33 else None
        if self.last and len(dims) == 4:
            strides = (_times(*dims[1:]), 1, _times(dims[3], dims[1]), dims[1])
        shape = tuple(self.at(dim) for dim in dims)
        if high:
            values = torch.randint(0, high, shape, generator=self.random)
        elif dtype == "bool":
            values = torch.rand(shape, generator=self.random) > 0.5
        else:
            values = torch.randn(shape, generator=self.random)
        values = values.to(TORCH[dtype])
        if strides is not None:
            laid = torch.empty_strided(shape, tuple(self.at(dim) for dim in strides), dtype=TORCH[dtype])
            values = laid.copy_(values)
        self.tensors[name] = values
        self.specs.append(
            TensorSpec(
                name=name, role="input", dtype=dtype, dims=dims, strides=strides,
                sampler=Sampler(kind="normal"),
            )
        )  # fmt: skip
        return Made(Ref(ref=name), dtype, dims)

    def _strides(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """Axes in another order in memory, or with room between them."""
        order = list(range(len(dims)))
        self.dice.shuffle(order)
        step: Dim = self.dice.choice((1, 1, 2))
        strides: list[Dim] = [1] * len(dims)
        for axis in reversed(order):
            strides[axis] = step
            step = _times(step, dims[axis])
        plain: Dim = 1
        contiguous: list[Dim] = []
        for dim in reversed(dims):
            contiguous.insert(0, plain)
            plain = _times(plain, dim)
        same = [self.at(a) for a in strides] == [self.at(a) for a in contiguous]
        return None if same else tuple(strides)

    # -------------------------------------------------------------------------------- nodes

    def node(
        self, op: str, args: tuple[Arg, ...], *outs: tuple[DType, tuple[Dim, ...]], **kwargs: Arg
    ) -> tuple[Made, ...]:
        """Append a node; its results."""
        name = f"{op.split('.')[1]}_{len(self.nodes)}"
        specs = tuple(OutputSpec(dtype=dtype, dims=dims) for dtype, dims in outs)
        self.nodes.append(OpNode(name=name, op=op, args=args, kwargs=tuple(kwargs.items()), outs=specs))
        refs = [Ref(ref=name)] if len(outs) == 1 else [Ref(ref=name, item=i) for i in range(len(outs))]
        return tuple(Made(ref, dtype, dims) for ref, (dtype, dims) in zip(refs, outs, strict=True))

    def one(self, op: str, value: Made, *args: Arg, dims: tuple[Dim, ...] | None = None) -> Made:
        """A node of the value's type, and of its shape unless told otherwise."""
        out = value.dims if dims is None else dims
        return self.node(f"aten.{op}", (value.ref, *args), (value.dtype, out))[0]

    def real(self, value: Made) -> Made:
        """The value as a float."""
        if value.dtype in ("f64", "f32", "f16", "bf16"):
            return value
        dtype: DType = "f32"
        return self.node("prims.convert_element_type.default", (value.ref, dtype), (dtype, value.dims))[0]

    def wide(self, value: Made) -> Made:
        """The value in float32, as decompositions make it before they reduce."""
        if value.dtype == "f32":
            return value
        return self.node("prims.convert_element_type.default", (value.ref, "f32"), ("f32", value.dims))[0]

    def back(self, value: Made, like: Made) -> Made:
        """The value in another one's type."""
        if value.dtype == like.dtype:
            return value
        cast = self.node(
            "prims.convert_element_type.default", (value.ref, like.dtype), (like.dtype, value.dims)
        )
        return cast[0]

    def step(self, value: Made) -> Made:
        """One more operation."""
        families: dict[str, tuple[int, Callable[[Made], Made | None]]] = {
            "unary": (5, self._unary), "binary": (5, self._binary), "compare": (1, self._compare),
            "softmax": (2, self._softmax), "norm": (3, self._norm), "reduce": (3, self._reduce),
            "arg": (1, self._arg_reduce), "centre": (2, self._centre), "logsumexp": (1, self._logsumexp),
            "permute": (2, self._permute), "reshape": (2, self._reshape), "slice": (2, self._slice),
            "flip": (1, self._flip), "select": (1, self._select), "pad": (1, self._pad),
            "cat": (1, self._cat), "repeat": (1, self._repeat), "split": (1, self._split),
            "gather": (1, self._gather), "take": (1, self._take), "scan": (3, self._scan),
            "pool": (1, self._pool), "matmul": (1, self._matmul), "loss": (1, self._loss),
            "mask": (1, self._mask),
        }  # fmt: skip
        names, weights = list(families), [weight for weight, _ in families.values()]
        while True:
            name = self.dice.choices(names, weights)[0]
            found = families[name][1](self.real(value))
            if found is not None and self.count(found.dims) <= 4 * MOST_ELEMENTS:
                self.kinds.append(name)
                return found

    # -------------------------------------------------------------------------------- pointwise

    def _unary(self, x: Made) -> Made:
        name = self.dice.choice(
            ["abs", "neg", "tanh", "sigmoid", "sin", "cos", "erf", "relu", "floor", "sign", "atan", "exp",
             "log1p", "sqrt", "rsqrt", "reciprocal", "square", "clamp", "pow", "expm1", "round", "trunc",
             "scale", "clamp_min", "asinh"]
        )  # fmt: skip
        if name in ("exp", "expm1"):
            return self.one(f"{name}.default", self.one("neg.default", self.one("abs.default", x)))
        if name in ("log1p", "sqrt"):
            return self.one(f"{name}.default", self.one("abs.default", x))
        if name in ("rsqrt", "reciprocal"):
            return self.one(f"{name}.default", self.one("add.Scalar", self.one("abs.default", x), 0.5))
        if name == "square":
            return self.one("square.default", self.one("tanh.default", x))
        if name == "pow":
            return self.one("pow.Tensor_Scalar", self.one("tanh.default", x), self.dice.choice((2, 3, 1)))
        if name == "clamp":
            return self.one("clamp.default", x, -0.75, 1.5)
        if name == "clamp_min":
            return self.one("clamp_min.default", x, 0.1)
        if name == "scale":
            return self.one("sub.Scalar", self.one("mul.Scalar", x, 1.5), 0.25)
        return self.one(f"{name}.default", x)

    def _partner(self, x: Made) -> Made:
        """The value itself, or a new input that is broadcast to its shape."""
        if self.dice.random() < 0.3 or len(self.specs) > 8:
            return x
        first = self.dice.choice((0, 0, len(x.dims) // 2))
        dims = tuple(1 if self.dice.random() < 0.35 else dim for dim in x.dims[first:])
        return self.input(dims, self.dice.choice((x.dtype, x.dtype, "f32", "f16")))

    def _result(self, x: Made, y: Made) -> DType:
        """Promotion of two floats; a tensor without axes does not count beside one with."""
        if x.dims and not y.dims:
            return x.dtype
        if y.dims and not x.dims:
            return y.dtype
        return x.dtype if x.dtype == y.dtype else "f32"

    def _binary(self, x: Made) -> Made:
        y = self._partner(x)
        dtype = self._result(x, y)
        name = self.dice.choice(["add", "sub", "mul", "div", "maximum", "minimum", "atan2"])
        if name == "mul":
            y = self.one("tanh.default", y)
        if name == "div":
            y = self.one("add.Scalar", self.one("abs.default", y), 0.5)
        kwargs: dict[str, Arg] = {"alpha": 2} if name in ("add", "sub") and self.dice.random() < 0.2 else {}
        op = f"aten.{name}.{'Tensor' if name in ('add', 'sub', 'mul', 'div') else 'default'}"
        return self.node(op, (x.ref, y.ref), (dtype, x.dims), **kwargs)[0]

    def _compare(self, x: Made) -> Made:
        name = self.dice.choice(["gt", "le", "ge", "lt"])
        mask = self.node(f"aten.{name}.Scalar", (x.ref, 0.25), ("bool", x.dims))[0]
        return self.node("aten.where.self", (mask.ref, x.ref, self._zero(x).ref), (x.dtype, x.dims))[0]

    def _zero(self, x: Made) -> Made:
        return self.node(
            "aten.scalar_tensor.default", (self.dice.choice((0, 0, 1.5)),), (x.dtype, ()), dtype=x.dtype
        )[0]

    def _mask(self, x: Made) -> Made:
        mask = self.input(tuple(1 if self.dice.random() < 0.2 else dim for dim in x.dims), "bool")
        return self.node("aten.where.self", (mask.ref, x.ref, self._zero(x).ref), (x.dtype, x.dims))[0]

    # -------------------------------------------------------------------------------- along axes

    def axes(self, x: Made, most: int = 4) -> tuple[int, ...]:
        """Some axes, in order; all those that are asked for where some are."""
        if self.down is not None:
            return self.down
        count = min(most, self.dice.choice((1, 1, 1, 2, 3)), len(x.dims))
        return tuple(sorted(self.dice.sample(range(len(x.dims)), count)))

    def kept(self, x: Made, axes: tuple[int, ...]) -> tuple[Dim, ...]:
        """The shape with the axes of size one."""
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(x.dims))

    def total(self, x: Made, axes: tuple[int, ...]) -> Made:
        """Sum with the axes kept."""
        return self.one("sum.dim_IntList", x, axes, True, dims=self.kept(x, axes))

    def mean(self, x: Made, axes: tuple[int, ...]) -> Made:
        """Mean with the axes kept."""
        count = _times(*(x.dims[axis] for axis in axes))
        return self.one("div.Tensor", self.total(x, axes), _arg(count))

    def _softmax(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axes = self.axes(x, 1)
        wide = self.wide(x)
        top = self.one("amax.default", wide, axes, True, dims=self.kept(x, axes))
        less = self.one("sub.Tensor", wide, top.ref)
        powers = self.one("exp.default", less)
        total = self.total(powers, axes)
        if self.dice.random() < 0.4:
            return self.back(self.one("sub.Tensor", less, self.one("log.default", total).ref), x)
        return self.back(self.one("div.Tensor", powers, total.ref), x)

    def _logsumexp(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axes = self.axes(x, 1)
        wide = self.wide(x)
        top = self.one("amax.default", wide, axes, True, dims=self.kept(x, axes))
        total = self.total(self.one("exp.default", self.one("sub.Tensor", wide, top.ref)), axes)
        return self.back(self.one("add.Tensor", self.one("log.default", total), top.ref), x)

    def _centre(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        wide = self.wide(x)
        return self.back(self.one("sub.Tensor", wide, self.mean(wide, self.axes(x)).ref), x)

    def _norm(self, x: Made) -> Made | None:
        """Layer, batch or instance norm by its axes; without centring a root-mean-square norm."""
        if not x.dims:
            return None
        axes = self.axes(x)
        wide = self.wide(x)
        if self.dice.random() < 0.6:
            wide = self.one("sub.Tensor", wide, self.mean(wide, axes).ref)
        squares = self.mean(self.one("mul.Tensor", wide, wide.ref), axes)
        scale = self.one("rsqrt.default", self.one("add.Scalar", squares, 0.01))
        found = self.one("mul.Tensor", wide, scale.ref)
        if self.dice.random() < 0.5 and len(self.specs) < 8:
            weight = self.input(tuple(dim if axis in axes else 1 for axis, dim in enumerate(x.dims)), x.dtype)
            found = self.one("mul.Tensor", found, self.wide(weight).ref)
        return self.back(found, x)

    def _reduce(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axes = self.axes(x)
        name = self.dice.choice(["sum", "mean", "amax", "amin", "prod", "any", "count"])
        keep = self.dice.random() < 0.5
        dims = self.kept(x, axes) if keep else tuple(d for a, d in enumerate(x.dims) if a not in axes)
        wide = self.wide(x)
        if name in ("sum", "mean"):
            total = self.one("sum.dim_IntList", wide, axes, keep, dims=dims)
            count = _times(*(x.dims[axis] for axis in axes)) if name == "mean" else 8
            return self.back(self.one("div.Tensor", total, _arg(count)), x)
        if name == "prod":
            near = self.one("add.Scalar", self.one("mul.Scalar", self.one("tanh.default", wide), 0.002), 1)
            cut = tuple(d for a, d in enumerate(x.dims) if a != axes[0])
            return self.one("prod.dim_int", near, axes[0], dims=cut)
        if name in ("any", "count"):
            mask = self.node("aten.gt.Scalar", (x.ref, 1.0), ("bool", x.dims))[0]
            if name == "any":
                found = self.node("aten.any.dims", (mask.ref, axes, keep), ("bool", dims))[0]
            else:
                found = self.node("aten.sum.dim_IntList", (mask.ref, axes, keep), ("i64", dims))[0]
            return self.real(found)
        return self.one(f"{name}.default", x, axes, keep, dims=dims)

    def _arg_reduce(self, x: Made) -> Made | None:
        """Values and places of an extreme of an input: of a computed value rounding may choose another."""
        if not x.dims or self.count(x.dims) > 4000:
            return None
        x = self.input(x.dims, self.dice.choice((x.dtype, "f32")))
        axis = self.dice.randrange(len(x.dims))
        keep = self.dice.random() < 0.5
        dims = self.kept(x, (axis,)) if keep else tuple(d for a, d in enumerate(x.dims) if a != axis)
        if self.dice.random() < 0.5:
            name = self.dice.choice(["argmax", "argmin"])
            return self.node(f"aten.{name}.default", (x.ref, axis, keep), ("i64", dims))[0]
        name = self.dice.choice(["max", "min"])
        both = self.node(f"aten.{name}.dim", (x.ref, axis, keep), (x.dtype, dims), ("i64", dims))
        return self.dice.choice(both)

    def _loss(self, x: Made) -> Made | None:
        """A mean over everything of a distance to a target."""
        target = self.input(x.dims, x.dtype)
        less = self.wide(self.one("sub.Tensor", x, target.ref))
        name = self.dice.choice(["square.default", "abs.default"])
        axes = tuple(range(len(x.dims)))
        if not axes:
            return None
        total = self.one("sum.dim_IntList", self.one(name, less), axes, dims=())
        return self.one("div.Tensor", total, _arg(_times(*x.dims)))

    # -------------------------------------------------------------------------------- moving

    def _permute(self, x: Made) -> Made | None:
        if len(x.dims) < 2:
            return None
        order = list(range(len(x.dims)))
        self.dice.shuffle(order)
        return self.one("permute.default", x, tuple(order), dims=tuple(x.dims[axis] for axis in order))

    def _reshape(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        dims = list(x.dims)
        axis = self.dice.randrange(len(dims))
        size = self.at(dims[axis])
        if len(dims) > 1 and self.dice.random() < 0.5:
            axis = min(axis, len(dims) - 2)
            dims[axis : axis + 2] = [_times(dims[axis], dims[axis + 1])]
        elif isinstance(dims[axis], int) and size > 1:
            part = self.dice.choice([n for n in range(1, size + 1) if size % n == 0])
            dims[axis : axis + 1] = [part, size // part]
        else:
            dims.insert(axis, 1)
        if len(dims) > 5:
            return None
        return self.one("view.default", x, tuple(_arg(dim) for dim in dims), dims=tuple(dims))

    def _slice(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axis = self.dice.randrange(len(x.dims))
        size, dim = self.at(x.dims[axis]), x.dims[axis]
        start, step = self.dice.randint(0, 2), self.dice.choice((1, 1, 2, 3))
        if size < start + step + 1:
            return None
        new: Dim = (
            -(-(size - start) // step) if isinstance(dim, int) else f"({dim} + {step - 1 - start})//{step}"
        )
        if step == 1 and not isinstance(dim, int):
            new = _plus(dim, -start) if start else dim
        dims = (*x.dims[:axis], new, *x.dims[axis + 1 :])
        return self.one("slice.Tensor", x, axis, start, 2**63 - 1, step, dims=dims)

    def _flip(self, x: Made) -> Made | None:
        return self.one("flip.default", x, self.axes(x)) if x.dims else None

    def _select(self, x: Made) -> Made | None:
        if len(x.dims) < 2:
            return None
        axis = self.dice.randrange(len(x.dims))
        at = self.dice.choice((0, -1, self.at(x.dims[axis]) // 2))
        if at == 0 or isinstance(x.dims[axis], int) or at == -1:
            return self.one("select.int", x, axis, at, dims=(*x.dims[:axis], *x.dims[axis + 1 :]))
        return None

    def _pad(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        sides = [self.dice.randint(0, 2) for _ in range(2 * min(len(x.dims), self.dice.randint(1, 2)))]
        if not any(sides):
            return None
        dims = list(x.dims)
        for number in range(len(sides) // 2):
            dims[-1 - number] = _plus(dims[-1 - number], sides[2 * number] + sides[2 * number + 1])
        fill = self.dice.choice((0.0, 1.5))
        return self.one("constant_pad_nd.default", x, tuple(sides), fill, dims=tuple(dims))

    def _cat(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axis = self.dice.randrange(len(x.dims))
        parts = [x, self.one("neg.default", x), self.input(x.dims, x.dtype)][: self.dice.randint(2, 3)]
        drawn = self.dice.random()
        if drawn < 0.2:
            parts *= 2
        elif drawn < 0.5 and len(parts) == 2:  # one and the same, over and over
            parts = [parts[1]] * (2 if drawn < 0.4 else 3)
        size = _times(len(parts), x.dims[axis])
        dims = (*x.dims[:axis], size, *x.dims[axis + 1 :])
        refs = tuple(part.ref for part in parts)
        return self.node("aten.cat.default", (refs, axis), (x.dtype, dims))[0]

    def _repeat(self, x: Made) -> Made | None:
        if not x.dims or self.count(x.dims) > MOST_ELEMENTS // 4:
            return None
        if 1 in x.dims and self.dice.random() < 0.5:
            dims = tuple(3 if dim == 1 else dim for dim in x.dims)
            return self.one("expand.default", x, tuple(_arg(dim) for dim in dims), dims=dims)
        times = tuple(self.dice.choice((1, 1, 2)) for _ in x.dims)
        dims = tuple(_times(n, dim) for n, dim in zip(times, x.dims, strict=True))
        return self.one("repeat.default", x, times, dims=dims)

    def _split(self, x: Made) -> Made | None:
        whole = [axis for axis, dim in enumerate(x.dims) if isinstance(dim, int) and dim > 1]
        if not whole:
            return None
        axis = self.dice.choice(whole)
        size = self.at(x.dims[axis])
        first = self.dice.randint(1, size - 1)
        shapes = [(*x.dims[:axis], n, *x.dims[axis + 1 :]) for n in (first, size - first)]
        outs = tuple((x.dtype, dims) for dims in shapes)
        parts = self.node("aten.split_with_sizes.default", (x.ref, (first, size - first), axis), *outs)
        if first * 2 == size and self.dice.random() < 0.7:
            gate = self.one("sigmoid.default", parts[1])
            return self.one("mul.Tensor", parts[0], gate.ref)
        return self.dice.choice(parts)

    # -------------------------------------------------------------------------------- lookups

    def _gather(self, x: Made) -> Made | None:
        if not x.dims or self.count(x.dims) == 0:
            return None
        axis = self.dice.randrange(len(x.dims))
        dims = (*x.dims[:axis], self.dice.randint(1, 6), *x.dims[axis + 1 :])
        index = self.input(dims, "i64", self.at(x.dims[axis]))
        return self.one("gather.default", x, axis, index.ref, dims=dims)

    def _take(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axis = self.dice.randrange(len(x.dims))
        shape = tuple(self.dice.randint(1, 5) for _ in range(self.dice.randint(1, 2)))
        index = self.input(shape, "i64", self.at(x.dims[axis]))
        if len(shape) == 1 and self.dice.random() < 0.5:
            dims = (*x.dims[:axis], *shape, *x.dims[axis + 1 :])
            return self.one("index_select.default", x, axis, index.ref, dims=dims)
        if len(x.dims) == 2 and self.dice.random() < 0.5:
            index = self.input(shape, "i64", self.at(x.dims[0]))
            found = self.node("aten.embedding.default", (x.ref, index.ref), (x.dtype, (*shape, x.dims[1])))
            return found[0]
        dims = (*x.dims[:axis], *shape, *x.dims[axis + 1 :])
        if len(dims) > 5:
            return None
        given = (*([None] * axis), index.ref)
        return self.one("index.Tensor", x, given, dims=dims)

    # -------------------------------------------------------------------------------- scans, windows

    def _scan(self, x: Made) -> Made | None:
        if not x.dims:
            return None
        axis = self.dice.randrange(len(x.dims))
        size = self.at(x.dims[axis])
        name = self.dice.choice(["cumsum", "cumsum", "cumsum", "cumprod", "reverse", "logcumsumexp", "best"])
        wide = self.wide(x)
        if name == "cumprod":
            near = self.one("mul.Scalar", self.one("tanh.default", wide), 0.2 / size)
            return self.one("cumprod.default", self.one("add.Scalar", near, 1), axis)
        if name == "reverse":
            turned = self.one("flip.default", wide, (axis,))
            return self._small(
                self.one("flip.default", self.one("cumsum.default", turned, axis), (axis,)), size
            )
        if name == "logcumsumexp":
            return self.one("logcumsumexp.default", wide, axis)
        if name == "best":
            source = self.input(x.dims, x.dtype)
            op = self.dice.choice(["aten.cummax.default", "aten.cummin.default"])
            both = self.node(op, (source.ref, axis), (x.dtype, x.dims), ("i64", x.dims))
            return self.dice.choice(both)
        total = self.one("cumsum.default", wide, axis)
        if self.dice.random() < 0.3:
            total = self.one("sub.Tensor", total, wide.ref)
        return self._small(total, size)

    def _small(self, x: Made, size: int) -> Made:
        return self.one("mul.Scalar", x, 1.0 / size)

    def _pool(self, x: Made) -> Made | None:
        if len(x.dims) < 3 or len(x.dims) > 4 or min(self.at(dim) for dim in x.dims[-2:]) < 3:
            return None
        if any(not isinstance(dim, int) for dim in x.dims[-2:]):
            return None
        kernel, step, pad = self.dice.choice(OVERLAPPING if self.windowed else WINDOWS)
        sizes, kernels = tuple(self.at(dim) for dim in x.dims[-2:]), (kernel, kernel)
        if min(sizes) + 2 * pad < kernel:
            return None
        if self.dice.random() < (0.05 if self.windowed else 0.3):
            return self._adaptive(x, tuple(self.dice.choice(range(1, size + 2)) for size in sizes))
        if sizes[0] * sizes[1] > 64 and self.dice.random() < (0.1 if self.windowed else 0.7):
            high = min(sizes[0], 9)
            kernels, step, pad = (high, min(sizes[1], 64 // high + 1)), self.dice.choice((1, 2, 3)), 1
        outs = tuple((size + 2 * pad - k) // step + 1 for size, k in zip(sizes, kernels, strict=True))
        dims = (*x.dims[:-2], *outs)
        args: tuple[Arg, ...] = (kernels, (step, step), (pad, pad))
        if len(x.dims) == 4 and kernels == (kernel, kernel) and self.dice.random() < 0.4:
            return self._depthwise(x, kernel, args[1:], dims)
        if self.dice.random() < 0.5:
            return self.one("avg_pool2d.default", x, *args, dims=dims)
        both = self.node(
            "aten.max_pool2d_with_indices.default", (x.ref, *args), (x.dtype, dims), ("i64", dims)
        )
        return both[0]

    def _adaptive(self, x: Made, outs: tuple[int, ...]) -> Made:
        """As many windows as asked for, of unequal sizes where they do not divide the plane."""
        dims = (*x.dims[:-2], *outs)
        if self.dice.random() < 0.5:
            return self.one("_adaptive_avg_pool2d.default", x, outs, dims=dims)
        both = self.node("aten.adaptive_max_pool2d.default", (x.ref, outs), (x.dtype, dims), ("i64", dims))
        return both[0]

    def _depthwise(self, x: Made, kernel: int, moves: tuple[Arg, ...], dims: tuple[Dim, ...]) -> Made:
        """A convolution that mixes no channels; ``moves`` are its stride and padding."""
        channels = x.dims[1]
        weight = self.input((channels, 1, kernel, kernel), x.dtype)
        bias = self.input((channels,), x.dtype).ref if self.dice.random() < 0.5 else None
        groups = channels if isinstance(channels, int) else Sym(sym=channels)
        rest: tuple[Arg, ...] = (*moves, (1, 1), False, (0, 0), groups)
        return self.one("convolution.default", x, weight.ref, bias, *rest, dims=dims)

    def _matmul(self, x: Made) -> Made | None:
        """A product for the library, scaled back to the size of its operands."""
        if len(x.dims) not in (2, 3) or self.count(x.dims) > 3000 or x.dtype != "f32":
            return None
        inner = self.dice.choice((3, 8, 16))
        weights = self.input((*x.dims[:-2], x.dims[-1], inner), "f32")
        op = "mm.default" if len(x.dims) == 2 else "bmm.default"
        found = self.one(op, x, weights.ref, dims=(*x.dims[:-1], inner))
        return self.one("mul.Scalar", found, 1.0 / self.at(x.dims[-1]))
