"""Which form of kernel each step of a program gets.

Owns that choice, the kernels' names, and that none is launched where it has nothing to do. Which steps share
a kernel has been decided before; generate.py makes a file of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from workbench.playbook.analysis.apart import apart_of
from workbench.playbook.analysis.divisions import with_products, with_quotients
from workbench.playbook.analysis.lines import lines_of, worth_lines
from workbench.playbook.analysis.recurrences import recurrence_of
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.analysis.shared_weights import weights_at
from workbench.playbook.analysis.turning import turn_of
from workbench.playbook.ir.program import (
    Convolution,
    InPlaceOfCall,
    Kernel,
    LibraryCall,
    MatrixProduct,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
)
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.stencil import strips_of
from workbench.playbook.kernels.channels_kernel import channels_kernel
from workbench.playbook.kernels.convolution_kernel import convolution_kernel
from workbench.playbook.kernels.convolution_product import convolution_product
from workbench.playbook.kernels.convolution_tiling import tiling_of as tiles_of_convolution
from workbench.playbook.kernels.few_kernel import few_kernel
from workbench.playbook.kernels.few_tiling import few_in
from workbench.playbook.kernels.flat_kernel import flat_kernel
from workbench.playbook.kernels.joint_kernel import sharing_launches
from workbench.playbook.kernels.kernel_text import (
    JointText,
    KernelText,
    MaybeText,
    PreparedText,
    Site,
    Step,
)
from workbench.playbook.kernels.lines_kernel import lines_kernel
from workbench.playbook.kernels.lookback_kernel import scan_step
from workbench.playbook.kernels.loop_kernel import loop_kernel
from workbench.playbook.kernels.pair_kernel import pair_kernel
from workbench.playbook.kernels.pair_tiling import tiled_pairs
from workbench.playbook.kernels.patches_kernel import patches_kernel
from workbench.playbook.kernels.patches_tiling import patches_tiling
from workbench.playbook.kernels.pooled_kernel import pooled_kernel
from workbench.playbook.kernels.product_kernel import product_kernel
from workbench.playbook.kernels.recurrent_kernel import recurrent_kernel
from workbench.playbook.kernels.recurrent_tiling import recurrent_tiling
from workbench.playbook.kernels.row_layers import row_step
from workbench.playbook.kernels.row_tables_kernel import row_tables_kernel
from workbench.playbook.kernels.scan_rows_kernel import scan_rows_kernel
from workbench.playbook.kernels.scatter_kernel import scatter_step
from workbench.playbook.kernels.staged_kernel import staged_kernel
from workbench.playbook.kernels.staged_rows import staged_rows
from workbench.playbook.kernels.steps_kernel import steps_kernel
from workbench.playbook.kernels.strip_kernel import strip_kernel
from workbench.playbook.kernels.tile_kernel import tile_kernel
from workbench.playbook.kernels.walk_beside_kernel import walk_beside_kernel
from workbench.playbook.kernels.walk_down_kernel import walk_down_kernel
from workbench.playbook.kernels.weights_pieces import weights_step
from workbench.playbook.kernels.weights_turned import turned_buffer, turned_elements, weights_turned
from workbench.playbook.kernels.window_kernel import window_kernel
from workbench.playbook.text.names import Names


def written(site: Site, stem: str, steps: Sequence[ProgramStep]) -> list[Step]:
    """The text of every step, in order; names of kernels begin with ``stem``."""
    names = Names(["plan"])
    alone = sum(not isinstance(step, LibraryCall) for step in steps) == 1
    writer = _Writer(site, stem, names, alone)
    pairs = [writer.step(step) for step in steps]
    texts = [text for _, text in pairs]
    if site.schedule.launches != "apart":
        texts = sharing_launches(site, pairs, names)
    idle = {
        id(text): _idle(site, step)
        for step, text in pairs
        if isinstance(step, Kernel | Scatter | InPlaceOfCall) or (isinstance(step, Scan) and step.sums)
    }
    return [_guarded(text, idle.get(id(text), ())) for text in texts]


@dataclass(frozen=True)
class _Writer:
    """Writes one step after the other; each comes back as its kernel has it, with its text."""

    site: Site
    stem: str
    names: Names
    alone: bool
    """True where no other step has a kernel: then its name needs no more than the stem."""

    def step(self, step: ProgramStep) -> tuple[ProgramStep, Step]:
        """A step of any kind."""
        match step:
            case LibraryCall():
                return step, step
            case Scan():
                name = self._called(step.buffer)
                if step.sums or step.ahead or step.before is not None:
                    return step, scan_rows_kernel(self.site, step, name)
                return step, scan_step(self.site, step, name, self.names)
            case Convolution():
                name = self._called(step.stores[0].buffer)
                return step, _convolution_kernel(self.site, step, name, self.names)
            case MatrixProduct():
                name = self._called(step.stores[0].buffer)
                return step, product_kernel(self.site, _tail_divided(self.site, step), name)
            case RecurrentLayers():
                tiling = recurrent_tiling(step, step.warp_units, self.site.declared_sizes)
                assert tiling is not None  # the others are the library's
                return step, recurrent_kernel(self.site, step, self._called(step.cell), tiling)
            case Scatter():
                return step, scatter_step(self.site, step, self._named("at_places"), self.names)
            case Kernel(parts=(_, *_)):
                return step, _staged_kernel(self.site, step, self._called(step.stores[0].buffer))
            case Kernel(tables=(_, *_)):
                divided = replace(step, tables=tuple(_divided(self.site, part) for part in step.tables))
                return step, row_tables_kernel(self.site, divided, self._called(step.stores[0].buffer))
            case Kernel():
                return self._kernel(_divided(self.site, step))

    def _kernel(self, step: Kernel) -> tuple[ProgramStep, Step]:
        """Stores over a line, or over rows with reductions."""
        made = (step.tail or step).stores[0].buffer
        name = self.names.new(self.stem) if made.startswith("out") else self._called(made)
        if step.steps is not None:
            return step, steps_kernel(self.site, _each_divided(self.site, step), name)
        if step.stores[0].level != "flat":
            return step, self._over_rows(step, name)
        step = _exactly_divided(self.site, step)
        if step.ahead is None:
            return step, _line_kernel(self.site, step, name)
        ahead = _exactly_divided(self.site, _divided(self.site, step.ahead))
        return step, window_kernel(self.site, step, ahead, name)

    def _over_rows(self, step: Kernel, name: str) -> Step:
        site, declared = self.site, self.site.cases[: self.site.declared]
        if (tiled := tiled_pairs(site.program.pool, step, site.schedule, declared)) is not None:
            return pair_kernel(site, step, name, tiled[1])
        if (few := few_in(site.program.pool, step, site.schedule, declared)) is not None:
            return few_kernel(site, step, name, *few)
        if site.schedule.share_weights and (shared := weights_at(site.program.pool, step, declared)):
            return weights_step(site, step, name, self.names, shared)
        return row_step(site, step, name, self.names)

    def _called(self, made: str) -> str:
        """The name of a kernel, by what it makes where there are others."""
        return self.names.new(self.stem) if self.alone else self._named(made)

    def _named(self, word: str) -> str:
        return self.names.new(f"{self.stem}_{word}")


def _staged_kernel(site: Site, step: Kernel, name: str) -> KernelText:
    """The kernel of all parts of some rows."""
    parts = [_exactly_divided(site, _divided(site, part)) for part in step.parts]
    rows = staged_rows(site.program, parts, site.schedule.apart, site.cases)
    assert rows is not None  # products for divisions change neither stores nor their places
    return staged_kernel(site, name, rows)


def _convolution_kernel(site: Site, step: Convolution, name: str, names: Names) -> Step:
    """The kernel of a convolution and what is behind it."""
    if step.way == "patches":
        tiling = patches_tiling(step, step.threads, site.cases[: site.declared])
        assert tiling is not None  # the others are the library's
        write = pooled_kernel if step.windows else patches_kernel
        write = partial(channels_kernel if step.across_channels else write, tiling=tiling)
        return _with_weights_turned(site, _tail_divided(site, step), name, names, write)
    if step.way == "product":
        return _with_weights_turned(site, _tail_divided(site, step), name, names, convolution_product)
    tiles = tiles_of_convolution(step, site.schedule, site.cases[: site.declared])
    assert tiles is not None  # the others are the library's
    return convolution_kernel(site, _tail_divided(site, step), name, tiles)


def _with_weights_turned(
    site: Site, step: Convolution, name: str, names: Names, write: Callable[..., KernelText]
) -> Step:
    """The kernel of a convolution on tensor cores, behind that of its weights where these are laid out."""
    if not (step.transposed or step.paired):
        return write(site, step, name)
    buffer = turned_buffer(site, step)
    first = weights_turned(site, step, names.new(f"{name}_weights"), buffer)
    kernel = write(site, step, name, turned=buffer)
    return PreparedText(first, kernel, buffer, turned_elements(step), step.dtype)


_Made = TypeVar("_Made", Convolution, MatrixProduct)


def _tail_divided(site: Site, step: _Made) -> _Made:
    """The step whose pointwise work divides as the schedule has it."""
    tail = _exactly_divided(site, _divided(site, Kernel(list(step.stores))))
    return replace(step, stores=tuple(tail.stores))


def _line_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """The kernel of stores over one line: in tiles, down planes, in strips, or along the line."""
    schedule, known = site.schedule, site.program.stencils
    if schedule.rolled and (loop := recurrence_of(kernel)) is not None:
        return loop_kernel(site, kernel, name, loop)
    if schedule.tile and (turn := turn_of(kernel)) is not None:
        return tile_kernel(site, kernel, name, turn)
    if schedule.side and (cut := cut_of(kernel, known)) is not None:
        write = walk_beside_kernel if cut.is_beside else walk_down_kernel
        return write(site, kernel, name, cut)
    if schedule.strip and (seen := strips_of(kernel, known)):
        return strip_kernel(site, kernel, name, seen)
    if schedule.apart and (apart := apart_of(site.program.pool, kernel)) is not None:
        return flat_kernel(site, apart.kernel, name)
    lines = lines_of(kernel) if schedule.lines else None
    if lines is not None and worth_lines(lines, schedule, site.cases[: site.declared]):
        return lines_kernel(site, kernel, name, lines)
    return flat_kernel(site, kernel, name)


def _idle(site: Site, step: Kernel | Scatter | Scan | InPlaceOfCall) -> tuple[Size, ...]:
    """Factors of a kernel's blocks that are zero at a known size, as ``x[:, 1:]`` of one column is empty.

    None of a kernel that joins its rows: of no rows too there is a result.
    """
    if isinstance(step, Scan):
        blocks = step.rows
    elif isinstance(step, InPlaceOfCall):
        blocks = product(step.shape)
    else:
        kernel = step.stored if isinstance(step, Scatter) else step
        if kernel.tail is not None:
            return ()
        first = kernel.stores[0]
        blocks = first.columns if first.level == "flat" else first.rows
    factors = [site.program.sizes.read(factor) for factor in blocks.factors]
    return tuple(size for size in factors if site.may_be_empty(size))


def _guarded(text: Step, idle: tuple[Size, ...]) -> Step:
    """The step, not launched where it has nothing to do."""
    if not idle or isinstance(text, LibraryCall | JointText | MaybeText):
        return text
    return MaybeText(text, idle)


def _divided(site: Site, kernel: Kernel) -> Kernel:
    """The kernel with products for divisions, where they are wanted."""
    return with_products(site.program.pool, kernel) if site.schedule.reciprocal else kernel


def _exactly_divided(site: Site, kernel: Kernel) -> Kernel:
    """The kernel with what is still divided rounded as divisions are."""
    return kernel if site.schedule.fast_math else with_quotients(site.program.pool, kernel)


def _each_divided(site: Site, kernel: Kernel) -> Kernel:
    """The same of each of its steps."""
    assert kernel.steps is not None
    before = [_exactly_divided(site, _divided(site, one)) for one in kernel.steps.kernels]
    steps = replace(kernel.steps, kernels=tuple(before))
    return replace(_exactly_divided(site, kernel), steps=steps)
