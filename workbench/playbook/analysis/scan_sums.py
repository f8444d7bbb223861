"""Reductions of running totals, done where the totals are made: weights along a ray, and sums of colours.

Owns which reductions a scan can take along, and what of a reduction is one value for all results that a row
has side by side. scan_rows_kernel.py writes the kernel. Never writes text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.analysis.scan_joins import PLACES, in_rows
from workbench.playbook.analysis.scan_tail import EMPTY, before_name, is_before, is_column, is_one, writes
from workbench.playbook.analysis.shared_weights import weights_of
from workbench.playbook.ir.expr import (
    Apply,
    Const,
    Expr,
    Index,
    Load,
    Pool,
    Reduction,
    loads_below,
    unguarded,
    walk,
)
from workbench.playbook.ir.program import Kernel, Program, ProgramStep, Scan, Store
from workbench.playbook.ir.sizes import ZERO, Size
from workbench.playbook.ir.views import Axis, NotAView, Runs, View, joined, merged, runs, split
from workbench.playbook.schedules.schedule import Schedule

MOST_BESIDE = 8
"""Results that a row has side by side: a thread keeps what each comes to."""
PLAIN = frozenset(["sum", "prod", "max", "min", "any", "all"])


@dataclass(frozen=True)
class Summed:
    """One reduction along the rows of a scan."""

    reduction: Reduction
    beside: Size
    """Results that a row has side by side."""
    parts: Parts
    """What its body is made of."""


Cases = Sequence[Mapping[str, int]]


def with_sums(
    program: Program, steps: Sequence[ProgramStep], schedule: Schedule, cases: Cases
) -> list[ProgramStep]:
    """The steps; kernels that only reduce what a scan makes along its rows are that scan's, and those that
    reduce what a scan reads.

    Kernels that sum rows to few results each, weighed alike, walk them once; few at the sizes of ``cases``.
    """
    found = list(steps)
    if not schedule.fuse:
        return found
    if schedule.row_sums:
        found = _summed(program, found, cases)
    for kernel in [step for step in found if isinstance(step, Kernel)]:
        for scan in [step for step in found if isinstance(step, Scan)]:
            if _may_begin(scan, schedule) and _comes_before(program, found, kernel, scan):
                found[found.index(scan)] = replace(scan, before=_both(kernel, scan.before))
                found.remove(kernel)
                break
    return found


def _may_begin(scan: Scan, schedule: Schedule) -> bool:
    """True for scans whose kernel may walk a row before: all that a team of threads makes by itself."""
    return not schedule.look_back and (bool(scan.sums) or _may_have(scan))


def _both(first: Kernel, other: Kernel | None) -> Kernel:
    return first if other is None else Kernel([*first.stores, *other.stores])


def _summed(program: Program, steps: Sequence[ProgramStep], cases: Cases) -> list[ProgramStep]:
    """The steps, scans with their sums."""
    found = list(steps)
    for scan in [step for step in steps if isinstance(step, Scan) and _may_have(step)]:
        grown = scan
        for kernel in [step for step in found if isinstance(step, Kernel)]:
            if not _may_move(found, scan, kernel):
                continue
            sums, first = _known_first(program.pool, grown, kernel)
            stores = _of_scan(program.pool, grown, sums)
            if stores is not None:
                before = _both(first, grown.before) if first is not None else grown.before
                grown = replace(grown, sums=(*grown.sums, *stores), before=before)
                found.remove(kernel)
        if grown is not scan:
            others = [step for step in found if step is not scan]
            read = {output.buffer for output in program.outputs}.union(*map(buffers_read, others))
            ahead = tuple(replace(one, kept=one.buffer in read) for one in grown.ahead)
            grown = replace(grown, kept=scan.buffer in read, ahead=ahead)
            found[found.index(scan)] = as_exclusive(program.pool, grown)
    return [_walked_once(program.pool, step, cases) if isinstance(step, Kernel) else step for step in found]


def _comes_before(program: Program, steps: Sequence[ProgramStep], kernel: Kernel, scan: Scan) -> bool:
    """True for reductions that nobody but a scan of the same rows wants, each at its own row."""
    first = kernel.stores[0]
    if first.level == "flat" or kernel.tail is not None or kernel.ahead is not None:
        return False
    if any(store.level != "row" for store in kernel.stores) or steps.index(kernel) > steps.index(scan):
        return False
    made = {store.buffer: store for store in kernel.stores}
    others = [step for step in steps if step is not kernel and step is not scan]
    wanted = {output.buffer for output in program.outputs}.union(*map(buffers_read, others))
    if (first.rows, first.columns) != (scan.rows, scan.columns) or made.keys() & wanted:
        return False
    if scan.before is not None and made.keys() & buffers_read(scan.before):
        return False
    between = steps[steps.index(kernel) + 1 : steps.index(scan)]
    if buffers_read(kernel) & set[str]().union(*map(writes, between)):
        return False
    whole = identity(scan.rows)
    if any(store.view != whole or not _is_plain(program, store) for store in kernel.stores):
        return False
    try:
        return all(_at_its_row(program.pool, scan, made.keys())) and bool(made.keys() & buffers_read(scan))
    except NotAView:
        return False


def _is_plain(program: Program, store: Store) -> bool:
    buffer = program.buffers[store.buffer]
    return buffer.role == "made" and buffer.dtype == store.value.dtype


def _at_its_row(pool: Pool, scan: Scan, made: Collection[str]) -> Iterator[bool]:
    """For each load of some values a row whether it is that of the row at hand."""
    roots = [*(one.value for one in scan.ahead), scan.value, *(store.value for store in scan.tail)]
    roots += [part for one in sums_of(pool, scan) for part in one.parts.shared.values()]
    for load in (load for load in loads_below(roots) if load.buffer in made):
        row, column = split(load.view, scan.rows, scan.columns)
        yield not load.lookups and row == identity(scan.rows) and column.is_constant
    for store in scan.sums:
        for load in (load for load in _outside(store.value) if load.buffer in made):
            by_row, beside = runs(load.view, (scan.rows, store.rows // scan.rows))
            row = joined((by_row,), load.view.offset)
            yield not load.lookups and row == identity(scan.rows) and View(beside).is_constant


def _walked_once(pool: Pool, kernel: Kernel, cases: Cases) -> ProgramStep:
    """A kernel of few results a row, weighed alike, as a scan without totals; any other as it is."""
    weights = weights_of(pool, kernel)
    if weights is None or not all(1 < weights.neighbours.at(case) <= MOST_BESIDE for case in cases):
        return kernel
    first, beside = kernel.stores[0], weights.neighbours
    if not beside.divides(first.rows):
        return kernel
    rows, columns = first.rows // beside, first.columns
    walk_once = Scan("", weights.parts[0], rows, columns, "", identity(rows * columns), False, kept=False)
    try:
        stores = _of_scan(pool, walk_once, kernel)
    except NotAView:
        return kernel
    if stores is None:
        return kernel
    value = next(iter(sums_of(pool, replace(walk_once, sums=stores))[0].parts.shared.values()))
    return replace(walk_once, value=value, sums=stores)


def few_beside(scan: Scan, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where at every shape a thread can keep what all results side by side come to."""
    beside = [store.rows // scan.rows for store in scan.sums]
    return all(size.at(case) <= MOST_BESIDE for size in beside for case in cases)


def _may_have(scan: Scan) -> bool:
    return scan.op not in PLACES and in_rows(scan)


def _may_move(steps: Sequence[ProgramStep], scan: Scan, kernel: Kernel) -> bool:
    """True for reductions behind a scan that need nothing of what is made between the two but the scan's."""
    first, last = steps.index(scan), steps.index(kernel)
    if first > last or kernel.tail is not None or kernel.ahead is not None:
        return False
    if any(store.level != "row" for store in kernel.stores):
        return False
    if not _made_by(scan).keys() & buffers_read(kernel):
        return False
    needed = buffers_read(kernel) | {store.buffer for store in kernel.stores}
    return not needed & set[str]().union(*(writes(step) for step in steps[first + 1 : last]))


def _known_first(pool: Pool, scan: Scan, kernel: Kernel) -> tuple[Kernel, Kernel | None]:
    """The kernel, with loads for what its rows come to before a total is asked for; and what that is."""
    rows, columns = kernel.stores[0].rows, kernel.stores[0].columns
    if rows != scan.rows:
        return kernel, None
    made = {*_made_by(scan), *(store.buffer for store in scan.tail)}
    space, names, first = RowSpace(pool, kernel), dict[int, str](), list[Store]()
    known_yet = len(scan.before.stores) if scan.before is not None else 0
    bodies = [each.body for store in kernel.stores for each in reductions_of(store.value)]
    for inner in (one for body in bodies for one in walk(body)):
        if not isinstance(inner, Reduction) or inner.key in names:
            continue
        form = space.row_form(inner)
        if form is None or made & {load.buffer for load in loads_below([inner])}:
            continue
        names[inner.key] = f"{scan.buffer}_row_{known_yet + len(names)}"
        first.append(Store(names[inner.key], form, identity(rows), rows, columns, "row"))

    def known(expr: Expr) -> Expr | None:
        if not isinstance(expr, Reduction) or expr.key not in names:
            return None
        return pool.load(names[expr.key], expr.dtype, expr.view)

    stores = [replace(store, value=pool.mapped(store.value, known, bodies=True)) for store in kernel.stores]
    return (Kernel(stores), Kernel(first)) if first else (kernel, None)


def _of_scan(pool: Pool, scan: Scan, kernel: Kernel) -> tuple[Store, ...] | None:
    """A kernel's stores, where all they reduce lies along the scan's rows; None where it does not."""
    rows, columns = kernel.stores[0].rows, kernel.stores[0].columns
    if columns != scan.columns or not scan.rows.divides(rows):
        return None
    try:
        made = {store.buffer: store for store in scan.tail}
        stores = [replace(store, value=_with_tail(pool, scan, store, made)) for store in kernel.stores]
        for store in stores:
            if not all(_is_able(pool, scan, one) for one in reductions_of(store.value)):
                return None
            if any(load.buffer in {*made, *_made_by(scan)} for load in _outside(store.value)):
                return None
            beside_row(scan, store)
    except NotAView:
        return None
    return tuple(stores)


def _with_tail(pool: Pool, scan: Scan, store: Store, made: dict[str, Store]) -> Expr:
    """A value that reads what the scan's tail writes, with what that is in its place."""

    def instead(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in made or expr.lookups:
            return None
        written = made[expr.buffer]
        if over_scan(scan, store.rows, expr.view) != written.view or written.value.dtype != expr.dtype:
            raise NotAView
        return pool.through(written.value, lambda view: _repeated(scan, store.rows, view))

    return pool.mapped(store.value, instead, bodies=True)


def _outside(value: Expr) -> list[Load]:
    return [expr for expr in walk(value) if isinstance(expr, Load)]


def _made_by(scan: Scan) -> dict[str, View]:
    """The totals that a kernel has at hand, and where each is kept."""
    return {one.buffer: one.view for one in (*scan.ahead, scan)}


def reductions_of(value: Expr) -> list[Reduction]:
    """Of a value a row, each once."""
    return [expr for expr in walk(value) if isinstance(expr, Reduction)]


def _is_able(pool: Pool, scan: Scan, reduction: Reduction) -> bool:
    """True for a plain reduction of totals at hand and of what is read. Raises ``NotAView``."""
    if reduction.op not in PLAIN or reduction.view != reduction.rows:
        return False
    if any(isinstance(expr, Reduction) for expr in walk(reduction.body)):
        return False
    parts = parts_of(pool, scan, reduction.rows.size, reduction.body)
    for leaf in parts.own:
        if isinstance(leaf, Index) or leaf.lookups or leaf.buffer in _made_by(scan):
            return False
        axes_of(scan, reduction.rows.size, leaf.view)
    at_hand = _made_by(scan)
    loads = [load for part in parts.shared.values() for load in _outside(part) if load.buffer in at_hand]
    return all(load.view == at_hand[load.buffer] and not load.lookups for load in loads)


# ------------------------------------------------------------------------------------ two spaces


def axes_of(scan: Scan, rows: Size, view: View) -> Runs:
    """A view over (rows, columns) by the scan's rows, the results beside one another, and the columns."""
    by_row, beside, by_column = runs(view, (scan.rows, rows // scan.rows, scan.columns))
    return by_row, merged(View(beside)).axes, by_column


def over_scan(scan: Scan, rows: Size, view: View) -> View:
    """The same over the scan's space. Raises ``NotAView`` where results side by side have elements apart."""
    by_row, beside, by_column = axes_of(scan, rows, view)
    if any(not axis.stride.is_zero for axis in beside):
        raise NotAView
    return joined((by_row, by_column), view.offset)


def _repeated(scan: Scan, rows: Size, view: View) -> View:
    """A view over the scan's space, found again by all results side by side."""
    by_row, by_column = runs(view, (scan.rows, scan.columns))
    return joined((by_row, (Axis(rows // scan.rows, ZERO),), by_column), view.offset)


def beside_row(scan: Scan, store: Store) -> Runs:
    """A view over a store's rows by the scan's rows and the results side by side."""
    return runs(store.view, (scan.rows, store.rows // scan.rows))


@dataclass(frozen=True)
class Parts:
    """What the body of a reduction is made of."""

    shared: dict[int, Expr]
    """The largest parts that are one for all results side by side, by serial; over the scan's space."""
    own: tuple[Load | Index, ...]
    """Leaves of which each of those results has its own."""


def parts_of(pool: Pool, scan: Scan, rows: Size, body: Expr) -> Parts:
    """A body over (rows, columns) taken apart."""
    moved: dict[int, Expr | None] = {}
    for part in walk(body):
        try:
            moved[part.serial] = pool.through(part, lambda view: over_scan(scan, rows, view))
        except NotAView:
            moved[part.serial] = None
    shared: dict[int, Expr] = {}
    own: dict[int, Load | Index] = {}
    stack = [body]
    while stack:
        part = stack.pop()
        if (there := moved[part.serial]) is None:
            stack += part.operands
            if isinstance(part, Load | Index):
                own[part.serial] = part
        elif not isinstance(part, Const):
            shared[part.serial] = there
    return Parts(dict(sorted(shared.items())), tuple(own[serial] for serial in sorted(own)))


# ------------------------------------------------------------------------------------ exclusive totals


def as_exclusive(pool: Pool, scan: Scan) -> Scan:
    """The scan of values that begin one column later, where the first is nothing: of what comes before.

    What it scans is then what the row has at the same column, which others of its kernel want too.
    """
    inner = None if scan.backwards else _one_later(pool, scan)
    whole = [*(store.value for store in scan.tail), *(store.value for store in scan.sums)]
    if inner is None or any(is_before(load, scan) for load in loads_below(whole)):
        return scan
    if not _all_read(pool, scan, inner):
        return scan

    def earlier(expr: Expr) -> Expr | None:
        total = isinstance(expr, Load) and expr.buffer == scan.buffer
        return (
            pool.load(before_name(scan), expr.dtype, expr.view) if total and isinstance(expr, Load) else None
        )

    def changed(stores: Sequence[Store]) -> tuple[Store, ...]:
        return tuple(replace(one, value=pool.mapped(one.value, earlier, bodies=True)) for one in stores)

    own = pool.load(before_name(scan), scan.value.dtype, scan.view)
    kept = (Store(scan.buffer, own, scan.view, scan.rows, scan.columns, "full"),) if scan.kept else ()
    return replace(scan, value=inner, tail=(*kept, *changed(scan.tail)), sums=changed(scan.sums), kept=False)


def _one_later(pool: Pool, scan: Scan) -> Expr | None:
    """What is scanned at the column before, over its own column; None where the first is not nothing."""
    match scan.value:
        case Apply(op="select", args=(Apply(op="lt", args=(at, first)), Const() as empty, later)):
            pass
        case Apply(op="select", args=(Apply(op="ge", args=(at, first)), later, Const() as empty)):
            pass
        case _:
            return None
    if empty.value != EMPTY.get(scan.op) or not is_one(first) or not is_column(at, scan):
        return None

    def forward(view: View) -> View:
        axes = merged(split(view, scan.rows, scan.columns)[1]).axes
        if len(axes) > 1:
            raise NotAView
        return merged(View(view.axes, view.offset + axes[0].stride)) if axes else view

    try:
        return pool.through(later, forward)
    except NotAView:
        return None


def _all_read(pool: Pool, scan: Scan, inner: Expr) -> bool:
    """True where all that is scanned is read at the last column too: it need not exist otherwise."""
    roots = [store.value for store in scan.tail]
    roots += [part for one in sums_of(pool, scan) for part in one.parts.shared.values()]
    there = {leaf.serial for leaf in unguarded(*roots)}
    return all(load.serial in there for load in _outside(inner))


def sums_of(pool: Pool, scan: Scan) -> list[Summed]:
    """The reductions of a scan's kernel, each once."""
    found: dict[int, Summed] = {}
    for store in scan.sums:
        for one in reductions_of(store.value):
            parts = parts_of(pool, scan, store.rows, one.body)
            found.setdefault(one.key, Summed(one, store.rows // scan.rows, parts))
    return list(found.values())
