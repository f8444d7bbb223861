"""Code addresses to lines of the person's source, by way of binutils' addr2line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

from workbench.emulator.diagnostics import SOURCE_NAME

_FRAME = re.compile(rf"(?:^|/){re.escape(SOURCE_NAME)}:(\d+)")
_known: dict[tuple[str, int], int | None] = {}


def source_lines(path: str, return_addresses: Iterable[int]) -> dict[int, int | None]:
    """Line of each return address in a library; None where it is not the kernel's code.

    Of several inlined frames the innermost that lies in the kernel's own text counts.
    """
    wanted = sorted({address for address in return_addresses if address})
    missing = [address for address in wanted if (path, address) not in _known]
    if missing:
        _known.update(((path, address), line) for address, line in _look_up(path, missing).items())
    return {address: _known[path, address] for address in wanted}


def _look_up(path: str, addresses: list[int]) -> dict[int, int | None]:
    # A return address is the instruction after the call: one less is inside it.
    command = ["addr2line", "-e", path, "-i", "-a", *(hex(address - 1) for address in addresses)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[int, int | None] = dict.fromkeys(addresses)
    current = 0
    for line in text.splitlines():
        frame = _FRAME.search(line)
        if line.startswith("0x"):
            current = int(line, 16) + 1
        elif frame and found[current] is None and int(frame[1]):
            found[current] = int(frame[1])
    return found
