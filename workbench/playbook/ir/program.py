"""What the graph is lowered to: buffers, stores to compute, and library calls, in order.

Owns the values between lowering and emission; computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from workbench.model import DType
from workbench.playbook.ir.expr import Expr, Load, Pool, loads_below
from workbench.playbook.ir.sizes import ONE, Size, Sizes, number
from workbench.playbook.ir.stencil import Stencil
from workbench.playbook.ir.views import Order, View, contiguous, strided


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory: an argument, a library result, or one the plan makes (``made``)."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    role: str
    """``argument``, ``made`` or ``library``."""
    strides: tuple[Size, ...] | None = None
    """Of an argument that is not contiguous."""

    @property
    def view(self) -> View:
        """All of it, as its axes have it."""
        return contiguous(self.shape) if self.strides is None else strided(self.shape, self.strides)


@dataclass(frozen=True)
class Store:
    """``value`` written to ``buffer`` at every index of (rows, columns), or of rows alone."""

    buffer: str
    value: Expr
    view: View
    """Where in the buffer, over the store's own space."""
    rows: Size
    columns: Size
    """What the reductions run over; a ``row`` store has one value for all of them."""
    level: str
    """``flat`` (no reductions: the space is one line), ``row`` or ``full``."""


@dataclass
class Kernel:
    """Stores that share a space, computed in one pass over it."""

    stores: list[Store] = field(default_factory=list)
    tail: Kernel | None = None
    """What adds up, in the same launch, the one value that each row comes to."""
    ahead: Kernel | None = None
    """What makes, in the same launch, the tensors that this kernel sees through windows along their rows."""
    parts: tuple[Kernel, ...] = ()
    """Kernels that it is made of, where each makes a part of the same rows; ``stores`` are those of all."""
    tables: tuple[Kernel, ...] = ()
    """Kernels that it is made of, where a thread has a row of each, made of elements that it has read once;
    ``stores`` are those of all."""
    steps: RowSteps | None = None
    """What makes, in the same launch, the rows that this kernel reads elements of, step by step."""

    @property
    def all_stores(self) -> list[Store]:
        """Those of the steps before it too, in order."""
        before = self.steps.kernels if self.steps else ()
        return [store for kernel in (*before, self) for store in kernel.stores]


@dataclass(frozen=True)
class RowSteps:
    """Kernels whose results wait on the chip: each reads elements of the rows that those before have made."""

    kernels: tuple[Kernel, ...]
    rows: Size
    """Of every kernel; nobody reads an element of another row."""
    kept: tuple[str, ...]
    """Buffers that are nowhere in memory."""


@dataclass(frozen=True)
class LibraryArgument:
    """A buffer as a library call takes it: as it is, or through strides."""

    buffer: str
    shape: tuple[Size, ...] | None = None
    """None for the whole buffer as it is."""
    strides: tuple[Size, ...] = ()
    offset: Size | None = None


@dataclass(frozen=True)
class LibraryCall:
    """One ATen operation left to the library."""

    op: str
    args: tuple[object, ...]
    """``LibraryArgument``, tuples of them, ``Sym`` and plain values."""
    kwargs: tuple[tuple[str, object], ...]
    """The same, by name."""
    results: tuple[str, ...]
    orders: tuple[Order, ...]
    """How torch lays out each result; the axes of its buffer are in this order."""

    @property
    def given(self) -> tuple[object, ...]:
        """All arguments, those with a name too."""
        return (*self.args, *(value for _, value in self.kwargs))

    @property
    def read(self) -> set[str]:
        """Buffers that it is given, those in lists included."""
        found, left = set[str](), [*self.given]
        while left:
            arg = left.pop()
            if isinstance(arg, tuple):
                left += arg
            elif isinstance(arg, LibraryArgument):
                found.add(arg.buffer)
        return found


@dataclass(frozen=True)
class Scan:
    """Running totals along the columns of (rows, columns), each with the columns before it."""

    op: str
    """``sum``, ``prod``, ``max``, ``min``, ``logsumexp``; ``lastmax`` and ``lastmin`` give places. Empty for
    rows without totals, which are walked for their ``sums`` alone."""
    value: Expr
    """What is added up, over (rows, columns); its type is the total's."""
    rows: Size
    columns: Size
    buffer: str
    view: View
    """Where in the buffer a total goes, over (rows, columns)."""
    backwards: bool
    """From the last column to the first."""
    order: tuple[tuple[Size, ...], tuple[int, ...]] = ((), ())
    """Shape of the buffer, and its axes in the order of (rows, columns)."""
    tail: tuple[Store, ...] = ()
    """Pointwise work on the totals, over (rows, columns): a load of ``buffer`` is the total at hand."""
    kept: bool = True
    """False when only ``tail`` needs the totals: they are not written."""
    ahead: tuple[Scan, ...] = ()
    """Scans over the same rows and columns that the same kernel makes first: each may read the totals of
    those before it, and this one of them all."""

    before: Kernel | None = None
    """Reductions of the same rows that all others are made of: the maximum and sum of a softmax."""
    sums: tuple[Store, ...] = ()
    """Reductions along the rows, of totals and of what goes with them: a value a row, or several side by side
    (``store.rows`` are so many times the scan's), made in the same kernel."""

    @property
    def values(self) -> tuple[Expr, ...]:
        """What the kernel computes."""
        ahead = [value for one in self.ahead for value in one.values]
        stores = (*(self.before.stores if self.before else ()), *self.tail, *self.sums)
        return (*ahead, self.value, *(store.value for store in stores))

    @property
    def written(self) -> tuple[str, ...]:
        """Buffers the kernel writes."""
        own = (self.buffer,) if self.kept else ()
        ahead = [name for one in self.ahead for name in one.written]
        return (*ahead, *own, *(store.buffer for store in (*self.tail, *self.sums)))


@dataclass(frozen=True)
class Scatter:
    """Values that join what lies at places of a buffer; data says at which. Another step has written it."""

    op: str
    """``sum``, ``max``, ``min``; ``put`` for values that take the place of others."""
    value: Expr
    """What joins, over a line of ``columns``; its type is the buffer's."""
    place: Load
    """The element that it joins: a load of the buffer, looked up, over the same line."""
    columns: Size
    places: Size
    """Elements of the buffer."""

    @property
    def buffer(self) -> str:
        """What is changed."""
        return self.place.buffer

    @property
    def values(self) -> tuple[Expr, ...]:
        """What the kernel computes: the values, and where each belongs."""
        return (self.value, *(index for index, _ in self.place.lookups))

    @property
    def read(self) -> set[str]:
        """Buffers that must be there: its own too, which holds what values join."""
        return {self.buffer, *(load.buffer for load in loads_below(self.values))}

    @property
    def stored(self) -> Kernel:
        """The same values where nothing is looked up: what is asked of any kernel along a line."""
        return Kernel([Store(self.buffer, self.value, self.place.view, ONE, self.columns, "flat")])


@dataclass(frozen=True)
class Output:
    """What the plan returns: a buffer, seen in a shape when the buffer's own differs."""

    buffer: str
    shape: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] | None = None
    """In elements, where the buffer's axes are in another order than the output's."""


@dataclass(frozen=True)
class Side:
    """One spatial axis of a convolution, in elements."""

    read: Size
    """Of the input."""
    made: Size
    """Of the result."""
    taps: int
    """Weights along it."""
    stride: int
    padding: int
    dilation: int


Way = Literal["tiles", "product", "patches"]
"""How a kernel makes a convolution: a thread's channels at its places, on float32 units; or on tensor cores,
as a product whose rows are channels, or places."""


@dataclass(frozen=True)
class Convolution:
    """A convolution that a kernel makes, and the pointwise work on its results that the same kernel does."""

    source: str
    """Buffer of the input: (batch, ``groups`` * ``read``, a size for each side)."""
    weight: str
    """Buffer of the weights: (``groups`` * ``made``, ``read``, taps); of a transposed one
    (``groups`` * ``read``, ``made``, taps)."""
    batch: Size
    groups: Size
    read: Size
    """Channels that a group reads."""
    made: Size
    """Channels that a group makes."""
    sides: tuple[Side, ...]
    transposed: bool
    buffer: str
    """Of the results: (batch, ``groups`` * ``made``, a size for each side)."""
    stores: tuple[Store, ...]
    """What is made of each result, over one line of them: a load of ``buffer`` is the result at hand. Over a
    line of windows, where there are such: a load is one of a window's results."""
    windows: tuple[int, ...] = ()
    """Results along each side that what is stored is made of, where it is made of several: they lie side by
    side, and none is in two windows."""
    across_channels: bool = False
    """True where what is stored needs all channels of a place: stores are over rows, each of a place's."""
    dtype: DType = "f32"
    """Of input and weights."""
    paired: bool = False
    """True where elements of 16 bits of two channels that are read lie side by side in shared memory, and in
    the weights."""
    way: Way = "tiles"
    """What the kernel multiplies with, and what its rows are."""
    threads: int = 0
    """Of a block, where rows are places; the others have the schedule's, or a number of their own."""
    blocks: int = 1
    """Blocks that share the terms of a tile, where rows are places: each reads as many channels."""

    @property
    def shape(self) -> tuple[Size, ...]:
        """Of the results."""
        return (self.batch, self.groups * self.made, *(side.made for side in self.sides))

    @property
    def shape_stored(self) -> tuple[Size, ...]:
        """Of what is stored: a value for each result, or for each window of them that is whole."""
        if not self.windows:
            return self.shape
        along = (side.made // number(count) for side, count in zip(self.sides, self.windows, strict=True))
        return (*self.shape[:2], *along)

    @property
    def right(self) -> Side:
        """The side along which neighbours lie side by side."""
        return self.sides[-1]

    @property
    def down(self) -> Side | None:
        """The side along which lines lie one below the other; None of a single line."""
        return self.sides[-2] if len(self.sides) > 1 else None

    @property
    def deep(self) -> Side | None:
        """The side that planes of a volume lie along."""
        return self.sides[0] if len(self.sides) > 2 else None


@dataclass(frozen=True)
class Matrix:
    """One factor of a product of matrices, as it lies in memory; steps are in elements."""

    buffer: str
    offset: Size
    batch: Size
    """Step from one matrix to the next; zero where all products have the same."""
    across: Size
    """Step from one row of the left factor to the next, or from one column of the right one."""
    terms: Size
    """Step along what is summed. Either this or ``across`` is one."""

    @property
    def lies_by_terms(self) -> bool:
        """True where neighbours in memory are terms of one sum."""
        return self.terms.is_one


@dataclass(frozen=True)
class MatrixProduct:
    """A product of matrices that a kernel makes, and the pointwise work on its results that it does too."""

    left: Matrix
    right: Matrix
    batch: Size
    """Products side by side."""
    rows: Size
    columns: Size
    terms: Size
    """Products that a result is the sum of."""
    buffer: str
    """Of the results: (batch, rows, columns)."""
    stores: tuple[Store, ...]
    """What is made of each result, over one line of them: a load of ``buffer`` is the result at hand."""

    @property
    def shape(self) -> tuple[Size, ...]:
        """Of the results."""
        return (self.batch, self.rows, self.columns)

    @property
    def shape_stored(self) -> tuple[Size, ...]:
        """Of what is stored."""
        return self.shape


InPlaceOfCall = Convolution | MatrixProduct
"""A kernel that does a library call's work, and what is made of its results."""

Cell = Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
"""What a unit of a recurrent layer computes, as torch calls it."""
CELL_GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Rows of weights that a unit has."""


@dataclass(frozen=True)
class RecurrentLayers:
    """Layers of a recurrent network, step after step, that one kernel goes through; all of float32.

    Torch's order everywhere: of the layers' parameters, and of gates in a layer's rows of weights.
    """

    cell: Cell
    source: str
    """Buffer of what the first layer reads."""
    offset: Size
    steps: tuple[Size, Size]
    """Elements from one step to the next in it, and from one row of the batch to the next; those of a row lie
    side by side."""
    states: tuple[str, ...]
    """Buffers of what every layer begins with, (layers * ways, batch, hidden); of an LSTM its cells too."""
    weights: tuple[tuple[str, str], ...]
    """Buffers, by layer and way: (gates * hidden, inputs), and (gates * hidden, hidden)."""
    biases: tuple[tuple[str, str], ...]
    """The same of what is added to both; empty without."""
    length: Size
    batch: Size
    inputs: int
    """Elements of a row that the first layer reads."""
    hidden: int
    ways: int
    """Two where each layer goes through the steps in both directions."""
    results: tuple[str, ...]
    """Buffers of all steps of the last layer, and of every layer's last states."""
    made_steps: tuple[Size, Size]
    """The same of the last layer's steps in their buffer."""
    warp_units: int = 1
    """Units of a warp."""

    @property
    def layers(self) -> int:
        return len(self.weights) // self.ways

    @property
    def gates(self) -> int:
        return CELL_GATES[self.cell]

    @property
    def read(self) -> tuple[str, ...]:
        """All buffers that it is given."""
        pairs = (*self.weights, *self.biases)
        return (self.source, *self.states, *(name for pair in pairs for name in pair))


ProgramStep = Kernel | LibraryCall | Scan | Scatter | InPlaceOfCall | RecurrentLayers


@dataclass
class Program:
    """A lowered problem."""

    buffers: dict[str, Buffer]
    steps: list[ProgramStep]
    outputs: tuple[Output, ...]
    pool: Pool
    sizes: Sizes
    stems: tuple[tuple[Size, str], ...] = ()
    """Telling names for sizes that no axis of an argument has."""
    applied: frozenset[str] = frozenset()
    """Rewrites of ``LOWERED`` that found something to do, those among them that were not to be made, too."""
    stencils: tuple[Stencil, ...] = ()
    """Windows that slide over tensors."""

    def read_before(self, step: int, names: Iterable[str]) -> frozenset[str]:
        """Those of some buffers that kernels before a step, given by its number, read."""
        return frozenset(name for name in names if self._first_read.get(name, step) < step)

    def readers(self, names: Iterable[str]) -> list[int]:
        """Kernels, by their number, that read any of some buffers themselves."""
        return sorted({at for name in names for at in self._readers.get(name, ())})

    def maker(self, names: Iterable[str]) -> int | None:
        """The first kernel that makes all of some buffers; None where none does."""
        made = [self._makers.get(name, ()) for name in names]
        return min(set(made[0]).intersection(*made[1:]), default=None)

    # All of these are asked once a program: where steps are a loop's written out, each kernel asks.

    @cached_property
    def _first_read(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for at, kernel in self._kernels:
            for load in loads_below([store.value for store in kernel.all_stores]):
                found.setdefault(load.buffer, at)
        return found

    @cached_property
    def _readers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, kernel in self._kernels:
            for name in {load.buffer for load in loads_below([store.value for store in kernel.stores])}:
                found.setdefault(name, []).append(at)
        return found

    @cached_property
    def _makers(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, kernel in self._kernels:
            for store in kernel.stores:
                found.setdefault(store.buffer, []).append(at)
        return found

    @property
    def _kernels(self) -> list[tuple[int, Kernel]]:
        return [(at, step) for at, step in enumerate(self.steps) if isinstance(step, Kernel)]
