"""Rows that clusters share, one after the other: the next arrives while the present one is computed.

Owns the loop over rows of a cluster that stays, and how clusters come by their rows. A block whose piece
fills a multiprocessor has nobody beside it who would use memory while it joins and stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.cluster_kernel import ROUNDED, ClusterKernel, ClusterTeam
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, block
from workbench.playbook.kernels.next_piece import NextPiece


@dataclass(frozen=True)
class _InTurn(ClusterTeam):
    """Blocks whose meetings use two places in turn, from row to row too."""

    odd: bool = False
    """Meetings of a row: then the next row begins with the other place."""
    met: list[str] = field(default_factory=list)

    def join(self, op: str, value: str) -> str:
        """The result of the whole cluster; neighbouring meetings have different places."""
        at = len(self.met) % 2
        self.met.append(value)
        turn = ("turn", "turn ^ 1")[at] if self.odd else str(at)
        return f"cluster_reduce<{op}, BLOCKS>({value}, {turn})"


class ClusterRowsKernel(ClusterKernel):
    """The kernel of clusters that draw rows, each as soon as it has time.

    Nobody has to know how many clusters find room: one that starts late finds few rows left, while a fixed
    share of the rows would keep the card waiting for it. ``atomicInc`` is back at zero with the last row.
    """

    arriving = NextPiece
    joined_by = "cluster_in_turn"

    def __init__(self, site: Site, kernel: Kernel, name: str, vector: bool) -> None:
        super().__init__(site, kernel, name, vector)
        met = sum(len(step.accumulators) for step in self.passes)
        self.team = _InTurn("block", site.schedule.threads, self.blocks, odd=met % 2 == 1)

    def text(self) -> KernelText:
        """Write it, and the variable that is zero between its launches."""
        text = super().text()
        own = [
            "// Rows that clusters have drawn; zero between launches, of which one may run at a time.",
            f"__device__ unsigned int {self._counter};",
        ]
        return replace(text, code="\n".join([*own, "", text.code]), resident=self._resident())

    @property
    def _counter(self) -> str:
        return f"{self.name}_drawn"

    def _function(self) -> list[str]:
        """Storage and the first row's copies; then row after row."""
        body = [*self._ticket(), *self._fetched()]
        for number, step in enumerate(self.passes):
            body += [*self._pass(number, step), *(self._told() if number == 0 else [])]
        body += [*self._row_stores(), "row = next_row;", "next_row = after_next;"]
        comment, count, *kept = self.waits.declarations(self.team, "PIECE")
        rows = self.frame.macros.text(self.space.rows)
        head = f"for (int turn = 0; row < {rows}; turn ^= 1)"
        return [
            *self.team.prologue,
            *self._piece(),
            comment,
            count,
            "// Clusters stay for many rows: two each to begin with, then whichever is the next one left.",
            "const auto cluster = cooperative_groups::this_cluster();",
            "__shared__ int drawn[2];",
            "const int clusters = gridDim.x / BLOCKS;",
            f"int row = {self.team.first_row}, next_row = row + clusters;",
            *self.next_row.before_rows(),
            *block(head, [*self._pointer_lines, *kept, *body]),
            "cluster.sync();  // no block may end while another still reads what it has drawn",
        ]

    def _ticket(self) -> list[str]:
        """Ask for a row: for the one after the next, so that nobody waits for the answer."""
        rows = self.frame.macros.text(self.space.rows)
        draw = f"ticket = atomicInc(&{self._counter}, {rows} - 1);"
        return ["unsigned int ticket = 0;", *block(f"if ({self.team.leads})", [draw])]

    def _pass(self, number: int, step: Pass) -> list[str]:
        """The row that was drawn lies in shared memory before the first meeting of the cluster."""
        lines = super()._pass(number, step)
        if number:
            return lines
        left = block(f"if ({self.team.leads})", ["drawn[turn] = 2 * clusters + int(ticket);"])
        return [*left, *lines]

    def _told(self) -> list[str]:
        """The cluster has met: all of its blocks read what the first one drew; two places take turns."""
        return ["const int after_next = *cluster.map_shared_rank(&drawn[turn], 0);"]

    def _grid(self) -> str:
        """As many clusters as may find room; one too many costs a row or two, one too few a share of time."""
        room = f"max(1, gpu.sm_count * {{resident}} // {self.blocks})"
        return f"{self.blocks} * min({self.site.factor(self.space.rows)}, {room})"

    def _limits(self) -> Limits:
        limits = replace(super()._limits(), shared=self._arriving_bytes())
        room = f"{limits.shared} <= gpu.shared_bytes_per_block"
        return replace(limits, fits=f"{limits.fits} and {room}")

    def _arriving_bytes(self) -> str:
        return f"({self._columns} + {ROUNDED}) * {self.next_row.bytes_a_column}"


def cluster_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """A row that a cluster shares, with vectors where sizes allow them; the next one ahead where asked."""
    kind = ClusterKernel
    if site.schedule.prefetch and ClusterRowsKernel(site, kernel, name, vector=False).next_row:
        kind = ClusterRowsKernel
    else:
        site = replace(site, schedule=replace(site.schedule, prefetch=False))
    text = kind(site, kernel, name, site.schedule.width > 1).text()
    possible = text.width is None or text.width.is_possible
    return text if possible else kind(site, kernel, name, vector=False).text()
