"""Rows too long for one block: the blocks of a cluster keep a piece each and join through shared memory.

Owns the one launch that a split needs several for. Cluster and distributed shared memory are Hopper's, as in
the CUDA programming guide, "Thread Block Clusters".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.playbook.fetching import FetchingKernel
from workbench.playbook.kernel_text import KernelText, Site
from workbench.playbook.program import Kernel
from workbench.playbook.schedule import fit_text
from workbench.playbook.team import TeamText

_ROUNDED = 8
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


class ClusterKernel(FetchingKernel):
    """The kernel of a row that a cluster shares."""

    begin = "begin"
    end = "end"

    def __init__(self, site: Site, kernel: Kernel, name: str, vector: bool) -> None:
        super().__init__(site, kernel, name, vector)
        self.team = ClusterTeam("block", site.schedule.threads, site.schedule.cluster)
        self.waits.begin = self.begin
        self.frame.helpers.add("cluster_reduce")

    def text(self) -> KernelText:
        """Write it."""
        ahead = self.waits.in_registers and self.site.schedule.single_pass
        body = self._fetched() if ahead else list[str]()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
        body += self._row_stores()
        kept = self.waits.declarations(self.team, "PIECE")
        lines = [*self._piece(), *self._pointer_lines, *kept, *body]
        blocks = self.team.blocks if isinstance(self.team, ClusterTeam) else 1
        rows, columns = self.site.factor(self.space.rows), self.site.size(self.space.columns)
        piece = f"cdiv({columns}, {blocks})"
        limits = self.waits.limits(self.team, f"({piece} + {_ROUNDED})", self.site.schedule.fit)
        if self.waits.in_registers:
            limits = replace(limits, fits=limits.fits.replace(f"({piece} + {_ROUNDED})", piece))
        fit = fit_text(piece, f"{blocks} * {rows}") if self.site.schedule.fit else ""
        grid = str(blocks) if rows == "1" else f"{blocks} * {rows}"
        text = self.frame.finish(self.name, self._rows(lines), grid, limits, fit)
        return replace(text, cluster=blocks)

    def _piece(self) -> list[str]:
        columns = self.frame.macros.text(self.space.columns)
        scale = " * VEC" if self.frame.vector else ""
        whole = f"BLOCKS{scale}"
        return [
            f"constexpr int PIECE = ({columns} + {whole} - 1) / ({whole}){scale};",
            "const int begin = blockIdx.x % BLOCKS * PIECE;",
            f"const int end = begin + PIECE < {columns} ? begin + PIECE : {columns};",
        ]


def cluster_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write it, with vectors where sizes allow them."""
    text = ClusterKernel(site, kernel, name, site.schedule.width > 1).text()
    possible = text.width is None or text.width.is_possible
    return text if possible else ClusterKernel(site, kernel, name, vector=False).text()
