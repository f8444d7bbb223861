"""What the runtime reported about one launch, in words a person reads and as counts at source lines.

Owns the wording of hazards and the scaling of sampled counts. Touches no tensor data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workbench.emulator import lines
from workbench.emulator.values import Binary, LaunchCounts
from workbench.model import DTYPE_BYTES, AccessSite, Hazard, TensorMeta
from workbench.plan.steps import Launch

HazardName = Literal[
    "out_of_bounds", "misaligned", "race", "barrier", "uninitialised", "warp_sync", "input_written"
]
_HAZARD_OF: Mapping[str, HazardName] = {
    "out_of_bounds": "out_of_bounds",
    "out_of_bounds_shared": "out_of_bounds",
    "misaligned": "misaligned",
    "race_read_after_write": "race",
    "race_write_after_write": "race",
    "race_write_after_read": "race",
    "not_shown": "race",
    "divergent_barrier": "barrier",
    "branched_barrier": "barrier",
    "not_cooperative": "barrier",
    "missing_blocks": "barrier",
    "waits_for_later_block": "barrier",
    "ended_block": "barrier",
    "uninitialised_global": "uninitialised",
    "uninitialised_shared": "uninitialised",
    "missing_lanes": "warp_sync",
    "mask_without_caller": "warp_sync",
    "absent_lane": "warp_sync",
    "one_of_two_values": "race",
    "input_written": "input_written",
}
# What explains the others comes first.
_SEVERITY = ("out_of_bounds", "misaligned", "barrier", "warp_sync", "race", "uninitialised", "input_written")
_DONE = ("reads", "writes", "updates")
_IN_SHARED, _IN_DYNAMIC_SHARED, _NULL = -2, -3, -4
_KINDS: tuple[Literal["load", "store", "atomic"], ...] = ("load", "store", "atomic")
_ABSENT = "absent_lane"
_CONTESTED = "one_of_two_values"
_PERHAPS = (_ABSENT, _CONTESTED)
"""Hazards only where the results depend on them."""
_WAITS = {
    "deadlock_at_barrier": "at __syncthreads",
    "deadlock_in_warp_operation": "in a warp operation",
    "deadlock_polling": "for a value that nobody will write",
}


_MEETINGS = {
    "not_cooperative": "waits for the whole grid, whose launch is not cooperative: write cooperative=True",
    "missing_blocks": "waits at this grid barrier for ever: {said}",
    "waits_for_later_block": "waits for a block that has not begun, and nobody promises in which order they "
    "do, or that there is room: write cooperative=True in the launch, or number blocks as they begin (a "
    "ticket, by atomicAdd) and let them wait only for those before them",
}


@dataclass(frozen=True)
class Scene:
    """A launch and the names of what it worked on."""

    step: Launch
    binary: Binary
    buffers: Sequence[tuple[str, TensorMeta]]
    """Label and metadata, in the order the runtime was given them."""
    case: str


class Findings:
    """Reads one launch's result."""

    def __init__(self, scene: Scene, result: Mapping[str, Any]) -> None:
        self.scene = scene
        self.result = result
        faults, sites = result["faults"], result["sites"]
        addresses = [a for fault in faults for a in (fault["pc"], fault["other_pc"])]
        addresses += [site["pc"] for site in sites]
        self._line = lines.source_lines(scene.binary.path, addresses)

    def hazards(self) -> tuple[Hazard, ...]:
        """Faults in order of severity."""
        faults = self.result["faults"]
        named = [fault for fault in faults if fault["kind"] in _HAZARD_OF and fault["kind"] not in _PERHAPS]
        found = [self._hazard(fault) for fault in named]
        later = any(fault["kind"] == "waits_for_later_block" for fault in faults)  # told once
        deadlock = [] if later else [fault for fault in faults if fault["kind"] in _WAITS]
        if deadlock:
            found.append(self._deadlock(deadlock))
        told = dict.fromkeys(hazard for hazard in found if hazard is not None)
        return tuple(sorted(told, key=lambda hazard: (_SEVERITY.index(hazard.hazard), hazard.line or 0)))

    def absent_lanes(self) -> list[Hazard]:
        """Shuffles from lanes that take no part: hazards only where somebody uses what comes."""
        faults = [fault for fault in self.result["faults"] if fault["kind"] == _ABSENT]
        found = [self._hazard({**fault, "count": 1}) for fault in faults]  # each worker notes it once
        return [hazard for hazard in found if hazard is not None]

    def contested(self) -> list[Hazard]:
        """Different values written to one place at once: hazards only where it matters which stays."""
        faults = [fault for fault in self.result["faults"] if fault["kind"] == _CONTESTED]
        found = [self._hazard(fault) for fault in faults]
        return [hazard for hazard in found if hazard is not None]

    def trap(self) -> str | None:
        """Message of an assert or trap."""
        for fault in self.result["faults"]:
            if fault["kind"] == "trap":
                return f"{self._at(fault)}{fault['message']} in {_thread(fault)} ({self.scene.step.kernel})"
        return None

    def sites(self) -> list[AccessSite]:
        """Requests at each instruction, scaled to all blocks."""
        found = []
        for site in self.result["sites"]:
            line = self._line.get(site["pc"])
            if line is not None:
                found.append(
                    AccessSite(
                        line=line,
                        space="shared" if site["shared"] else "global",
                        kind=_KINDS[site["action"]],
                        width_bytes=site["size"],
                        requests=self._scaled(site["requests"]),
                        transactions=self._scaled(site["transactions"]),
                        ideal_transactions=self._scaled(site["ideal"]),
                    )
                )
        return found

    def counts(self) -> LaunchCounts:
        """Totals of the launch."""
        memory = [site for site in self.result["sites"] if not site["shared"]]
        loads = sum(site["bytes"] for site in memory if site["action"] == 0)
        return LaunchCounts(
            kernel=self.scene.step.kernel,
            line=self.scene.step.line,
            blocks=self.result["blocks"],
            traced_blocks=self.result["traced_blocks"],
            sectors=self._scaled(sum(site["transactions"] for site in memory)),
            ideal_sectors=self._scaled(sum(site["ideal"] for site in memory)),
            load_bytes=self._scaled(loads),
            store_bytes=self._scaled(sum(site["bytes"] for site in memory) - loads),
            barriers=self.result["barriers"],
            warp_operations=self.result["warp_operations"],
            unit_products=self.result["unit_products"],
        )

    def _scaled(self, count: int) -> int:
        traced = self.result["traced_blocks"]
        return round(count * self.result["blocks"] / traced) if traced else count

    def _at(self, fault: Mapping[str, Any]) -> str:
        line = self._line.get(fault["pc"])
        return f"line {line}: " if line else ""

    def _hazard(self, fault: Mapping[str, Any]) -> Hazard | None:
        line = self._line.get(fault["pc"])
        other_line = self._line.get(fault["other_pc"])
        if fault["kind"] == "divergent_barrier" and line == other_line:
            return None  # the compiler made two copies of one barrier
        message = f"{self._at(fault)}{self._what(fault, other_line)} ({self.scene.step.kernel}"
        more = fault["count"] - 1
        message += f"; {more} more like it)" if more else ")"
        return Hazard(hazard=_HAZARD_OF[fault["kind"]], case=self.scene.case, line=line, message=message)

    def _what(self, fault: Mapping[str, Any], other_line: int | None) -> str:
        kind, who = fault["kind"], _thread(fault)
        if kind.startswith("race"):
            return self._race(fault, other_line)
        if kind == _CONTESTED:
            return (
                f"{who} writes {self._place(fault)}, and thread {fault['other_thread']} of the same block "
                "writes another value there with nothing in between: which one stays is undefined, and the "
                "output depends on it"
            )
        if kind == "divergent_barrier":
            return f"{who} waits at this __syncthreads, others at the one in line {other_line}"
        if kind == "branched_barrier":
            return (
                f"a barrier in a branch that not all threads take: {who} waits at this __syncthreads, "
                f"thread {fault['other_thread']} of the same block went past it to line {other_line}"
            )
        if kind == "missing_lanes":
            return f"{who} waits for lanes that never come: {fault['message']}"
        if kind == "mask_without_caller":
            return f"{who} is not in the mask it passes: {fault['message']}"
        if kind == _ABSENT:
            return f"{who} reads {fault['message']}: what comes is undefined, and the output depends on it"
        if kind in _MEETINGS:
            return f"{who} {_MEETINGS[kind].format(said=fault['message'])}"
        if kind == "not_shown":
            return self._race(fault, other_line, "with no fence.proxy.async in between")
        verb = _DONE[fault["action"]]
        place = self._place(fault)
        if kind == "misaligned" and not fault["size"]:
            return f"{who} reads or writes a vector at an address that does not fit it"
        if kind == "misaligned":
            size = fault["size"]
            return f"{who} {verb} {size} bytes at an address that is not a multiple of {size}: {place}"
        if kind == "out_of_bounds" and self._begins_inside(fault):
            return f"{who} {verb} {fault['size']} bytes from {place} on, past the end{self._shape(fault)}"
        if kind.startswith("uninitialised"):
            return f"{who} {verb} {place} before anything wrote it"
        if kind == "ended_block":
            other = "of another block of its cluster, which may have ended: no cluster.sync()"
            return f"{who} {verb} {place} {other}"
        if kind == "input_written":
            return f"{who} {verb} {place}, an input"
        return f"{who} {verb} {place}"

    def _race(
        self, fault: Mapping[str, Any], other_line: int | None, missing: str = "with nothing in between"
    ) -> str:
        first = "wrote" if fault["kind"] != "race_write_after_read" else "read"
        other = f"thread {fault['other_thread']} of {fault['message'] or 'the same block'}"
        where = f"in line {other_line}" if other_line else "elsewhere"
        mine = f"{_thread(fault)} {_DONE[fault['action']]} {self._place(fault)}"
        return f"{mine}, which {other} {first} {where} {missing}"

    def _place(self, fault: Mapping[str, Any]) -> str:
        place, offset = fault["place"], fault["offset"]
        if place == _IN_DYNAMIC_SHARED and not self.scene.step.shared_bytes:
            return f"byte {offset} of dynamic shared memory, of which the launch has none: write smem=BYTES"
        if place == _IN_DYNAMIC_SHARED:
            return f"byte {offset} of {self.scene.step.shared_bytes} bytes of dynamic shared memory"
        if place == _IN_SHARED:
            return self._shared_array(offset, fault["size"])
        if place == _NULL:
            return f"through a null pointer{f' (byte {offset})' if offset else ''}"
        if place < 0:
            return "memory far from every tensor"
        if place >= len(self.scene.buffers):
            name, *_ = self.scene.binary.variables[place - len(self.scene.buffers)]
            return f"byte {offset} of variable {array_name(name)}"
        label, meta = self.scene.buffers[place]
        return f"{label}{element(meta, offset)}"

    def _begins_inside(self, fault: Mapping[str, Any]) -> bool:
        """A vector of which only the first elements are the tensor's."""
        if not 0 <= fault["place"] < len(self.scene.buffers) or fault["offset"] < 0:
            return False
        meta = self.scene.buffers[fault["place"]][1]
        return not meta.is_contiguous or fault["offset"] < meta.nbytes

    def _shape(self, fault: Mapping[str, Any]) -> str:
        meta = self.scene.buffers[fault["place"]][1]
        return f" (shape {_shape_text(meta)})" if meta.is_contiguous else ""

    def _shared_array(self, offset: int, size: int) -> str:
        arrays = self.scene.binary.shared_arrays
        inside = [a for a in arrays if a[1] <= offset < a[2]]
        before = [a for a in arrays if a[2] <= offset]
        if not inside and not before:
            return "shared memory before the first array"
        name, low, high = inside[0] if inside else max(before, key=lambda array: array[2])
        past = "" if inside and offset + size <= high else f", which has {high - low} bytes"
        return f"byte {offset - low} of shared {array_name(name)}{past}"

    def _deadlock(self, faults: Sequence[Mapping[str, Any]]) -> Hazard:
        groups = []
        for fault in faults:
            line = self._line.get(fault["pc"])
            where = f" (line {line})" if line else ""
            threads = "1 thread waits" if fault["message"] == "1" else f"{fault['message']} threads wait"
            groups.append(f"{threads} {_WAITS[fault['kind']]}{where}")
        block = "({}, {}, {})".format(*faults[0]["block"])
        message = f"deadlock in block {block}: {', '.join(groups)} ({self.scene.step.kernel})"
        line = next((self._line.get(f["pc"]) for f in faults if self._line.get(f["pc"])), None)
        return Hazard(hazard="barrier", case=self.scene.case, line=line, message=message)


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def element(meta: TensorMeta, offset: int) -> str:
    """Name the element at a byte offset: ``[3, 17]``, or how far outside it lies."""
    flat = offset // DTYPE_BYTES[meta.dtype]
    shape = _shape_text(meta)
    if flat < 0:
        return f"[{flat}], {_elements(-flat)} before its start (shape {shape})"
    if not meta.is_contiguous:
        return f" at element {flat} of its storage (shape {shape})"
    if flat >= meta.numel:
        return f"[{flat}], {_elements(flat - meta.numel + 1)} past its end (shape {shape})"
    index = []
    for size in reversed(meta.shape):
        index.append(flat % size)
        flat //= size
    return f"[{', '.join(map(str, reversed(index)))}]"


def _shape_text(meta: TensorMeta) -> str:
    return "x".join(map(str, meta.shape)) or "scalar"


def array_name(symbol: str) -> str:
    """Name of a function's local ``__shared__`` array out of its mangled symbol."""
    # _ZZ<function>E<length><name>[_<number>]: the last length-prefixed word is the variable.
    for start in range(len(symbol) - 1, 0, -1):
        digits = symbol[start:]
        length = "".join(c for c in digits[:3] if c.isdigit()) if digits[0].isdigit() else ""
        while length:
            name = digits[len(length) :][: int(length)]
            rest = digits[len(length) + int(length) :]
            if len(name) == int(length) and name.isidentifier() and (not rest or rest.startswith("_")):
                preceding = symbol[start - 1]
                if not preceding.isdigit():
                    return name
            length = length[:-1]
    return symbol


def _thread(fault: Mapping[str, Any]) -> str:
    thread = ", ".join(map(str, fault["thread"]))
    block = ", ".join(map(str, fault["block"]))
    return f"thread ({thread}) of block ({block})"
