"""Tiles of a product on tensor cores: three products of TF32 numbers for each of float32.

Owns the text of such a kernel up to its sums; product_tiling.py has its numbers, product_results.py what
becomes of sums, product_kernel.py and convolution_product.py the factors. Sources: Markidis et al., "NVIDIA
Tensor Core Programmability, Performance & Precision" (2018): factors as sums of two numbers. Ootomo and
Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
performance" (2022): three of the four products are enough, and sums have to leave the tensor core, which
cuts off instead of rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.ir.program import InPlaceOfCall, Kernel, Matrix
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, block, frame_for, indented
from workbench.playbook.kernels.product_results import ProductResults
from workbench.playbook.kernels.product_tiling import (
    CLUSTERS,
    FEW_PIECES,
    LINE,
    LONG,
    LOW,
    MOST_IN_THREES,
    PROCESSORS,
    ROWS_OF_WARP,
    SOME,
    TERMS,
    THREADS,
    TOGETHER,
    VECTOR,
    WAITING,
    WIDE,
    left_floats,
    left_line,
    shape_of,
    shared_bytes,
    steps_of,
    tall_of,
)
from workbench.playbook.kernels.product_times import blocks_of
from workbench.playbook.text.scope import statement

_WORDS = """
BLOCK TALL WIDE TERMS STAGES PIECES TOGETHER LEFT RIGHT matrix tile strip here first_row first_column
group warp lane quarter pieces piece on_chip coming_left coming_right left right bring read_left
read_right write_right left_now left_high left_low right_now high low sums total result row column term at
there from to step s r c p e i part own_row parts tiles coming_tile coming_piece more find_tile stage tall
turn row_here column_here matrix_here line odd own one group NEEDED IN_THREES IN_FOURS JOINED ROUND BLOCKS
OF_ALL share cluster clusters first_tile first_piece b made lost first other of_row
""".split()  # noqa: SIM905
"""What the kernel calls its own."""
_COMING = ("matrix", "first_row", "first_column")
"""Where the tile is that pieces come for."""
HELPERS = ("copy_or_zero", "multiply_add", "products", "split_in_two")


class TensorCoreKernel(ProductResults):
    """The kernel being written: tiles of a product whose right factor may lie in memory as it likes."""

    def __init__(self, site: Site, made: InPlaceOfCall, left: Matrix) -> None:
        self.site, self.made, self.left = site, made, left
        self.batch, *own = shape_of(made)
        declared = site.cases[: site.declared]
        self.tall = tall_of(own[0], declared)
        self.lines = ROWS_OF_WARP
        self.blocks = blocks_of(made, site.schedule.split_k, declared, PROCESSORS)
        self.frame = frame = frame_for(site, Kernel(list(made.stores)), vector=True)
        frame.helpers |= set(HELPERS)
        for word in _WORDS:
            frame.names.new(word)
        frame.least_blocks, frame.own_threads, frame.own_width = 1, THREADS, VECTOR
        self.sizes = tuple(own)
        self.rows, self.columns, self.terms = (frame.macros.text(size) for size in own)
        self.left_from = self.first(left)
        self.copied_in_vectors(left, own[0])

    def finished(self, name: str) -> KernelText:
        """The whole function."""
        rows, columns, _ = self.sizes
        tiles = [f"cdiv({self.site.size(rows)}, {self.tall})", f"cdiv({self.site.size(columns)}, {WIDE})"]
        tiles += [] if self.batch.is_one else [self.site.factor(self.batch)]
        lines = [*self.constants(), *self._place(), *self._bring(), *self._taken_apart(), *self._loop()]
        limits = Limits(shared=str(shared_bytes(self.left, self.tall, self.right_waits)))
        if self.blocks == 1:
            return self.frame.finish(name, lines, f"min({' * '.join(tiles)}, gpu.sm_count)", limits)
        return self.in_clusters(name, lines, tiles, limits)

    def in_clusters(
        self, name: str, lines: list[str], tiles: list[str], limits: Limits, beside: int = 1
    ) -> KernelText:
        """The whole function, whose blocks share tiles; so many blocks fill a multiprocessor."""
        most = f"max(1, gpu.sm_count * {CLUSTERS[self.blocks] * beside} // {PROCESSORS})"
        text = self.frame.finish(name, lines, f"{self.blocks} * min({' * '.join(tiles)}, {most})", limits)
        return replace(text, cluster=self.blocks)

    # -------------------------------------------------------------------------------- what differs

    @property
    @abstractmethod
    def right_by_terms(self) -> bool:
        """True where a thread finds terms of the right factor side by side in shared memory."""

    @property
    @abstractmethod
    def right_waits(self) -> bool:
        """True where pieces of the right factor wait in shared memory before they are taken apart."""

    @abstractmethod
    def right_brought(self) -> list[str]:
        """Statements that ask for a piece of the right factor, where it waits."""

    @abstractmethod
    def right_read(self) -> list[str]:
        """Functions that get a piece of the right factor into registers, a quarter at a time."""

    @abstractmethod
    def right_first(self) -> list[str]:
        """Statements that take the first piece of the right factor apart."""

    @abstractmethod
    def right_begun(self) -> list[str]:
        """Statements with which the next piece of the right factor is begun."""

    @abstractmethod
    def right_quarter(self, quarter: str, is_last: bool) -> list[str]:
        """Statements that take a quarter of it apart, and get what comes behind that."""

    @abstractmethod
    def right_ended(self) -> list[str]:
        """Statements behind its last quarter."""

    # -------------------------------------------------------------------------------- factors

    def copied_in_vectors(self, factor: Matrix, across: Size) -> None:
        """Note that a factor comes in vectors, where it lies so that it may."""
        self.frame.vectors.add(factor.buffer)
        self.frame.divisors.update(steps_of(factor, across, self.sizes[2]))

    def first(self, factor: Matrix, matrix: str = "matrix") -> str:
        """Where a matrix of a factor begins."""
        code = self.frame.pointer(factor.buffer)
        if not factor.batch.is_zero and not self.batch.is_one:
            code += f" + size_t({matrix}) * {self.frame.macros.text(factor.batch)}"
        return code if factor.offset.is_zero else f"{code} + {self.frame.macros.text(factor.offset)}"

    def _step(self, factor: Matrix) -> str:
        """Step from one line in memory to the next."""
        step = factor.across if factor.lies_by_terms else factor.terms
        return self.frame.macros.text(step)

    # -------------------------------------------------------------------------------- what a block is about

    def constants(self) -> list[str]:
        """What a block is about, and the numbers of it."""
        batch = "" if self.batch.is_one else f" * {self.frame.macros.text(self.batch)}"
        why = "eight rows" if self.left.lies_by_terms else "four terms"
        behind = "coming_right + STAGES" if self.right_waits else "parts + 4"
        of_all = "NEEDED" if self.blocks == 1 else "OF_ALL"
        return [
            "// Tensor cores multiply TF32, floats with 11 bits. So every factor is split in two such",
            "// numbers, high + low, and high * high, high * low and low * high are summed: low * low,",
            "// which is missing, is less than what float32 rounds off. A block makes tiles of TALL x WIDE",
            "// results and takes in TERMS products of each at a time; STAGES such pieces are at hand or on",
            "// the way. A tensor core cuts off what a sum has no room for: after JOINED pieces, fewer where",
            "// sums are short, they join totals, which are rounded.",
            f"constexpr int BLOCK = {THREADS}, TALL = {self.tall}, WIDE = {WIDE}, TERMS = {TERMS};",
            *self._shares(),
            "constexpr int IN_THREES = (NEEDED + 2) / 3 * 3, IN_FOURS = (NEEDED + 3) / 4 * 4;",
            f"constexpr int STAGES = NEEDED <= {MOST_IN_THREES} && IN_THREES < IN_FOURS ? 3 : {WAITING};",
            f"constexpr int ROUND = NEEDED < {FEW_PIECES} ? NEEDED : STAGES;",
            "constexpr int PIECES = (NEEDED + ROUND - 1) / ROUND * ROUND;",
            f"constexpr int JOINED = {of_all} >= {LONG} ? ROUND : {of_all} >= {SOME} && STAGES > 3 ? 2 : 1;",
            f"constexpr int TILES_DOWN = ({self.rows} + TALL - 1) / TALL;",
            f"constexpr int TILES_ACROSS = ({self.columns} + WIDE - 1) / WIDE;",
            f"constexpr int TILES = TILES_DOWN * TILES_ACROSS{batch};",
            "// Blocks that run together have TOGETHER tiles one below the other, of neighbouring columns:",
            "// they read the same rows and columns, which then come from L2.",
            f"constexpr int TOGETHER = {TOGETHER};",
            f"// Floats from one line of the left factor to the next: {why} are in different banks.",
            f"constexpr int LEFT_LINE = {left_line(self.left, self.tall)};",
            f"constexpr int LEFT = {left_floats(self.left, self.tall)}, RIGHT = WIDE * TERMS;",
            f"constexpr int LINE = {LINE};  // of a warp's results",
            "extern __shared__ __align__(1024) float on_chip[];",
            "float* const parts = on_chip;  // two pieces of the right factor, each in a high and a low part",
            *(["float* const coming_right = parts + 4 * RIGHT;"] if self.right_waits else []),
            f"float* const coming_left = {behind} * RIGHT;",
        ]

    def _shares(self) -> list[str]:
        """How many pieces a block takes in of a tile."""
        pieces = f"({self.terms} + TERMS - 1) / TERMS"
        if self.blocks == 1:
            return [f"constexpr int NEEDED = {pieces};"]
        return [
            "// There are few tiles, of many terms. BLOCKS blocks, a cluster, have a part of the terms each,",
            "// and add up what they have found through their shared memory.",
            f"constexpr int BLOCKS = {self.blocks};",
            f"constexpr int OF_ALL = {pieces}, NEEDED = (OF_ALL + BLOCKS - 1) / BLOCKS;",
        ]

    def _place(self) -> list[str]:
        return [
            "const auto find_tile = [](int tile, int& row, int& column) {",
            "    const int strip = tile / (TOGETHER * TILES_ACROSS) * TOGETHER;",
            "    const int tall = min(TOGETHER, TILES_DOWN - strip);",
            "    row = (strip + tile % (TOGETHER * TILES_ACROSS) % tall) * TALL;",
            "    column = tile % (TOGETHER * TILES_ACROSS) / tall * WIDE;",
            "};",
            *self._place_in_cluster(),
            "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;",
            "float* const results = coming_left + STAGES * LEFT + warp * 16 * LINE;",
            "// Of a tile's rows a warp has sixteen, a thread two, eight apart: this one and another.",
            *self._rows_of_warps(),
            "// Pieces taken apart go to two places in turn; 1 where a round begins with the second.",
            "int odd = 0;",
            "// Where the first piece of a round is, among STAGES; always 0 unless rounds are shorter.",
            "int turn = 0;",
            "// The tile that pieces come for, which may be the one after that at hand.",
            f"int coming_tile = {self.first_tile}, coming_piece = {self.first_piece};",
            "int first_row, first_column;",
            *([] if self.batch.is_one else ["int matrix;"]),
            *self.found("coming_tile", _COMING),
        ]

    def _place_in_cluster(self) -> list[str]:
        if self.blocks == 1:
            return []
        return [
            "const auto cluster = cooperative_groups::this_cluster();",
            "const int first_tile = blockIdx.x / BLOCKS, clusters = gridDim.x / BLOCKS;",
            "const int first_piece = cluster.block_rank() * PIECES;",
        ]

    @property
    def first_tile(self) -> str:
        """The first tile of a block."""
        return "blockIdx.x" if self.blocks == 1 else "first_tile"

    @property
    def tiles_step(self) -> str:
        """From one of its tiles to the next."""
        return "gridDim.x" if self.blocks == 1 else "clusters"

    @property
    def first_piece(self) -> str:
        """The first piece of a tile that a block takes in."""
        return "0" if self.blocks == 1 else "first_piece"

    @property
    def pieces_end(self) -> str:
        """The first piece of a tile behind those."""
        return "PIECES" if self.blocks == 1 else "first_piece + PIECES"

    def found(self, tile: str, names: tuple[str, str, str]) -> list[str]:
        """Statements that find a tile: its matrix, where there are several, its first row and column."""
        matrix, row, column = names
        if self.batch.is_one:
            return [f"find_tile({tile}, {row}, {column});"]
        return [
            f"{matrix} = {tile} / (TILES_DOWN * TILES_ACROSS);",
            f"find_tile({tile} % (TILES_DOWN * TILES_ACROSS), {row}, {column});",
        ]

    @property
    def low(self) -> bool:
        """True where both groups of four warps have the same rows, and half of the terms each."""
        return self.tall == LOW

    def _rows_of_warps(self) -> list[str]:
        if not self.low:
            return ["const int own_row = warp * 16 + lane / 4;"]
        return [
            "const int own_row = warp % 4 * 16 + lane / 4;",
            "// There are few rows: the first four warps take half of the terms, the others the other half.",
            "const int group = warp / 4;",
        ]

    # -------------------------------------------------------------------------------- from memory

    def _bring(self) -> list[str]:
        return [
            "const auto bring = [&](int stage) {",
            *indented(
                [
                    "const bool more = coming_tile < TILES;",
                    f"const float* const left = {self.left_from};",
                    *self.left_brought(),
                    *self.right_brought(),
                    "__pipeline_commit();",
                    f"if (++coming_piece == {self.pieces_end}) {{",
                    f"    coming_piece = {self.first_piece};",
                    f"    coming_tile += {self.tiles_step};",
                    *indented(
                        self.found("min(coming_tile, TILES - 1)", ("matrix", "first_row", "first_column"))
                    ),
                    "}",
                ]
            ),
            "};",
        ]

    def left_brought(self) -> list[str]:
        """Statements that ask for a piece of the left factor."""
        to = "coming_left + stage * LEFT"
        return self.brought("left", "TALL", "first_row", self.rows, self.left, to)

    def brought(self, name: str, edge: str, first: str, size: str, factor: Matrix, to: str) -> list[str]:
        """A piece of a factor: vectors as they lie in memory, from the row or column ``first`` on."""
        step = self._step(factor)
        if factor.lies_by_terms:
            count, beside, inner, outer = edge, "TERMS", "term", "index"
            from_line, along = f"size_t({first} + index)", "coming_piece * TERMS + term"
            inside, outside = f"coming_piece * TERMS + term < {self.terms}", f"{first} + index"
            line = "LEFT_LINE" if name == "left" else "TERMS"
            place = f"index * {line} + term"
            if name == "right":  # where the instruction looks: eight lines further on it is the same again
                place = "index * TERMS + (term / 4 ^ index % 8) * 4 + term % 4"
        else:
            count, beside, inner, outer = "TERMS", edge, "index", "term"
            from_line, along = "size_t(coming_piece * TERMS + term)", f"{first} + index"
            inside, outside = f"{first} + index < {size}", "coming_piece * TERMS + term"
            line = "LEFT_LINE" if name == "left" else edge
            place = f"term * {line} + index"
        end = size if factor.lies_by_terms else self.terms
        body = [
            f"const int {outer} = threadIdx.x / ({beside} / VEC);",
            f"const int {inner} = threadIdx.x % ({beside} / VEC) * VEC;",
            f"constexpr int FURTHER = BLOCK * VEC / {beside};",
            f"const bool there = more && {inside};",
            *statement(f"const float* const from = {name} + (there ? {from_line} * {step} + {along} : 0);"),
            *statement(f"float* const to = {to} + {place};"),
            "#pragma unroll",
            *block(
                f"for (int s = 0; s < {count}; s += FURTHER)",
                statement(
                    f"copy_or_zero<VEC>(to + s * {line}, from + size_t(s) * {step}, "
                    f"there && {outside} + s < {end});"
                ),
            ),
        ]
        return block("", body)

    # -------------------------------------------------------------------------------- split in two

    def _taken_apart(self) -> list[str]:
        return [*self._left_read(), *self._left_split(), *self.right_read(), *self._right_written()]

    def _left_read(self) -> list[str]:
        part = "(group * 2 + part)" if self.low else "part"
        if self.left.lies_by_terms:
            first = f"(own_row + e % 2 * 8) * LEFT_LINE + {part} * 8 + quarter + e / 2 * 4"
        else:
            first = f"({part} * 8 + quarter + e / 2 * 4) * LEFT_LINE + own_row + e % 2 * 8"
        return [
            "// Eight terms at a time are a part; a thread has two of them, of each of its rows. Those of",
            "// the next part are read before they are needed.",
            "float left_now[2][4];",
            "const auto read_left = [&](int stage, int part) {",
            "    const float* const from = coming_left + stage % STAGES * LEFT;",
            "#pragma unroll",
            "    for (int e = 0; e < 4; ++e) {",
            f"        left_now[part % 2][e] = from[{first}];",
            "    }",
            "};",
        ]

    def _left_split(self) -> list[str]:
        return [
            "unsigned int left_high[2][4], left_low[2][4];",
            "const auto split_left = [&](int part) {",
            "#pragma unroll",
            "    for (int e = 0; e < 4; ++e) {",
            "        const int p = part % 2;",
            "        split_in_two(left_now[p][e], left_high[p][e], left_low[p][e]);",
            "    }",
            "};",
        ]

    def _right_written(self) -> list[str]:
        place, now = "at * 4", "right_now" if self.right_waits else "right_now[part]"
        if not self.right_by_terms:
            place = "at % WIDE * TERMS + (at / WIDE ^ at % 8) * 4"
        return [
            "// They go to shared memory, high and low, where tensor cores read them.",
            "const auto write_right = [&](int stage, int part) {",
            "    float* const high = parts + (odd + stage) % 2 * 2 * RIGHT;",
            f"    const int at = part * BLOCK + threadIdx.x, place = {place};",
            "    uint4 first, second;",
            *(
                f"    split_in_two({now}[{at}], first.{axis}, second.{axis});"
                for at, axis in enumerate("xyzw")
            ),
            "    *reinterpret_cast<uint4*>(high + place) = first;",
            "    *reinterpret_cast<uint4*>(high + RIGHT + place) = second;",
            "};",
        ]

    # -------------------------------------------------------------------------------- sums

    def _loop(self) -> list[str]:
        body = """
float sums[WIDE / 2], total[WIDE / 2];
#pragma unroll
for (int i = 0; i < WIDE / 2; ++i) {
    sums[i] = total[i] = 0.0f;
}
#pragma unroll 1
for (int piece = 0; piece < PIECES; piece += ROUND) {
#pragma unroll
    for (int stage = 0; stage < ROUND; ++stage) {
        show_to_tensor_cores();
        __pipeline_wait_prior(STAGES - 3);
        __syncthreads();  // this piece is apart, and the next one has come
        const unsigned long long high = right_at(parts + (odd + stage) % 2 * 2 * RIGHT);
        const unsigned long long low = right_at(parts + (odd + stage) % 2 * 2 * RIGHT + RIGHT);
#pragma unroll
        for (int part = 0; part < @parts@; ++part) {
            // Eight terms are 32 bytes of a column's line: two pieces of 16.
            const int p = part % 2, at = @own@ * 2;
            products_begin();
            multiply_add(sums, left_low[p], high + at);
            multiply_add(sums, left_high[p], low + at);
            multiply_add(sums, left_high[p], high + at);
            products_end();
            // Tensor cores are at it. Meanwhile the next piece is taken apart.
@beside@
            products_done<1>();
            split_left(part + 1);
            read_left(turn + stage + (part + 2) / @parts@, (part + 2) % @parts@);
            if (part == 0) {
                __syncthreads();  // all have done with the piece before: its place is free
                bring((turn + stage + STAGES - 1) % STAGES);
@behind@
            }
        }
@last@
        if ((stage + 1) % JOINED == 0) {
            products_done<0>();
#pragma unroll
            for (int i = 0; i < WIDE / 2; ++i) {
                total[i] += sums[i];
                sums[i] = 0.0f;
            }
        }
    }
    odd = (odd + ROUND) % 2;
    turn = (turn + ROUND) % STAGES;
}""".strip("\n")
        own, parts = ("(group * 2 + part)", "2") if self.low else ("part", "4")
        begun, last = self.right_begun(), [*self.right_quarter("3", True), *self.right_ended()]
        if self.low:  # half as many parts: a quarter as soon as there is a place for it, two in the next part
            behind = self.right_quarter("0", False)
            later = [*self.right_quarter("1", False), *self.right_quarter("2", False)]
        else:
            behind, later = [], self.right_quarter("part - 1", False)
        beside = block("if (part > 0)", later)
        beside = [*beside[:-1], "} else {", *indented(begun), "}"] if begun else beside
        filled = {"@beside@": _lines(beside, 12), "@behind@": _lines(behind, 16), "@last@": _lines(last, 8)}
        text = body.replace("@own@", own).replace("@parts@", parts)
        for mark, lines in filled.items():
            text = text.replace(mark if lines else f"{mark}\n", lines)
        return [
            "#pragma unroll",
            *block("for (int stage = 0; stage < STAGES - 1; ++stage)", ["bring(stage);"]),
            "__pipeline_wait_prior(STAGES - 2);",
            "__syncthreads();",
            *self.right_first(),
            "read_left(0, 0);",
            "split_left(0);",
            "read_left(0, 1);",
            "#pragma unroll 1",
            *block(
                f"for (int tile = {self.first_tile}; tile < TILES; tile += {self.tiles_step})",
                [*text.split("\n"), *self.written()],
            ),
        ]


def _lines(lines: Sequence[str], spaces: int) -> str:
    """Lines of text, further in; those of the preprocessor stay at the margin."""
    return "\n".join(line if line.startswith("#") else " " * spaces + line for line in lines)
