"""What a problem's kernels look like, as far as techniques care.

Owns the facts that decide which technique applies; derived once a problem from its lowered program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from workbench.model import DTYPE_BYTES, H100, Case, Contract, Problem
from workbench.playbook.analysis.again import by_plane, left_in_l2, read_before
from workbench.playbook.analysis.apart import apart_of
from workbench.playbook.analysis.convolutions import convolutions_in
from workbench.playbook.analysis.divisions import divides
from workbench.playbook.analysis.few_rows import FewRows, few_rows
from workbench.playbook.analysis.lines import Lines, lines_of
from workbench.playbook.analysis.matrix_products import products_in, worth_multiplying
from workbench.playbook.analysis.pairs import Pairs, pairs_of
from workbench.playbook.analysis.plane_turns import planes_of
from workbench.playbook.analysis.recurrences import recurrence_of
from workbench.playbook.analysis.recurrent_layers import layers_in
from workbench.playbook.analysis.repeats import slow_repeats
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.analysis.row_passes import RowSpace, passes_of, waiting_loads
from workbench.playbook.analysis.row_shapes import bundles_of, row_shape
from workbench.playbook.analysis.row_steps import has_room
from workbench.playbook.analysis.row_tables import with_row_tables
from workbench.playbook.analysis.row_totals import with_tails
from workbench.playbook.analysis.scan_chains import chained
from workbench.playbook.analysis.scan_joins import is_pair
from workbench.playbook.analysis.scan_sums import with_sums
from workbench.playbook.analysis.shared_weights import SharedWeights, weights_of
from workbench.playbook.analysis.stages import runs_of, stages_of
from workbench.playbook.analysis.turning import LEAST_TILED, turn_of
from workbench.playbook.analysis.window_parts import in_one_launch
from workbench.playbook.graph.rewrites import ONLY_FUSED, ROW_STEPS, applying, rewrite
from workbench.playbook.ir.expr import Apply, loads_below, walk_all
from workbench.playbook.ir.program import (
    Buffer,
    Convolution,
    Kernel,
    LibraryCall,
    MatrixProduct,
    Program,
    RecurrentLayers,
    Scan,
    Scatter,
)
from workbench.playbook.ir.stencil import strips_of
from workbench.playbook.ir.unkeyed import Unkeyed
from workbench.playbook.kernels.early_loads import early_loads
from workbench.playbook.kernels.loop_kernel import makes_vectors
from workbench.playbook.kernels.made_by_kernels import behind_patches
from workbench.playbook.kernels.pair_tiling import worth_pairing
from workbench.playbook.kernels.staged_rows import with_staged
from workbench.playbook.kernels.together_rows import bytes_in_turns
from workbench.playbook.lowering.lower import lower
from workbench.playbook.schedules.fitting import RowShape
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.techniques.in_place import InPlace, in_place_of
from workbench.playbook.text.indexing import MOST_NARROW

BLOCKS = (64, 128, 256, 512, 1024)
"""Threads of a block."""
_SLOW_MATH = frozenset(["exp", "log", "sin", "cos", "pow", "erf_of_16_bits"])


LAID_OUT_BY = (
    "pair_tile",
    "few_rows",
    "convolution",
    "scan_lanes",
    "row_sums",
    "shared_weights",
    "row_tables",
)
"""Techniques that leave some rows to no other: see ``Traits.besides``."""


@dataclass(frozen=True)
class RowTraits:
    """One kernel that reduces along rows."""

    shape: RowShape
    passes: int
    joint_passes: int
    """Passes when reductions that can be made at once are."""
    joint: RowShape
    """The same shape when they are: with the loads that later passes need again even then."""
    bundles: bool = False
    """Neighbouring results are made of neighbours, in a single pass."""
    ends_joining: bool = False
    """Once the last reductions are joined, nothing a column is left to do."""
    late: bool = False
    """Later passes read vectors that the first does not, such as a weight a column."""
    paired: bool = False
    """Its results are pairs of rows, among ``Traits.pairs``."""
    few: bool = False
    """Its results are pairs of one of few rows and one of many, among ``Traits.few``."""
    summed: bool = False
    """It reduces running totals, among ``Traits.summed``."""
    scanned: bool = False
    """It reduces what lanes of a warp scan, in a walk before: see ``Traits.by_lanes``."""
    weighed: bool = False
    """Its neighbouring rows share weights, among ``Traits.weighed``."""
    tabled: bool = False
    """A thread can have a row, with the few elements that its columns are made of."""
    bytes_in_turns: int = 0
    """Bytes of a column that blocks keep where teams of them take the rows in turns; 0 where none do."""
    convolved: bool = False
    """Its rows are channels of a convolution, whose kernel from patches makes them, too."""


@dataclass(frozen=True)
class Outline:
    """What decides which kernels there are to choose anything for."""

    kernels: int
    naive_kernels: int
    """Kernels when every operation has its own."""
    rewrites: frozenset[str]
    """Algebraic rewrites that find something to do."""


@dataclass(frozen=True)
class Traits(Outline):
    """The whole problem."""

    library_calls: tuple[str, ...]
    flat_kernels: int
    turned: int
    """Of these, kernels with inputs that lie across their result, where both axes are worth a tile."""
    strips: int
    """Kernels without rows, of windows that overlap from row to row."""
    walks: int
    """Kernels without rows whose windows can be taken a row at a time."""
    beside: int
    """Of these, kernels whose planes lie side by side, as those of channels-last images."""
    looked_up: int
    """Kernels without rows that read a tensor as it lies, and once more where an index says."""
    windowed: int
    """Kernels without rows that see through windows what another makes, which nobody else does."""
    recurrences: int
    """Kernels without rows most of which is steps that are alike."""
    loops_in_vectors: int
    """Of these, kernels whose neighbouring results are neighbours in memory."""
    stepped: int
    """Kernels whose rows go through several steps on the chip."""
    step_teams: frozenset[tuple[int, bool]]
    """Threads of blocks that have room for such rows; True for those whose warps have rows of their own."""
    apart: int
    """Kernels without rows whose elements along an axis of few are made of the same."""
    staged: tuple[int, int]
    """Kernels without rows that make rows of results, or parts of them: with a thread for each element of a
    short axis, and with a thread for all of them."""
    repeated: int
    """Kernels without rows with values that come again along the line and are slow to compute."""
    lines: tuple[Lines, ...]
    """Those of kernels without rows whose lines share what is read beside them."""
    again: tuple[bool, ...]
    """For each kernel without rows that reads more than L2 has, which one before has read: whether the
    one before went through its planes side by side."""
    rows: tuple[RowTraits, ...]
    convolutions: tuple[Convolution, ...]
    """Those that a kernel can make, with what it can make of their results."""
    in_place: InPlace
    """What kernels can make of these, and of products."""
    pooled: int
    """Kernels without rows that a convolution's kernel from patches makes, too."""
    products: tuple[MatrixProduct, ...]
    """The same of matrices of some size."""
    recurrent: tuple[RecurrentLayers, ...]
    """Recurrent layers that a kernel can go through."""
    pairs: tuple[Pairs, ...]
    """Those of kernels whose results are pairs of rows, where both axes are worth a tile."""
    few: tuple[FewRows, ...]
    """Those of kernels whose results are pairs of one of few rows and one of many."""
    by_lanes: tuple[Scan, ...]
    """Scans as kernels have them where lanes of a warp may: two in one, and with the reductions before."""
    summed: tuple[Scan, ...]
    """Scans, with those reductions of their totals that they can take along."""
    weighed: tuple[SharedWeights, ...]
    """Those of reductions whose neighbouring rows share weights."""
    narrowest_bytes: int
    """Bytes of the narrowest number that is read or written: 1 where all are bytes, which else count
    for nothing."""
    slow_math: bool
    divides: bool
    """Elements are divided by a number, or by a value that their row shares."""
    narrow_indices: bool
    """Tensors are small enough for indices of 32 bits in every case."""
    scans: tuple[Scan, ...]
    """Running totals."""
    scatters: tuple[Scatter, ...]
    """Values that join what lies at places which data names."""
    sharing: int
    """Kernels, and steps that put values at places: what might share launches."""
    stages: int
    """Those that must wait for one another; fewer than all where some do not need one another."""
    in_planes: bool
    """They go plane by plane: what one makes of a plane the next needs for that plane alone."""
    row_totals: bool
    """Some kernel does nothing but reduce over all rows of the one before it."""
    cases: tuple[tuple[tuple[str, int], ...], ...]
    """Sizes of the declared cases, then of the proofs."""
    declared: int

    def besides(self, settings: Mapping[str, str]) -> Traits:
        """What is left for others to decide: some kernels have their rows laid out by what is decided."""
        paired = settings.get("pair_tile", "off") != "off"
        few = bool(self.few) and settings.get("few_rows", "off") != "off"
        summed = settings.get("row_sums", "apart") != "apart"
        scanned = scanned_by_lanes(settings)
        weighed = settings.get("shared_weights", "off") != "off"
        tabled = settings.get("row_tables", "off") != "off"
        convolved = settings.get("convolution") == "patches"
        if not (paired or few or summed or scanned or weighed or tabled or convolved):
            return self
        gone = [
            (paired and row.paired)
            or (few and row.few)
            or (summed and row.summed)
            or (scanned and row.scanned)
            or (weighed and row.weighed)
            or (tabled and row.tabled)
            or (convolved and row.convolved)
            for row in self.rows
        ]
        rows = tuple(row for row, out in zip(self.rows, gone, strict=True) if not out)
        elsewhere = sum(row.convolved for row in self.rows) if convolved else 0
        return replace(self, rows=rows, kernels=self.kernels - elsewhere)

    @cached_property
    def kinds_of_rows(self) -> tuple[RowTraits, ...]:
        """Of those that are alike one: the steps of a loop have as many kernels as there are steps."""
        return tuple(dict.fromkeys(self.rows))

    @property
    def widest(self) -> str:
        """The vector width that fills 16 bytes with the narrowest numbers."""
        return {1: "16", 2: "8"}.get(self.narrowest_bytes, "4")

    @property
    def all_cases(self) -> list[dict[str, int]]:
        """Sizes a kernel has to work for."""
        return [dict(sizes) for sizes in self.cases]

    @property
    def declared_cases(self) -> list[dict[str, int]]:
        """Sizes that matter for speed."""
        return [dict(sizes) for sizes in self.cases[: self.declared]]


def scanned_by_lanes(settings: Mapping[str, str]) -> bool:
    """True where what is reduced before a scan by lanes has no kernel of its own."""
    return settings.get("fusion", "all") == "all" and settings.get("scan_lanes", "fit") != "block"


def rewritten(problem: Problem, without: frozenset[str]) -> Problem:
    """The problem with its graph rewritten by all rules but some."""
    return problem.model_copy(update={"graph": rewrite(problem, without)})


@lru_cache(maxsize=64)
def _program(digest: str, holder: Unkeyed[Problem], fuse: bool, without: frozenset[str]) -> Program:
    return lower(rewritten(holder.value, without), fuse, without)


def program_of(problem: Problem, fuse: bool, without: frozenset[str] = frozenset()) -> Program:
    """The lowered problem, made once; ``without`` some rewrites."""
    return _program(problem.digest, Unkeyed(problem), fuse, without)


@lru_cache(maxsize=64)
def _applying(digest: str, holder: Unkeyed[Problem]) -> frozenset[str]:
    return applying(holder.value)


@lru_cache(maxsize=64)
def _outline(digest: str, holder: Unkeyed[Problem]) -> Outline:
    program = program_of(holder.value, True)
    naive = program_of(holder.value, False, ONLY_FUSED)
    return Outline(
        kernels=sum(isinstance(step, Kernel) for step in program.steps),
        naive_kernels=sum(isinstance(step, Kernel) for step in naive.steps),
        rewrites=_applying(digest, holder) | program.applied,
    )


def outline_of(problem: Problem) -> Outline:
    """The first of the problem's traits, made once; the others take a good deal longer."""
    return _outline(problem.digest, Unkeyed(problem))


@lru_cache(maxsize=64)
def _traits(digest: str, holder: Unkeyed[Problem], without: frozenset[str]) -> Traits:
    problem = holder.value
    program = program_of(problem, True, without)
    every = [step for step in program.steps if isinstance(step, Kernel)]
    kernels = [step for step in every if step.steps is None]
    scans = tuple(step for step in program.steps if isinstance(step, Scan))
    scatters = tuple(step for step in program.steps if isinstance(step, Scatter))
    joining = [scatter.stored for scatter in scatters]
    runs = runs_of(program.steps)
    stages = [len(stages_of(run)) for run in runs]
    outline = outline_of(problem)
    cases = (*problem.cases, *problem.proofs)
    pairs, few = _pairs_in(program, kernels, problem.cases)
    cuts = [cut for kernel in kernels if (cut := cut_of(kernel, program.stencils)) is not None]
    loops = [loop for kernel in kernels if (loop := recurrence_of(kernel)) is not None]
    summing = Schedule(row_sums="warp")
    sizes = [case.size_map for case in cases]
    declared = sizes[: len(problem.cases)]
    tabled = _tabled(program, cases, len(declared))
    convolutions = convolutions_in(program) if problem.contract != "tf32" else ()
    products = _products(program, problem.contract, declared)
    convolved = behind_patches(program, declared) if problem.contract != "tf32" else set[int]()
    summed = with_sums(program, chained(program, program.steps, summing), summing, declared)
    scanned = with_sums(program, chained(program, program.steps, Schedule()), Schedule(), declared)
    return Traits(
        kernels=len(every),
        naive_kernels=outline.naive_kernels,
        library_calls=tuple(step.op for step in program.steps if isinstance(step, LibraryCall)),
        flat_kernels=sum(kernel.stores[0].level == "flat" for kernel in kernels),
        turned=sum(_is_tiled(kernel, declared) for kernel in kernels),
        strips=sum(bool(strips_of(kernel, program.stencils)) for kernel in kernels),
        walks=len(cuts),
        beside=sum(cut.is_beside for cut in cuts),
        looked_up=sum(_reads_elsewhere(kernel) for kernel in kernels),
        windowed=sum(
            isinstance(step, Kernel) and step.ahead is not None
            for step in in_one_launch(program, program.steps)
        ),
        recurrences=len(loops),
        loops_in_vectors=sum(makes_vectors(loop) for loop in loops),
        stepped=len(every) - len(kernels),
        step_teams=_step_teams(program, every, sizes),
        apart=sum(apart_of(program.pool, kernel) is not None for kernel in kernels),
        staged=(_staged(program, cases, declared, False), _staged(program, cases, declared, True)),
        repeated=sum(slow_repeats(kernel, declared) is not None for kernel in kernels),
        lines=tuple(lines for kernel in kernels if (lines := lines_of(kernel)) is not None),
        again=tuple(
            by_plane(program, kernel) for kernel in kernels if _reads_again(program, kernel, problem.cases)
        ),
        rows=tuple(
            replace(
                row_traits(program, k),
                paired=id(k) in pairs,
                few=id(k) in few,
                summed=not any(k is step for step in summed),
                scanned=not any(k is step for step in scanned),
                weighed=weights_of(program.pool, k) is not None,
                tabled=id(k) in tabled,
                convolved=id(k) in convolved,
            )
            for k in kernels
            if k.stores[0].level != "flat"
        ),
        pooled=sum(k.stores[0].level == "flat" and id(k) in convolved for k in kernels),
        convolutions=convolutions,
        in_place=in_place_of(convolutions, products, declared),
        products=products,
        recurrent=layers_in(program),
        pairs=tuple(pairs.values()),
        few=tuple(few.values()),
        by_lanes=tuple(step for step in scanned if isinstance(step, Scan)),
        summed=tuple(step for step in summed if isinstance(step, Scan) and step.sums),
        weighed=tuple(one for k in kernels if (one := weights_of(program.pool, k)) is not None),
        narrowest_bytes=_narrowest(program, every),
        slow_math=_slow([*every, *joining]) or any(is_pair(step.op, step.value.dtype) for step in scans),
        rewrites=_applying(digest, holder) | program.applied | _in_steps(problem, without),
        divides=any(divides(program.pool, kernel) for kernel in [*every, *joining]),
        narrow_indices=_narrow(program, sizes),
        scans=scans,
        scatters=scatters,
        sharing=sum(map(len, runs)),
        stages=sum(stages),
        in_planes=len(program.steps) == len(every) == sum(stages) and planes_of(program, every) is not None,
        row_totals=len(with_tails(program)) < len(program.steps),
        cases=tuple(case.sizes for case in cases),
        declared=len(problem.cases),
    )


def _staged(program: Program, cases: Sequence[Case], declared: list[dict[str, int]], apart: bool) -> int:
    sizes = [case.size_map for case in cases]
    steps = with_staged(program, program.steps, apart, sizes, len(declared))
    return sum(len(step.parts) for step in steps if isinstance(step, Kernel))


def _products(
    program: Program, contract: Contract, declared: list[dict[str, int]]
) -> tuple[MatrixProduct, ...]:
    """Products that a kernel can make; under other contracts the library's tensor cores are as exact."""
    if contract != "ieee-fp32":
        return ()
    return tuple(made for made in products_in(program) if worth_multiplying(made, declared))


def _tabled(program: Program, cases: Sequence[Case], declared: int) -> set[int]:
    """Kernels whose threads can have rows of few elements, by identity."""
    steps = with_row_tables(program, program.steps, [case.size_map for case in cases], declared)
    return {id(part) for step in steps if isinstance(step, Kernel) for part in step.tables}


def _in_steps(problem: Problem, without: frozenset[str]) -> frozenset[str]:
    """The rewrite that keeps rows on the chip, where it is not to be made but could be."""
    if ROW_STEPS not in without:
        return frozenset()
    return program_of(problem, True).applied & {ROW_STEPS}


def _step_teams(
    program: Program, kernels: Sequence[Kernel], cases: Sequence[Mapping[str, int]]
) -> frozenset[tuple[int, bool]]:
    """Teams that have room for the rows of all kernels that take them through steps, at all sizes."""
    stepped = [kernel for kernel in kernels if kernel.steps is not None]
    return frozenset(
        (threads, warps)
        for threads in BLOCKS
        for warps in (False, True)
        if stepped and all(has_room(program, kernel, threads, warps, cases) for kernel in stepped)
    )


def _pairs_in(
    program: Program, kernels: Sequence[Kernel], declared: Sequence[Case]
) -> tuple[dict[int, Pairs], dict[int, FewRows]]:
    """Kernels of pairs whose rows are read again and again, and those of few rows, by identity."""
    cases = [case.size_map for case in declared]
    every = {id(kernel): pairs_of(program.pool, kernel) for kernel in kernels}
    found = {at: pairs for at, pairs in every.items() if pairs is not None}
    few = {at: few_rows(pairs, cases) for at, pairs in found.items()}
    return (
        {at: pairs for at, pairs in found.items() if worth_pairing(pairs, cases)},
        {at: one for at, one in few.items() if one is not None},
    )


def _reads_elsewhere(kernel: Kernel) -> bool:
    """True where what one thread reads another has read before, or will, anywhere on the card."""
    if kernel.stores[0].level != "flat":
        return False
    loads = loads_below(store.value for store in kernel.stores)
    found = {load.buffer for load in loads if load.lookups}
    return any(load.buffer in found and not load.lookups for load in loads)


def _reads_again(program: Program, kernel: Kernel, declared: Sequence[Case]) -> bool:
    if kernel.stores[0].level != "flat":
        return False
    again = [program.buffers[name] for name in read_before(program, kernel)]
    return any(
        left_in_l2(H100, _span(one, case.size_map) * DTYPE_BYTES[one.dtype], back=False) < 1.0
        for one in again
        for case in declared
    )


def _is_tiled(kernel: Kernel, cases: list[dict[str, int]]) -> bool:
    turn = turn_of(kernel)
    return turn is not None and all(min(turn.down.at(c), turn.along.at(c)) >= LEAST_TILED for c in cases)


def traits_of(problem: Problem, without: frozenset[str] = frozenset()) -> Traits:
    """The problem's traits, made once; ``without`` some rewrites, whose names are told all the same."""
    return _traits(problem.digest, Unkeyed(problem), without)


def row_traits(program: Program, kernel: Kernel) -> RowTraits:
    """Traits of one row kernel."""
    space = RowSpace(program.pool, kernel)
    passes = passes_of(space, kernel, single_pass=False)
    joint = passes_of(space, kernel, single_pass=True)
    once = row_shape(space, joint)
    joins = bool(passes) and all(step.accumulators for step in passes)
    bundles = bundles_of(space, passes) or bundles_of(space, joint)
    late = bool(early_loads(space, passes, waiting_loads(space, passes)))
    return RowTraits(
        shape=row_shape(space, passes),
        passes=len(passes),
        joint_passes=len(joint),
        joint=once,
        bundles=bundles,
        ends_joining=joins,
        late=late,
        bytes_in_turns=bytes_in_turns(program, kernel),
    )


def _narrowest(program: Program, kernels: list[Kernel]) -> int:
    stores = [store for kernel in kernels for store in kernel.all_stores]
    names = {store.buffer for store in stores}
    names |= {load.buffer for load in loads_below(store.value for store in stores)}
    sizes = [DTYPE_BYTES[program.buffers[name].dtype] for name in names]
    if sizes and max(sizes) == 1:
        return 1
    return min((size for size in sizes if size > 1), default=4)


def _slow(kernels: list[Kernel]) -> bool:
    roots = [store.value for kernel in kernels for store in kernel.all_stores]
    parts = walk_all(roots, into_reductions=True)
    return any(isinstance(part, Apply) and part.dtype == "f32" and part.op in _SLOW_MATH for part in parts)


def _narrow(program: Program, cases: list[dict[str, int]]) -> bool:
    return all(_span(buffer, case) <= MOST_NARROW for buffer in program.buffers.values() for case in cases)


def _span(buffer: Buffer, case: dict[str, int]) -> int:
    """Elements from the first to the last of a tensor in memory."""
    shape = [size.at(case) for size in buffer.shape]
    if buffer.strides is None:
        return math.prod(shape)
    steps = [step.at(case) for step in buffer.strides]
    return 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
