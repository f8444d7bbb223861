"""``__device__`` variables of a loaded kernel: which there are, and which have changed.

Such a variable lives as long as the module does, so a kernel that writes one and leaves it can know how often
it has run. Owns the look into a cubin (ELF) for their names and the values they had when they were loaded.
Imports CUDA when a value is read.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass

OBJECT = 1
"""``STT_OBJECT``: a symbol that names data."""
SYMBOL_TABLE = 2
"""``SHT_SYMTAB``."""
GLOBALS = (".nv.global", ".nv.global.init")
"""Sections of a cubin that hold what kernels can write; ``__constant__`` memory lies elsewhere."""
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Section:
    """Memory of a module that its kernels can write; it lies on a device in one piece."""

    nbytes: int
    places: tuple[tuple[str, int, int], ...]
    """Mangled name, first byte and bytes of each variable, in the order of the symbol table."""


Read = Callable[[Section], bytes]
"""What a section holds at present."""


def sections_of(cubin: bytes) -> tuple[Section, ...]:
    """What a kernel of this cubin can write; empty for what is no ELF file.

    A header such as ``cooperative_groups.h`` brings a thousand variables, all of them in two sections.
    """
    if cubin[:5] != b"\x7fELF\x02":
        return ()
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [SECTION.unpack_from(cubin, start + size * number) for number in range(count)]
    titles = sections[names_at][4]
    places: dict[int, dict[str, tuple[int, int]]] = {
        n: {} for n, one in enumerate(sections) if _text(cubin, titles + one[0]) in GLOBALS
    }
    for section in sections:
        if section[1] != SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], SYMBOL.size):
            name, info, _, where, value, nbytes = SYMBOL.unpack_from(cubin, at)
            if info & 15 == OBJECT and where in places and nbytes:
                places[where][_text(cubin, strings + name)] = (value - sections[where][3], nbytes)
    return tuple(
        Section(sections[n][5], tuple((name, *place) for name, place in found.items()))
        for n, found in places.items()
        if found
    )


def plain(mangled: str) -> str:
    """The last name of a mangled one, such as ``calls`` of ``_ZN12_GLOBAL__N_15callsE``."""
    for ending in (mangled, mangled.removesuffix("E")):
        for found in re.finditer(r"\d+", ending):
            name = ending[found.end() :]
            if mangled.startswith("_Z") and name and int(found[0]) == len(name):
                return name
    return mangled


class Watched:
    """Variables and the values they had at first; made right after loading."""

    def __init__(self, parts: Iterable[tuple[Section, Read]]) -> None:
        self._parts: list[tuple[Section, Read, bytes, dict[str, bytes]]] = []
        for section, read in parts:
            held = read(section)
            self._parts.append((section, read, _digest(held), _digests(section, held)))

    def changed(self) -> tuple[str, ...]:
        """Names of those that hold something else now; the device must have done its work."""
        found: dict[str, None] = {}
        for section, read, whole, first in self._parts:
            held = read(section)
            if _digest(held) != whole:
                now = _digests(section, held)
                found.update(dict.fromkeys(plain(name) for name, was in first.items() if now[name] != was))
        return tuple(found)


def _digests(section: Section, held: bytes) -> dict[str, bytes]:
    return {name: _digest(held[first : first + nbytes]) for name, first, nbytes in section.places}


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode(errors="replace")
