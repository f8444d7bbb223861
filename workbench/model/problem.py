"""What is to be replaced: tensors, cases, the op graph, the problem.

Owns the reference as data. How it is read from a cell or file is in problem/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from workbench.model.value import DTYPE_BYTES, Dim, DType, Value, size_of


class TensorMeta(Value):
    """What a plan may know of a tensor: everything but its data."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    alignment: int = 256
    """Largest power of two, at most 256, that divides the address; bytes."""

    @property
    def is_contiguous(self) -> bool:
        """True when the elements lie in row-major order without gaps; a size-1 axis may have any stride."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, gaps not counted."""
        return self.numel * DTYPE_BYTES[self.dtype]


class Layout(Value):
    """How one tensor lies in memory, whatever its sizes."""

    tensor: str
    order: tuple[int, ...]
    """Axes from slowest to fastest; those of size 1 are left out."""
    gaps: tuple[int, ...] = ()
    """Axes whose stride is not what the faster ones fill."""


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


class Sampler(Value):
    """How fresh values of a tensor are drawn, learnt from the tensor the person gave."""

    kind: Literal["normal", "uniform", "integers", "bools", "labels", "covariances", "given"]
    """``bools`` of a float tensor are one of two numbers, ``low`` and ``high``; ``labels`` are integers from
    0, and some of them ``low``, the mark of a place that does not count; ``covariances`` are symmetric
    positive definite matrices along the last two axes, of elements about as large as ``normal`` ones;
    ``given`` are always ``values``."""
    low: float = 0.0
    """Inclusive lower end (uniform, integers); the mean for ``normal``."""
    high: float = 1.0
    """Exclusive upper end (uniform, integers, labels); the standard deviation for ``normal``."""
    scalable: bool = True
    """False where other magnitudes would leave the reference's domain (probabilities, indices)."""
    values: tuple[float, ...] = ()
    """Of a small buffer without which the reference fails, as edges in order: all elements, row by row."""
    high_dim: Dim | tuple[Dim, ...] | None = None
    """Exclusive upper end that is a size, such as the number of classes, or the smallest of several, such as
    the rows of all tables that it indexes; replaces ``high``."""


class TensorSpec(Value):
    """One tensor argument of the problem in functional form."""

    name: str
    """A Python identifier; the plan's parameter of the same name receives it."""
    role: Literal["input", "parameter", "buffer"]
    dtype: DType
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None
    """In elements; None means contiguous."""
    sampler: Sampler
    path: str = ""
    """For parameters and buffers: the dotted name in the module."""
    in_pairs: bool = Field(default=False, exclude_if=lambda in_pairs: not in_pairs)
    """True where the reference's own tensor is complex: the last axis, of 2, is real and imaginary part."""


class Static(Value):
    """A python scalar the reference was called with; fixed, part of the problem."""

    name: str
    value: bool | int | float | str | None


class Case(Value):
    """One assignment of sizes to the problem's symbols."""

    label: str
    """For people: ``4096x32768``."""
    sizes: tuple[tuple[str, int], ...]
    origin: Literal["declared", "proof"] = "declared"

    @property
    def size_map(self) -> dict[str, int]:
        """Symbol to size."""
        return dict(self.sizes)


class OutputSpec(Value):
    """One tensor the reference returns."""

    dtype: DType
    dims: tuple[Dim, ...]
    order: tuple[int, ...] | None = Field(default=None, exclude_if=lambda order: order is None)
    """Axes from slowest to fastest in memory, where torch's own result is dense but not row-major."""
    in_pairs: bool = Field(default=False, exclude_if=lambda in_pairs: not in_pairs)
    """True where the reference's own result is complex, as for ``TensorSpec``."""


class Returned(Value):
    """What a reference returns its results in, where that is no plain tuple."""

    kind: str
    """Module and name of the type: ``builtins:dict``."""
    names: tuple[str, ...] = ()
    """Of what is in it, in order; empty where that has none."""
    parts: tuple[Returned | None, ...] = Field(default=(), exclude_if=lambda parts: not parts)
    """What is in it, None for a tensor; empty where that is nothing, or nothing but tensors of a problem."""

    @property
    def result_names(self) -> tuple[str, ...]:
        """One a tensor, in the order of the problem's results, such as ``state.hidden``; empty where nothing
        has a name."""
        found = tuple(self._paths())
        return found if any(name and not name.isdigit() for path in found for name in path.split(".")) else ()

    def _paths(self) -> Iterator[str]:
        if not self.parts:
            yield from self.names
            return
        for at, part in enumerate(self.parts):
            own = self.names[at] if self.names else str(at)
            yield from (own,) if part is None else (f"{own}.{path}" for path in part._paths())


# ---- the op graph (core ATen, written by problem/trace.py, read by playbook/)


class Ref(Value):
    """The result of another node, or a tensor argument, by name. ``item`` picks one of several results."""

    ref: str
    item: int | None = None


class Sym(Value):
    """An integer that depends on sizes, such as a ``view``'s new shape."""

    sym: str


Arg = TypeAliasType("Arg", "Ref | Sym | bool | int | float | str | tuple[Arg, ...] | None")


class OpNode(Value):
    """One ATen operation."""

    name: str
    op: str
    """With overload, such as ``aten.sum.dim_IntList``."""
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    outs: tuple[OutputSpec, ...]
    line: int | None = None
    """Line of the person's source that made it, where known."""

    @property
    def base_name(self) -> str:
        """``sum`` of ``aten.sum.dim_IntList``."""
        return base_name(self.op)

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """Results and tensor arguments that it reads, by position and then by keyword."""
        return (*refs_in(self.args), *refs_in(value for _, value in self.kwargs))


@lru_cache(maxsize=4096)
def base_name(op: str) -> str:
    """``sum`` of ``aten.sum.dim_IntList``."""
    return op.split(".")[1]


def refs_in(args: Iterable[Arg]) -> Iterator[Ref]:
    """Results and tensors among arguments, those in lists included."""
    for arg in args:
        if isinstance(arg, Ref):
            yield arg
        elif isinstance(arg, tuple):
            yield from refs_in(arg)


class Graph(Value):
    """The reference as functional core-ATen operations; inputs are the problem's tensors by name."""

    nodes: tuple[OpNode, ...]
    outputs: tuple[Ref, ...]


Contract = Literal["ieee-fp32", "tf32", "16-bit io, fp32 accumulate"]


class Problem(Value):
    """A reference to replace: its source, functional form, sizes, and op graph."""

    name: str
    source: str
    """Python text that defines ``entry``; its line numbers are the person's own."""
    entry: str
    """Name of the function, module class or module instance in ``source``."""
    kind: Literal["function", "module_class", "module_instance", "kernelbench", "pickled"]
    payload: str = ""
    """Base64 of a cloudpickle holding notebook objects the source needs; empty for self-contained sources."""
    tensors: tuple[TensorSpec, ...]
    statics: tuple[Static, ...] = ()
    signature: tuple[str, ...] = ()
    """The reference's own positional order: names of inputs and statics."""
    symbols: tuple[str, ...] = ()
    """Size symbols that may vary; every other size is part of the problem."""
    outputs: tuple[OutputSpec, ...]
    returns_tuple: bool = False
    """True where results come together, be it one."""
    returned: Returned | None = Field(default=None, exclude_if=lambda returned: returned is None)
    cases: tuple[Case, ...]
    """Declared sizes, the person's, most important first."""
    proofs: tuple[Case, ...] = ()
    """Small sizes the reference accepts, chosen for correctness checks."""
    accepted: tuple[Case, ...] = Field(default=(), exclude=True)
    """Further sizes the reference accepts, for a part of a problem: its own few would say too little."""
    graph: Graph
    contract: Contract = "ieee-fp32"
    own_inputs: bool = False
    """True when the person's own tensors are small enough to be one kind of input: ``yours``."""
    notes: tuple[str, ...] = ()
    """Warnings of the intake, for the person."""

    def metas(self, case: Case) -> dict[str, TensorMeta]:
        """Metadata of every tensor argument at one case."""
        sizes = case.size_map
        result = {}
        for spec in self.tensors:
            shape = tuple(size_of(d, sizes) for d in spec.dims)
            strides = contiguous_strides(shape)
            if spec.strides is not None:
                strides = tuple(size_of(d, sizes) for d in spec.strides)
            result[spec.name] = TensorMeta(dtype=spec.dtype, shape=shape, strides=strides)
        return result

    def elements(self, case: Case) -> int:
        """Of all tensor arguments together, at one case."""
        return sum(meta.numel for meta in self.metas(case).values())
