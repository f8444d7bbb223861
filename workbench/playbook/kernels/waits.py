"""Where loads wait between the passes over a row: in registers, in shared memory, nowhere.

Owns the storage of a team and its limits; column_loop.py fills and reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.playbook.analysis.row_passes import Waiting
from workbench.playbook.kernels.kernel_text import Frame, Limits
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.schedules.fitting import MOST_KEPT, most_kept
from workbench.playbook.schedules.schedule import MOST_FITTED, Cache
from workbench.playbook.text.cuda_text import CTYPES

MOST_BESIDE = 14
"""Columns beside the vectors of a row whose borders are not its ends."""


@dataclass
class Waits:
    """Loads that stay on the chip, and under which name."""

    cache: Cache
    vector: bool
    entries: list[tuple[Waiting, str]] = field(default_factory=list)
    begin: str = ""
    """First column of the team's piece, where it has not the whole row."""
    width: int = 1
    """Columns that move together; with ``rows_each``, rows of a lane."""
    rows_each: bool = False
    templated: bool = True
    """With ``rows_each``: the kernel is compiled for the rows that it is called for, and no others."""
    most: int = 0
    """Values that a thread keeps, where that is not ``most_kept``."""
    edges: dict[str, str] = field(default_factory=dict)
    """Of peeled rows: the name of a lane's column beside the vectors, by the load's."""

    @staticmethod
    def of(waiting: list[Waiting], cache: Cache, frame: Frame, peeled: bool) -> Waits:
        """Give every waiting load a name; the row in shared memory is one of floats."""
        if cache == "shared":
            waiting = [wait for wait in waiting if wait.load.dtype == "f32"]
        entries = [(wait, frame.names.new(f"{wait.load.buffer}_kept")) for wait in waiting]
        width = frame.site.schedule.width
        edges = {name: frame.names.new(f"{name}_edge") for _, name in entries} if peeled else {}
        return Waits(cache if waiting else "reread", frame.vector, entries, width=width, edges=edges)

    @property
    def in_registers(self) -> bool:
        return self.cache == "registers"

    def declarations(self, team: TeamText, columns: str) -> list[str]:
        """Storage for one row."""
        if not self.entries:
            return []
        beside = [(wait, self.edges[name]) for wait, name in self.entries if name in self.edges]
        own = [f"{CTYPES[wait.load.dtype]} {edge};" for wait, edge in beside]
        if self.cache == "shared":
            return [*self._shared(team, columns), *own]
        share = {"thread": "", "warp": team.lanes, "block": "THREADS", "bundle": "GROUPS"}[team.kind]
        step = " * ".join(part for part in (share, "VEC" if self.vector else "") if part)
        kept = f"({columns} + {step} - 1) / {f'({step})' if ' ' in step else step}" if step else columns
        # A kernel that is no template is compiled for every size, also those whose rows another kernel takes.
        most = self.most or MOST_KEPT // (self.width if self.rows_each else 1)
        bound = f" < {most} ? {kept} : {most}"
        bound = "" if self.vector or (self.rows_each and self.templated) else bound
        count = f"constexpr int KEPT = {kept}{bound};"
        width = "[VEC]" if self.vector or self.rows_each else ""
        lines = ["// The row waits in registers between the passes: memory is read once.", count]
        lines += [f"{CTYPES[wait.load.dtype]} {name}[KEPT]{width};" for wait, name in self.entries]
        return [*lines, *own]

    def _shared(self, team: TeamText, columns: str) -> list[str]:
        lines = [
            "// The row waits in shared memory between the passes: global memory is read once.",
            f"extern __shared__ {self._aligned}float shared[];",
        ]
        shift = ""
        if self.edges:
            room, columns = f"({columns} + 2 * VEC - 2) / VEC * VEC", "ROOM"
            lines.append(f"constexpr int ROOM = {room};  // for a row and the way to its first border")
            shift = " + (VEC - first % VEC) % VEC"
        for position, (_, name) in enumerate(self.entries):
            at = "shared"
            if team.rows_per_block > 1:
                scale = "" if len(self.entries) == 1 else f" * {len(self.entries)}"
                at += f" + threadIdx.x / 32 * {columns}{scale}"
            if position:
                at += f" + {columns}" if position == 1 else f" + {position} * {columns}"
            lines.append(f"float* {name} = {at}{shift};")
        return lines

    @property
    def _aligned(self) -> str:
        return f"__align__({4 * self.width}) " if self.vector else ""

    def limits(self, team: TeamText, columns: str, fit: bool) -> Limits:
        """What a row needs on the chip, in the plan language."""
        count = len(self.entries)
        if self.cache == "shared":
            columns = f"({columns} + {MOST_BESIDE})" if self.edges else columns
            scale = 4 * count * team.rows_per_block
            fits = f"{columns} * {scale} <= gpu.shared_bytes_per_block"
            return Limits(f"{columns} * {scale}", fits, "a row must fit in shared memory")
        if self.cache == "registers":
            threads = MOST_FITTED if fit else team.threads
            lanes = {"thread": 1, "warp": team.lanes_of_warp, "block": threads}.get(team.kind, threads // 32)
            most = lanes * (self.most or most_kept(threads)) // count // (self.width if self.rows_each else 1)
            return Limits("", f"{columns} <= {most}", "a row must fit in the registers of its threads")
        return Limits()

    def place(self, name: str) -> str:
        """Where the columns at hand lie in shared memory."""
        return f"{name} + (col - {self.begin})" if self.begin else f"{name} + col"

    def slot(self, name: str) -> str:
        """The element of the row at hand."""
        if self.cache == "shared":
            at = f"col - {self.begin}" if self.begin else "col"
            return f"{name}_here.at[k]" if self.vector else f"{name}[{at}]"
        return f"{name}[i][k]" if self.vector or self.rows_each else f"{name}[i]"
