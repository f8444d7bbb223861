"""How the factors of a convolution whose rows are places come to tensor cores, and the sums of a tile.

Owns the text of what follows once patches and weights are in shared memory. Factors of float32 are split in
two here, in registers and in shared memory; patches_16bit.py has those that tensor cores take as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from workbench.playbook.device_functions.tensor_core_helpers import OTHER_COLUMNS
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.patches_tiling import PatchTiling
from workbench.playbook.kernels.product_tiling import LONG, SOME


@dataclass(frozen=True)
class PatchFactors(ABC):
    """What a kernel does with patches and weights that have come."""

    element: ClassVar[str]
    """What an element of a patch is in shared memory."""
    weight: ClassVar[str]
    """The same of a weight."""
    element_name: ClassVar[str]
    """What comments call several of them."""
    sums: ClassVar[str]
    """The array that has a tile's results at its end."""
    weights_to: ClassVar[str]
    """Where the weights of a piece come to."""
    halves: ClassVar[int]
    """Times that the lanes of a warp find the terms of a piece, one each."""

    tiling: PatchTiling
    other_place: str
    """Elements of a patch from what a thread's first place sees to what place ``i`` of its places does."""

    @property
    @abstractmethod
    def helpers(self) -> frozenset[str]:
        """Functions that it calls."""

    @abstractmethod
    def told(self) -> list[str]:
        """The comment at the head of the kernel."""

    @abstractmethod
    def constants(self) -> list[str]:
        """Numbers of its own, behind PIECES."""

    @abstractmethod
    def weights_place(self) -> list[str]:
        """Statements that say where in shared memory weights are, and that ``patches`` lie behind them."""

    @abstractmethod
    def in_turn(self) -> list[str]:
        """Variables that say where the weights of the piece at hand are."""

    @abstractmethod
    def read(self) -> list[str]:
        """Functions that get patches into registers, and make factors of what has come."""

    def arranged(self) -> list[str]:
        """A function that puts elements that have come in place, where that takes more than copies."""
        return []

    def _words_read(self) -> list[str]:
        """A function that reads a part of eight elements: two of a thread, of each of its places."""
        return [
            "const auto read_left = [&](int ahead, int part) {",
            "#pragma unroll",
            "    for (int t = 0; t < 2; ++t) {",
            f"        const {self.element}* const from =",
            "            in_patches + __shfl_sync(0xffffffff, ahead, part * 8 + t * 4 + quarter);",
            "#pragma unroll",
            f"        for (int i = 0; i < {2 * self.tiling.twice}; ++i) {{",
            f"            left_now[part % 2][i / 2][t * 2 + i % 2] = from[{self.other_place}];",
            "        }",
            "    }",
            "};",
        ]

    @abstractmethod
    def first(self) -> list[str]:
        """Statements before the first tile, from what is asked for first to the factors of a first part."""

    @abstractmethod
    def summed(self) -> list[str]:
        """Statements that make the sums of a tile."""

    def first_asked(self) -> list[str]:
        """Statements that ask for as many pieces as may be on their way; weights that stay are there."""
        weights = [] if self.tiling.kept else ["bring_weights(begun);"]
        return [
            "look_at(coming_tile);",
            *block("for (int begun = 0; begun < STAGES - 1; ++begun)", [*weights, "bring_channels();"]),
            "__pipeline_wait_prior(STAGES - 2);",
            "__syncthreads();",
        ]


class SplitFactors(PatchFactors):
    """Factors of float32, in two parts each."""

    element, weight, element_name, sums, halves = "float", "float", "floats", "total", 1
    weights_to = "coming_right + stage * RIGHT"

    @property
    def helpers(self) -> frozenset[str]:
        columns = self.tiling.columns
        return frozenset(
            {"copy_or_zero", OTHER_COLUMNS.get(columns, "multiply_add"), "products", "split_in_two"}
        )

    def told(self) -> list[str]:
        return [
            "// Tensor cores multiply TF32, floats with 11 bits. So every factor is split in two such",
            "// numbers, high + low, and high * high, high * low and low * high are summed: low * low,",
            "// which is missing, is less than what float32 rounds off. A block makes tiles of",
            "// PLACES_DOWN x PLACES_ACROSS places and ACROSS channels and takes in TERMS products of each",
            "// result at a time, a piece; STAGES pieces are at hand or on the way. A tensor core cuts off",
            "// what a sum has no room for: after JOINED pieces, fewer where sums are short, they join",
            "// totals, which are rounded.",
        ]

    def constants(self) -> list[str]:
        return [f"constexpr int JOINED = PIECES >= {LONG} ? 4 : PIECES >= {SOME} ? 2 : 1;"]

    def weights_place(self) -> list[str]:
        if self.tiling.kept:
            return [
                "float* const parts = on_chip;  // all weights, in pieces of a high and a low part",
                "float* const coming_right = parts + 2 * PIECES * RIGHT;",
                "float* const patches = coming_right + RIGHT;",
            ]
        return [
            "float* const parts = on_chip;  // two pieces of the weights, each in a high and a low part",
            "float* const coming_right = parts + 4 * RIGHT;",
            "float* const patches = coming_right + STAGES * RIGHT;",
        ]

    def in_turn(self) -> list[str]:
        if self.tiling.kept:
            return []
        return [
            "// Weights taken apart go to two places in turn.",
            "int odd = 0;",
            "// Where the weights of the piece at hand are, among STAGES.",
            "int stage = 0;",
        ]

    def read(self) -> list[str]:
        twice = self.tiling.twice
        return [
            "// Eight terms at a time are a part; a thread has two of them, of each of its places. Those of",
            "// the next part are read before they are needed.",
            f"float left_now[2][{twice}][4];",
            *self._words_read(),
            f"unsigned int left_high[2][{twice}][4], left_low[2][{twice}][4];",
            "const auto split_left = [&](int part) {",
            "    const int p = part % 2;",
            "#pragma unroll",
            f"    for (int m = 0; m < {twice}; ++m) {{",
            "#pragma unroll",
            "        for (int e = 0; e < 4; ++e) {",
            "            split_in_two(left_now[p][m][e], left_high[p][m][e], left_low[p][m][e]);",
            "        }",
            "    }",
            "};",
            "// Weights go to shared memory, high and low, where tensor cores read them.",
            "const auto take_apart = [&](int stage, int place, int share) {",
            "    const int at = (share * BLOCK + threadIdx.x) * 4;",
            "    const float4 value = *reinterpret_cast<const float4*>(coming_right + stage * RIGHT + at);",
            "    float* const high = parts + place * 2 * RIGHT;",
            "    uint4 first, second;",
            *(f"    split_in_two(value.{axis}, first.{axis}, second.{axis});" for axis in "xyzw"),
            "    *reinterpret_cast<uint4*>(high + at) = first;",
            "    *reinterpret_cast<uint4*>(high + RIGHT + at) = second;",
            "};",
        ]

    @property
    def _shares(self) -> int:
        """Vectors of a piece of the weights that a thread takes apart."""
        return self.tiling.stored * self.tiling.terms // (4 * self.tiling.threads)

    def first(self) -> list[str]:
        of_piece = ["#pragma unroll", *block(f"for (int share = 0; share < {self._shares}; ++share)", ["@"])]
        left = ["int ahead = find_term(0);", "read_left(ahead, 0);", "split_left(0);", "read_left(ahead, 1);"]
        if not self.tiling.kept:
            apart = [line.replace("@", "take_apart(0, 0, share);") for line in of_piece]
            return [*self.first_asked(), *apart, *left]
        body = [
            "bring_weights(0);",
            "__pipeline_commit();",
            "__pipeline_wait_prior(0);",
            "__syncthreads();",
            *(line.replace("@", "take_apart(0, coming_piece, share);") for line in of_piece),
            "__syncthreads();  // there is a place for the next",
        ]
        return [
            "// All weights stay here.",
            *block("for (; coming_piece < PIECES; ++coming_piece)", body),
            "show_to_tensor_cores();",
            "coming_piece = 0;",
            *self.first_asked(),
            *left,
        ]

    def summed(self) -> list[str]:
        kept, twice = self.tiling.kept, self.tiling.twice
        zeros = " ".join(f"sums[{m}][i] = total[{m}][i] = 0.0f;" for m in range(twice))
        joined = "\n            ".join(
            f"total[{m}][i] += sums[{m}][i];\n            sums[{m}][i] = 0.0f;" for m in range(twice)
        )
        begin = """
    __pipeline_wait_prior(STAGES - 3);
    __syncthreads();  // the next piece has come
    const unsigned long long high = right_at(parts + piece * 2 * RIGHT);
    const unsigned long long low = right_at(parts + piece * 2 * RIGHT + RIGHT);"""
        beside = """
        // Tensor cores are at it. Meanwhile another piece is asked for, and the next eight terms taken apart.
        if (part == 1) {
            bring_channels();
        }
        products_done<1>();
        split_left(part + 1);
        read_left(part < 2 ? ahead : ahead_after, (part + 2) % 4);"""
        end = ""
        if not kept:
            begin = """
    show_to_tensor_cores();
    __pipeline_wait_prior(STAGES - 3);
    __syncthreads();  // this piece's weights are apart, and the next piece has come
    const unsigned long long high = right_at(parts + odd * 2 * RIGHT);
    const unsigned long long low = right_at(parts + odd * 2 * RIGHT + RIGHT);
    const int following = (stage + 1) % STAGES, free = (stage + STAGES - 1) % STAGES;"""
            beside = f"""
        // Tensor cores are at it. Meanwhile another piece is asked for, and the next one taken apart.
        if (part == 0) {{
            bring_weights(free);
        }} else if (part == 1) {{
            bring_channels();
        }}
        products_done<1>();
        split_left(part + 1);
        read_left(part < 2 ? ahead : ahead_after, (part + 2) % 4);
        if (part == 0) {{
            __syncthreads();  // all have done with the piece before: there is a place for weights
        }} else {{
#pragma unroll
            for (int share = part - 1; share < {self._shares}; share += 3) {{
                take_apart(following, 1 - odd, share);
            }}
        }}"""
            end = """
    odd = 1 - odd;
    stage = following;"""
        return f"""
float sums[{twice}][ACROSS / 2], total[{twice}][ACROSS / 2];
#pragma unroll
for (int i = 0; i < ACROSS / 2; ++i) {{
    {zeros}
}}
#pragma unroll 1
for (int piece = 0; piece < PIECES; ++piece) {{{begin}
    const bool is_last = piece + 1 == PIECES;
    first_slot = is_last ? (first_slot + CHANNELS_READ) % RING : first_slot;
    const int ahead_after = find_term(is_last ? 0 : piece + 1);
#pragma unroll
    for (int part = 0; part < 4; ++part) {{
        // Eight terms are 32 bytes of a channel's line: two pieces of 16.
        const int p = part % 2, at = part * 2;
        products_begin();
#pragma unroll
        for (int m = 0; m < {twice}; ++m) {{
            multiply_add(sums[m], left_low[p][m], high + at);
            multiply_add(sums[m], left_high[p][m], low + at);
            multiply_add(sums[m], left_high[p][m], high + at);
        }}
        products_end();{beside}
    }}
    ahead = ahead_after;{end}
    if ((piece + 1) % JOINED == 0 || is_last) {{
        products_done<0>();
#pragma unroll
        for (int i = 0; i < ACROSS / 2; ++i) {{
            {joined}
        }}
    }}
}}""".strip("\n").split("\n")
