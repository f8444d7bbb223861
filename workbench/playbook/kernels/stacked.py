"""Scans of rows that lie side by side: how many of them a block has, and into how many pieces they are cut.

Owns these numbers, for the plan, the kernels and the model of time alike. Never writes a kernel.
"""

from __future__ import annotations

from workbench.playbook.analysis.scan_joins import PLACES, is_pair
from workbench.playbook.ir.program import Scan
from workbench.playbook.schedules.schedule import Schedule

WIDEST, NARROWEST = 32, 8
"""Rows of a bundle at most and at least: 32 floats side by side are a line of memory, 8 a sector."""
STRETCH = 32
"""Pieces after which one tells what everything up to its end amounts to."""
MOST_WORDS = 2**18
"""That the pieces of all bundles have, to tell their totals: two megabytes."""
SMALL_PIECE = 8
"""Columns of the smallest piece: 64 threads, two groups of them, with four columns each."""
_RESIDENT, _KEPT = 1024, 288
"""Threads of a multiprocessor, and bytes that each of them may keep then; from 240 on, a few are spilled."""
_ARRAYS, _TOLD = 6, 8
"""Totals of each row beside what is kept of its columns, and bytes of a word."""
_WORD = 4
"""Bytes of a total that a word carries beside the news of them."""
_BYTES = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}


def bundle_of(rows: int) -> int:
    """Rows that a block has side by side."""
    return min(WIDEST, max(NARROWEST, 1 << max(rows - 1, 0).bit_length()))


def stacked_text(rows: str) -> str:
    """The same in the plan language."""
    return f"min({WIDEST}, max({NARROWEST}, next_pow2({rows})))"


def bytes_of_total(scan: Scan) -> int:
    """Of one total; a place counts in 32 bits beside its value, a sum has its scale beside it."""
    value = _BYTES[scan.value.dtype]
    return 2 * value if scan.op in PLACES or is_pair(scan.op, scan.value.dtype) else value


def bytes_of_column(scan: Scan) -> int:
    """What a thread keeps of a column until it knows what comes before: of pairs, the value."""
    return _BYTES[scan.value.dtype] if is_pair(scan.op, scan.value.dtype) else bytes_of_total(scan)


def may_tell(scan: Scan) -> bool:
    """True where all bytes of a total mean something: a place beside 64 bits has a gap."""
    return scan.op not in PLACES or _BYTES[scan.value.dtype] == _WORD


def words_of_total(scan: Scan) -> int:
    """Words in which a total travels."""
    return bytes_of_total(scan) // _WORD


def promised_for(scan: Scan, schedule: Schedule, width: int) -> int:
    """Threads that the compiler leaves room for, with 64 registers each, where they keep little."""
    told = _TOLD * STRETCH * WIDEST * words_of_total(scan) // schedule.threads
    kept = (schedule.parts * bytes_of_column(scan) + _ARRAYS * bytes_of_total(scan)) * width + told
    return max(_RESIDENT, schedule.threads) if kept <= _KEPT else 0


def piece_of(schedule: Schedule, width: int, rows: int) -> int:
    """Columns of a piece, or of a step of a block that has whole rows."""
    return schedule.parts * schedule.threads * width // bundle_of(rows)


def pieces_of_columns(schedule: Schedule, scan: Scan, width: int, sizes: tuple[int, int]) -> int:
    """Pieces of so many rows and columns, as the plan computes it; 1 where a block has its rows alone."""
    rows, columns = sizes
    pieces = -(-columns // piece_of(schedule, width, rows))
    bundle = bundle_of(rows)
    words = (pieces + pieces // STRETCH) * -(-rows // bundle) * bundle * words_of_total(scan)
    cut = schedule.scan_by == "pieces" and may_tell(scan) and words <= MOST_WORDS
    return pieces if cut else 1
