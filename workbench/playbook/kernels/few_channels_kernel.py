"""A convolution on tensor cores whose results have few channels: places are rows, channels columns.

Owns the text of such a kernel beyond convolution_product.py's. What a place sees waits in shared memory as it
is and is taken apart in registers; only the weights, which are few, go back to shared memory in two parts.
"""

from __future__ import annotations

import math

from workbench.playbook.analysis.matrix_products import channels_across
from workbench.playbook.device_functions.tensor_core_helpers import FEW_COLUMNS
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.convolution_product import PlacesKernel
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, block, indented
from workbench.playbook.kernels.product_tiling import (
    LONG,
    ROWS_OF_PLACES,
    SOME,
    TERMS,
    THREADS,
    WAITING,
)
from workbench.playbook.text.scope import statement

_WORDS = """
ACROSS CHUNK m own_place following free take_apart row_of_sum place_here sum_row sum_column
""".split()  # noqa: SIM905
_LINE = 32 + 4
"""Floats from one channel of a warp's results to the next: what four lanes have is in different banks."""
_FREE = 8
"""Floats between the terms of a piece: four lanes with neighbouring terms are in different banks."""
_STORED = 32
"""Channels that there is room for are a multiple of it: 256 threads copy so many at a time, or a part."""
_CHUNKS = (16, 8)
"""Channels that change hands at a time."""
_BYTES = 4


def few_channels_kernel(site: Site, made: Convolution, name: str) -> KernelText:
    """Write the kernel of a convolution of few channels and of what is made of its results."""
    return _FewChannels(site, made).finished(name)


class _FewChannels(PlacesKernel):
    """The kernel being written: a warp has 32 places, twice sixteen rows of what tensor cores take."""

    seen_piece, own_place = "coming_piece", "place_here + lane"

    def __init__(self, site: Site, made: Convolution) -> None:
        super().__init__(site, made)
        across = channels_across(made)
        assert across is not None  # others are not offered
        self.across = across
        self.stored_channels = math.ceil(across / _STORED) * _STORED
        self.lines = next(chunk for chunk in _CHUNKS if across % chunk == 0)
        self.frame.helpers -= {"multiply_add"}
        self.frame.helpers.add(FEW_COLUMNS[across])
        for word in _WORDS:
            self.frame.names.new(word)

    def finished(self, name: str) -> KernelText:
        batch = "" if self.batch.is_one else f" * {self.site.factor(self.batch)}"
        tiles = f"cdiv({self.site.size(self.sizes[1])}, {ROWS_OF_PLACES}){batch}"
        lines = [*self.constants(), *self._place(), *self.looked_up(), *self._bring()]
        lines += [*self._taken_apart(), *self._loop()]
        shared = _BYTES * (4 * self._right + WAITING * (self._right + TERMS * (ROWS_OF_PLACES + _FREE)))
        shared += _BYTES * (THREADS // 32) * self.lines * _LINE
        return self.frame.finish(name, lines, f"min({tiles}, gpu.sm_count)", Limits(shared=str(shared)))

    @property
    def low(self) -> bool:
        return False

    @property
    def _right(self) -> int:
        return self.stored_channels * TERMS

    # -------------------------------------------------------------------------------- what a block is about

    def constants(self) -> list[str]:
        batch = "" if self.batch.is_one else f" * {self.frame.macros.text(self.batch)}"
        kinds = (
            []
            if self.sides.phases == 1
            else [
                "// Places that are as far apart as a step is long meet the same taps: they are results of an",
                "// ordinary convolution with fewer taps. There are KINDS of such places, by where the first is.",
                f"constexpr int KINDS = {self.sides.phases};",
            ]
        )
        return [
            "// Tensor cores multiply TF32, floats with 11 bits. So every factor is split in two such",
            "// numbers, high + low, and high * high, high * low and low * high are summed: low * low,",
            "// which is missing, is less than what float32 rounds off. A block makes tiles of TALL places,",
            "// of all channels, and takes in TERMS products of each at a time; STAGES such pieces are at",
            "// hand or on the way. A tensor core cuts off what a sum has no room for: after JOINED pieces,",
            "// fewer where sums are short, they join totals, which are rounded.",
            f"constexpr int BLOCK = {THREADS}, TALL = {ROWS_OF_PLACES}, TERMS = {TERMS}, STAGES = {WAITING};",
            f"constexpr int ACROSS = {self.across};  // columns of sums, a channel each",
            f"constexpr int WIDE = {self.stored_channels};  // channels that there is room for",
            f"constexpr int PIECES = ({self.terms} + TERMS - 1) / TERMS;",
            f"constexpr int JOINED = PIECES >= {LONG} ? 4 : PIECES >= {SOME} ? 2 : 1;",
            f"constexpr int TILES_ACROSS = ({self.columns} + TALL - 1) / TALL;",
            f"constexpr int TILES = TILES_ACROSS{batch};",
            *kinds,
            "// Floats from one term's places to the next: four terms are in different banks.",
            f"constexpr int LEFT_LINE = TALL + {_FREE}, LEFT = TERMS * LEFT_LINE, RIGHT = WIDE * TERMS;",
            f"constexpr int LINE = {_LINE}, CHUNK = {self.lines};  // of a warp's results, channels together",
            "extern __shared__ __align__(1024) float on_chip[];",
            "float* const parts = on_chip;  // two pieces of the weights, each in a high and a low part",
            "float* const coming_right = parts + 4 * RIGHT;",
            "float* const coming_left = coming_right + STAGES * RIGHT;",
        ]

    def _place(self) -> list[str]:
        return [
            "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;",
            "float* const results = coming_left + STAGES * LEFT + warp * CHUNK * LINE;",
            "// Of a tile's places a warp has 32, a thread four, eight apart: this one and others.",
            "const int own_place = warp * 32 + lane / 4;",
            "// Weights taken apart go to two places in turn.",
            "int odd = 0;",
            "// Where the piece at hand is, among STAGES.",
            "int stage = 0;",
        ]

    def _tile(self, tile: str, matrix: str, place: str) -> list[str]:
        """Statements that find a tile: its group and kind of places, where there are several, and its first."""
        if self.batch.is_one:
            return [f"{place} = {tile} * TALL;"]
        number, at = f"{tile} / TILES_ACROSS", f"{tile} % TILES_ACROSS"
        if self.sides.phases > 1:
            number, at = f"{tile} % KINDS", f"{tile} / KINDS"
            if not self.convolution.groups.is_one:
                number = f"{tile} / (TILES_ACROSS * KINDS) * KINDS + {number}"
                at += " % TILES_ACROSS"
        return [f"{matrix} = {number};", f"{place} = {at} * TALL;"]

    # -------------------------------------------------------------------------------- from memory

    def looked_up(self) -> list[str]:
        """Functions that find a thread's place, and where a piece's terms are, seen from any place."""
        padded = self.sides.may_miss
        names = ["coming_tile = blockIdx.x", "coming_piece = 0", "ahead"]
        names += ["step"] if padded else []
        names += [] if self.batch.is_one else ["matrix"]
        return [
            "// A thread looks up what one place sees: here that is, of the piece that comes next.",
            f"int {', '.join(names)};",
            *(
                [f"{self.sides.mask};  // a bit for each tap of the place that meets an element"]
                if padded
                else []
            ),
            "bool is_place;",
            "const float* seen;  // the first element that the place sees",
            "const auto look_at = [&](int tile) {",
            *indented(
                [
                    "int place;",
                    *self._tile("min(tile, TILES - 1)", "matrix", "place"),
                    "place += threadIdx.x;",
                    f"is_place = tile < TILES && place < {self.columns};",
                    *self.seen_from(),
                ]
            ),
            "};",
            "// A lane finds out where one of the piece's terms is, seen from a place; others ask it.",
            "const auto find_terms = [&]() {",
            *indented(self.terms_found()),
            "};",
            "const auto go_on = [&]() {",
            *indented(
                [
                    "__pipeline_commit();",
                    *block(
                        "if (++coming_piece == PIECES)",
                        ["coming_piece = 0;", "coming_tile += gridDim.x;", "look_at(coming_tile);"],
                    ),
                    "find_terms();",
                ]
            ),
            "};",
        ]

    def _bring(self) -> list[str]:
        here = "is_place"
        bit = []
        if self.sides.may_miss:
            bit = ["const int bit = __shfl_sync(0xffffffff, step, part * 8 + t);"]
            here = self.sides.meets("bit")
        element = [
            "const int away = __shfl_sync(0xffffffff, ahead, part * 8 + t);",
            *bit,
            *statement(f"copy_or_zero<1>(to + t * LEFT_LINE, seen + away, {here} && away >= 0);"),
        ]
        return [
            "// A quarter of a piece comes: eight terms of each place, with the first all weights.",
            "const auto bring = [&](int stage, int part) {",
            *indented(
                [
                    *block("if (part == 0)", self._weights_brought()),
                    "float* const to = coming_left + stage * LEFT + part * 8 * LEFT_LINE + threadIdx.x;",
                    "#pragma unroll",
                    *block("for (int t = 0; t < 8; ++t)", element),
                ]
            ),
            "};",
        ]

    def _weights_brought(self) -> list[str]:
        begin = [
            "const bool more = coming_tile < TILES;",
            f"const float* const left = {self.left_from};",
        ]
        to = "coming_right + stage * RIGHT"
        if self.convolution.transposed:
            place = "warp * TERMS + (lane / 4 ^ warp) * 4 + lane % 4"
            return [*begin, *self.weights_brought(f"{to} + {place}", "TERMS", "WIDE", "warp")]
        begin[1] = f"const float* const right = {self.left_from};"
        return [*begin, *self.brought("right", "WIDE", "", self.rows, self.left, to)]

    # -------------------------------------------------------------------------------- split in two

    def _taken_apart(self) -> list[str]:
        return [
            "// Eight terms at a time are a part; a thread has two of them, of each of its places. Those of",
            "// the next part are read before they are needed.",
            "float left_now[2][2][4];",
            "const auto read_left = [&](int stage, int part) {",
            "    const float* const from = coming_left + stage * LEFT + own_place;",
            "#pragma unroll",
            "    for (int m = 0; m < 2; ++m) {",
            "#pragma unroll",
            "        for (int e = 0; e < 4; ++e) {",
            "            const int term = part * 8 + quarter + e / 2 * 4;",
            "            left_now[part % 2][m][e] = from[term * LEFT_LINE + m * 16 + e % 2 * 8];",
            "        }",
            "    }",
            "};",
            "unsigned int left_high[2][2][4], left_low[2][2][4];",
            "const auto split_left = [&](int part) {",
            "    const int p = part % 2;",
            "#pragma unroll",
            "    for (int m = 0; m < 2; ++m) {",
            "#pragma unroll",
            "        for (int e = 0; e < 4; ++e) {",
            "            split_in_two(left_now[p][m][e], left_high[p][m][e], left_low[p][m][e]);",
            "        }",
            "    }",
            "};",
            "// Weights go to shared memory, high and low, where tensor cores read them.",
            "const auto take_apart = [&](int stage, int odd, int share) {",
            "    const int at = (share * BLOCK + threadIdx.x) * 4;",
            "    const float4 value = *reinterpret_cast<const float4*>(coming_right + stage * RIGHT + at);",
            "    float* const high = parts + odd * 2 * RIGHT;",
            "    uint4 first, second;",
            *(f"    split_in_two(value.{axis}, first.{axis}, second.{axis});" for axis in "xyzw"),
            "    *reinterpret_cast<uint4*>(high + at) = first;",
            "    *reinterpret_cast<uint4*>(high + RIGHT + at) = second;",
            "};",
        ]

    # -------------------------------------------------------------------------------- sums

    def _loop(self) -> list[str]:
        shares = self.stored_channels // _STORED
        body = f"""
float sums[2][ACROSS / 2], total[2][ACROSS / 2];
#pragma unroll
for (int i = 0; i < ACROSS; ++i) {{
    sums[i % 2][i / 2] = total[i % 2][i / 2] = 0.0f;
}}
#pragma unroll 1
for (int piece = 0; piece < PIECES; ++piece) {{
    show_to_tensor_cores();
    __pipeline_wait_prior(STAGES - 3);
    __syncthreads();  // this piece's weights are apart, and the next piece has come
    const unsigned long long high = right_at(parts + odd * 2 * RIGHT);
    const unsigned long long low = right_at(parts + odd * 2 * RIGHT + RIGHT);
    const int following = (stage + 1) % STAGES, free = (stage + STAGES - 1) % STAGES;
#pragma unroll
    for (int part = 0; part < 4; ++part) {{
        // Eight terms are 32 bytes of a channel's line: two pieces of 16.
        const int p = part % 2, at = part * 2;
        products_begin();
#pragma unroll
        for (int m = 0; m < 2; ++m) {{
            multiply_add(sums[m], left_low[p][m], high + at);
            multiply_add(sums[m], left_high[p][m], low + at);
            multiply_add(sums[m], left_high[p][m], high + at);
        }}
        products_end();
        // Tensor cores are at it. Meanwhile another piece is asked for, and the next one taken apart.
        bring(free, part);
        products_done<1>();
        split_left(part + 1);
        read_left(part < 2 ? stage : following, (part + 2) % 4);
        if (part == 0) {{
            __syncthreads();  // all have done with the piece before: there is a place for weights
        }} else if (part <= {shares}) {{
            take_apart(following, 1 - odd, part - 1);
        }}
    }}
    go_on();
    odd = 1 - odd;
    stage = following;
    if ((piece + 1) % JOINED == 0 || piece + 1 == PIECES) {{
        products_done<0>();
#pragma unroll
        for (int i = 0; i < ACROSS; ++i) {{
            total[i % 2][i / 2] += sums[i % 2][i / 2];
            sums[i % 2][i / 2] = 0.0f;
        }}
    }}
}}""".strip("\n")
        first = ["#pragma unroll", *block("for (int part = 0; part < 4; ++part)", ["bring(ahead_of, part);"])]
        return [
            "look_at(coming_tile);",
            "find_terms();",
            *block(
                "for (int begun = 0; begun < STAGES - 1; ++begun)",
                [line.replace("ahead_of", "begun") for line in first] + ["go_on();"],
            ),
            "__pipeline_wait_prior(STAGES - 2);",
            "__syncthreads();",
            "#pragma unroll",
            *block(f"for (int share = 0; share < {shares}; ++share)", ["take_apart(0, 0, share);"]),
            "read_left(0, 0);",
            "split_left(0);",
            "read_left(0, 1);",
            "#pragma unroll 1",
            *block(
                "for (int tile = blockIdx.x; tile < TILES; tile += gridDim.x)",
                [*body.split("\n"), *self._written()],
            ),
        ]

    # -------------------------------------------------------------------------------- results

    def _written(self) -> list[str]:
        changed = [
            "const int sum_row = m * 16 + lane / 4 + i / 2 % 2 * 8;",
            "const int sum_column = i / 4 * 8 + quarter * 2 + i % 2;",
            "results[sum_column * LINE + sum_row] = total[m][c * CHUNK / 2 + i];",
        ]
        chunk = [
            "#pragma unroll",
            *block(
                "for (int m = 0; m < 2; ++m)",
                ["#pragma unroll", *block("for (int i = 0; i < CHUNK / 2; ++i)", changed)],
            ),
            "const int row_here = c * CHUNK;",
            "__syncwarp();",
            *block(f"if ({self.is_column})", self.finished_column()),
            "__syncwarp();",
        ]
        return [
            "// The results, some channels at a time. In shared memory a warp's sums change hands:",
            "// neighbouring lanes go on with neighbouring places.",
            f"int {'' if self.batch.is_one else 'matrix_here, '}place_here;",
            *self._tile("tile", "matrix_here", "place_here"),
            "place_here += warp * 32;",
            *self.column_found(),
            "#pragma unroll",
            *block("for (int c = 0; c < ACROSS / CHUNK; ++c)", chunk),
        ]
