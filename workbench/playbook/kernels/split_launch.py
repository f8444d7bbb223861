"""One launch of a split: blocks that share a row leave a partial result each, or join those of a pass before.

Owns its text. Where joining is all that is left to do, the block that is done last does it, and no further
kernel is launched (CUDA programming guide, "Memory Fence Functions").
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.model import H100
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.ir.program import Buffer, Kernel
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.kernels.told_parts import ToldParts, tellable
from workbench.playbook.kernels.waits import Waits
from workbench.playbook.schedules.schedule import MOST_TEAMS, pieces_of
from workbench.playbook.text.names import Names


class Partials:
    """Names of the buffers that partial results wait in; made once, read by the later kernels."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._names = Names([*site.program.buffers, *site.partials])
        self._made: dict[tuple[tuple[int, ...], str], str] = {}

    @property
    def all(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each."""
        return tuple((name, self._site.partials[name].dtype) for name in self._made.values())

    def of(self, text: AccumulatorText) -> tuple[str, ...]:
        """Buffers of an accumulator's members."""
        return tuple(self._member(text, suffix, i) for i, (suffix, _) in enumerate(text.members))

    def _member(self, text: AccumulatorText, suffix: str, position: int) -> str:
        key = (text.accumulator.keys, suffix)
        if key not in self._made:
            name = self._names.new(f"{text.name}_{suffix}_parts" if suffix else f"{text.name}_parts")
            self._made[key] = name
            self._site.partials[name] = Buffer(name, text.members[position][1], (), "partial")
        return self._made[key]


@dataclass(frozen=True)
class SideBySide(TeamText):
    """The blocks of a row as one team of threads while they walk it; each block joins its own part.

    On an H100 a sum over 7.5 GB takes 2.45 ms so and 2.70 with a stretch of the row for every block, a pass
    that writes as much 5.5 and 6.1; at 64 MB 33.6 us and 34.6 (docs/notes/2026-11-22-side-by-side.md).
    """

    @property
    def lane(self) -> str:
        """Among the threads of all blocks of the row."""
        return "lane"

    @property
    def lanes(self) -> str:
        """Threads of all blocks of the row."""
        return "pieces * THREADS"

    @property
    def comment(self) -> str:
        """What the choice means."""
        return (
            "// Several blocks a row, which walk it side by side: what they read at one time lies together."
        )


_MOST_PIECES = 4096
"""Pieces of a row where no shape is declared."""


class SplitKernel(RowKernel):
    """One launch of a split: pass ``number``, with the results of the passes before it joined first."""

    begin = "begin"
    end = "end"
    piece = "blockIdx.y"
    """Which piece of a row a block has."""

    def __init__(self, site: Site, kernel: Kernel, name: str, number: int, partials: Partials) -> None:
        super().__init__(site, kernel, name, vector=site.schedule.width > 1)
        self.number = number
        self.partials = partials
        self.step = self.passes[number] if number < len(self.passes) else Pass()
        self.joins = number + 1 == joined_by_last(site, self.passes)
        self.waits = Waits("reread", self.frame.vector)
        self.frame.scalars = ("pieces", "chunk") if number or self.joins else ("chunk",)
        if self.team.kind == "block" and not site.schedule.bundle:
            self.team = SideBySide("block", site.schedule.threads)
            self.begin = self.end = ""
            self.frame.scalars = ("pieces",)
        if not self.step.roots:
            self.frame.vector = False
            self.frame.scalars = ("pieces",)
        self.words: ToldParts | None = None

    def _told(self) -> ToldParts | None:
        """The words of the pieces; None where a counter tells who is last."""
        blocks = self.team.kind == "block" and not self.site.schedule.bundle
        if not (self.joins and self.site.schedule.join_told and blocks and tellable(self._made)):
            return None
        row = "" if self.space.rows.is_one else "blockIdx.x"
        return ToldParts(self.frame, self.name, self._made, "pieces", row)

    @property
    def asks_behind(self) -> int:
        """That of the last launch that walks."""
        return len(self.passes) - 1

    @property
    def leads(self) -> str:
        """One thread a row; of the pieces, the first."""
        conditions = [self.team.leads] if self.team.leads else []
        if self.step.stores and not self.joins:
            conditions.append(f"{self.piece} == 0")
        return " && ".join(conditions)

    def text(self) -> KernelText:
        """Write it."""
        body: list[str] = []
        for number in range(self.number):
            body += self._gathered([self._accumulator(one) for one in self.passes[number].accumulators])
        if self.step.roots:
            body += self._pass(self.number, self.step)
        if self.step.accumulators:
            body += self._left()
        if self.joins:
            body += self._joined_by_last()
        elif not self.step.accumulators:
            body += self._row_stores()
        lines = [*self._piece(), *self._pointer_lines, *body]
        grid = self._grid()
        text = self.frame.finish(
            self.name, self._rows(lines), f"({grid}, pieces)" if self.step.roots else grid
        )
        return replace(text, code=f"{self._counters()}\n{text.code}") if self.joins else text

    def _piece(self) -> list[str]:
        if not self.step.roots:
            return []
        if not self.begin:
            return ["const int lane = blockIdx.y * THREADS + threadIdx.x;"]
        columns = self.frame.macros.text(self.space.columns)
        return [
            "// A piece of a row for every block along y.",
            "const int begin = blockIdx.y * chunk;",
            f"const int end = begin + chunk < {columns} ? begin + chunk : {columns};",
        ]

    def _counters(self) -> str:
        if self.words is not None:
            return self.words.variable
        count = 1 if self.space.rows.is_one else MOST_TEAMS
        return (
            "// Pieces of a row that are done; zero between launches, of which one may run at a time.\n"
            f"__device__ unsigned int {self.name}_arrived[{count}];\n"
        )

    def _joined_by_last(self) -> list[str]:
        """What a further launch would do, done by the block that is done last, or by the row's last block."""
        if self.words is not None:
            return self._told_or_stored(self.words)
        self.frame.helpers.add("arrives_last")
        at = "" if self.space.rows.is_one else " + blockIdx.x"
        lines = ["", "// The last block of a row joins what all of them have left."]
        lines += block(f"if (!arrives_last({self.name}_arrived{at}, pieces))", ["return;"])
        lines += self._gathered([self._accumulator(one) for one in self.step.accumulators])
        return [*lines, *self._row_stores()]

    def _before_joins(self) -> list[str]:
        """The last block of a row hears the others: one join makes its own part and theirs one."""
        self.words = self._told()
        if self.words is None:
            return []
        comment = "// The last block of a row adds what all others tell to what its own threads have."
        return [
            *self.words.of_row,
            comment,
            *block("if (blockIdx.y == pieces - 1)", self.words.hear(self._made)),
        ]

    def _told_or_stored(self, told: ToldParts) -> list[str]:
        lines = [*told.tell("blockIdx.y", self.team.leads), "return;"]
        return [*block("if (blockIdx.y != pieces - 1)", lines), *self._row_stores()]

    def _gathered(self, texts: list[AccumulatorText]) -> list[str]:
        """Join the partial results that the pieces of this row left: one wait for those of all kinds."""
        entered = []
        for text in texts:
            members = [f"{self.frame.pointer(name)}[{self._at('part')}]" for name in self.partials.of(text)]
            entered.append(text.enter_partial(members))
        start, step = ("threadIdx.x", "part += THREADS") if self.team.kind == "block" else ("0", "++part")
        loop = block(f"for (int part = {start}; part < pieces; {step})", entered)
        if self.team.kind == "block" and self._one_each():
            loop = ["#pragma unroll 1", *loop]  # more copies of it are fetched by a cold card, and never run
        return self._around(texts, loop)

    def _around(self, texts: list[AccumulatorText], loop: list[str]) -> list[str]:
        """The loop that gathers, between what it begins with and what the threads of a block then join."""
        lines = [f"{text.ctype} {text.name} = {text.start};" for text in texts]
        return [*self._flush(), *lines, *loop, *self._joins(texts)]

    def _one_each(self) -> bool:
        """True where a thread has one partial result at most, at every declared shape."""
        schedule = self.site.schedule
        cases = self.site.cases[: self.site.declared]
        sizes = [(self.space.rows.at(case), self.space.columns.at(case)) for case in cases]
        most = max(
            (pieces_of(schedule, H100, rows, columns) for rows, columns in sizes), default=_MOST_PIECES
        )
        return most <= schedule.threads

    def _at(self, part: str) -> str:
        """Where a piece's partial result of this row lies."""
        if self.space.rows.is_one:
            return part
        return f"{part} * {self.frame.macros.text(self.space.rows)} + row"

    def _left(self) -> list[str]:
        """Leave this piece's partial results."""
        if self.words is not None:
            return []
        lines = []
        for text in self._made:
            for name, (member, _) in zip(self.partials.of(text), text.members, strict=True):
                value = f"{text.name}.{member}" if member else text.name
                lines.append(f"{self.frame.pointer(name)}[{self._at(self.piece)}] = {value};")
                self.frame.written = (*self.frame.written, name)
        return block(f"if ({self.team.leads})", lines) if self.team.leads else lines


def joined_by_last(site: Site, passes: list[Pass]) -> int:
    """Launches of a split whose last one joins its own pieces; 0 where each join is a launch."""
    makes = [bool(step.accumulators) for step in passes]
    return len(makes) if site.schedule.join_last and all(makes) else 0
