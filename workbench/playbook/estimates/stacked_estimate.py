"""The model of time for scans of rows that lie side by side, by a block a bundle or a piece.

Owns what such a block asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of, join_ns, scanned
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.scan_chains import read_by
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.program import Scan
from workbench.playbook.kernels.stacked import (
    STRETCH,
    bundle_of,
    bytes_of_column,
    bytes_of_total,
    piece_of,
    pieces_of_columns,
    promised_for,
    words_of_total,
)
from workbench.playbook.schedules.residency import resident
from workbench.playbook.schedules.schedule import Schedule

_HEARD_NS = 1400.0
"""A piece draws its number, and hears what those before it tell: two trips to L2. Not measured."""
_A_ROW, _A_WARP = 8.0, 2.5
"""Instructions of a thread for one row beside its joins: four within a warp, one for each warp."""
_LINE, _WORD = 128, 8


def stacked_time(asked: Asked, scan: Scan) -> Estimate:
    """Time of a scan whose blocks have bundles of rows, or pieces of such."""
    schedule = asked.schedule
    rows, columns, width = asked.at(scan.rows), asked.at(scan.columns), asked.width(scan.rows)
    schedule = replace(schedule, promised=promised_for(scan, schedule, width))
    bundle, piece = bundle_of(rows), piece_of(schedule, width, rows)
    pieces = pieces_of_columns(schedule, scan, width, (rows, columns))
    units = math.ceil(rows / bundle) * pieces
    tiles = 1 if pieces > 1 else math.ceil(columns / piece)
    loads = read_by(scan)
    stored = float(
        rows * columns * sum(DTYPE_BYTES[asked.program.buffers[name].dtype] for name in scan.written)
    )
    near = sum(asked.read(load) for load in loads if asked.is_recent(load))
    fresh = sum(asked.read(load) for load in loads) - near
    heard = min(pieces, STRETCH) / 2 * bundle * words_of_total(scan) * _WORD if pieces > 1 else 0.0
    joins = 2 if pieces > 1 else 1
    each, chain = _instructions(scan, schedule, width, joins)
    covered = units * tiles * piece * bundle
    walk = Walk(
        fresh_bytes=fresh / units,
        stored_bytes=stored / units,
        near_bytes=near / units + heard,
        instructions=each * covered / units,
        lines=(fresh + near + stored) / _LINE / units,
        chain_cycles=tiles * chain,
        trips=float(tiles),
        join_ns=joins * tiles * join_ns("sum", schedule.threads, False) + (_HEARD_NS if pieces > 1 else 0.0),
    )
    held = (schedule.parts * bytes_of_column(scan) + 3 * bytes_of_total(scan)) * width / 4
    teams = resident(asked.target, schedule, schedule.threads, held)
    found = launched(
        replace(asked, schedule=schedule), Work(units, schedule.threads, teams, (walk,), 0.0, 0.0)
    )
    us = found.us + lifetime.crowded_us(asked.target, units, fresh + stored)
    # Each stretch of pieces waits for the one before to tell what everything up to its end amounts to.
    return replace(found, us=max(us, pieces // STRETCH * _HEARD_NS * 1e-3))


def _instructions(scan: Scan, schedule: Schedule, width: int, joins: int) -> tuple[float, float]:
    """For each column of a row, and cycles of a tile's chain, where a block joins so often."""
    taken = scanned(scan.op, scan.value.dtype, schedule.fast_math)
    join, warps = max(taken.join, 1.0), schedule.threads / 32
    each = instructions_of(scan.values, schedule.fast_math) + taken.value + 2 + reach.A_REQUEST * 2 / width
    each += joins * (_A_ROW + 4 * join + warps * (_A_WARP + join)) / schedule.parts
    return each, taken.cycles * (2 * schedule.parts + joins * warps)
