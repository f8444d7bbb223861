"""A convolution on tensor cores whose rows are places, and whose columns are channels.

Owns the text of such a kernel beyond convolution_product.py's. What a tile of places sees of a channel is
brought into shared memory once, as it is, and taken apart in registers for every tap; only the weights, which
are fewer, go back to shared memory in two parts. patches_tiling.py has the numbers.
"""

from __future__ import annotations

from workbench.playbook.ir.program import Convolution
from workbench.playbook.ir.sizes import number
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, block, indented
from workbench.playbook.kernels.patches_results import PatchResults
from workbench.playbook.kernels.patches_tiling import PatchTiling, own_channels
from workbench.playbook.kernels.product_tiling import VECTOR, WAITING
from workbench.playbook.kernels.tensor_core_kernel import HELPERS
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.scope import statement

_WORDS = """
m own_place following free take_apart sum_row sum_column channels slot is_last patches to_here from_here
ahead_after begun plane plane_here channel_here first_channel column_tile row_tile in_patches bring_channels
bring_weights find_term weights further halves h which one other PLACES_OF_WEIGHTS HALVES_OF_LAST join_left
take_left arrange arranged_piece arranged_slot first_slot patch_col patch_row patch_plane before own_copy
own_channel count along first_read of_lane
""".split()  # noqa: SIM905


def patches_kernel(
    site: Site, made: Convolution, name: str, tiling: PatchTiling, turned: str = ""
) -> KernelText:
    """Write the kernel of a convolution and of what is made of its results.

    ``turned`` is the buffer of weights_turned.py, of a transposed convolution.
    """
    return PatchesKernel(site, made, tiling, turned).finished(name)


class PatchesKernel(PatchResults):
    """The kernel being written."""

    def __init__(self, site: Site, made: Convolution, tiling: PatchTiling, turned: str) -> None:
        super().__init__(site, made, tiling, turned)
        self.frame.own_threads, self.frame.least_blocks = tiling.threads, tiling.blocks
        self._choose_vectors()
        self.frame.own_width = tiling.vector
        self.frame.helpers = self.frame.helpers - set(HELPERS) | self.factors.helpers
        for word in _WORDS:
            self.frame.names.new(word)

    def finished(self, name: str) -> KernelText:
        sides = [side.made for _, side in self.flat.named]
        tiles = [f"cdiv({self.site.size(sides[-1])}, {self.tiling.across})"]
        tiles += [f"cdiv({self.site.size(sides[-2])}, {self.tiling.down})"] if len(sides) > 1 else []
        tiles += [self.site.factor(size) for size in (*sides[:-2], self.convolution.batch)]
        tiles += [] if self.batch.is_one else [self.site.factor(self.batch)]
        tiles += [str(self.tiling.channel_tiles)] if self.tiling.channel_tiles > 1 else []
        lines = [*self.constants(), *self._place(), *self._brought(), *self._loop()]
        limits = Limits(shared=str(self.tiling.shared_bytes))
        if self.blocks > 1:
            return self.in_clusters(name, lines, tiles, limits, self.tiling.blocks)
        most = "gpu.sm_count" if self.tiling.blocks == 1 else f"{self.tiling.blocks} * gpu.sm_count"
        return self.frame.finish(name, lines, f"min({' * '.join(tiles)}, {most})", limits)

    def _choose_vectors(self) -> None:
        """Patches come in vectors where their rows lie so, weights where theirs do and patches do, too."""
        frame, inner = self.frame, self.flat.made.sides[-1]
        frame.vectors.clear()
        frame.divisors.clear()
        frame.vector = self.sides.phases == 1
        self.weights_by = str(self.tiling.vector) if self.turned else "1"
        if not frame.vector:
            return
        frame.vectors.add(self.convolution.source)
        frame.divisors.add(inner.read)
        if self.turned:
            return
        own = self._channels * self.taps
        together = next(few for few in (8, 4, 2, 1) if number(few).divides(self.sizes[2]) and own % few == 0)
        if together >= self.tiling.vector:
            self.weights_by = "VEC"
        elif together > 1 and self.tiling.vector > VECTOR:
            self.weights_by = f"(VEC < {together} ? VEC : {together})"
        else:
            return
        frame.vectors.add(self.left.buffer)

    # -------------------------------------------------------------------------------- what a block is about

    def constants(self) -> list[str]:
        tiling, taps = self.tiling, self.taps
        planes, rows, elements = tiling.patch
        names = self.factors.element_name
        kinds = [
            "// Places that are as far apart as a step is long meet the same taps: they are results of an",
            "// ordinary convolution with fewer taps. There are KINDS of such places, by where the first is.",
            f"constexpr int KINDS = {self.sides.phases};",
        ]
        return [
            *self.factors.told(),
            f"constexpr int BLOCK = {tiling.threads}, TERMS = {tiling.terms}, STAGES = {WAITING};",
            f"constexpr int PLACES_DOWN = {tiling.down}, PLACES_ACROSS = {tiling.across};",
            f"constexpr int ACROSS = {tiling.columns};  // columns of sums, a channel each",
            f"constexpr int WIDE = {tiling.stored};  // channels that there is room for",
            *self._channels_read(),
            f"constexpr int PIECES = ({self._own_terms} + TERMS - 1) / TERMS;",
            *self.factors.constants(),
            *self._tiles(),
            *(kinds if self.sides.phases > 1 else []),
            "// What a tile sees of a channel is a patch: a plane for each tap in depth, rows, elements.",
            f"constexpr int PATCH_DEEP = {planes}, PATCH_DOWN = {rows};",
            *self._patch_across(elements),
            f"constexpr int PATCH_LINE = {tiling.pitch};  // {names} from one row to the next",
            "constexpr int PATCH = PATCH_DEEP * PATCH_DOWN * PATCH_LINE;",
            f"// Patches that the pieces at hand may have terms of, {taps} of each channel.",
            f"constexpr int RING = {tiling.ring};",
            "// A warp's results change hands so many channels at a time.",
            f"constexpr int LINE = {tiling.line}, CHUNK = {tiling.chunk};",
            "constexpr int RIGHT = WIDE * TERMS;",
            "extern __shared__ __align__(1024) float on_chip[];",
            *self.factors.weights_place(),
        ]

    @property
    def _channels(self) -> int:
        """Channels of the input that a block takes in, of a group."""
        channels = own_channels(self.convolution)
        assert channels is not None  # patches_tiling has asked
        return channels

    @property
    def _own_terms(self) -> str:
        """Terms of a result that a block takes in."""
        return self.terms if self.blocks == 1 else str(self._channels * self.taps)

    def _channels_read(self) -> list[str]:
        read = self._size(self.convolution.read)
        if self.blocks > 1:
            return [
                "// There are few tiles, of many terms. BLOCKS blocks, a cluster, read a part of the",
                "// channels each, and add up what they have found through their shared memory.",
                f"constexpr int BLOCKS = {self.blocks}, CHANNELS_READ = {read} / BLOCKS;",
            ]
        if not self.tiling.paired:
            return [f"constexpr int CHANNELS_READ = {read};"]
        return [
            "// Two channels that are read are one of pairs: in a patch their elements share a word.",
            f"constexpr int CHANNELS_READ = {read} / 2;",
        ]

    @property
    def _vec(self) -> str:
        """Elements that are copied together."""
        return "VEC" if self.frame.vector else "1"

    def _patch_across(self, elements: int) -> list[str]:
        if not self.frame.vector:
            return [f"constexpr int PATCH_ACROSS = {elements}, COPIED = PATCH_ACROSS;"]
        before = self.flat.named[-1][1].padding
        first = [f"constexpr int BEFORE = {-before % self.tiling.vector} % VEC;"]
        if before % self.tiling.vector:
            first.insert(
                0, "// Whole vectors are copied: they begin so many elements before the first that is seen."
            )
        return [
            *first,
            f"constexpr int PATCH_ACROSS = (BEFORE + {elements} + VEC - 1) / VEC * VEC;",
            "constexpr int COPIED = PATCH_ACROSS / VEC;  // in a row",
        ]

    def _tiles(self) -> list[str]:
        """How many tiles there are along each side, and in all."""
        named = dict(self.flat.named)
        col = self._size(named["col"].made)
        lines = [f"constexpr int TILES_ACROSS = ({col} + PLACES_ACROSS - 1) / PLACES_ACROSS;"]
        of_all = ["TILES_ACROSS"]
        if "row" in named:
            row = self._size(named["row"].made)
            lines.append(f"constexpr int TILES_DOWN = ({row} + PLACES_DOWN - 1) / PLACES_DOWN;")
            of_all.append("TILES_DOWN")
        of_all += [self._size(named["depth"].made)] if "depth" in named else []
        of_all += [self._size(self.convolution.batch)]
        of_all += [] if self.batch.is_one else [self._size(self.batch)]
        if self.tiling.channel_tiles > 1:
            lines.append(f"constexpr int CHANNEL_TILES = {self.tiling.channel_tiles};")
            of_all.append("CHANNEL_TILES")
        return [*lines, *statement(f"constexpr int TILES = {' * '.join(of_all)};")]

    def _place(self) -> list[str]:
        down, across = self._places_step("row"), self._places_step("col")
        row, col = self.first_place
        row, col = row if down == 1 else f"{row} * {down}", col if across == 1 else f"{col} * {across}"
        element = self.factors.element
        results = "patches + RING * PATCH"
        if element != "float":
            results = f"reinterpret_cast<float*>({results})"
        return [
            *self._place_in_cluster(),
            "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quarter = lane % 4;",
            f"float* const results = {results} + warp * CHUNK * LINE;",
            *self.own_places(),
            *statement(
                f"const {element}* const in_patches = patches + {row} * PATCH_LINE + {col}"
                f"{' + BEFORE' if self.frame.vector else ''};"
            ),
            *self.factors.in_turn(),
        ]

    def _place_in_cluster(self) -> list[str]:
        if self.blocks == 1:
            return []
        return [
            "const auto cluster = cooperative_groups::this_cluster();",
            "const int first_tile = blockIdx.x / BLOCKS, clusters = gridDim.x / BLOCKS;",
            "const int first_read = cluster.block_rank() * CHANNELS_READ;  // of the channels of a group",
        ]

    first_place = ("own_place / PLACES_ACROSS", "own_place % PLACES_ACROSS")
    """A thread's first place in the tile: row and column."""

    def own_places(self) -> list[str]:
        """Statements that find it."""
        each = ("two", "four")[self.tiling.twice - 1]
        return [
            f"// Of a tile's places a warp has {self._places}, a thread {each}, eight apart: this one,",
            f"// which sees a patch from here on, and {self.others}.",
            f"const int own_place = warp * {self._places} + lane / 4;",
        ]

    @property
    def others(self) -> str:
        """Places of a thread beside the first."""
        return "another" if self.tiling.twice == 1 else "others"

    # -------------------------------------------------------------------------------- from memory

    def _brought(self) -> list[str]:
        """Functions that ask for patches and weights."""
        return [*self._patches(), *self._pieces(), *self._ahead()]

    def _patches(self) -> list[str]:
        vec = self._vec
        col = "at % COPIED" if vec == "1" else f"at % COPIED * {vec}"
        split = [
            "const int at = e * BLOCK + own_copy;",
            f"const int patch_col = {col}, patch_row = at / COPIED % PATCH_DOWN;",
            "const int patch_plane = at / (COPIED * PATCH_DOWN);",
        ]
        to = "(patch_plane * PATCH_DOWN + patch_row) * PATCH_LINE + patch_col"
        plane = self._size(self._plane())
        element, ctype = self.factors.element, CTYPES[self.convolution.dtype]
        copied = [
            "if (own_channel < count && e * BLOCK + own_copy < SEEN) {",
            f"    copy_or_zero<{vec}>(to + to_here[e], from + from_here[e], from_here[e] >= 0);",
            "}",
        ]
        apart = "own_channel"
        if self.tiling.paired:
            apart = "2 * own_channel"
            copied[1:2] = [
                "    unsigned short* const here = reinterpret_cast<unsigned short*>(to + to_here[e]);",
                f"    copy_or_zero<{vec}>(here, from + from_here[e], from_here[e] >= 0);",
                f"    const {ctype}* const other = from + {plane};",
                f"    copy_or_zero<{vec}>(here + {vec}, other + from_here[e], from_here[e] >= 0);",
            ]
        return [
            "constexpr int SEEN = PATCH_DEEP * PATCH_DOWN * COPIED, COPIES = (SEEN + BLOCK - 1) / BLOCK;",
            "constexpr int AT_ONCE = SEEN < BLOCK ? BLOCK / SEEN : 1;  // channels that are copied together",
            "// A thread copies so many times of a channel: where to, and where from, -1 for zeros.",
            "const int own_channel = AT_ONCE > 1 ? threadIdx.x / SEEN : 0;",
            "const int own_copy = AT_ONCE > 1 ? threadIdx.x % SEEN : threadIdx.x;",
            "int to_here[COPIES], from_here[COPIES];",
            "#pragma unroll",
            *block("for (int e = 0; e < COPIES; ++e)", [*split, f"to_here[e] = {to};"]),
            f"int coming_tile = {self.first_tile}, coming_piece = 0, slot = 0;",
            f"const {ctype}* seen;  // the image, from the channel that comes next on",
            "const auto look_at = [&](int tile) {",
            *indented(self._look_at(split)),
            "};",
            "const auto bring = [&](int count) {",
            *indented(
                [
                    "const int place = slot + own_channel;",
                    f"{element}* const to = patches + (place < RING ? place : place - RING) * PATCH;",
                    f"const {ctype}* const from = seen + {apart} * {plane};",
                    "#pragma unroll",
                    *block("for (int e = 0; e < COPIES; ++e)", copied),
                    f"seen += {'2 * ' if self.tiling.paired else ''}count * {plane};",
                    "slot = slot + count < RING ? slot + count : slot + count - RING;",
                ]
            ),
            "};",
        ]

    def _look_at(self, split: list[str]) -> list[str]:
        """Statements that find what a thread copies of a tile's patches."""
        first, inside, within = list[str](), ["tile < TILES"], ""
        starts = {"depth": "plane_here", "row": "row_tile", "col": "column_tile"}
        patch = {"depth": "patch_plane", "row": "patch_row", "col": "patch_col"}
        for name, side in self.flat.named:
            code = self.flat.seen_first(name, side, starts[name])
            if name == "col" and self.frame.vector and side.padding % self.tiling.vector:
                code += " - BEFORE"
            first.append(f"const int seen_{name} = {code};")
            own = patch[name]
            if name == "depth" and side.side.dilation > 1:
                own += f" * {side.side.dilation}"
            size = self._size(side.side.read)
            inside.append(f"unsigned(seen_{name} + {own}) < {size}")
            place = f"seen_{name} + {own}"
            within = f"({within}) * {size} + {place}" if within else place
        group, groups = self.group("matrix"), self._size(self.convolution.groups)
        images = f"(size_t(plane) * {groups} + {group})" if group else "size_t(plane)"
        elements = self._size(self._plane() * self.convolution.read)
        begin = "" if self.blocks == 1 else f" + size_t(first_read) * {self._size(self._plane())}"
        return [
            *self._tile("min(tile, TILES - 1)"),
            *self.flat.kind("matrix"),
            *first,
            f"seen = {self.source} + {images} * {elements}{begin};",
            "#pragma unroll",
            *block(
                "for (int e = 0; e < COPIES; ++e)",
                [
                    *(split if "depth" in dict(self.flat.named) else split[:-1]),
                    *statement(f"const bool there = {' && '.join(inside)};"),
                    *statement(f"from_here[e] = there ? {within} : -1;"),
                ],
            ),
        ]

    def _pieces(self) -> list[str]:
        tap = self.taps
        terms = "TERMS / 2" if self.tiling.paired else "TERMS"
        last = f"piece * ({terms}) + {terms} - 1" if self.tiling.paired else "piece * TERMS + TERMS - 1"
        needed = f"({last}) / {tap} + 1" if tap > 1 else f"(piece + 1) * {terms}"
        return [
            "// Channels that pieces of a tile up to this one have terms of.",
            "const auto channels = [](int piece) {",
            f"    return min(CHANNELS_READ, {needed});",
            "};",
            "// The weights of a piece come.",
            "const auto bring_weights = [&](int stage) {",
            *indented(self._weights_brought()),
            "};",
            "// The channels of a piece that none before it needed come.",
            "const auto bring_channels = [&]() {",
            "    const int before = coming_piece > 0 ? channels(coming_piece - 1) : 0;",
            "#pragma unroll 1",
            "    for (int more = channels(coming_piece) - before; more > 0; more -= AT_ONCE) {",
            "        bring(min(more, AT_ONCE));",
            "    }",
            "    __pipeline_commit();",
            "    if (++coming_piece == PIECES) {",
            "        coming_piece = 0;",
            f"        coming_tile += {self.tiles_step};",
            "        look_at(coming_tile);",
            "    }",
            "};",
        ]

    def _weights_brought(self) -> list[str]:
        several = self.tiling.channel_tiles > 1
        few = (0 if self.batch.is_one else 2) + (2 if several else 0)
        coming = self._tile("min(coming_tile, TILES - 1)")[: few + 1] if few else []
        own = "first_channel + " if several else ""
        more = "true" if self.tiling.kept else "coming_tile < TILES"
        begin = [*coming, f"const bool more = {more};"]
        element, ctype = self.factors.weight, CTYPES[self.convolution.dtype]
        first = "" if self.blocks == 1 else f" + first_read{f' * {self.taps}' if self.taps > 1 else ''}"
        begin.append(f"const {ctype}* const right = {self.left_from}{first};")
        vec, vector = self.weights_by, self.tiling.vector
        term = "threadIdx.x % TERMS" if vec == "1" else f"threadIdx.x % (TERMS / {vec}) * {vec}"
        each = "TERMS" if vec == "1" else f"(TERMS / {vec})"
        further = "BLOCK / TERMS" if vec == "1" else f"BLOCK * {vec} / TERMS"
        line = self._size(self.left.across)
        return [
            *begin,
            f"const int index = threadIdx.x / {each}, term = {term};",
            f"constexpr int FURTHER = {further};",
            f"const bool there = more && coming_piece * TERMS + term < {self._own_terms};",
            *statement(
                f"const {ctype}* const from = right + (there ? ({own}index) * {line} "
                "+ coming_piece * TERMS + term : 0);"
            ),
            f"{element}* const to = {self.factors.weights_to} + index * TERMS + term % {vector};",
            "#pragma unroll",
            *block(
                "for (int s = 0; s < WIDE; s += FURTHER)",
                [
                    "// As the instruction looks for it: eight lines further on it is the same again.",
                    f"const int place = s * TERMS + (term / {vector} ^ (index + s) % 8) * {vector};",
                    *statement(
                        f"copy_or_zero<{vec}>(to + place, from + s * {line}, "
                        f"there && {own}index + s < {self.rows});"
                    ),
                ],
            ),
        ]

    def _ahead(self) -> list[str]:
        """A function that finds where in the patches a lane's term of a piece is."""
        steps = list[str]()
        for name, side in self.flat.named:
            code = self.flat.number(name)
            if not code:
                continue
            if name == "depth":
                steps.append(f"({code}) * (PATCH_DOWN * PATCH_LINE)")
                continue
            step = code if side.side.dilation == 1 else f"({code}) * {side.side.dilation}"
            if name == "row":
                step = f"({step}) * PATCH_LINE" if " " in step else f"{step} * PATCH_LINE"
            steps.append(step)
        within = "".join(f" + {step}" for step in steps)
        whose = "a piece's" if self.factors.halves == 1 else "32 of a piece's"
        found = [
            f"// A lane finds out where in the patches one of {whose} terms is, seen from a place; others",
            "// ask it. Weights behind the last term are zeros: there any element will do.",
        ]
        bound = self._own_terms
        if self.tiling.paired:
            bound = f"{self.terms} / 2"
        first = "piece * TERMS" if self.factors.halves == 1 else "piece * TERMS + which * 32"
        if self.tiling.paired:
            first = "piece * (TERMS / 2)"
        return [
            *found,
            "int first_slot = 0;",
            f"const auto find_term = [&](int piece{', int which' if self.factors.halves > 1 else ''}) {{",
            *indented(
                [
                    *statement(f"const int of_all = min({first} + lane, {bound} - 1);"),
                    *self.weights.channel_and_tap("of_all"),
                    *statement(f"return (first_slot + channel) % RING * PATCH{within};"),
                ]
            ),
            "};",
        ]

    def _loop(self) -> list[str]:
        """Tile after tile."""
        return [
            *self.factors.arranged(),
            *self.factors.read(),
            *self.factors.first(),
            "#pragma unroll 1",
            *block(
                f"for (int tile = {self.first_tile}; tile < TILES; tile += {self.tiles_step})",
                [*self.factors.summed(), *self.written()],
            ),
        ]
