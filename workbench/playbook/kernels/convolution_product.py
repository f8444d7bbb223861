"""A convolution on tensor cores: weights, a row a channel, times what each place of the results sees.

Owns the text of such a kernel beyond product_kernel.py's: the right factor is nowhere in memory, threads look
its elements up in the input.
"""

from __future__ import annotations

import math

from workbench.playbook.ir.program import Convolution, Matrix, Side
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.kernels.convolution_pieces import shifted
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, indented
from workbench.playbook.kernels.product_kernel import TensorCoreKernel
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.text.scope import statement

_WORDS = """
is_place seen image channel depth row col seen_depth seen_row seen_col place tap of_all own alone sum y x z
is_result of seen_tile seen_piece look_at find_terms look_up go_on ahead away steps beside
""".split()  # noqa: SIM905
_NAMES = ("depth", "row", "col")
_BITS = 10
"""Of a number that tells how far a tap is from the first, along one side."""


def convolution_product(site: Site, made: Convolution, name: str) -> KernelText:
    """Write the kernel of an ordinary convolution and of what is made of its results."""
    return _Places(site, made).finished(name)


class _Places(TensorCoreKernel):
    """The kernel being written: its columns are places of all images, its terms taps of all channels."""

    def __init__(self, site: Site, made: Convolution) -> None:
        self.taps = math.prod(side.taps for side in made.sides)
        terms = made.read * number(self.taps)
        weights = Matrix(made.weight, ZERO, made.made * terms, terms, ONE)
        columns = product((made.batch, *(side.made for side in made.sides)))
        super().__init__(site, made, weights, (made.groups, made.made, columns, terms))
        for word in _WORDS:
            self.frame.names.new(word)
        self.convolution = made
        self.source = self.frame.pointer(made.source)
        self.named = list(zip(_NAMES[-len(made.sides) :], made.sides, strict=True))

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
        names = ["seen_tile = blockIdx.x", "seen_piece = 0", "ahead"]
        names += ["steps", *(f"seen_{name}" for name, _ in padded)] if padded else []
        look_at = [
            *([] if self.batch.is_one else ["const int matrix = tile / (TILES_DOWN * TILES_ACROSS);"]),
            *([] if self.batch.is_one else ["tile %= TILES_DOWN * TILES_ACROSS;"]),
            "const int strip = tile / (TOGETHER * TILES_ACROSS) * TOGETHER;",
            "const int here = min(TOGETHER, TILES_DOWN - strip);",
            *statement(
                "int place = tile % (TOGETHER * TILES_ACROSS) / here * WIDE + threadIdx.x % WIDE;",
            ),
            f"is_place = place < {self.columns};",
            *self._seen(),
        ]
        go_on = [
            *block(
                "if (++seen_piece == PIECES)",
                ["seen_piece = 0;", "seen_tile += gridDim.x;", "look_at(min(seen_tile, TILES - 1));"],
            ),
            "find_terms();",
        ]
        return [
            "// The right factor is nowhere: a thread looks its elements up, of one place and of four times",
            "// four terms of a piece. It does so a piece ahead.",
            f"int {', '.join(names)};",
            "bool is_place;",
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

    def _seen(self) -> list[str]:
        """Statements that find the first element of a place, from its number."""
        found, padded = list[str](), dict(self._padded())
        for name, side in reversed(self.named):
            size = self._size(side.made)
            first = f"place % {size}" + ("" if side.stride == 1 else f" * {side.stride}")
            known = "" if name in padded else "const int "
            found += [f"{known}seen_{name} = {shifted(first, -side.padding)};", f"place /= {size};"]
        within = ""
        for at, (name, side) in enumerate(self.named):
            outer = f"({within})" if at > 1 else within
            within = f"{outer} * {self._size(side.read)} + seen_{name}" if at else f"seen_{name}"
        group = "" if self.batch.is_one else " + matrix"
        images = "place" if self.batch.is_one else f"place * {self._size(self.batch)}"
        elements = self._size(self._plane() * self.convolution.read)
        return [
            *found,
            *statement(f"seen = {self.source} + size_t({images}{group}) * {elements} + ({within});"),
        ]

    def _terms(self) -> list[str]:
        """Statements that find where a term is, seen from any place."""
        padded = self._padded()
        steps = [f"{name} << {_BITS * at}" if at else name for at, (name, _) in enumerate(padded)]
        return [
            "const int of_all = seen_piece * TERMS + lane;",
            *self._channel_and_tap("of_all"),
            *(f"const int {name} = {self._tap(name) or '0'};" for name, _ in self.named),
            *statement(f"ahead = of_all < {self.terms} ? {self._element()} : -1;"),
            *([f"steps = {' | '.join(steps)};"] if padded else []),
        ]

    def _looked_up(self) -> list[str]:
        """Statements for one element of a thread."""
        padded = self._padded()
        lines = [
            "const int term = (part * (BLOCK / WIDE) + threadIdx.x / WIDE) * 4 + t;",
            "const int away = __shfl_sync(0xffffffff, ahead, term);",
            *(["const int beside = __shfl_sync(0xffffffff, steps, term);"] if padded else []),
        ]
        inside = ["seen_tile < TILES", "is_place", "away >= 0"]
        for at, (name, side) in enumerate(padded):
            step = f"(beside >> {_BITS * at})" if at else "beside"
            step = f"({step} % {1 << _BITS})" if at < len(padded) - 1 else step
            inside.append(f"unsigned(seen_{name} + {step}) < {self._size(side.read)}")
        return [
            *lines,
            *statement(f"const bool there = {' && '.join(inside)};"),
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

    def results(self) -> tuple[list[str], list[str]]:
        grouped = not self.batch.is_one
        found = [
            "int place = column_here + c * 32 + lane;",
            f"const bool is_result = place < {self.columns};",
        ]
        for name, side in reversed(self.named):
            size = self._size(side.made)
            found += [f"const int {name} = place % {size};", f"place /= {size};"]
        found.append("const int image = place;")
        frame = ResultFrame(self.frame, self.made, ("image", "channel", *(name for name, _ in self.named)))
        channel = f"matrix_here * {self.rows} + own" if grouped else "own"
        each = [
            f"const int own = row_here + line, channel = {channel};",
            *block(
                f"if (own < {self.rows} && is_result)",
                [
                    *self.result,
                    "// An infinity has no low part. Where one was met, the sum is made anew.",
                    *block("if (isnan(result))", self._anew()),
                    *frame.stored("result"),
                ],
            ),
        ]
        return found, each

    def _anew(self) -> list[str]:
        """Statements that make one result term by term."""
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
        weight = f"{self.frame.pointer(self.left.buffer)}[size_t(channel) * {self.terms} + term]"
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
