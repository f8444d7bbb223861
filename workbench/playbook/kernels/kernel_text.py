"""What every generated kernel has in common: its parameters, loads and stores, vectors, launch.

Owns the frame; flat_kernel.py and row_kernel.py fill it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.model import DTYPE_BYTES, DType
from workbench.playbook.analysis.lines import Lines
from workbench.playbook.ir.expr import Apply, Expr, Load, walk_all
from workbench.playbook.ir.program import Buffer, Kernel, LibraryCall, Program, Scatter
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.copies import Copies
from workbench.playbook.schedules.fitting import Cases
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.cuda_text import CTYPES, SUM, Text, helper_of, loaded, stored
from workbench.playbook.text.indexing import WidthRule, divisors_of
from workbench.playbook.text.names import Macros, Names


@dataclass(frozen=True)
class Limits:
    """What a launch needs beyond a grid, as text of the plan language; empty for nothing."""

    shared: str = ""
    """Bytes of dynamic shared memory."""
    fits: str = ""
    """Condition under which the kernel works."""
    otherwise: str = ""
    """What to tell the person when it does not."""


_BOUND = "__launch_bounds__(THREADS"


@dataclass(frozen=True)
class KernelText:
    """One ``__global__`` function and how the plan launches it."""

    name: str
    code: str
    buffers: tuple[str, ...]
    """Arguments in order."""
    helpers: frozenset[str]
    grid: str
    """Text of the plan language; ``{width}`` stands for the vector width."""
    threads: int
    width: WidthRule | None = None
    limits: Limits = Limits()
    fit: str = ""
    """Threads a block, in the plan language, when they depend on sizes."""
    scalars: tuple[str, ...] = ()
    """Integer arguments after the buffers: names in kernel and plan."""
    cluster: int = 1
    """Blocks of a cluster."""
    template: str = ""
    """Further template arguments, in the plan language; ``{chunk}`` stands for the columns of a piece."""
    cooperative: bool = False
    """All blocks are on the card at the same time."""
    resident: str = ""
    """Blocks that stay on a multiprocessor, in the plan language; the grid calls it ``{resident}``."""
    a_block: tuple[tuple[str, str], ...] = ()
    """Scratch of one element a block: name and type."""
    most: str = ""
    """Blocks there are at most, in the plan language; the grid calls them ``{most}``."""
    zeroed: tuple[Buffer, ...] = ()
    """Scratch that is zero before it."""


def threads_of(kernels: Iterable[KernelText], usual: int) -> int | None:
    """What THREADS is in all kernels of a file; None where the plan says it with each launch.

    It does where it depends on sizes, and where blocks that wait for one another are larger than the rest.
    """
    found = list(kernels)
    several = {kernel.threads for kernel in found if _BOUND in kernel.code} or {usual}
    return None if len(several) > 1 or any(kernel.fit for kernel in found) else several.pop()


@dataclass(frozen=True)
class Together:
    """The kernel of blocks that all wait for one another, each with a piece of a row."""

    text: KernelText
    most: int
    """Columns of a piece."""
    partials: tuple[tuple[str, str], ...]
    """Buffers of partial results: name and type."""


@dataclass(frozen=True)
class InTurns:
    """The kernel of teams of blocks that take the rows in turns, each block with a piece of a row."""

    text: KernelText
    bytes_a_column: int
    """That a block keeps."""
    partials: tuple[tuple[str, str], ...]
    """Buffers of partial results: name and type."""
    arrived: str
    """Its counters of blocks that have arrived at a meeting."""
    meetings: int
    """Of a row: counters that it needs."""


@dataclass(frozen=True)
class SplitText:
    """Kernels that share a row among several blocks, and the one to use where rows are many."""

    kernels: tuple[KernelText, ...]
    partials: tuple[tuple[str, str], ...]
    """Buffers of partial results, one row a piece: name and type."""
    plain: KernelText | ShapedText | None
    """None when rows are always few."""
    teams: str
    """Blocks along the rows, in the plan language."""
    rows: Size
    columns: Size
    least: int
    """Columns that are worth a piece of their own."""
    longest_whole: int
    """Columns up to which a row is not split, however few rows there are."""
    threads: int
    most_teams: int = 0
    """Blocks along the rows that there are counters for; 0 where none are needed."""
    together: Together | None = None
    in_turns: InTurns | None = None
    bundle: str = ""
    """Rows of a block, in the plan language, where the grid and ``teams`` call them ``{bundle}``."""
    alone: bool = False
    """A bundle of rows may as well have one block, which then joins what it alone has left."""
    few_waves: bool = False
    """Long rows are shared although each could have a block."""
    told: int = 0
    """Columns of a piece where the last block of a row hears the others in words; 0 where it does not."""

    @property
    def in_stretches(self) -> bool:
        """True where a block has a stretch of the row for itself, and has to know how long it is."""
        return self.together is not None or any("chunk" in kernel.scalars for kernel in self.kernels)


@dataclass(frozen=True)
class ShapedText:
    """Two kernels for the same work: short rows, and long ones."""

    columns: Size
    most: int
    """Columns up to which a row is short."""
    short: KernelText | ShapedText
    long: KernelText | SplitText | ShapedText


@dataclass(frozen=True)
class TiledText:
    """A scan by many blocks a row, and the one to use where rows are many or short."""

    tiled: KernelText
    plain: KernelText
    flags: str
    """Scratch of a flag a tile and the tickets: zero at the start; empty where the kernel keeps its own."""
    sums: str
    """Scratch of two totals a tile."""
    dtype: str
    """Of the totals."""
    rows: Size
    columns: Size
    tile: int
    """Columns of a tile, times the vector width."""
    most: int = 0
    """Tiles that the kernel has words of its own for; 0 where it has none."""


@dataclass(frozen=True)
class StackedText:
    """A scan whose rows lie side by side: a block for each piece of a bundle of them, or for the bundle."""

    pieces: KernelText
    whole: KernelText
    rows: Size
    columns: Size
    tile: int
    """Columns of a piece, times the bundle, over the vector width."""
    words: int
    """That a total takes."""
    most: int
    """Words that the kernel of pieces has."""


@dataclass(frozen=True)
class JointPart:
    """A kernel that shares a launch."""

    kernel: Kernel | Scatter
    text: KernelText
    alone: KernelText | SplitText
    """What it is a kernel of: launches of its own."""
    split: SplitText | None = None
    """The same where several blocks share a row: their number is the plan's to find."""

    @property
    def stem(self) -> str:
        """What numbers of its own are called: by what it makes."""
        if isinstance(self.kernel, Scatter):
            return f"{self.kernel.buffer}_places"
        return self.kernel.stores[0].buffer


@dataclass(frozen=True)
class JointText:
    """One launch of several kernels, stage by stage; ``kernel`` has the text of all of them."""

    kernel: KernelText
    stages: tuple[tuple[JointPart, ...], ...]
    planes: Lines | None = None
    """Where they go plane by plane instead: the planes, and what one consists of."""

    @property
    def parts(self) -> tuple[JointPart, ...]:
        """In the order of the launch's arguments."""
        return tuple(part for stage in self.stages for part in stage)


@dataclass(frozen=True)
class PreparedText:
    """A kernel, and the one before it that makes what it needs."""

    first: KernelText
    kernel: KernelText
    buffer: str
    """What the first makes."""
    elements: Size
    """How long that is."""
    dtype: DType
    """Of its elements."""


@dataclass(frozen=True)
class MaybeText:
    """Kernels of a step that has nothing to do at some sizes: a launch without blocks is an error."""

    step: KernelText | SplitText | ShapedText | TiledText | StackedText | PreparedText
    work: tuple[Size, ...]
    """Factors of the number of results that may be zero."""


_Launched = KernelText | SplitText | ShapedText | TiledText | StackedText | PreparedText
Step = _Launched | JointText | MaybeText | LibraryCall
"""What a step of a program comes to."""


def kernels_of(step: Step) -> tuple[KernelText, ...]:
    """All functions of a step."""
    match step:
        case KernelText():
            return (step,)
        case SplitText(kernels=kernels, plain=plain, together=together, in_turns=in_turns):
            shared = (*(one.text for one in (in_turns, together) if one is not None), *kernels)
            return shared if plain is None else (*kernels_of(plain), *shared)
        case ShapedText(short=short, long=long):
            return (*kernels_of(short), *kernels_of(long))
        case TiledText(tiled=tiled, plain=plain):
            return (plain, tiled)
        case StackedText(pieces=pieces, whole=whole):
            return (whole, pieces)
        case JointText(kernel=kernel):
            return (kernel,)
        case PreparedText(first=first, kernel=kernel):
            return (first, kernel)
        case MaybeText(step=inner):
            return kernels_of(inner)
        case LibraryCall():
            return ()


@dataclass(frozen=True)
class Site:
    """What all kernels of one file share."""

    program: Program
    schedule: Schedule
    locals: Mapping[str, str]
    """Name of every size symbol in the plan."""
    canonical: Mapping[Size, Size]
    """How a size is best spelt, by value."""
    macros: Macros
    cases: Cases
    """Sizes the kernels have to work for."""
    declared: int = 0
    """How many of them, from the first on, are declared: those whose speed matters."""
    partials: dict[str, Buffer] = field(default_factory=dict)
    """Buffers of partial results, which only the schedule knows of."""

    @property
    def declared_sizes(self) -> Cases:
        """Those sizes; all of them where none is declared."""
        return self.cases[: self.declared] or self.cases

    def buffer(self, name: str) -> Buffer:
        return self.partials.get(name) or self.program.buffers[name]

    def size(self, size: Size) -> str:
        """A size in the plan language."""
        return self.canonical.get(size, size).spell(lambda symbol: self.locals[symbol])

    def factor(self, size: Size) -> str:
        """A size that is to be multiplied: in parentheses unless it is one word."""
        text = self.size(size)
        return f"({text})" if " " in text else text

    def at_least_one(self, size: Size) -> str:
        """A size that a block is fitted to: one where it may be zero, as the columns of ``x[:, 1:]`` may."""
        return f"max(1, {self.size(size)})" if self.may_be_empty(size) else self.size(size)

    def may_be_empty(self, size: Size) -> bool:
        """True for a size that is zero at one of those that the kernels have to work for."""
        return any(size.at(case) == 0 for case in self.cases)


_NONE = Limits()


@dataclass
class Frame:
    """The kernel being written: parameter names, helper functions, vector rule."""

    site: Site
    names: Names
    written: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    vector: bool = False
    divisors: set[Size] = field(default_factory=set)
    vectors: set[str] = field(default_factory=set)
    """Buffers that are accessed through vectors."""
    ends_inside: str = ""
    """Elements of the line whose last vector is only partly there; empty where all vectors are whole."""
    least_blocks: int = 0
    """Blocks that a multiprocessor must have room for: with one, threads may have many registers."""
    own_threads: int = 0
    """Threads of a block, of a kernel that is written for so many, whatever the others have."""
    own_width: int = 0
    """Elements of a vector, likewise."""
    finds_places: bool = False
    """Places of elements are computed with, in whole numbers of 32 bits."""
    in_rows: bool = False
    """A thread has whole rows of few elements, which are loaded and stored in vectors."""
    rows_together: dict[str, int] = field(default_factory=dict)
    """Vectors that move as one, by buffer, where they are parts of such rows."""
    copied: Copies | None = None
    """Rows that repeat over the line, where a thread's vectors lie a row apart."""
    begins: dict[str, str] = field(default_factory=dict)
    """Where index 0 finds a buffer, where that is not its first element in memory."""
    on_chip: frozenset[str] = frozenset()
    """Buffers that wait in shared memory."""

    @property
    def macros(self) -> Macros:
        return self.site.macros

    def pointer(self, buffer: str) -> str:
        """The parameter that points to a buffer, or what it goes by in the lines at hand."""
        if buffer in self.begins:
            return self.begins[buffer]
        if buffer not in self.parameters:
            self.parameters[buffer] = self.names.new(buffer)
        return self.parameters[buffer]

    def need_operations(self, roots: list[Expr]) -> None:
        """Ask for the helper functions that operations below ``roots`` call."""
        for expr in walk_all(roots, into_reductions=True):
            fast = self.site.schedule.fast_math
            helper = helper_of(expr, fast) if isinstance(expr, Apply) else None
            if helper is not None:
                self.helpers.add(helper)

    def element(self, buffer: str, index: Text) -> str:
        """An element of a buffer in memory."""
        return f"{self.pointer(buffer)}[{index.code}]"

    def value(self, load: Load, code: str) -> Text:
        """An element as the type it computes in."""
        return self.value_of(load.buffer, code, load.dtype)

    def value_of(self, buffer: str, code: str, computed: DType) -> Text:
        """The same of a buffer's element."""
        return loaded(code, self.site.buffer(buffer).dtype, computed)

    def stored(self, buffer: str, code: str) -> str:
        """A computed value as an element."""
        return stored(code, self.site.buffer(buffer).dtype)

    def element_type(self, buffer: str) -> str:
        return CTYPES[self.site.buffer(buffer).dtype]

    def has_hints(self, buffer: str) -> bool:
        """True when __ldcs and __stcs take the buffer's elements: CUDA leaves bool out, and shared memory."""
        return self.site.buffer(buffer).dtype != "bool" and buffer not in self.on_chip

    def use_vector(self, buffer: str, view: View) -> None:
        """Note that a buffer is accessed through vectors."""
        self.divisors.update(divisors_of(view))
        self.vectors.add(buffer)

    def use_rows_together(self, buffer: str, vectors: int) -> None:
        """Note that a buffer is accessed through rows of few elements, so many vectors at once."""
        self.vectors.add(buffer)
        self.rows_together[buffer] = max(vectors, self.rows_together.get(buffer, 1))

    def use_rows(self, row_part: View) -> None:
        """Note where the rows of a buffer begin that is accessed through vectors."""
        self.divisors.update(axis.stride for axis in row_part.axes if not axis.stride.is_zero)
        if not row_part.offset.is_zero:
            self.divisors.add(row_part.offset)

    def signature(self, name: str) -> list[str]:
        """Template line, qualifiers and parameters; parameters that are written come last."""
        read = [b for b in self.parameters if b not in self.written]
        order = [*read, *(b for b in self.written if b in self.parameters)]
        self.parameters = {buffer: self.parameters[buffer] for buffer in order}
        parts = []
        for buffer, parameter in self.parameters.items():
            const = "" if buffer in self.written else "const "
            parts.append(f"{const}{self.element_type(buffer)}* __restrict__ {parameter}")
        parts += [f"int {name}" for name in self.scalars]
        lines = ["template <int VEC>"] if self.vector else []
        promised = self.site.schedule.promised
        least = f"{promised} / THREADS" if promised and not self.own_threads else str(self.least_blocks or "")
        threads = str(self.own_threads or "THREADS")
        bounds = f"{threads}, {least}" if least else threads
        head = f"__global__ __launch_bounds__({bounds}) void {name}("
        if len(head) + len(", ".join(parts)) < 106:
            return [*lines, f"{head}{', '.join(parts)}) {{"]
        rows = filled(parts, 100)
        return [*lines, head, *(f"    {row}" for row in rows[:-1]), f"    {rows[-1]}) {{"]

    def _rule(self) -> WidthRule:
        width = self.own_width or self.site.schedule.width
        vectors = [self.site.buffer(name) for name in sorted(self.vectors)]
        most = {b.name: width * DTYPE_BYTES[b.dtype] * self.rows_together.get(b.name, 1) for b in vectors}
        aligned = [(b.name, most[b.name]) for b in vectors if b.role == "argument"]
        return WidthRule(width, _strongest(self.divisors), tuple(aligned))

    def finish(
        self, name: str, body: list[str], grid: str, limits: Limits = _NONE, fit: str = ""
    ) -> KernelText:
        """The whole function."""
        code = "\n".join([*self.signature(name), *indented(body), "}"])
        return KernelText(
            name=name,
            code=code,
            buffers=tuple(self.parameters),
            helpers=frozenset(self.helpers),
            grid=grid,
            threads=self.own_threads or self.site.schedule.threads,
            width=self._rule() if self.vector else None,
            limits=limits,
            fit=fit,
            scalars=self.scalars,
        )


def frame_for(site: Site, kernel: Kernel, vector: bool) -> Frame:
    """An empty frame."""
    written = tuple(dict.fromkeys(store.buffer for store in kernel.stores))
    frame = Frame(site, Names(), written, vector=vector)
    frame.need_operations([store.value for store in kernel.stores])
    return frame


def indented(lines: list[str]) -> list[str]:
    """One level deeper; preprocessor lines stay at the margin."""
    return [line if line.startswith("#") or not line else f"    {line}" for line in lines]


def block(head: str, body: list[str]) -> list[str]:
    """A braced statement."""
    return [f"{head} {{" if head else "{", *indented(body), "}"]


def lookup_text(load: Load, base: Text, frame: Frame, leaf: Callable[[Expr], Text]) -> Text:
    """An index with its computed offsets added; ``leaf`` spells an index expression."""
    terms = [] if base.code == "0" else [base.code]
    for index, stride in load.lookups:
        code = leaf(index)
        if stride.is_one:
            terms.append(code.within(SUM) if terms or len(load.lookups) > 1 else code.code)
        else:
            terms.append(f"{code.within(SUM + 1)} * {frame.macros.text(stride)}")
    return Text(" + ".join(terms) or "0", SUM)


def _strongest(sizes: set[Size]) -> tuple[Size, ...]:
    """Sizes whose divisibility implies that of the rest."""
    positive = {-size if size.is_negative else size for size in sizes}
    symbolic = [size for size in positive if size.number is None]
    found = [size for size in positive if not any(o != size and o.divides(size) for o in symbolic)]
    return tuple(sorted(found, key=lambda size: size.text))


def filled(parts: Sequence[str], width: int) -> list[str]:
    """Parts of a list, with commas between, as lines no longer than ``width``."""
    rows: list[str] = []
    for position, part in enumerate(parts):
        piece = part + ("," if position < len(parts) - 1 else "")
        if rows and len(rows[-1]) + len(piece) + 1 <= width:
            rows[-1] += f" {piece}"
        else:
            rows.append(piece)
    return rows
