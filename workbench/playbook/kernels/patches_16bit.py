"""Factors of 16 bits of a convolution whose rows are places: tensor cores take them as they are.

Owns the text of such factors and of their sums. Weights come to where tensor cores read them; a thread puts
two elements of a patch in each of its registers. Products are exact in float32, as are sums of a tile but
for what tensor cores cut off, which is less than what is rounded off at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.device_functions.tensor_core_helpers import of_16_bits
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.patches_factors import PatchFactors
from workbench.playbook.kernels.patches_tiling import WEIGHT_STAGES


@dataclass(frozen=True)
class WholeFactors(PatchFactors):
    """Factors of one kind of 16 bits."""

    dtype: str

    element, element_name, sums, halves = "unsigned short", "elements", "sums", 2
    weights_to = "weights + stage * RIGHT"

    @property
    def helpers(self) -> frozenset[str]:
        return frozenset({"copy_or_zero_16bit", of_16_bits(self.dtype, self.tiling.columns), "products"})

    def told(self) -> list[str]:
        return [
            "// Tensor cores multiply 16-bit numbers and sum in float32. A block makes tiles of",
            "// PLACES_DOWN x PLACES_ACROSS places and ACROSS channels and takes in TERMS products of each",
            "// result at a time, a piece; STAGES pieces are at hand or on the way.",
        ]

    def constants(self) -> list[str]:
        return (
            ["constexpr int HALVES_OF_LAST = 1;  // of two, that there are terms of"]
            if self.tiling.is_short
            else []
        )

    def weights_place(self) -> list[str]:
        # Elements are copied and handed over, never computed with: their bits are all that matters here.
        lines = ["unsigned short* const weights = reinterpret_cast<unsigned short*>(on_chip);"]
        if self.tiling.kept:
            return [
                *lines,
                "unsigned short* const patches = weights + PIECES * RIGHT;  // behind all weights",
            ]
        return [
            f"constexpr int PLACES_OF_WEIGHTS = {WEIGHT_STAGES};",
            *lines,
            "unsigned short* const patches = weights + PLACES_OF_WEIGHTS * RIGHT;",
        ]

    def in_turn(self) -> list[str]:
        if self.tiling.kept:
            return []
        return ["// Where the weights of the piece at hand are.", "int stage = 0;"]

    def read(self) -> list[str]:
        twice = self.tiling.twice
        return [
            "// Sixteen terms at a time are a part; a thread has four of them, of each of its places. Those",
            "// of the next part are read before they are needed.",
            f"unsigned short left_now[2][{twice}][8];",
            "const auto read_left = [&](int ahead, int p) {",
            "#pragma unroll",
            "    for (int t = 0; t < 4; ++t) {",
            "        const int term = p * 16 + t / 2 * 8 + quarter * 2 + t % 2;",
            "        const unsigned short* const from =",
            "            in_patches + __shfl_sync(0xffffffff, ahead, term);",
            "#pragma unroll",
            f"        for (int i = 0; i < {2 * twice}; ++i) {{",
            f"            left_now[p][i / 2][t * 2 + i % 2] = from[{self.other_place}];",
            "        }",
            "    }",
            "};",
            "// Neighbouring terms of a place share a register.",
            f"unsigned int left[2][{twice}][4];",
            "const auto join_left = [&](int p) {",
            "#pragma unroll",
            f"    for (int m = 0; m < {twice}; ++m) {{",
            "#pragma unroll",
            "        for (int e = 0; e < 4; ++e) {",
            "            const unsigned int one = left_now[p][m][e / 2 * 4 + e % 2];",
            "            const unsigned int other = left_now[p][m][e / 2 * 4 + 2 + e % 2];",
            "            left[p][m][e] = other << 16 | one;",
            "        }",
            "    }",
            "};",
        ]

    def first(self) -> list[str]:
        left = [
            "int ahead[2] = {find_term(0, 0), find_term(0, 1)};",
            "read_left(ahead[0], 0);",
            "join_left(0);",
            "read_left(ahead[0], 1);",
        ]
        if not self.tiling.kept:
            return [*self.first_asked(), *left]
        return [
            "// All weights stay here.",
            *block(
                "for (; coming_piece < PIECES; ++coming_piece)",
                ["bring_weights(coming_piece);", "__pipeline_commit();"],
            ),
            "coming_piece = 0;",
            *self.first_asked(),
            *left,
        ]

    def summed(self) -> list[str]:
        kept, twice = self.tiling.kept, self.tiling.twice
        zeros = " ".join(f"sums[{m}][i] = 0.0f;" for m in range(twice))
        place = "piece" if kept else "stage"
        halves = "is_last ? HALVES_OF_LAST : 2" if self.tiling.is_short else "2"
        asked = "" if kept else "\n                bring_weights((stage + STAGES - 1) % PLACES_OF_WEIGHTS);"
        end = "" if kept else "\n    stage = (stage + 1) % PLACES_OF_WEIGHTS;"
        return f"""
float sums[{twice}][ACROSS / 2];
#pragma unroll
for (int i = 0; i < ACROSS / 2; ++i) {{
    {zeros}
}}
#pragma unroll 1
for (int piece = 0; piece < PIECES; ++piece) {{
    __pipeline_wait_prior(STAGES - 3);
    show_to_tensor_cores();
    __syncthreads();  // the next piece has come
    const unsigned long long right = right_at(weights + {place} * RIGHT);
    const bool is_last = piece + 1 == PIECES;
    first_slot = is_last ? (first_slot + CHANNELS_READ) % RING : first_slot;
    const int following = is_last ? 0 : piece + 1;
    const int ahead_after[2] = {{find_term(following, 0), find_term(following, 1)}};
    const int halves = {halves};  // two parts each
#pragma unroll
    for (int h = 0; h < halves; ++h) {{
        const int further = h + 1 < halves ? ahead[1] : ahead_after[0];
#pragma unroll
        for (int p = 0; p < 2; ++p) {{
            // Sixteen terms are 32 bytes of a channel's line: two pieces of 16.
            const int at = h * 4 + p * 2;
            products_begin();
#pragma unroll
            for (int m = 0; m < {twice}; ++m) {{
                multiply_add(sums[m], left[p][m], right + at);
            }}
            products_end();
            // Meanwhile another piece is asked for, and the next terms are made ready.
            if (h == 0 && p == 1) {{{asked}
                bring_channels();
            }}
            products_done<1>();
            join_left(1 - p);
            read_left(further, p);
        }}
    }}
    ahead[0] = ahead_after[0], ahead[1] = ahead_after[1];{end}
}}
products_done<0>();""".strip("\n").split("\n")
