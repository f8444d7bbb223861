"""An exported program in the workbench's own words: ``model.Graph`` with size expressions.

Owns the translation, the merging of equal operations and the removal of those that do nothing.
Never exports anything itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from workbench.errors import ProblemError
from workbench.model import Arg, Dim, Graph, OpNode, OutputSpec, Ref, Sym, base_name
from workbench.problem.layout import Order
from workbench.problem.lines import line_of_stack
from workbench.problem.recurrent import NAMES
from workbench.problem.sizes import NotASize, in_words, size_text
from workbench.problem.spectra import SPECTRA
from workbench.problem.spelling import CASTS, canonical, without_vectors
from workbench.problem.traced_values import as_it_lies, hint, order_of, parted_by_others, sizes_said

DTYPES: Mapping[torch.dtype, str] = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip

_NO_OPS = frozenset(
    [
        "aten.detach.default",
        "aten.alias.default",
        "aten.clone.default",
        "aten.lift_fresh_copy.default",
        "prims.copy_strided.default",
    ]
)
_VIEWS = frozenset(
    [
        "aten.view.default",
        "aten._unsafe_view.default",
        "aten.reshape.default",
        "aten.expand.default",
        "aten.squeeze.dims",
    ]
)
_ERASED_KWARGS = frozenset(["device", "layout", "pin_memory", "memory_format", "non_blocking", "implicit"])
_STAND_INS = {**NAMES, **SPECTRA}
_SKIPPED = ("sym_size", "_assert", "_guards", "sym_constrain")
_IN_ORDER = "with_effects"
"""What an export makes of an operation that must not change places with others, with tokens for order."""
_NAMESPACES = ("aten", "prims")
_MOST_CONSTANT_ELEMENTS = 256
"""Of a table made inside the reference: a kernel has a line for each, and a byte has as many values."""
_FEW_CHANNELS, _FEW_PRODUCTS = 4, 64
"""Of a convolution that a kernel may write out: playbook/depthwise.py does."""
_SIDES, _MOST_TAPS = (1, 2, 3), 125
"""Of a convolution whose sums a kernel may make: playbook/analysis/convolutions.py does."""
_SYMBOL = re.compile(r"s\d+")
_AS_STRIDED = "aten.as_strided.default"
_ARITHMETIC = frozenset(
    f"aten.{name}.{kind}" for name in ("add", "sub", "mul", "div") for kind in ("Tensor", "Scalar")
)
_OF_SIZES = {
    "Add": "aten.add.Tensor",
    "Mul": "aten.mul.Tensor",
    "FloatTrueDiv": "aten.div.Tensor",
    "IntTrueDiv": "aten.div.Tensor",
}
"""What a number that is computed from sizes is made with, by sympy's name."""


@dataclass
class NotSymbolic(Exception):
    """A size expression that plans cannot express; ``dims`` name the axes to fix, as (tensor, axis)."""

    why: str
    dims: tuple[tuple[str, int], ...] = ()


class Translation:
    """One exported program read into a graph; ``names`` are the tensors in the order they were given.

    ``orders`` says how the reference's own results lie in memory: decompositions may leave them otherwise.
    """

    def __init__(self, program: ExportedProgram, names: tuple[str, ...], orders: tuple[Order, ...]) -> None:
        self._program = program
        self._orders = orders
        self._line: int | None = None
        self._names = names
        self._symbols: dict[sympy.Symbol, str] = {}
        self._refs: dict[str, Ref] = {}
        self._metas: dict[Ref, tuple[str, tuple[Dim, ...]]] = {}
        self._nodes: dict[str, OpNode] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._said: dict[sympy.Expr, sympy.Integer] = {}
        self.dims: tuple[tuple[str, tuple[Dim, ...]], ...] = ()
        self.outputs: tuple[OutputSpec, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that vary."""
        return tuple(self._symbols.values())

    @property
    def returns_tuple(self) -> bool:
        """Whether the reference returns its results together, be it one."""
        returned = self._program.call_spec.out_spec
        return returned is not None and not returned.is_leaf()

    @property
    def ranges(self) -> tuple[tuple[str, int, int | None], ...]:
        """What the export vouches for, by symbol; a lower end of 2 means that 1 was left out, not refused."""
        found = []
        for symbol, name in self._symbols.items():
            bounds = self._program.range_constraints.get(symbol)
            low = int(bounds.lower) if bounds is not None else 0
            high = bounds.upper if bounds is not None else None
            finite = high is not None and isinstance(high, (int, sympy.Integer)) and int(high) < 2**31
            found.append((name, low, int(high) if finite else None))  # type: ignore[arg-type]
        return tuple(found)

    def sizes(self, tensors: Mapping[str, Tensor]) -> tuple[tuple[str, int], ...]:
        """Value of every symbol in the tensors that were traced."""
        hints: dict[str, int] = {}
        for name, dims in self.dims:
            for dim, size in zip(dims, tensors[name].shape, strict=True):
                if isinstance(dim, str) and dim in self.symbols:
                    hints[dim] = int(size)
        return tuple((name, hints[name]) for name in self.symbols if name in hints)

    def graph(self) -> Graph:
        """Translate. Raises ``NotSymbolic`` or ``ProblemError``."""
        self._inputs()
        calls = [node for node in self._program.graph.nodes if node.op == "call_function"]
        for node in calls:
            self._said |= sizes_said(node)
        for node in calls:
            self._call(node)
        outputs = self._outputs()
        nodes, outputs = without_vectors(_reachable(self._nodes, outputs), outputs)
        return Graph(nodes=nodes, outputs=outputs)

    # -------------------------------------------------------------------------------- inputs, outputs

    def _inputs(self) -> None:
        placeholders = [node for node in self._program.graph.nodes if node.op == "placeholder"]
        given = iter(self._names)
        dims = []
        for node, spec in zip(placeholders, self._program.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.TOKEN:
                continue
            if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument):
                name = next(given)
                self._bind_symbols(node.meta["val"])
                ref, meta = Ref(ref=name), self._meta(node.meta["val"])
                self._refs[node.name] = ref
                self._metas[ref] = meta
                dims.append((name, meta[1]))
            else:
                self._constant(node, self._program.constants.get(spec.target or ""))
        self.dims = tuple(dims)

    def _bind_symbols(self, value: Tensor) -> None:
        for size in value.shape:
            if isinstance(size, torch.SymInt):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    self._symbols.setdefault(symbol, f"s{len(self._symbols)}")

    def _constant(self, node: fx.Node, value: Any) -> None:
        if not isinstance(value, Tensor) or value.numel() > _MOST_CONSTANT_ELEMENTS or value.is_meta:
            raise ProblemError(
                "the reference uses a tensor that is neither an input nor a parameter "
                f"({_described(value)}); a kernel has up to {_MOST_CONSTANT_ELEMENTS} such numbers. "
                "Pass it as an input, or make it once, outside of the function or as a module's buffer."
            )
        dtype = DTYPES[value.dtype]
        flat = [self._scalar(item, dtype) for item in value.reshape(-1).tolist()]
        if value.ndim == 0:
            self._refs[node.name] = flat[0]
            return
        shape = tuple(int(size) for size in value.shape)
        ref = self._add("aten.stack.default", (tuple(flat),), (), ((dtype, (value.numel(),)),), None)
        if value.ndim > 1:
            ref = self._add("aten.view.default", (ref, shape), (), ((dtype, shape),), None)
        self._refs[node.name] = ref

    def _scalar(self, value: bool | int | float | Sym, dtype: str) -> Ref:
        return self._add("aten.full.default", ((), value), (("dtype", dtype),), ((dtype, ()),), None)

    def _outputs(self) -> tuple[Ref, ...]:
        refs = []
        for spec in self._program.graph_signature.output_specs:
            if spec.kind is OutputKind.TOKEN:
                continue
            if spec.kind is not OutputKind.USER_OUTPUT:
                raise ProblemError(
                    "the reference writes to one of its inputs or buffers. "
                    "Return a new tensor instead (in eval mode for batch norm)."
                )
            if isinstance(spec.arg, ConstantArgument) or spec.arg.name not in self._refs:
                raise ProblemError(
                    "the reference returns something that is not a tensor. Return tensors only."
                )
            refs.append(self._refs[spec.arg.name])
        metas = [self._metas[ref] for ref in refs]
        self.outputs = tuple(
            OutputSpec(dtype=dtype, dims=dims, order=order)  # type: ignore[arg-type]
            for (dtype, dims), order in zip(metas, self._orders, strict=True)
        )
        return tuple(refs)

    # -------------------------------------------------------------------------------- operations

    def _call(self, node: fx.Node) -> None:
        op = _STAND_INS.get(str(node.target), str(node.target))
        self._line = line_of_stack(node.meta.get("stack_trace") or "")
        value = node.meta.get("val")
        if op == _IN_ORDER and not node.args[1]._schema.returns:  # type: ignore[union-attr]
            return  # a check of values, as a solver's of its result: it makes nothing
        if op == "<built-in function getitem>":
            source, item = node.args[0], node.args[1]
            assert isinstance(source, fx.Node) and isinstance(item, int)
            if str(source.target) == _IN_ORDER:
                return
            self._refs[node.name] = Ref(ref=self._refs[source.name].ref, item=item)
            return
        if any(word in op for word in _SKIPPED) or not _has_tensors(value):
            self._refuse_values(op)
            return
        if op.partition(".")[0] not in _NAMESPACES:
            raise ProblemError(
                f"{self._where}{op} is not one of PyTorch's ATen operations, and no plan can call it. "
                "Write it with torch operations on whole tensors."
            )
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        metas = tuple(self._meta(v) for v in values)
        orders = tuple(order_of(v) for v in values)
        args = tuple(self._operand(op, a) for a in node.args)
        if op in _ARITHMETIC and len(args) > 1 and isinstance(args[1], Ref):
            op = op.replace(".Scalar", ".Tensor")
        kwargs = tuple(
            (key, self._arg(a)) for key, a in sorted(node.kwargs.items()) if key not in _ERASED_KWARGS
        )
        op, args, kwargs = canonical(op, args, kwargs, metas, _is_explicit_cast(node))
        same = self._nothing(op, args, metas, node)
        if same is None:
            self._fix_window(op, args, node)
        self._refs[node.name] = same or self._add(op, args, kwargs, metas, self._line, orders)

    def _fix_window(self, op: str, args: tuple[Arg, ...], node: fx.Node) -> None:
        """Windows are written out in a kernel: what they consist of must be numbers.

        So must the sizes of a tensor whose storage is stepped through: torch asks that it is long enough.
        """
        stepped = args[0] if op == _AS_STRIDED else None
        if isinstance(stepped, Ref) and (names := _names(self._metas[stepped][1])):
            raise NotSymbolic("its storage is stepped through as it lies", self._axes_with(names))
        if op != "aten.convolution.default" or not isinstance(args[1], Ref):
            return
        _, dims = self._metas[args[1]]
        first, second, *window = (hint(size) for size in node.args[1].meta["val"].shape)  # type: ignore[union-attr]
        groups = hint(node.args[8])
        mixed, made = (first // groups, second) if args[6] else (second, first // groups)
        alone = mixed == 1 and groups > 1
        few = max(mixed, made) <= _FEW_CHANNELS and (groups > 1 or len(window) == 1)
        if not (alone or (few and mixed * math.prod(window) <= _FEW_PRODUCTS)):
            direct = self._metas[args[1]][0] == "f32" and len(window) in _SIDES
            if direct and math.prod(window) <= _MOST_TAPS and (names := _names(dims[2:])):
                raise NotSymbolic(
                    "each element of a window has its place in a kernel", self._axes_with(names)
                )
            return
        if names := _names(dims[2 if alone and not args[6] else 0 :]):
            what = "a depthwise convolution's window" if alone else "windows of so few channels"
            why = f"each element of {what} is an operand"
            if isinstance(args[8], int) and not (results := _names(dims[:1])) <= names:
                names |= results  # refused next otherwise, for the price of one more export
                why += f", and {_as_many(args[8])}"
            raise NotSymbolic(why, self._axes_with(names))
        if isinstance(args[8], int) and (names := _names(dims[:1])):
            raise NotSymbolic(_as_many(args[8]), self._axes_with(names))
        if isinstance(args[8], Sym) and first == groups and dims[0] != args[8].sym:
            why = f"{first} windows for {groups} channels, each its own, which no size says"
            raise NotSymbolic(why, self._axes_with(_names((dims[0], args[8].sym))))

    @property
    def _where(self) -> str:
        return f"line {self._line}: " if self._line else ""

    def _refuse_values(self, op: str) -> None:
        if "_local_scalar_dense" in op or "item" in op.split("."):
            raise ProblemError(
                f"{self._where}.item() or .tolist() turns values into Python numbers, which a kernel "
                "cannot see. Keep them a tensor."
            )

    def _add(
        self,
        op: str,
        args: tuple[Arg, ...],
        kwargs: tuple[tuple[str, Arg], ...],
        metas: tuple[tuple[str, tuple[Dim, ...]], ...],
        line: int | None,
        orders: tuple[Order, ...] = (None,),
    ) -> Ref:
        key = (op, args, kwargs)
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._fresh(op)
            outs = tuple(
                OutputSpec(dtype=dtype, dims=dims, order=order)  # type: ignore[arg-type]
                for (dtype, dims), order in zip(metas, orders, strict=True)
            )
            self._nodes[name] = OpNode(name=name, op=op, args=args, kwargs=kwargs, outs=outs, line=line)
            for item, meta in enumerate(metas):
                self._metas[Ref(ref=name, item=item)] = meta
            self._metas[Ref(ref=name)] = metas[0]
        return Ref(ref=name)

    def _fresh(self, op: str) -> str:
        stem = base_name(op).strip("_") or "node"
        taken = {*self._nodes, *self._names}
        number = 1
        name = stem
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        return name

    def _nothing(
        self, op: str, args: tuple[Arg, ...], metas: tuple[tuple[str, tuple[Dim, ...]], ...], node: fx.Node
    ) -> Ref | None:
        """The operand itself when the operation changes neither values nor shape nor type."""
        source = args[0] if args else None
        if not isinstance(source, Ref) or self._metas.get(source) != metas[0]:
            return None
        if op == _AS_STRIDED and as_it_lies(node):
            return source
        if op in _NO_OPS or op in CASTS or op in _VIEWS:
            return source
        if op == "aten.permute.default" and args[1] == tuple(range(len(metas[0][1]))):
            return source
        if op in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor") and args[1] == 1:
            return source
        return None

    # -------------------------------------------------------------------------------- values

    def _meta(self, value: Tensor) -> tuple[str, tuple[Dim, ...]]:
        if value.dtype not in DTYPES:
            name = str(value.dtype).removeprefix("torch.")
            pairs = " Write it with real and imaginary parts." if value.dtype.is_complex else ""
            raise ProblemError(
                f"{self._where}the reference uses {name} tensors, which are not supported.{pairs}"
            )
        return DTYPES[value.dtype], tuple(self._dim(size) for size in value.shape)

    def _dim(self, size: int | torch.SymInt) -> Dim:
        return self._dim_of(size.node.expr) if isinstance(size, torch.SymInt) else int(size)

    def _dim_of(self, expression: sympy.Expr) -> Dim:
        unknown = [s for s in expression.free_symbols if s not in self._symbols]
        if unknown:
            raise ProblemError(
                f"{self._where}the shape of a result depends on values (nonzero, masked_select, indexing "
                "with a mask, bincount without minlength). Let shapes depend on shapes only: "
                "x[mask].mean() is torch.where(mask, x, 0).sum() / mask.sum(), and bincount takes minlength."
            )
        expression = expression.xreplace(self._said)
        if parted_by_others(expression):
            why = (
                f"{self._in_words(expression)} is one tensor's size over another's, of which nothing is known"
            )
            raise NotSymbolic(why, self._axes_of(expression))
        try:
            text = size_text(expression, self._symbols)
        except NotASize as unsupported:
            why = f"{self._in_words(expression)} is not a size a plan can compute"
            raise NotSymbolic(why, self._axes_of(expression)) from unsupported
        return int(text) if re.fullmatch(r"-?\d+", text) else text

    def _in_words(self, expression: sympy.Expr) -> str:
        """The expression with the inputs' own axes in it: ``min(x.shape[0], x.shape[1])``."""
        places = {
            dim: f"{name}.shape[{axis}]"
            for name, dims in reversed(self.dims)
            for axis, dim in reversed(list(enumerate(dims)))
            if isinstance(dim, str)
        }
        return in_words(expression, {s: places.get(name, name) for s, name in self._symbols.items()})

    def _axes_of(self, expression: sympy.Expr) -> tuple[tuple[str, int], ...]:
        return self._axes_with({self._symbols[s] for s in expression.free_symbols if s in self._symbols})

    def _axes_with(self, names: set[str]) -> tuple[tuple[str, int], ...]:
        """The inputs' axes whose sizes have one of these symbols."""
        return tuple(
            (tensor, axis)
            for tensor, dims in self.dims
            for axis, dim in enumerate(dims)
            if isinstance(dim, str) and names & set(_SYMBOL.findall(dim))
        )

    def _arg(self, value: Any) -> Arg:
        match value:
            case fx.Node():
                return self._node_arg(value)
            case torch.dtype():
                return DTYPES.get(value, str(value))
            case list() | tuple():
                return tuple(self._arg(item) for item in value)
            case torch.SymInt():
                dim = self._dim(value)
                return Sym(sym=dim) if isinstance(dim, str) else dim
            case None | bool() | int() | float() | str():
                return value
            case _:
                return str(value)

    def _operand(self, op: str, value: Any) -> Arg:
        """An argument; arithmetic may have one that is computed from sizes, as the part 0.1 / classes is."""
        found = value.meta.get("val") if isinstance(value, fx.Node) else None
        if isinstance(found, torch.SymFloat) and op in _ARITHMETIC:
            return self._number(found.node.expr, found.node.expr)
        return self._arg(value)

    def _number(self, expression: sympy.Expr, whole: sympy.Expr) -> Ref:
        """Nodes that compute a number from sizes in float64, as Python did: to the same last digit.

        Powers and roots are not among them: the scale of attention stays a number that a library takes.
        """
        kind = type(expression).__name__
        if expression.is_Number:
            return self._scalar(float(expression), "f64")
        if kind == "ToFloat":
            size = self._dim_of(expression.args[0])
            return self._scalar(Sym(sym=size) if isinstance(size, str) else float(size), "f64")
        if kind not in _OF_SIZES:
            raise NotSymbolic(f"it enters the arithmetic as {self._in_words(whole)}", self._axes_of(whole))
        first, *rest = expression.args
        if kind == "IntTrueDiv":
            first, *rest = (sympy.Function("ToFloat")(arg) for arg in (first, *rest))
        result = self._number(first, whole)
        for arg in rest:
            args = (result, self._number(arg, whole))
            result = self._add(_OF_SIZES[kind], args, (), (("f64", ()),), self._line)
        return result

    def _node_arg(self, node: fx.Node) -> Arg:
        if node.name in self._refs:
            return self._refs[node.name]
        value = node.meta.get("val")
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            expression = value.node.expr
            raise NotSymbolic(
                f"it enters the arithmetic as {self._in_words(expression)}", self._axes_of(expression)
            )
        return self._arg(value)


# ------------------------------------------------------------------------------------ pure functions


def _names(dims: tuple[Dim, ...]) -> set[str]:
    """Symbols in sizes."""
    return {name for dim in dims if isinstance(dim, str) for name in _SYMBOL.findall(dim)}


def _as_many(groups: int) -> str:
    return f"{groups} groups have as many results each as the weights say"


def _reachable(nodes: Mapping[str, OpNode], outputs: tuple[Ref, ...]) -> tuple[OpNode, ...]:
    wanted = {ref.ref for ref in outputs}
    kept = []
    for node in reversed(list(nodes.values())):
        if node.name in wanted:
            kept.append(node)
            wanted.update(ref.ref for ref in node.refs)
    return tuple(reversed(kept))


def _has_tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(isinstance(item, Tensor) for item in value)
    return isinstance(value, Tensor)


def _is_explicit_cast(node: fx.Node) -> bool:
    sources = [str(source.target) for source in node.meta.get("from_node", [])]
    return any(source.split(".")[:2] in (["aten", "to"], ["aten", "_to_copy"]) for source in sources[-1:])


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{'x'.join(map(str, value.shape))} {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__
