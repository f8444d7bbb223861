"""A convolution on tensor cores, and a kernel behind it whose rows are the channels of a place.

Owns the text of the results beyond patches_kernel.py's: all channels of a warp's places wait in shared
memory, where a lane has one place and goes through its channels as often as a maximum or a softmax takes.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Convolution, Kernel
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block
from workbench.playbook.kernels.patches_kernel import PatchesKernel
from workbench.playbook.kernels.patches_tiling import PatchTiling
from workbench.playbook.kernels.row_kernel import RowKernel, Turned
from workbench.playbook.text.scope import statement

_WORDS = ("own_line", "own_row", "col")


def channels_kernel(
    site: Site, made: Convolution, name: str, tiling: PatchTiling, turned: str = ""
) -> KernelText:
    """Write the kernel of a convolution and of the rows of channels behind it."""
    return _Channels(site, made, tiling, turned).finished(name)


class _Row(RowKernel):
    """The kernel behind it, of which a lane has a row: a place whose channels are in shared memory."""

    unrolled = "#pragma unroll 16"
    """Columns whose elements are on their way from shared memory together."""

    def __init__(self, site: Site, made: Convolution, frame: Frame, result: str) -> None:
        schedule = replace(site.schedule, team="thread", cache="reread", width=1, items=1, fit=False)
        self._results_of, self._result = made.buffer, result
        one = replace(site, schedule=replace(schedule, persistent=False, prefetch=False))
        super().__init__(one, Kernel(list(made.stores)), "", vector=False, frame=frame)

    def lines(self) -> list[str]:
        """Statements for the row ``row``."""
        body = self.body()
        return [*self._pointer_lines, *body]

    def turned_load(self, load: Load) -> Turned | None:
        """A result of the convolution."""
        return Turned(self._result, ()) if load.buffer == self._results_of else None


class _Channels(PatchesKernel):
    """The kernel being written."""

    def __init__(self, site: Site, made: Convolution, tiling: PatchTiling, turned: str) -> None:
        super().__init__(site, made, tiling, turned)
        for word in _WORDS:
            self.frame.names.new(word)
        self._own = "lane" if tiling.twice > 1 else "lane % 16"
        vector, self.frame.vector = self.frame.vector, False  # a lane goes from channel to channel
        self._row = _Row(site, made, self.frame, f"results[col * LINE + {self._own}]").lines()
        self.frame.vector = vector

    def written(self) -> list[str]:
        changed = [
            "const int sum_row = m * 16 + lane / 4 + i / 2 % 2 * 8;",
            "const int sum_column = i / 4 * 8 + quarter * 2 + i % 2;",
            f"results[sum_column * LINE + sum_row] = {self.factors.sums}[m][i];",
            f"lost |= isnan({self.factors.sums}[m][i]);",
        ]
        finished = [
            f"// {self.why_lost} Where one was met, sums are made anew.",
            *block("if (lost)", block(f"for (int own = 0; own < {self.rows}; ++own)", self._repaired())),
            *statement(f"const int own_row = {self._row_number()};"),
            *block("", ["const int row = own_row;", *self._row]),
        ]
        mine = "" if self.tiling.twice > 1 else " && lane < 16"
        return [
            "// The results of a warp's places change hands in shared memory: a lane goes on with all",
            "// channels of a place.",
            *self.column_found(),
            "bool lost = false;",
            "#pragma unroll",
            *block(
                f"for (int m = 0; m < {self.tiling.twice}; ++m)",
                ["#pragma unroll", *block("for (int i = 0; i < ACROSS / 2; ++i)", changed)],
            ),
            "lost = __any_sync(0xffffffff, lost);",
            "__syncwarp();",
            *block(f"if (is_result{mine})", finished),
            "__syncwarp();",
        ]

    def _repaired(self) -> list[str]:
        return [
            f"float result = results[own * LINE + {self._own}];",
            *block(
                "if (isnan(result))",
                [
                    "const int channel = own;",
                    *self.made_anew(),
                    f"results[own * LINE + {self._own}] = result;",
                ],
            ),
        ]

    def _row_number(self) -> str:
        """The number of a place among all."""
        code = "image"
        for at, (name, side) in enumerate(self.sides.named):
            code = f"{f'({code})' if at else code} * {self._size(side.side.made)} + {name}"
        return code
