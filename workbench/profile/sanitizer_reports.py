"""What compute-sanitizer printed, as a verdict: which report is the kernel's own, of what kind, and where.

Owns the reading of the reports and of the lines that the watched program puts between them.
Never runs a tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, Hazard, TensorMeta

MARK, CASE = "WORKBENCH BUFFER", "WORKBENCH CASE"
KINDS: tuple[tuple[str, str], ...] = (
    ("Misaligned", "misaligned"),
    ("Invalid __shared__", "out_of_bounds"),
    ("Invalid __local__", "out_of_bounds"),
    ("Invalid __global__", "out_of_bounds"),
    ("Invalid", "out_of_bounds"),
    ("Race reported", "race"),
    ("hazard", "race"),
    ("Uninitialized", "uninitialised"),
    ("Divergent thread(s) in warp", "warp_sync"),
    ("Barrier error", "barrier"),
    ("Divergent", "barrier"),
)
MISALIGNED = "is misaligned"
"""In the details of a report whose first line calls the access invalid."""
STOPPED: dict[str, str] = {
    "misaligned address": "misaligned",
    "an illegal memory access was encountered": "out_of_bounds",
}
"""What the driver says of a kernel that it stopped itself, before a tool could tell."""
_STOPPED = re.compile(rf"CUDA error: ({'|'.join(STOPPED)})")
_UNPRINTED = re.compile(r"(\d+) errors? (?:was|were) not printed")
_PYTHON = re.compile(r"^[\w.]+(?:Error|Fault|Exception): .+", re.M)
_PLACE = re.compile(
    r"(?:at|access at)\s+(?P<kernel>.+?)\+0x[0-9a-f]+(?:\s+in\s+(?P<file>\S+):(?P<line>\d+))?"
)
_THREAD = re.compile(r"by thread (\(\d+,\d+,\d+\)) in block (\(\d+,\d+,\d+\))")
_ADDRESS = re.compile(r"(?:Access to|Address|Access at) (0x[0-9a-f]+)")
_NEAREST = re.compile(r"and is ([\d,]+) bytes (after|before) the nearest allocation at (0x[0-9a-f]+)")


@dataclass(frozen=True)
class Buffer:
    """A tensor of the run and where it lay."""

    name: str
    address: int
    meta: TensorMeta


def hazard_of(output: str, case: str, source: str) -> Hazard | None:
    """The first report of a kernel of this text, as a verdict; None when there is none.

    ``case`` is where it ran when the watched program does not say. A kernel that the GPU itself stopped for
    an address is a hazard without a report.
    """
    for label, part in parts_of(output, case):
        if (found := _hazard_in(part, label, source) or _stopped_in(part, label)) is not None:
            return found
    return None


def parts_of(output: str, first: str) -> Iterator[tuple[str, str]]:
    """What was printed, call by call, with the case's label."""
    before, *rest = output.split(CASE)
    yield first, before
    for part in rest:
        label, _, said = part.partition("\n")
        yield label.strip(), said


def _hazard_in(output: str, case: str, source: str) -> Hazard | None:
    buffers = buffers_of(output)
    for report in reports_of(output):
        head = report[0]
        kind = _kind(report)
        place = next((found for line in report if (found := _PLACE.search(line))), None)
        if kind is None or place is None or not _own(place["kernel"], source):
            continue
        line = int(place["line"]) if place["line"] and place["file"].endswith("kernel.cu") else None
        where = f"line {line}: " if line else f"in {place['kernel']}: "
        told = [head.strip().removesuffix("."), _thread(report), _tensor(report, buffers)]
        message = f"{where}{', '.join(filter(None, told))} (compute-sanitizer)"
        return Hazard.model_validate({"hazard": kind, "case": case, "line": line, "message": message})
    return None


def _kind(report: Sequence[str]) -> str | None:
    if report[0].lstrip().startswith("Invalid") and any(MISALIGNED in line for line in report[1:]):
        return "misaligned"
    return next((kind for words, kind in KINDS if words in report[0]), None)


def _stopped_in(output: str, case: str) -> Hazard | None:
    if (found := _STOPPED.search(output)) is None:
        return None
    message = f"the GPU stopped the kernel: {found[1]} (under compute-sanitizer)"
    told = {"hazard": STOPPED[found[1]], "case": case, "line": None, "message": message}
    return Hazard.model_validate(told)


def unread(output: str) -> str:
    """Why findings that concern no kernel of ours may still hide one; empty when all were printed."""
    hidden = sum(int(count) for count in _UNPRINTED.findall(output))
    return f"{hidden} of its findings were not printed, the kernel's perhaps among them" if hidden else ""


def reports_of(output: str) -> list[list[str]]:
    """Reports of the tool: the first line of each and those indented below it."""
    reports: list[list[str]] = []
    for line in output.splitlines():
        if not line.startswith("========="):
            continue
        text = line.removeprefix("=========")
        if text.startswith("     ") and reports:
            reports[-1].append(text)
        elif text.strip():
            reports.append([text])
    return reports


def buffers_of(output: str) -> tuple[Buffer, ...]:
    """Tensors of the run, as the watched program told."""
    found = []
    for line in output.splitlines():
        if line.startswith(MARK):
            _, _, rest = line.partition(MARK)
            with suppress(ValueError):  # a kernel may print what it likes
                name, address, meta = rest.strip().split(" ", 2)
                found.append(Buffer(name, int(address), TensorMeta.model_validate_json(meta)))
    return tuple(found)


def told_of(name: str, address: int, meta: TensorMeta) -> str:
    """The line that ``buffers_of`` reads."""
    return f"{MARK} {name} {address} {meta.model_dump_json()}"


def _own(kernel: str, source: str) -> bool:
    names = re.findall(r"\w+", re.split(r"[<(]", kernel.replace("void ", ""), maxsplit=1)[0])
    return bool(names) and re.search(rf"\b{names[-1]}\b", source) is not None


def _thread(report: Iterable[str]) -> str:
    found = next((m for line in report if (m := _THREAD.search(line))), None)
    return f"thread {found[1]} of block {found[2]}" if found else ""


def _tensor(report: Sequence[str], buffers: Sequence[Buffer]) -> str:
    """Which tensor, and which element of it, an address belongs to."""
    near = next((m for line in report if (m := _NEAREST.search(line))), None)
    if near is not None:
        base = int(near[3], 16)
        owner = next((one for one in buffers if one.address == base), None)
        name = owner.name if owner else "a workspace"
        return f"{near[1]} bytes {near[2]} the memory of {name}"
    address = next((int(m[1], 16) for line in report if (m := _ADDRESS.search(line))), None)
    for one in buffers if address is not None else ():
        nbytes = one.meta.nbytes
        if address is not None and one.address <= address < one.address + nbytes:
            return f"{one.name}, element {(address - one.address) // DTYPE_BYTES[one.meta.dtype]}"
    return ""


def why_none(output: str, code: int) -> str:
    """Why a tool said nothing, from what it printed."""
    told = _PYTHON.findall(output)
    if told and CASE in output:  # our own program had begun, and says what stopped it
        return str(told[-1])[:200]
    for words in ("Device not supported", "Unable to find", "Target application terminated", "Error: "):
        line = next((line for line in output.splitlines() if words in line), None)
        if line is not None:
            return line.removeprefix("=========").strip()[:200]
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return f"the watched program ended with code {code}: {last[0][:200] if last else 'it said nothing'}"
