"""What reads and writes cost more where neighbouring threads reach for elements that lie far apart.

Owns the factors on the bytes of an access; estimate.py makes times of them. Guesses in part, and they say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from workbench.model import Target
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Store
from workbench.playbook.ir.sizes import ONE, ZERO, Size
from workbench.playbook.ir.views import View, split
from workbench.playbook.schedules.fitting import RowShape, lanes_of, lie_at_odd_places, rows_of_lane
from workbench.playbook.schedules.schedule import Schedule, Team

A_REQUEST = 4.0
"""Instructions of a load or store: itself, its address, its share of the loop."""
_DIVIDED, _DIVIDED_NARROW = 40.0, 12.0
"""Instructions that tell row from column of an index of 64 bits, and of 32."""
APART = 4.0
"""Cost of reads whose neighbours in a warp lie far apart, after what L1 saves."""
_WRITTEN_APART = 10.0
"""The same of writes, a sector of L2 for each element (a guess): an instance norm of 16x64x128x128, channels
last, with a row-major result takes 412 us on an H200, where two reads and a write of 67 MB are some 50."""

_RUN_LEAST, _RUN_BYTES = 0.5, 72.0
"""Cost of walks over neighbours that are few bytes, one run of them behind the other. A group norm whose rows
are runs of 16, 40 and 80 bytes takes 2.4 to 4.8, 2.2 to 3.2 and 1.2 to 2.2 times as long as its bytes alone
on an H200, by the way in which it walks."""

_SECTOR = 32
"""Bytes that L1 asks L2 for at least."""
_STRAYED, _IN_STEP, _FAR_DOWN = 0.22, 256, 4096
"""Time that is lost where threads walk down the columns of a matrix: from so many steps, all of it from so
many. Warps lose step, and what is asked for at one time lies all over memory. The sum over the middle axis
of 128x4096x4095 takes 3686 us on an H100 with a thread a column, 16 loads of each in flight; in eager's
blocks, 32 columns wide, whose 16 warps take turns at the rows, it takes 3027. What is between is a guess."""
_LANES = 32
_NARROW, _ALL_ABREAST = 0.08, 1024
"""Time that is lost beyond that where a block reads 32 neighbours at a time, and from how many on none is:
what is between is a guess. Rows of 64 channels, 112x64x512x512, take 3930 us on an H200 with 32 rows a block,
3914 with 256, 3820 with 512; the bytes alone 3600."""
_FLOAT, _ALL_THREADS, _ODD, _ODD_STREAMED = 4, 1024, 0.07, 0.05
"""Maxima over 4096 lines of 4095 floats, 128 times (level1/49 of KernelBench), on an H100: blocks of 1024
threads take 3084 us, of 512 and 256 3333 and 3324; with loads that leave the cache first 3457, 3497, 3561."""
_ODD_IN_PIECES = 0.1


def sectors_over_least(view: View, sizes: Mapping[str, int]) -> float:
    """Sectors over the least: neighbours two elements apart waste half of what they fetch."""
    last = view.axes[-1].stride if view.axes else ONE
    return 1.0 if last.is_one or last.is_zero else min(float(abs(last.at(sizes))), APART)


def lines_of(load: Load, width: int, size: int, whole: bool = True) -> float:
    """Lines of 128 bytes that a warp asks for, for an element of each thread, where a thread has ``width``.

    Whatever moves as a vector (``whole``), or is one element for all of it, is asked for once. The rest is
    asked for element by element, each time all over what the warp's vectors span. L1 serves a line a clock:
    a max pool of windows two elements apart takes 95 us on an H100 in scalars, 135 in vectors of four, whose
    36 requests are 8 lines each; one of eight neighbours, each under a condition, 3522 us for 64x192x65536.
    """
    last = load.view.axes[-1].stride if load.view.axes else ZERO
    if last.is_zero or (last.is_one and whole):
        return 1.0 / width
    step = 32 if last.number is None else abs(last.number)
    return min(32.0, max(1.0, step * width * size / 4.0))


def shared_lines(
    space: RowSpace, load: Load, lanes: int, width: int, size: int, sizes: Mapping[str, int]
) -> float:
    """Lines of 128 bytes a column, each time a team asks for one of a row that it shares with some others.

    What all rows read, or none but one, is left out: there memory is slower than L1. Where neighbours read
    the same, as a plane does its channel's weight, a warp asks once for all of its lanes. With a thread a
    row (``lanes`` 1) neighbours read as far apart as their rows are. Distances of 2048 points from 2048, of
    64 numbers each, are 4 and 16.5 lines a result with eight lanes and with a thread each, 75 and 308 us on
    an H100; they took 108 and 300.
    """
    row, column = space.places(load)
    strides = [axis.stride for axis in row.axes]
    if load.lookups or row.is_constant or not any(stride.is_zero for stride in strides):
        return 0.0
    if lanes > 1:
        if column.axes and column.axes[-1].stride.is_zero:
            return 1.0 / min(float(_LANES * width), column.axes[-1].size.at(sizes))
        return size / 128 if _is_near(column) else 1.0
    if strides[-1].is_zero or strides[-1].is_one:
        return 1.0 / (width if _is_near(column) else 1)
    return float(_LANES) / (width if _is_near(column) else 1)


def asked(loads: Iterable[tuple[Load, float]], width: int, narrow: bool, tiled: bool) -> float:
    """Instructions an element: of the loads, given with their lines, and to take indices apart.

    Loads over the same axes share what takes an index apart, and so does a vector where it may.
    """
    requests = 0.0
    apart: dict[tuple[Size, ...], float] = {}
    for load, lines in loads:
        each = 1.0 / width if lines < 1.0 else 1.0
        requests += each
        axes = tuple(axis.size for axis in load.view.axes)
        if len(axes) > 1 and not tiled:
            apart[axes] = max(each, apart.get(axes, 0.0))
    return A_REQUEST * requests + (_DIVIDED_NARROW if narrow else _DIVIDED) * sum(apart.values())


def read_apart(
    space: RowSpace, load: Load, schedule: Schedule, sizes: Mapping[str, int], element: int
) -> float:
    """Neighbouring threads should read neighbouring elements, whichever axis they run along."""
    row, column = space.places(load)
    if schedule.team == "bundle" and schedule.cache == "registers" and _is_near(column):
        return _of_runs(column, sizes, element)  # turned in a tile
    along = _along(schedule.team, row, column)
    if not along.axes or along.axes[-1].stride.is_zero:
        return 1.0
    return _of_runs(along, sizes, element) if _is_near(along) else APART


def written_apart(space: RowSpace, store: Store, team: Team, sizes: Mapping[str, int], element: int) -> float:
    """The same of a result."""
    row, column = split(store.view, space.rows, space.columns)
    along = column if team == "bundle" and _is_near(column) else _along(team, row, column)
    if not along.axes:
        return 1.0
    return _of_runs(along, sizes, element) if _is_near(along) else _WRITTEN_APART


def _of_runs(view: View, sizes: Mapping[str, int], element: int) -> float:
    """Where neighbours are few before others lie between: parts of sectors, and a line for each few lanes."""
    run = view.axes[-1].size.at(sizes) * element
    return 1.0 if len(view.axes) < 2 else max(1.0, _RUN_LEAST + _RUN_BYTES / run)


def rows_abreast(schedule: Schedule, shape: RowShape, sizes: Mapping[str, int]) -> int:
    """Rows that lie side by side in a block: one a thread, or as many vectors of them as a warp has lanes."""
    if schedule.team == "thread":
        return schedule.threads
    most = rows_of_lane(schedule, shape)
    runs = [size.at(sizes) for size in shape.beside if not lie_at_odd_places(shape, (sizes,))]
    return _LANES * next((one for one in (most, most // 2) if one and not any(r % one for r in runs)), 1)


def strayed(
    shape: RowShape, schedule: Schedule, sizes: Mapping[str, int], read: float, target: Target
) -> float:
    """Factor on the time of threads that walk down columns, beyond what L2 holds."""
    if schedule.team not in ("thread", "bundle") or shape.neighbours or read <= target.l2_bytes:
        return 1.0
    steps = min(shape.columns.at(sizes) / lanes_of(schedule), _FAR_DOWN)
    missing = math.log2(_ALL_ABREAST / rows_abreast(schedule, shape, sizes))
    narrow = max(0.0, missing / math.log2(_ALL_ABREAST / _LANES))
    far = _STRAYED * max(0.0, steps - _IN_STEP) / (_FAR_DOWN - _IN_STEP)
    return 1.0 + far + _NARROW * narrow + _at_odd_places(shape, schedule, sizes)


def _at_odd_places(shape: RowShape, schedule: Schedule, sizes: Mapping[str, int]) -> float:
    """What it costs beyond that to share sectors with the bundle beside, where no line begins with one."""
    if schedule.team != "bundle" or all(size.at(sizes) * _FLOAT % _SECTOR == 0 for size in shape.beside):
        return 0.0
    return _ODD * (schedule.threads < _ALL_THREADS) + _ODD_STREAMED * schedule.stream


def strayed_in_pieces(shape: RowShape, sizes: Mapping[str, int], read: float, target: Target) -> float:
    """The same where several blocks share columns whose lines begin anywhere: 412 us instead of 377 for the
    sums of 16x4096x4095 on an H100, 420 for 64x4096x1023."""
    far = read > target.l2_bytes and lie_at_odd_places(shape, (sizes,))
    return 1.0 + _ODD_IN_PIECES * far


def read_at_ends(span: float) -> float:
    """Of what a warp reads in one place of so many bytes, what its neighbours read as well: such places begin
    and end inside sectors, where windows reach into the neighbours' columns."""
    return min(1.0, 2 * _SECTOR / span)


def _along(team: Team, row: View, column: View) -> View:
    return row if team in ("thread", "bundle") else column


def _is_near(view: View) -> bool:
    return bool(view.axes) and view.axes[-1].stride.is_one
