"""One of the kernels that share a launch, as the launch calls it.

Owns the names of its numbers there, and the statement that does one of its jobs.
"""

from __future__ import annotations

from workbench.playbook.kernels.kernel_text import JointPart, filled
from workbench.playbook.text.names import Names


class Call:
    """One part as the launch calls it: its names there."""

    def __init__(self, part: JointPart, pointers: dict[str, str], names: Names, number: int) -> None:
        self.part = part
        self.width = f"VEC_{number}" if part.text.width is not None else ""
        self.jobs = part.text.grid if part.text.grid.isdecimal() else names.new(f"{part.stem}_jobs")
        self.scalars = [] if self.jobs.isdecimal() else [self.jobs]
        own = {}
        used = ("pieces", *(("chunk",) if "chunk" in part.text.scalars else ()))
        for scalar in used if part.split is not None else ():
            own[scalar] = names.new(f"{part.stem}_{scalar}")
            self.scalars.append(own[scalar])
        self.pieces = own.get("pieces", "")
        arguments = [pointers[buffer] for buffer in part.text.buffers]
        self.arguments = [*arguments, *(own[scalar] for scalar in part.text.scalars)]

    @property
    def count(self) -> str:
        """How many jobs it has."""
        return f"{self.jobs} * {self.pieces}" if self.pieces else self.jobs

    def at(self, number: str) -> list[str]:
        """Do one job."""
        place = f"{number} % {self.jobs}, {number} / {self.jobs}" if self.pieces else f"{number}, 0"
        given = f"<{self.width}>" if self.width else ""
        head = f"{self.part.text.name}{given}("
        job = [f"Job{{{place}}}"] if knows_place(self.part.text.code) else []
        rows = filled([*job, *self.arguments], 92)
        if len(rows) == 1 and len(head) + len(rows[0]) < 92:
            return [f"{head}{rows[0]});"]
        return [head, *(f"    {row}" for row in rows[:-1]), f"    {rows[-1]});"]


def knows_place(code: str) -> bool:
    """True where it matters which block it is."""
    return "blockIdx" in code
