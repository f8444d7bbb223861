"""A convolution on tensor cores and a pool behind it: a warp has whole windows of the results.

Owns the text of the results beyond patches_kernel.py's: what is pooled never goes to memory. The windows lie
side by side, so that each result is in one; patches_tiling.py has the box of places that a warp makes.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis.beside_results import BesideResults
from workbench.playbook.analysis.windows_behind import place_in_window
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.patches_kernel import PatchesKernel
from workbench.playbook.kernels.patches_tiling import PatchTiling
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.kernels.seen_places import NAMES
from workbench.playbook.text.scope import statement

_WORDS = """
BOX_DOWN BOX_ACROSS WINDOW_DOWN WINDOW_ACROSS WINDOWS OF_WINDOW box_row box_col window window_depth window_row
window_col first_of turn_of own_line
""".split()  # noqa: SIM905
_WARP, _TURNS = 32, 4
"""Lanes; and windows that a lane has at most one after another without a loop."""


def pooled_kernel(
    site: Site, made: Convolution, name: str, tiling: PatchTiling, turned: str = ""
) -> KernelText:
    """Write the kernel of a convolution and of the windows of its results that are pooled."""
    return _Pooled(site, made, tiling, turned).finished(name)


class _Pooled(PatchesKernel):
    """The kernel being written."""

    def __init__(self, site: Site, made: Convolution, tiling: PatchTiling, turned: str) -> None:
        super().__init__(site, made, tiling, turned)
        for word in _WORDS:
            self.frame.names.new(word)
        self.counts = dict(zip(NAMES[-len(made.windows) :], made.windows, strict=True))
        self.of_window = math.prod(made.windows)
        self.windows = math.prod(tiling.box) // self.of_window

    def constants(self) -> list[str]:
        down, across = self.tiling.box
        return [
            *super().constants(),
            "// A warp has a box of places, in which WINDOWS of results are whole: what they come to is made",
            "// in registers, and is all that is stored.",
            f"constexpr int BOX_DOWN = {down}, BOX_ACROSS = {across};",
            f"constexpr int WINDOW_DOWN = {self.counts.get('row', 1)}, WINDOW_ACROSS = {self.counts['col']};",
            "constexpr int OF_WINDOW = WINDOW_DOWN * WINDOW_ACROSS;",
            "constexpr int WINDOWS = BOX_DOWN * BOX_ACROSS / OF_WINDOW;",
        ]

    def own_places(self) -> list[str]:
        return [
            "// Where a warp's box is in the tile. Of its places a thread has one, which sees a patch from",
            f"// here on, and {self.others}, eight apart.",
            "const int box_row = warp / (PLACES_ACROSS / BOX_ACROSS) * BOX_DOWN;",
            "const int box_col = warp % (PLACES_ACROSS / BOX_ACROSS) * BOX_ACROSS;",
        ]

    first_place = ("box_row", "(box_col + lane / 4)")

    # -------------------------------------------------------------------------------- results

    def column_found(self) -> list[str]:
        """Statements that find a lane's window: of each box its lanes have all, of several channels."""
        starts = {"depth": "plane_here"}
        starts["row"] = "(row_tile + box_row) / WINDOW_DOWN + window / (BOX_ACROSS / WINDOW_ACROSS)"
        starts["col"] = "(column_tile + box_col) / WINDOW_ACROSS + window % (BOX_ACROSS / WINDOW_ACROSS)"
        lines, inside = ["const int window = lane % WINDOWS;"], list[str]()
        for name, size in zip(self.counts, self.convolution.shape_stored[2:], strict=True):
            lines += statement(f"const int window_{name} = {starts[name]};")
            inside += [] if name == "depth" else [f"window_{name} < {self._size(size)}"]
        return [
            *self._tile("tile", places=True),
            *lines,
            "// The first of its results, among those of the warp.",
            *statement(
                "const int first_of = window / (BOX_ACROSS / WINDOW_ACROSS) * WINDOW_DOWN * BOX_ACROSS"
                " + window % (BOX_ACROSS / WINDOW_ACROSS) * WINDOW_ACROSS;"
            ),
            "const int image = plane;",
            *statement(f"const bool is_result = {' && '.join(inside)};"),
        ]

    def finished_column(self) -> list[str]:
        """Windows of a lane, one channel after another."""
        lines = max(1, self.tiling.chunk * self.windows // _WARP)
        read = [
            "const int turn_of = r / WINDOW_ACROSS * BOX_ACROSS + r % WINDOW_ACROSS;",
            "made[r] = results[own_line * LINE + first_of + turn_of];",
            "lost |= isnan(made[r]);",
        ]
        every = "for (int r = 0; r < OF_WINDOW; ++r)"
        body = [
            f"float made[{self.of_window}];",
            "bool lost = false;",
            "#pragma unroll",
            *block(every, read),
            *self.row_found(),
            *block(
                f"if ({self.is_row})",
                [
                    f"// {self.why_lost} Where one was met, sums are made anew.",
                    *block("if (lost)", ["#pragma unroll 1", *block(every, self._again())]),
                    *self.stored(),
                ],
            ),
        ]
        if _WARP // self.windows > self.tiling.chunk:  # more channels than are at hand
            body = block("if (own_line < CHUNK)", body)
        own_line = f"const int own_line = line * {_WARP // self.windows} + lane / WINDOWS;"
        unrolled = "#pragma unroll" if lines <= _TURNS else f"#pragma unroll {_TURNS}"
        return [unrolled, *block(f"for (int line = 0; line < {lines}; ++line)", [own_line, *body])]

    def _again(self) -> list[str]:
        """Statements that make one result of a window anew where it is no number."""
        places = {"depth": "window_depth", "row": "window_row * WINDOW_DOWN + r / WINDOW_ACROSS"}
        places["col"] = "window_col * WINDOW_ACROSS + r % WINDOW_ACROSS"
        each = "for (int other = 0; other < OF_WINDOW; ++other)"
        return [
            "float result = made[0];  // a register is not found by a number: ask each",
            "#pragma unroll",
            *block(each, ["result = other == r ? made[other] : result;"]),
            *(f"const int {name} = {places[name]};" for name in self.counts),
            *block("if (isnan(result))", self.made_anew()),
            "#pragma unroll",
            *block(each, ["made[other] = other == r ? result : made[other];"]),
        ]

    def row_found(self) -> list[str]:
        group = self.group("matrix_here")
        channel = f"{group} * {self.rows} + own" if group else "own"
        return [f"const int own = row_here + own_line, channel = {channel};"]

    def at_place(self) -> ResultFrame:
        places = ("image", "channel", *(f"window_{name}" for name in self.counts))
        return ResultFrame(self.frame, self.made, places)

    def stored(self) -> list[str]:
        def element(load: Load) -> str:
            return f"made[{place_in_window(self.convolution, load)}]"

        return [*self.row_values_found(), *self.at_place().stored(element, self.known)]

    line_name = "own_line"

    def made_beside(self) -> BesideResults:
        return replace(super().made_beside(), columns=(), own=())  # a lane has one window of a channel
