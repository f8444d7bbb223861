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
    """Factors of one kind of 16 bits, read one by one."""

    dtype: str

    element, weight, element_name, sums = "unsigned short", "unsigned short", "elements", "sums"
    halves = 2
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
        kept, element = self.tiling.kept, self.element
        behind = f"weights + {'PIECES' if kept else 'PLACES_OF_WEIGHTS'} * RIGHT"
        if element != self.weight:
            behind = f"reinterpret_cast<{element}*>({behind})"
        return [
            *([] if kept else [f"constexpr int PLACES_OF_WEIGHTS = {WEIGHT_STAGES};"]),
            "unsigned short* const weights = reinterpret_cast<unsigned short*>(on_chip);",
            f"{element}* const patches = {behind};{'  // behind all weights' if kept else ''}",
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
        if not self.tiling.kept:
            return [*self.first_asked(), *self._first_left()]
        *asked, barrier = self.first_asked()
        return [
            "// All weights stay here.",
            *block(
                "for (; coming_piece < PIECES; ++coming_piece)",
                ["bring_weights(coming_piece);", "__pipeline_commit();"],
            ),
            "coming_piece = 0;",
            *asked,
            "show_to_tensor_cores();",
            barrier,
            *self._first_left(),
        ]

    def _first_left(self) -> list[str]:
        """Statements that make the first two parts ready."""
        return [
            "int ahead[2] = {find_term(0, 0), find_term(0, 1)};",
            "read_left(ahead[0], 0);",
            "join_left(0);",
            "read_left(ahead[0], 1);",
        ]

    _come = """
    __pipeline_wait_prior(STAGES - 3);@
    __syncthreads();  // the next piece has come"""
    """Statements at the begin of a piece, with a place to show weights that have come."""
    _after = "const int ahead_after[2] = {find_term(following, 0), find_term(following, 1)};"
    """Where the terms of the next piece are."""
    _further = "const int further = h + 1 < halves ? ahead[1] : ahead_after[0];"
    """Where those are that are read while two parts are multiplied."""
    _read = """
            join_left(1 - p);
            read_left(further, p);"""
    """Statements that do so."""
    _went_on = "ahead[0] = ahead_after[0], ahead[1] = ahead_after[1];"
    _arranged = ""
    """Statements beside the last products of a piece."""

    def summed(self) -> list[str]:
        kept, twice = self.tiling.kept, self.tiling.twice
        zeros = " ".join(f"sums[{m}][i] = 0.0f;" for m in range(twice))
        place = "piece" if kept else "stage"
        come = self._come.replace("@", "" if kept else "\n    show_to_tensor_cores();")
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
for (int piece = 0; piece < PIECES; ++piece) {{{come}
    const unsigned long long right = right_at(weights + {place} * RIGHT);
    const bool is_last = piece + 1 == PIECES;
    first_slot = is_last ? (first_slot + CHANNELS_READ) % RING : first_slot;
    const int following = is_last ? 0 : piece + 1;
    {self._after}
    const int halves = {halves};  // two parts each
#pragma unroll
    for (int h = 0; h < halves; ++h) {{
        {self._further}
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
            }}{self._arranged}
            products_done<1>();{self._read}
        }}
    }}
    {self._went_on}{end}
}}
products_done<0>();""".strip("\n").split("\n")


class PairedFactors(WholeFactors):
    """The same where elements of two channels share a word: one read has two terms."""

    element, element_name, halves = "unsigned int", "words", 1

    @property
    def helpers(self) -> frozenset[str]:
        return super().helpers | {"side_by_side"}

    def read(self) -> list[str]:
        twice = self.tiling.twice
        return [
            "// Eight words are a part, sixteen terms; a thread has two of them, of each of its places.",
            "// Those of the next part are read before they are needed.",
            f"unsigned int left_now[2][{twice}][4], left[2][{twice}][4];",
            *self._words_read(),
            "const auto take_left = [&](int p) {",
            "#pragma unroll",
            f"    for (int m = 0; m < {twice}; ++m) {{",
            "#pragma unroll",
            "        for (int e = 0; e < 4; ++e) {",
            "            left[p][m][e] = left_now[p][m][e];",
            "        }",
            "    }",
            "};",
        ]

    def arranged(self) -> list[str]:
        return [
            "// The channels of a piece have come, one behind the other: who asked for them puts their",
            "// elements side by side.",
            "int arranged_piece = 0, arranged_slot = 0;",
            "const auto arrange = [&]() {",
            "    const int before = arranged_piece > 0 ? channels(arranged_piece - 1) : 0;",
            "#pragma unroll 1",
            "    for (int more = channels(arranged_piece) - before; more > 0; more -= AT_ONCE) {",
            "        const int count = min(more, AT_ONCE), place = arranged_slot + own_channel;",
            "        unsigned int* const here = patches + (place < RING ? place : place - RING) * PATCH;",
            "#pragma unroll",
            "        for (int e = 0; e < COPIES; ++e) {",
            "            if (own_channel < count && e * BLOCK + own_copy < SEEN) {",
            "                side_by_side<VEC>(here + to_here[e]);",
            "            }",
            "        }",
            "        arranged_slot = arranged_slot + count < RING ? arranged_slot + count",
            "                                                     : arranged_slot + count - RING;",
            "    }",
            "    arranged_piece = arranged_piece + 1 < PIECES ? arranged_piece + 1 : 0;",
            "};",
        ]

    def first_asked(self) -> list[str]:
        *asked, _, barrier = super().first_asked()
        return [*asked, "__pipeline_wait_prior(STAGES - 3);", "arrange();", "arrange();", barrier]

    def _first_left(self) -> list[str]:
        return ["int ahead = find_term(0);", "read_left(ahead, 0);", "take_left(0);", "read_left(ahead, 1);"]

    _come = """@
    __syncthreads();  // the next piece is there"""
    _after = "const int ahead_after = find_term(following);"
    _further = "const bool here = h + 1 < halves;"
    _read = """
            take_left(1 - p);
            read_left(here ? ahead : ahead_after, here ? h * 2 + 2 + p : p);"""
    _went_on = "ahead = ahead_after;"
    _arranged = """
            if (h + 1 == halves && p == 1) {
                __pipeline_wait_prior(STAGES - 3);
                arrange();
            }"""
