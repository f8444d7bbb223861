"""Clocks that shared memory takes for what the lanes of a warp ask of a row at once, and how rows are spread.

Owns the count: 32 banks serve a word each a clock, so lanes that want several words of one bank take turns. A
place left out behind every few elements moves what lies a power of two apart to different banks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.playbook.ir.views import View

_LANES, _BANKS, WORD_BYTES = 32, 32, 4
_SPREADS = (0, 8, 16, 32)
"""Elements behind which a place is left out; 0 for none."""
_SPREAD_CLOCKS = 0.75
"""Of a warp, to find a place so: three instructions, of which four are done a clock."""


@dataclass(frozen=True)
class Access:
    """An element of a row for each place of a step: where, as a view over the places of a row."""

    place: View
    places: int
    """Of a row, in this step."""
    width: int
    """Elements of a row."""
    size: int
    """Bytes of an element."""


def pitch_of(width: int, spread: int) -> int:
    """Elements from row to row."""
    return width + (width // spread if spread else 0)


def clocks_of(access: Access, spread: int, sizes: Mapping[str, int]) -> float:
    """Until all lanes of a warp have theirs."""
    words = defaultdict[int, set[int]](set)
    pitch = pitch_of(access.width, spread)
    for lane in range(_LANES if access.places else 0):
        row, index = divmod(lane, access.places)
        at = element_at(access.place, index, sizes)
        word = (row * pitch + at + (at // spread if spread else 0)) * access.size // WORD_BYTES
        words[word % _BANKS].add(word)
    return float(max(map(len, words.values()), default=1)) + (_SPREAD_CLOCKS if spread else 0.0)


def best_spread(accesses: Iterable[Access], sizes: Mapping[str, int]) -> int:
    """Elements behind which to leave a place out, so that all accesses take the fewest clocks."""
    accesses = list(accesses)

    def clocks(spread: int) -> float:
        return sum(clocks_of(access, spread, sizes) * access.places for access in accesses)

    return min(_SPREADS, key=clocks)


def element_at(view: View, index: int, sizes: Mapping[str, int]) -> int:
    """The element that an index finds."""
    found = view.offset.at(sizes)
    for axis in reversed(view.axes):
        index, step = divmod(index, max(axis.size.at(sizes), 1))
        found += step * axis.stride.at(sizes)
    return found
