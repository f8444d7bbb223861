"""Few long rows: several blocks share a row, and each further pass is a launch of its own.

Owns which launches a split has: every pass leaves a partial result a piece, the next one joins them, the last
block of the same one does, or all blocks do when they have waited for one another.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.model import H100
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.row_shapes import row_shape
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.bundle_kernel import bundle_kernel
from workbench.playbook.kernels.kernel_text import (
    InTurns,
    KernelText,
    ShapedText,
    Site,
    SplitText,
    Together,
)
from workbench.playbook.kernels.split_launch import Partials, SplitKernel, joined_by_last
from workbench.playbook.kernels.together_kernel import TogetherKernel, fits_together, together_kernel
from workbench.playbook.kernels.together_rows import any_in_turns, bytes_in_turns, rows_kernel
from workbench.playbook.kernels.words_kernel import WordsKernel
from workbench.playbook.schedules.schedule import (
    LEAST_PIECE,
    MOST_TEAMS,
    bundle_text,
    pieces_of,
    split_from,
    split_team,
    split_threads,
    told_piece,
)
from workbench.playbook.text.names import Names


def split_kernel(
    site: Site, kernel: Kernel, name: str, names: Names, plain: KernelText | ShapedText | None
) -> SplitText:
    """Write all launches of a kernel that is split; ``plain`` is what many rows get."""
    schedule = site.schedule
    team = split_team(schedule)
    threads = split_threads(schedule)
    pieces = replace(schedule, team=team, cache="reread", persistent=False, threads=threads, fit=False)
    pieces = replace(pieces, prefetch=False, cluster=1)
    shared = replace(site, schedule=pieces)
    site.macros.name(kernel.stores[0].columns, "COLS")
    site.macros.name(kernel.stores[0].rows, "ROWS")
    rows, columns = kernel.stores[0].rows, kernel.stores[0].columns
    partials = Partials(shared)
    joint = _together(shared, kernel, names, name)
    arrived = Names([*site.program.buffers, *site.partials]).new(f"{name}_arrived")
    staying = replace(shared, schedule=replace(pieces, prefetch=schedule.prefetch))
    in_turns = _in_turns(staying, kernel, names.new(f"{name}_in_turns"), arrived)
    constant = rows.number is not None and columns.number is not None
    alone = joint is not None and constant and plain is None
    texts = () if alone else _launches(shared, kernel, name, names, partials)
    counted = MOST_TEAMS if any("arrives_last" in text.helpers for text in texts) else 0
    teams = site.size(rows) if team == "block" else f"cdiv({site.size(rows)}, {threads})"
    bundle = ""
    if schedule.bundle:
        teams, bundle = (
            f"cdiv({site.size(rows)}, {{bundle}})",
            bundle_text(site.at_least_one(rows), schedule.bundle_lanes),
        )
    return SplitText(
        texts,
        partials.all if texts else (),
        plain,
        teams,
        rows,
        columns,
        LEAST_PIECE[team],
        split_from(schedule),
        threads,
        counted,
        bundle=bundle,
        alone=schedule.bundle and counted > 0,
        few_waves=_few_waves(shared, rows, columns),
        told=told_piece(pieces) if pieces.join_told and team == "block" and not schedule.bundle else 0,
        together=joint,
        in_turns=in_turns,
    )


def _few_waves(site: Site, rows: Size, columns: Size) -> bool:
    """True where long rows of a declared case are shared although each could have a block."""
    cases = site.cases[: site.declared]
    apart = replace(site.schedule, join_grid=False)
    counts = [(rows.at(case), pieces_of(apart, H100, rows.at(case), columns.at(case))) for case in cases]
    fill = H100.sm_count * (H100.threads_per_sm // (2 * apart.threads))
    many = any(pieces > -(-fill // count) for count, pieces in counts)
    return apart.team == "block" and not site.schedule.join_grid and many


def _together(site: Site, kernel: Kernel, names: Names, name: str) -> Together | None:
    """The one launch of blocks that wait for one another, where some declared row can be kept by them."""
    space = RowSpace(site.program.pool, kernel)
    shape = row_shape(space, passes_of(space, kernel, single_pass=True))
    if not fits_together(site.schedule, shape, site.cases[: site.declared]):
        return None
    kind = WordsKernel if site.schedule.join_words else TogetherKernel
    return together_kernel(site, kernel, names.new(f"{name}_together"), kind)


def _in_turns(site: Site, kernel: Kernel, name: str, arrived: str) -> InTurns | None:
    """The one launch of blocks that take the rows in turns, where some declared rows do."""
    space = RowSpace(site.program.pool, kernel)
    shape = row_shape(space, passes_of(space, kernel, single_pass=True))
    bytes_a_column = bytes_in_turns(site.program, kernel)
    if not any_in_turns(site.schedule, H100, shape, bytes_a_column, site.cases[: site.declared]):
        return None
    return rows_kernel(site, kernel, name, arrived)


def _launches(
    site: Site, kernel: Kernel, name: str, names: Names, partials: Partials
) -> tuple[KernelText, ...]:
    probe = SplitKernel(site, kernel, name, 0, partials)
    count = sum(bool(step.accumulators) for step in probe.passes)
    texts = []
    for number in range(joined_by_last(site, probe.passes) or count + 1):
        stem = f"{name}_finish" if number == count else f"{name}_partial"
        stem = f"{name}_pieces" if number + 1 == joined_by_last(site, probe.passes) else stem
        if site.schedule.bundle and number < count:
            texts.append(bundle_kernel(site, kernel, names.new(stem), number, partials))
            continue
        text = SplitKernel(site, kernel, names.new(stem), number, partials).text()
        if text.width is not None and not text.width.is_possible:
            narrow = replace(site, schedule=replace(site.schedule, width=1))
            text = SplitKernel(narrow, kernel, text.name, number, partials).text()
        texts.append(text)
    return tuple(texts)
