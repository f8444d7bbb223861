"""Rows too long for one block: the blocks of a cluster keep a piece each and join through shared memory.

Owns the one launch that a split needs several for. Cluster and distributed shared memory are Hopper's, as in
the CUDA programming guide, "Thread Block Clusters".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.fetching import FetchingKernel
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.schedules.fitting import kept_of_piece
from workbench.playbook.schedules.schedule import MOST_FITTED, fit_text

ROUNDED = 8
"""Columns that rounding a piece up to whole vectors may add."""


@dataclass(frozen=True)
class ClusterTeam(TeamText):
    """All blocks of a cluster."""

    blocks: int = 1

    @property
    def prologue(self) -> list[str]:
        """How many blocks share a row."""
        return [
            f"// {self.blocks} blocks share a row: a cluster runs at the same time, each keeps a piece.",
            f"constexpr int BLOCKS = {self.blocks};",
        ]

    @property
    def first_row(self) -> str:
        """Row of a block's cluster."""
        return "blockIdx.x / BLOCKS"

    @property
    def leads(self) -> str:
        """The first thread of the first block."""
        return "threadIdx.x == 0 && blockIdx.x % BLOCKS == 0"

    def join(self, op: str, value: str) -> str:
        """The result of the whole cluster, known to each of its threads."""
        return f"cluster_reduce<{op}, BLOCKS>({value})"

    def join_both(self, ops: tuple[str, str], values: tuple[str, str]) -> str:
        """One after the other: the blocks of a cluster meet for each."""
        return ""


class ClusterKernel(FetchingKernel):
    """The kernel of a row that a cluster shares."""

    begin = "begin"
    end = "end"
    joined_by = "cluster_reduce"
    """Helper function that ``join`` calls."""

    def __init__(self, site: Site, kernel: Kernel, name: str, vector: bool) -> None:
        super().__init__(site, kernel, name, vector)
        self.blocks = site.schedule.cluster
        self.team = ClusterTeam("block", site.schedule.threads, self.blocks)
        self.waits.begin = self.begin
        self.waits.most = kept_of_piece(MOST_FITTED if site.schedule.fit else site.schedule.threads)
        self.frame.helpers.add(self.joined_by)

    def text(self) -> KernelText:
        """Write it."""
        code = self._function()
        rows = self.site.factor(self.space.rows)
        columns = f"cdiv({self.site.at_least_one(self.space.columns)}, {self.blocks})"
        fit = fit_text(columns, f"{self.blocks} * {rows}") if self.site.schedule.fit else ""
        text = self.frame.finish(self.name, code, self._grid(), self._limits(), fit)
        return replace(text, cluster=self.blocks)

    def _function(self) -> list[str]:
        """What a block does."""
        loads_first = self.waits.in_registers and self.site.schedule.single_pass
        body = self._fetched() if loads_first else list[str]()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
        body += self._row_stores()
        kept = self.waits.declarations(self.team, "PIECE")
        return self._rows([*self._piece(), *self._pointer_lines, *kept, *body])

    def _grid(self) -> str:
        """A cluster for every row."""
        rows = self.site.factor(self.space.rows)
        return str(self.blocks) if rows == "1" else f"{self.blocks} * {rows}"

    @property
    def _columns(self) -> str:
        """Columns of a piece, in the plan language, but for those that round it up."""
        return f"cdiv({self.site.size(self.space.columns)}, {self.blocks})"

    def _limits(self) -> Limits:
        """What a piece needs on the chip."""
        rounded = f"({self._columns} + {ROUNDED})"
        limits = self.waits.limits(self.team, rounded, self.site.schedule.fit)
        if self.waits.in_registers:
            limits = replace(limits, fits=limits.fits.replace(rounded, self._columns))
        return limits

    def _piece(self) -> list[str]:
        columns = self.frame.macros.text(self.space.columns)
        scale = " * VEC" if self.frame.vector else ""
        whole = f"BLOCKS{scale}"
        return [
            f"constexpr int PIECE = ({columns} + {whole} - 1) / ({whole}){scale};",
            "const int begin = blockIdx.x % BLOCKS * PIECE;",
            f"const int end = begin + PIECE < {columns} ? begin + PIECE : {columns};",
        ]
