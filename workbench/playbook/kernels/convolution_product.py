"""A convolution on tensor cores: weights, a row a channel, times what each place of the results sees.

Owns the text of such a kernel beyond tensor_core_kernel.py's: the right factor is nowhere in memory, threads
look its elements up in the input. seen_places.py says where they are.
"""

from __future__ import annotations

from workbench.playbook.ir.program import Convolution, Matrix
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, indented
from workbench.playbook.kernels.product_tiling import shape_of
from workbench.playbook.kernels.result_frame import ResultFrame
from workbench.playbook.kernels.seen_places import SeenPlaces
from workbench.playbook.kernels.seen_weights import SeenWeights
from workbench.playbook.kernels.tensor_core_kernel import TensorCoreKernel
from workbench.playbook.kernels.weights_turned import turned_weights
from workbench.playbook.text.scope import statement

_WORDS = """
is_place seen image channel depth row col seen_depth seen_row seen_col kind_depth kind_row kind_col place tap
of_all is_result of seen_tile seen_piece look_at find_terms look_up go_on ahead away step met begun index bit
KINDS
""".split()  # noqa: SIM905


def convolution_product(site: Site, made: Convolution, name: str, turned: str = "") -> KernelText:
    """Write the kernel of a convolution and of what is made of its results.

    ``turned`` is the buffer of weights_turned.py, of a transposed convolution.
    """
    return PlacesKernel(site, made, turned).finished(name)


class PlacesKernel(TensorCoreKernel):
    """The kernel being written: its columns are places of all images, its terms taps of all channels."""

    def __init__(self, site: Site, made: Convolution, turned: str = "") -> None:
        assert (made.transposed or made.paired) == bool(turned)
        self.convolution, self.turned = made, turned
        self.sides = SeenPlaces(made, lambda size: self.frame.macros.text(size))
        self.weights = SeenWeights(self.sides)
        self.taps = self.sides.taps
        terms = made.read * number(self.taps)
        site.macros.name(shape_of(made)[2], "PLACES")
        ordinary = Matrix(made.weight, ZERO, made.made * terms, terms, ONE)
        super().__init__(site, made, turned_weights(made, turned) if turned else ordinary)
        for word in _WORDS:
            self.frame.names.new(word)
        self.source = self.frame.pointer(made.source)

    def copied_in_vectors(self, factor: Matrix, across: Size) -> None:
        if not self.turned:
            super().copied_in_vectors(factor, across)
            return
        self.frame.vectors.add(factor.buffer)  # of whole pieces of terms

    seen_piece, own_place = "seen_piece", "column_here + c * 32 + lane"
    """The piece that elements are looked up for, and a lane's place among the results."""

    # -------------------------------------------------------------------------------- groups, kinds of places

    def group(self, matrix: str) -> str:
        """The group of channels of one of the products side by side; nothing where there is one group."""
        if self.convolution.groups.is_one:
            return ""
        return matrix if self.sides.phases == 1 else f"{matrix} / KINDS"

    def first(self, factor: Matrix, matrix: str = "matrix") -> str:
        if self.turned:
            return super().first(factor, matrix)
        group = self.group(matrix)
        code = self.frame.pointer(factor.buffer)
        return f"{code} + size_t({group}) * {self.frame.macros.text(factor.batch)}" if group else code

    def found(self, tile: str, names: tuple[str, str, str]) -> list[str]:
        """Tiles of one kind of places after another: their results lie between one another."""
        if self.sides.phases == 1:
            return super().found(tile, names)
        matrix, row, column = names
        number, at = f"{tile} % KINDS", f"{tile} / KINDS"
        if not self.convolution.groups.is_one:
            number = f"{tile} / (TILES_DOWN * TILES_ACROSS * KINDS) * KINDS + {number}"
            at += " % (TILES_DOWN * TILES_ACROSS)"
        return [f"{matrix} = {number};", f"find_tile({at}, {row}, {column});"]

    def constants(self) -> list[str]:
        if self.sides.phases == 1:
            return super().constants()
        return [
            *super().constants(),
            "// Places that are as far apart as a step is long meet the same taps: they are results of an",
            "// ordinary convolution with fewer taps. There are KINDS of such places, by where the first is.",
            f"constexpr int KINDS = {self.sides.phases};",
        ]

    @property
    def right_by_terms(self) -> bool:
        return False

    @property
    def right_waits(self) -> bool:
        return False

    def right_brought(self) -> list[str]:
        return []

    def right_read(self) -> list[str]:
        padded = self.sides.may_miss
        names = [f"seen_tile = {self.first_tile}", f"seen_piece = {self.first_piece}", "ahead"]
        names += ["step"] if padded else []
        known = "const bool " if padded else ""
        look_at = [
            f"int {'' if self.batch.is_one else 'matrix, '}row, place;",
            *self.found("tile", ("matrix", "row", "place")),
            "place += threadIdx.x % WIDE;",
            f"{known}is_place = place < {self.columns};",
            *self.seen_from(),
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
            *self.mask(),
            "const float* seen;  // the first element that the place sees",
            "const auto look_at = [&](int tile) {",
            *indented(look_at),
            "};",
            "// A lane finds out where one of the piece's terms is, seen from a place; others ask it.",
            "const auto find_terms = [&]() {",
            *indented(self.terms_found()),
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

    def mask(self) -> list[str]:
        """Where the place's elements are, which of its taps meet one."""
        if not self.sides.may_miss:
            return ["bool is_place;"]
        return [f"{self.sides.mask};  // a bit for each tap of the place that meets an element"]

    def seen_from(self) -> list[str]:
        """Statements that find the first element of a place, from its number."""
        found = self.sides.kind("matrix")
        for name, side in reversed(self.sides.named):
            size = self._size(side.made)
            found.append(f"const int seen_{name} = {self.sides.seen_first(name, side, f'place % {size}')};")
            found.append(f"place /= {size};")
        within = ""
        for at, (name, side) in enumerate(self.sides.named):
            outer = f"({within})" if at > 1 else within
            within = f"{outer} * {self._size(side.side.read)} + seen_{name}" if at else f"seen_{name}"
        group = self.group("matrix")
        images = f"place * {self._size(self.convolution.groups)} + {group}" if group else "place"
        elements = self._size(self._plane() * self.convolution.read)
        image = f"{self.source} + size_t({images}) * {elements}"
        return [*found, *statement(f"seen = {image} + ({within});"), *self.sides.met()]

    def terms_found(self) -> list[str]:
        """Statements that find where a term is, seen from any place."""
        return [
            f"const int of_all = {self.seen_piece} * TERMS + lane;",
            *self.weights.channel_and_tap("of_all"),
            *(f"const int {name} = {self.sides.step(name) or '0'};" for name, _ in self.sides.named),
            *statement(f"ahead = of_all < {self.terms} ? {self._element()} : -1;"),
            *([f"step = {'tap' if self.taps > 1 else '0'};"] if self.sides.may_miss else []),
        ]

    def _looked_up(self) -> list[str]:
        """Statements for one element of a thread."""
        lines = [
            "const int term = (part * (BLOCK / WIDE) + threadIdx.x / WIDE) * 4 + t;",
            "const int away = __shfl_sync(0xffffffff, ahead, term);",
        ]
        here = "is_place"
        if self.sides.may_miss:
            lines.append("const int bit = __shfl_sync(0xffffffff, step, term);")
            here = self.sides.meets("bit")
        return [
            *lines,
            *statement(f"const bool there = {here} && seen_tile < TILES && away >= 0;"),
            "right_now[part][t] = there ? seen[away] : 0.0f;",
        ]

    def _factor(self, buffer: str, index: str) -> str:
        """An element of a factor, as float32."""
        return self.frame.value_of(buffer, f"{self.frame.pointer(buffer)}[{index}]", "f32").code

    def _element(self) -> str:
        """Where in a group's channels of an image an element is."""
        code = "channel"
        for at, (name, side) in enumerate(self.sides.named):
            code = f"{f'({code})' if at else code} * {self._size(side.side.read)} + {name}"
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
        found = [f"int place = {self.own_place};"]
        inside = [f"place < {self.columns}"]
        for name, side in reversed(self.sides.named):
            found.append(f"const int {name} = {self.sides.first_place(name, side)};")
            found.append(f"place /= {self._size(side.made)};")
            inside += [] if side.all_there else [f"{name} < {self._size(side.side.made)}"]
        found.append("const int image = place;")
        return [
            *self.sides.kind("matrix_here"),
            found[0],
            f"{'const ' if len(inside) == 1 else ''}bool is_result = {inside[0]};",
            *found[1:],
            *(f"is_result = is_result && {one};" for one in inside[1:]),
        ]

    def row_found(self) -> list[str]:
        group = self.group("matrix_here")
        channel = f"{group} * {self.rows} + own" if group else "own"
        return [f"const int own = row_here + line, channel = {channel};"]

    def at_place(self) -> ResultFrame:
        places = ("image", "channel", *(name for name, _ in self.sides.named))
        return ResultFrame(self.frame, self.made, places)

    def made_anew(self) -> list[str]:
        group, groups = self.group("matrix_here"), self._size(self.convolution.groups)
        image = f"size_t(image * {groups} + {group})" if group else "size_t(image)"
        places, inside = [], []
        for name, side in self.sides.named:
            first, step = self.sides.seen_anyhow(name, side), self.sides.step(name)
            places.append((f"seen_{name}", f"{first} + {step}" if step else first))
            inside.append(f"unsigned(seen_{name}) < {self._size(side.side.read)}")
            if side.phases > 1 and not side.all_taps:
                own = self.sides.weight(name, side, self.sides.over_of(name, side))
                inside.append(f"{own} < {side.side.taps}")
        element = self._element().replace("channel", "of", 1)
        for name, _ in self.sides.named:
            element = element.replace(f"+ {name}", f"+ seen_{name}")
        weight = f"size_t(channel) * {self.terms} + term"
        if self.convolution.transposed:
            of = f"{group} * {self._size(self.convolution.read)} + of" if group else "of"
            weight = f"(size_t({of}) * {self.rows} + own){self.weights.turned(known=False)}"
        weight = self._factor(self.convolution.weight, weight)
        of_all = f"{image} * {self._size(self._plane() * self.convolution.read)} + {element}"
        seen = self._factor(self.convolution.source, of_all)
        taps = [line.replace("channel", "of") for line in self.weights.channel_and_tap("term")]
        return [
            "result = 0.0f;",
            *block(
                f"for (int term = 0; term < {self.terms}; ++term)",
                [
                    *taps,
                    *(f"const int {name} = {code};" for name, code in places),
                    *block(
                        f"if ({' && '.join(inside)})",
                        statement(f"result = fmaf({weight}, {seen}, result);"),
                    ),
                ],
            ),
        ]
