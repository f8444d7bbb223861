"""What the warps of a product on tensor cores do with their sums: these change hands, and are finished.

Owns the text from a tile's sums to what is stored; tensor_core_kernel.py has the sums.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

from workbench.playbook.analysis.beside_results import BesideResults, beside_results
from workbench.playbook.ir.program import InPlaceOfCall
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.kernels.product_tiling import LINE
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.scope import stem_of

_LANES = 32
_AT_ONCE = 8
"""Results of a column that a thread finishes together."""
_READ_AT_ONCE = 8
"""Blocks whose sums a thread reads together."""


class ProductResults(ABC):
    """The end of a kernel's tile: neighbouring lanes go on with neighbouring results."""

    why_lost = "An infinity has no low part."
    """What becomes of one in the sums, so that they are no numbers."""
    lines: int
    """Results of a column that a warp has at hand."""
    blocks: int
    """That share the terms of a tile."""
    batch: Size
    """Products side by side."""

    @property
    @abstractmethod
    def low(self) -> bool:
        """True where the two groups of warps of a block have half of the terms each."""

    @abstractmethod
    def found(self, tile: str, names: tuple[str, str, str]) -> list[str]:
        """Statements that find a tile: which product, and its first row and column."""

    @property
    @abstractmethod
    def is_column(self) -> str:
        """Condition under which there is the column that a lane has found."""

    @property
    @abstractmethod
    def is_row(self) -> str:
        """The same of a row."""

    @abstractmethod
    def column_found(self) -> list[str]:
        """Statements that find a lane's column among a quarter of the tile's."""

    @abstractmethod
    def row_found(self) -> list[str]:
        """Statements that find the row of ``line``, one of the sixteen of a warp."""

    @abstractmethod
    def made_anew(self) -> list[str]:
        """Statements that make ``result``, of a row and a column, term by term."""

    @abstractmethod
    def at_place(self) -> ResultFrame:
        """Where a row and a column meet, what is stored of a result."""

    def stored(self) -> list[str]:
        """Statements that make of ``result`` what is stored, and store it."""
        return self.at_place().stored("result", self.known)

    # -------------------------------------------------------------------------------- beside results

    frame: Frame
    made: InPlaceOfCall

    @property
    def wide(self) -> int:
        """Results of a row that a warp has at hand; behind them a line has room for values of the row."""
        return _LANES

    @property
    def line(self) -> int:
        """Floats from one row of a warp's results to the next."""
        return LINE

    @cached_property
    def beside(self) -> BesideResults:
        """What is taken besides results: of rows, of columns, of each."""
        return self.made_beside()

    def made_beside(self) -> BesideResults:
        """The same, found out."""
        return beside_results(self.made, self.line - self.wide)

    @cached_property
    def _called(self) -> dict[int, str]:
        """Of a column's values, and of elements that several results have for themselves."""
        columns, own = self.beside.columns, self.beside.own
        return {one.serial: self.frame.names.new(stem_of(one)) for one in (*columns, *own)}

    @property
    def known(self) -> dict[int, Text]:
        """What has been made before a result is at hand."""
        beside = self.beside
        found = {one.serial: Text(f"of_row[{at}]") for at, one in enumerate(beside.rows)}
        found |= {one.serial: Text(self._called[one.serial]) for one in beside.columns}
        return found | {one.serial: Text(f"{self._called[one.serial]}[r]") for one in beside.own}

    def row_values_found(self) -> list[str]:
        """A statement that finds what has been made of the row ``line``."""
        if not self.beside.rows:
            return []
        return [f"const float* const of_row = results + {self.line_name} * LINE + {self.wide};"]

    def rows_made(self, lines: int) -> list[str]:
        """Statements that make what all results of a row take, of each of a warp's."""
        if not self.beside.rows:
            return []
        made = self.at_place().made_before(self.beside.rows, lambda at, code: f"of_row[{at}] = {code};")
        own = self.line_name
        of_line = [
            *self.row_found(),
            *block(
                f"if ({self.is_row})",
                [f"float* const of_row = results + {own} * LINE + {self.wide};", *made],
            ),
        ]
        if lines > _LANES:
            each = block(f"for (int {own} = lane; {own} < {lines}; {own} += {_LANES})", of_line)
        else:
            each = block(f"if (lane < {lines})", [f"const int {own} = lane;", *of_line])
        return [
            "// What all results of a row take is made once, by a lane a row, and kept behind them.",
            *each,
        ]

    line_name = "line"
    """What statements that find a row call its number among those of a warp."""

    def columns_made(self) -> list[str]:
        """Statements that make what all results of a column take."""
        names = [self._called[one.serial] for one in self.beside.columns]
        return self.at_place().made_before(
            self.beside.columns, lambda at, code: f"const float {names[at]} = {code};"
        )

    def own_read(self) -> list[str]:
        """Statements that read what a result has for itself."""
        own = self.beside.own
        zeros = ["0.0f" if one.dtype == "f32" else f"{CTYPES[one.dtype]}(0)" for one in own]
        names = [self._called[one.serial] for one in own]
        return self.at_place().made_before(
            own, lambda at, code: f"{names[at]}[r] = {self.is_row} ? {code} : {zeros[at]};"
        )

    # -------------------------------------------------------------------------------- results

    @property
    def _shared_by(self) -> int:
        """Warps that have the same sixteen rows, and a part of the terms each."""
        return self.blocks * (2 if self.low else 1)

    def _own_lines(self) -> list[str]:
        """Which of them a warp finishes."""
        if self.low:
            return [
                "const int share = group;"
                if self.blocks == 1
                else "const int share = cluster.block_rank() * 2 + group;"
            ]
        return [] if self.blocks == 1 else ["const int share = cluster.block_rank();"]

    def _sum(self) -> list[str]:
        """Statements that get one of the results at hand from shared memory."""
        own = "results - group * 64 * LINE" if self.low else "results"
        both = "one[0] + one[64 * LINE]" if self.low else "one[0]"
        if self.blocks == 1:
            found = f"{own} + line * LINE + lane"
            if not self.low:
                return ["made[r] = results[line * LINE + lane];"]
            return [
                f"const float* const one = {found};",
                f"made[r] = {both};  // of the one half of the terms, and of the other",
            ]
        return [
            "made[r] = 0.0f;",
            f"#pragma unroll {min(self.blocks, _READ_AT_ONCE)}",
            *block(
                "for (int b = 0; b < BLOCKS; ++b)",
                [
                    f"const float* const one = cluster.map_shared_rank({own}, b) + line * LINE + lane;",
                    f"made[r] += {both};",
                ],
            ),
        ]

    def finished_column(self) -> list[str]:
        """The results of a column that are a warp's to finish, a few at a time."""
        shared_by = self._shared_by
        at_once = min(_AT_ONCE, math.ceil(self.lines / shared_by))
        step = at_once * shared_by
        number = "first + r" if shared_by == 1 else f"first + r * {shared_by}"
        whole = self.lines % step == 0
        inside = "" if whole else f"line < {self.lines} && "
        line = f"const int line = {number};"
        read = line if whole else f"const int line = ({number}) % {self.lines};"

        def of_each(body: list[str], name: str = "r") -> list[str]:
            loop = f"for (int {name} = 0; {name} < {at_once}; ++{name})"
            return ["#pragma unroll", *block(loop, body)]

        own = [f"{CTYPES[one.dtype]} {self._called[one.serial]}[{at_once}];" for one in self.beside.own]
        if own:
            own += of_each([read, *self.row_found(), *self.own_read()])
        anew = [
            f"float result = made[{at_once - 1}];  // a register is not found by a number: ask each",
            *of_each(["result = other == r ? made[other] : result;"], "other"),
            line,
            *self.row_found(),
            *block(f"if ({inside}{self.is_row} && isnan(result))", self.made_anew()),
            *of_each(["made[other] = other == r ? result : made[other];"], "other"),
        ]
        again = ["#pragma unroll 1", *block(f"for (int r = 0; r < {at_once}; ++r)", anew)]
        stored = [*self.row_values_found(), "const float result = made[r];", *self.stored()]
        body = [
            *own,
            f"float made[{at_once}];",
            "bool lost = false;",
            *of_each([read, *self._sum(), "lost |= isnan(made[r]);"]),
            f"// {self.why_lost} Where one was met, sums are made anew.",
            *block("if (lost)", again),
            *of_each(
                [
                    line,
                    *self.row_found(),
                    *block(f"if ({inside}{self.is_row})", stored),
                ]
            ),
        ]
        begin = "share" if shared_by > 1 else "0"
        return [
            *self.columns_made(),
            *(["// Several at a time: while one is waited for, so are the others."] if at_once > 1 else []),
            "#pragma unroll 1",
            *block(f"for (int first = {begin}; first < {self.lines}; first += {step})", body),
        ]

    def written(self) -> list[str]:
        meet = "cluster.sync();" if self.blocks > 1 else "__syncthreads();" if self.low else "__syncwarp();"
        quarter = [
            "#pragma unroll",
            *block(
                "for (int i = 0; i < 16; i += 2)",
                [
                    "const int own = lane / 4 + i / 2 % 2 * 8;",
                    "float* const to = results + own * LINE + i / 4 * 8 + quarter * 2;",
                    "*reinterpret_cast<float2*>(to) = make_float2(total[c * 16 + i], total[c * 16 + i + 1]);",
                ],
            ),
            *self.column_found(),
            meet,
            *block(f"if ({self.is_column})", self.finished_column()),
            meet,
        ]
        return [
            "// The results, a quarter of the columns at a time. In shared memory a warp's sums change",
            "// hands: neighbouring lanes go on with neighbouring results.",
            f"int {'' if self.batch.is_one else 'matrix_here, '}row_here, column_here;",
            *self.found("tile", ("matrix_here", "row_here", "column_here")),
            f"row_here += {'warp % 4' if self.low else 'warp'} * 16;",
            *self._own_lines(),
            *self.rows_made(self.lines),
            "#pragma unroll",
            *block("for (int c = 0; c < 4; ++c)", quarter),
        ]
