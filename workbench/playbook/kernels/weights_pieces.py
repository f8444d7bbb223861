"""Few columns that neighbours weigh alike: several blocks share them, and the last of these joins the pieces.

Owns the text of such a kernel, and which kernels the plan chooses between. weights_kernel.py has the walk.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.model import H100
from workbench.playbook.analysis.shared_weights import SharedWeights
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.abreast_vectors import MOST_JOINED, for_each
from workbench.playbook.kernels.kernel_text import KernelText, Site, SplitText, block
from workbench.playbook.kernels.split_launch import Partials
from workbench.playbook.kernels.weights_kernel import WeightsKernel
from workbench.playbook.schedules.schedule import LEAST_PIECE, MOST_TEAMS
from workbench.playbook.text.names import Names


class PiecesKernel(WeightsKernel):
    """The kernel of blocks that share their columns."""

    first = "blockIdx.y * GROUPS + group"
    apart = "apart"

    def __init__(self, site: Site, kernel: Kernel, name: str, partials: Partials) -> None:
        super().__init__(site, kernel, name)
        self.partials = partials
        self.frame.scalars = ("pieces",)
        self.frame.names.new("apart")
        self.frame.helpers.update(["arrives_last", "load", "pack", "store_at"])

    def text(self) -> KernelText:
        """Write it."""
        text = super().text()
        counters = (
            "// Pieces of some rows that are done; zero between launches, of which one may run at a time."
            f"\n__device__ unsigned int {self.name}_arrived[{MOST_TEAMS}];\n"
        )
        return replace(text, code=f"{counters}\n{text.code}")

    def _grid(self) -> str:
        return f"(cdiv({self.site.size(self.space.rows)}, {{bundle}}), pieces)"

    def _rows(self, body: list[str]) -> list[str]:
        comment = "// The warps of several blocks take turns at the columns of the same rows."
        return super()._rows([comment, "const int apart = pieces * GROUPS;", *body])

    def _row_stores(self) -> list[str]:
        """Every block leaves what its columns come to; the last one joins that, and has the results."""
        last = f"if (!arrives_last({self.name}_arrived + blockIdx.x, pieces))"
        comment = "// The last block of these rows joins what all of them have left."
        return [*self._left(), comment, *block(last, ["return;"]), *self._gathered(), *super()._row_stores()]

    def _at(self, part: str) -> str:
        return f"size_t({part}) * {self.frame.macros.text(self.space.rows)} + row"

    def _left(self) -> list[str]:
        declared, each, after = list[str](), list[str](), list[str]()
        for text in self._made:
            (name,) = self.partials.of(text)
            pack = self.frame.names.new(f"{text.name}_pack")
            declared.append(f"Pack<{text.ctype}, VEC> {pack};")
            each.append(f"{pack}.at[k] = {text.name}[k];")
            after.append(f"store_at({self.frame.pointer(name)}, {self._at('blockIdx.y')}, {pack});")
            self.frame.written = (*self.frame.written, name)
        return block(f"if ({self.leads})", [*declared, *for_each(each), *after])

    def _gathered(self) -> list[str]:
        starts, loads, entered, joins = list[str](), list[str](), list[str](), list[str]()
        for text in self._made:
            (name,) = self.partials.of(text)
            part = self.frame.names.new(f"{text.name}_part")
            one = replace(text, name=f"{text.name}[k]")
            starts.append(f"{one.name} = {text.start};")
            loads.append(f"const auto {part} = load<VEC>({self.frame.pointer(name)} + {self._at('part')});")
            entered.append(one.enter_partial([f"{part}.at[k]"]))
            joins.append(f"{self.team.join(text.op, text.name)};")
        head = "for (int part = group; part < pieces; part += GROUPS)"
        return [*for_each(starts), *block(head, [*loads, *for_each(entered)]), *joins]


def weights_step(
    site: Site, kernel: Kernel, name: str, names: Names, found: SharedWeights
) -> KernelText | SplitText:
    """The kernel of a schedule; where a declared shape has blocks that share columns, theirs too."""
    site.macros.name(found.columns, "COLS")
    site.macros.name(found.rows, "ROWS")
    plain, width = _widest(site, kernel, name)
    if all(found.pieces(site.schedule, H100, case) == 1 for case in site.cases[: site.declared]):
        return plain
    narrow = _at_width(site, width)
    partials = Partials(narrow)
    pieces = PiecesKernel(narrow, kernel, names.new(f"{name}_pieces"), partials).text()
    return SplitText(
        kernels=(pieces,),
        partials=partials.all,
        plain=plain,
        teams=f"cdiv({site.size(found.rows)}, {{bundle}})",
        rows=found.rows,
        columns=found.columns,
        least=LEAST_PIECE["thread"],
        longest_whole=LEAST_PIECE["thread"],
        threads=site.schedule.threads,
        most_teams=MOST_TEAMS,
        bundle="32 * {width}" if pieces.width else "32",
    )


def _at_width(site: Site, width: int) -> Site:
    """With vectors of a width, and without what is decided for other rows."""
    plain = replace(site.schedule, width=width, single_pass=False, cache="reread")
    return replace(site, schedule=replace(plain, persistent=False, prefetch=False, cluster=1, fit=False))


def _widest(site: Site, kernel: Kernel, name: str) -> tuple[KernelText, int]:
    """Vectors as wide as sizes and the joining of results leave room for."""
    width = site.schedule.width
    while True:
        written = WeightsKernel(_at_width(site, width), kernel, name)
        text = written.text()
        possible = text.width is None or text.width.is_possible
        if width == 1 or (possible and written.joined_bytes <= MOST_JOINED):
            return text, width
        width //= 2
