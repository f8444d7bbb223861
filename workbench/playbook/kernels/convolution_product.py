"""A convolution on tensor cores: weights, a row a channel, times what each place of the results sees.

Owns the text of such a kernel beyond product_kernel.py's: the right factor is nowhere in memory, threads look
its elements up in the input.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.ir.program import Convolution, Matrix, Side
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.kernels.convolution_pieces import shifted
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, indented
from workbench.playbook.kernels.product_kernel import TensorCoreKernel
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.text.scope import statement

_WORDS = """
is_place seen image channel depth row col seen_depth seen_row seen_col place tap of_all is_result of
seen_tile seen_piece look_at find_terms look_up go_on ahead away step met begun index
""".split()  # noqa: SIM905
_NAMES = ("depth", "row", "col")
_WORD = 32
"""Taps that have a bit each in a word."""


def turned(side: Side) -> Side:
    """The side of an ordinary convolution that a transposed one is, where its step is one."""
    return replace(side, padding=side.dilation * (side.taps - 1) - side.padding)


def convolution_product(site: Site, made: Convolution, name: str) -> KernelText:
    """Write the kernel of a convolution and of what is made of its results."""
    return _Places(site, made).finished(name)


class _Places(TensorCoreKernel):
    """The kernel being written: its columns are places of all images, its terms taps of all channels."""

    def __init__(self, site: Site, made: Convolution) -> None:
        self.taps = math.prod(side.taps for side in made.sides)
        terms = made.read * number(self.taps)
        super().__init__(site, made, Matrix(made.weight, ZERO, made.made * terms, terms, ONE))
        for word in _WORDS:
            self.frame.names.new(word)
        if made.transposed:  # weights lie the other way round, nowhere side by side
            self.frame.vector = False
        self.convolution = made
        self.source = self.frame.pointer(made.source)
        sides = [turned(side) if made.transposed else side for side in made.sides]
        self.named = list(zip(_NAMES[-len(sides) :], sides, strict=True))

    def left_brought(self) -> list[str]:
        if not self.convolution.transposed:
            return super().left_brought()
        body = [
            "const int index = s * (BLOCK / TERMS) + warp;",
            f"const bool there = more && first_row + index < {self.rows} && of_all < {self.terms};",
            f"const float* const from = left + (there ? begun + (first_row + index) * {self.taps} : 0);",
            "copy_or_zero<1>(coming_left + stage * LEFT + index * LEFT_LINE + lane, from, there);",
        ]
        return [
            "// A transposed convolution is an ordinary one whose weights are read from the last tap to the",
            "// first, and lie by the channel that is read. A lane has one term of all rows.",
            "const int of_all = coming_piece * TERMS + lane;",
            *self._channel_and_tap("of_all"),
            f"const int begun = channel * {self.rows}{self._from_last_tap()};",
            "#pragma unroll",
            *block("for (int s = 0; s < TALL * TERMS / BLOCK; ++s)", body),
        ]

    def _from_last_tap(self) -> str:
        """What follows the number of a pair of channels, in the place of a weight that lies so."""
        return "" if self.taps == 1 else f" * {self.taps} + {self.taps - 1} - tap"

    @property
    def right_by_terms(self) -> bool:
        return False

    @property
    def right_waits(self) -> bool:
        return False

    def right_brought(self) -> list[str]:
        return []

    def right_read(self) -> list[str]:
        padded = self._padded()
        names = [f"seen_tile = {self.first_tile}", f"seen_piece = {self.first_piece}", "ahead"]
        names += ["step"] if padded else []
        known = "const bool " if padded else ""
        look_at = [
            f"int {'' if self.batch.is_one else 'matrix, '}row, place;",
            *self.found("tile", ("matrix", "row", "place")),
            "place += threadIdx.x % WIDE;",
            f"{known}is_place = place < {self.columns};",
            *self._seen(),
        ]
        go_on = [
            *block(
                f"if (++seen_piece == {self.pieces_end})",
                [
                    f"seen_piece = {self.first_piece};",
                    f"seen_tile += {self.tiles_step};",
                    "look_at(min(seen_tile, TILES - 1));",
                ],
            ),
            "find_terms();",
        ]
        return [
            "// The right factor is nowhere: a thread looks its elements up, of one place and of four times",
            "// four terms of a piece. It does so a piece ahead.",
            f"int {', '.join(names)};",
            *self._mask(),
            "const float* seen;  // the first element that the place sees",
            "const auto look_at = [&](int tile) {",
            *indented(look_at),
            "};",
            "// A lane finds out where one of the piece's terms is, seen from a place; others ask it.",
            "const auto find_terms = [&]() {",
            *indented(self._terms()),
            "};",
            "look_at(seen_tile);",
            "find_terms();",
            "float right_now[4][4];",
            "const auto look_up = [&](int part) {",
            "#pragma unroll",
            *indented(block("for (int t = 0; t < 4; ++t)", self._looked_up())),
            "};",
            "const auto go_on = [&]() {",
            *indented(go_on),
            "};",
        ]

    def right_first(self) -> list[str]:
        each = "for (int part = 0; part < 4; ++part)"
        return [
            "#pragma unroll",
            *block(each, ["look_up(part);", "write_right(0, part);"]),
            "go_on();",
            "#pragma unroll",
            *block(each, ["look_up(part);"]),
            "go_on();",
        ]

    def right_begun(self) -> list[str]:
        return []

    def right_quarter(self, quarter: str, is_last: bool) -> list[str]:
        return [f"write_right(stage + 1, {quarter});", f"look_up({quarter});"]

    def right_ended(self) -> list[str]:
        return ["go_on();"]

    def _mask(self) -> list[str]:
        """Where the place's elements are, which of its taps meet one."""
        if not self._padded():
            return ["bool is_place;"]
        kind = "unsigned int" if self.taps <= _WORD else "unsigned long long"
        return [f"{kind} met;  // a bit for each tap of the place that meets an element, and no zero around"]

    def _seen(self) -> list[str]:
        """Statements that find the first element of a place, from its number."""
        found = list[str]()
        for name, side in reversed(self.named):
            size = self._size(side.made)
            first = f"place % {size}" + ("" if side.stride == 1 else f" * {side.stride}")
            found += [f"const int seen_{name} = {shifted(first, -side.padding)};", f"place /= {size};"]
        within = ""
        for at, (name, side) in enumerate(self.named):
            outer = f"({within})" if at > 1 else within
            within = f"{outer} * {self._size(side.read)} + seen_{name}" if at else f"seen_{name}"
        group = "" if self.batch.is_one else " + matrix"
        images = "place" if self.batch.is_one else f"place * {self._size(self.batch)}"
        elements = self._size(self._plane() * self.convolution.read)
        image = f"{self.source} + size_t({images}{group}) * {elements}"
        return [*found, *statement(f"seen = {image} + ({within});"), *self._met()]

    def _met(self) -> list[str]:
        """Statements that find out which taps of a place meet an element."""
        padded = self._padded()
        if not padded:
            return []
        inside = []
        for name, side in padded:
            step = self._tap(name)
            place = f"seen_{name} + {step}" if step else f"seen_{name}"
            inside.append(f"unsigned({place}) < {self._size(side.read)}")
        one = "1u" if self.taps <= _WORD else "1ull"
        return [
            "met = 0;",
            "#pragma unroll",
            *block(
                f"for (int tap = 0; tap < {self.taps}; ++tap)",
                statement(f"met |= is_place && {' && '.join(inside)} ? {one} << tap : 0;"),
            ),
        ]

    def _terms(self) -> list[str]:
        """Statements that find where a term is, seen from any place."""
        return [
            "const int of_all = seen_piece * TERMS + lane;",
            *self._channel_and_tap("of_all"),
            *(f"const int {name} = {self._tap(name) or '0'};" for name, _ in self.named),
            *statement(f"ahead = of_all < {self.terms} ? {self._element()} : -1;"),
            *([f"step = {'tap' if self.taps > 1 else '0'};"] if self._padded() else []),
        ]

    def _looked_up(self) -> list[str]:
        """Statements for one element of a thread."""
        lines = [
            "const int term = (part * (BLOCK / WIDE) + threadIdx.x / WIDE) * 4 + t;",
            "const int away = __shfl_sync(0xffffffff, ahead, term);",
        ]
        here = "is_place"
        if self._padded():
            here = "(met >> __shfl_sync(0xffffffff, step, term) & 1)"
        return [
            *lines,
            *statement(f"const bool there = {here} && seen_tile < TILES && away >= 0;"),
            "right_now[part][t] = there ? seen[away] : 0.0f;",
        ]

    def _padded(self) -> list[tuple[str, Side]]:
        """Sides that zeros lie along, with their names."""
        return [(name, side) for name, side in self.named if side.padding]

    def _channel_and_tap(self, term: str) -> list[str]:
        if self.taps == 1:
            return [f"const int channel = {term};"]
        return [f"const int channel = {term} / {self.taps}, tap = {term} % {self.taps};"]

    def _tap(self, name: str) -> str:
        """What a tap adds along a side; nothing where there is one."""
        names = [own for own, _ in self.named]
        sides = [side for _, side in self.named]
        at = names.index(name)
        side, inner = sides[at], math.prod(other.taps for other in sides[at + 1 :])
        if side.taps == 1:
            return ""
        code = "tap" if inner == 1 else f"tap / {inner}"
        if at > 0 and math.prod(other.taps for other in sides[:at]) > 1:
            code += f" % {side.taps}"
        return code + ("" if side.dilation == 1 else f" * {side.dilation}")

    def _element(self) -> str:
        """Where in a group's channels of an image an element is."""
        code = "channel"
        for at, (name, side) in enumerate(self.named):
            code = f"{f'({code})' if at else code} * {self._size(side.read)} + {name}"
        return code

    def _plane(self) -> Size:
        return product(side.read for side in self.convolution.sides)

    def _size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    # -------------------------------------------------------------------------------- results

    @property
    def is_column(self) -> str:
        return "is_result"

    @property
    def is_row(self) -> str:
        return f"own < {self.rows}"

    def column_found(self) -> list[str]:
        found = [
            "int place = column_here + c * 32 + lane;",
            f"const bool is_result = place < {self.columns};",
        ]
        for name, side in reversed(self.named):
            size = self._size(side.made)
            found += [f"const int {name} = place % {size};", f"place /= {size};"]
        return [*found, "const int image = place;"]

    def row_found(self) -> list[str]:
        channel = "own" if self.batch.is_one else f"matrix_here * {self.rows} + own"
        return [f"const int own = row_here + line, channel = {channel};"]

    def stored(self) -> list[str]:
        places = ("image", "channel", *(name for name, _ in self.named))
        return ResultFrame(self.frame, self.made, places).stored("result")

    def made_anew(self) -> list[str]:
        grouped = not self.batch.is_one
        image = f"size_t(image * {self._size(self.batch)} + matrix_here)" if grouped else "size_t(image)"
        places = []
        for name, side in self.named:
            first = shifted(name if side.stride == 1 else f"{name} * {side.stride}", -side.padding)
            tap = self._tap(name)
            places.append((f"seen_{name}", f"{first} + {tap}" if tap else first))
        inside = " && ".join(f"unsigned(seen_{name}) < {self._size(side.read)}" for name, side in self.named)
        element = self._element().replace("channel", "of", 1)
        for name, _ in self.named:
            element = element.replace(f"+ {name}", f"+ seen_{name}")
        weight = f"size_t(channel) * {self.terms} + term"
        if self.convolution.transposed:
            of = f"matrix_here * {self._size(self.convolution.read)} + of" if grouped else "of"
            weight = f"(size_t({of}) * {self.rows} + own){self._from_last_tap()}"
        weight = f"{self.frame.pointer(self.left.buffer)}[{weight}]"
        seen = f"{self.source}[{image} * {self._size(self._plane() * self.convolution.read)} + {element}]"
        taps = [line.replace("channel", "of") for line in self._channel_and_tap("term")]
        return [
            "result = 0.0f;",
            *block(
                f"for (int term = 0; term < {self.terms}; ++term)",
                [
                    *taps,
                    *(f"const int {name} = {code};" for name, code in places),
                    *block(f"if ({inside})", statement(f"result = fmaf({weight}, {seen}, result);")),
                ],
            ),
        ]
