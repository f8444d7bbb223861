"""The results of a convolution whose rows are places: where they are, and how warps go on with them.

Owns the text of a tile's numbers and of a warp's results in shared memory; patches_kernel.py has the sums.
"""

from __future__ import annotations

import math

from workbench.playbook.analysis.places import flattened, sides_together
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.convolution_product import PlacesKernel
from workbench.playbook.kernels.kernel_text import Site, block
from workbench.playbook.kernels.patches_16bit import PairedFactors, WholeFactors
from workbench.playbook.kernels.patches_factors import PatchFactors, SplitFactors
from workbench.playbook.kernels.patches_tiling import PatchTiling
from workbench.playbook.kernels.seen_places import SeenPlaces
from workbench.playbook.text.scope import statement

_LANES, _EIGHT = 32, 8
"""Places of a warp that lanes have side by side."""


class PatchResults(PlacesKernel):
    """What is made of a tile's sums: neighbouring lanes have neighbouring places, a channel at a time."""

    def __init__(self, site: Site, made: Convolution, tiling: PatchTiling, turned: str) -> None:
        super().__init__(site, made, turned)
        self.blocks = made.blocks
        self.tiling = tiling
        self.flat = SeenPlaces(flattened(made), self.sides.size)
        self.factors = self._factors()
        if tiling.dtype != "f32":
            self.why_lost = "An infinity times the zero of a missing weight is NaN."
        self.lines = tiling.chunk

    def _factors(self) -> PatchFactors:
        place = self._other_place()
        if self.tiling.dtype == "f32":
            return SplitFactors(self.tiling, place)
        kind = PairedFactors if self.tiling.paired else WholeFactors
        return kind(self.tiling, place, self.tiling.dtype)

    def _other_place(self) -> str:
        """Elements of a patch from what a thread's first place sees to what place ``i`` of these does."""
        down, across = self._places_step("row"), self._places_step("col")
        line = "PATCH_LINE" if down == 1 else f"{down} * PATCH_LINE"
        rows, box_across = self.tiling.box
        if box_across == _EIGHT:
            return f"i * {line}"
        if rows > 1:
            return f"i / 2 * {line} + i % 2 * {_EIGHT * across}"
        return f"i * {_EIGHT * across}"

    def _places_step(self, name: str) -> int:
        """Elements from one place of a patch to the next."""
        side = dict(self.flat.named).get(name)
        return side.step if side is not None else 1

    @property
    def low(self) -> bool:
        return False

    @property
    def _shared_by(self) -> int:
        return self.blocks * (1 if self.tiling.twice > 1 else 2)

    def _own_lines(self) -> list[str]:
        if self.tiling.twice > 1:
            return super()._own_lines()
        rank = "" if self.blocks == 1 else "cluster.block_rank() * 2 + "
        return [f"const int share = {rank}lane / 16;  // of a place's channels two lanes have half each"]

    def _sum(self) -> list[str]:
        at = f"line * LINE + {'lane' if self.tiling.twice > 1 else 'lane % 16'}"
        if self.blocks == 1:
            return [f"made[r] = results[{at}];"]
        return [
            "made[r] = 0.0f;",
            "#pragma unroll",
            *block(
                "for (int b = 0; b < BLOCKS; ++b)",
                [f"made[r] += cluster.map_shared_rank(results, b)[{at}];"],
            ),
        ]

    @property
    def wide(self) -> int:
        return self._places

    @property
    def line(self) -> int:
        return self.tiling.line

    @property
    def _places(self) -> int:
        """Of a warp."""
        return 16 * self.tiling.twice

    def _tile(self, tile: str, places: bool = False) -> list[str]:
        """Statements that find a tile: group and kind of places, image, the first place along each side."""
        named = [name for name, _ in self.flat.named]
        lines = [f"int plane = {tile};"]
        matrix = "matrix_here" if places else "matrix"
        if self.tiling.channel_tiles > 1:
            channel = "channel_here" if places else "first_channel"
            lines += [f"const int {channel} = plane % CHANNEL_TILES * ACROSS;", "plane /= CHANNEL_TILES;"]
        if not self.batch.is_one:
            number, after = f"plane % {self._size(self.batch)}", f"plane /= {self._size(self.batch)};"
            lines += [f"const int {matrix} = {number};", after]
        lines += ["const int column_tile = plane % TILES_ACROSS * PLACES_ACROSS;", "plane /= TILES_ACROSS;"]
        if "row" in named:
            lines += ["const int row_tile = plane % TILES_DOWN * PLACES_DOWN;", "plane /= TILES_DOWN;"]
        if "depth" in named:
            deep = self._size(dict(self.flat.named)["depth"].made)
            lines += [f"const int plane_here = plane % {deep};", f"plane /= {deep};"]
        return lines

    def column_found(self) -> list[str]:
        starts = {"depth": "plane_here", "row": "row_tile + place / PLACES_ACROSS"}
        starts["col"] = "column_tile + place % PLACES_ACROSS"
        lane = "lane" if self.tiling.twice > 1 else "lane % 16"
        lines, inside = [f"const int place = warp * {self._places} + {lane};"], list[str]()
        own = self._names()
        for name, side in self.flat.named:
            code = starts[name]
            if name != "depth":
                inside.append(f"{code} < {self._size(side.made)}")
            if side.phases > 1:
                code = f"({code}) * {side.phases} + kind_{name}"
                inside += [] if side.all_there else [f"{own[name][0]} < {self._size(side.side.made)}"]
            lines += self._named(own[name], code)
        return [
            *self._tile("tile", places=True),
            *self.flat.kind("matrix_here"),
            *lines,
            "const int image = plane;",
            *statement(f"const bool is_result = {' && '.join(inside)};"),
        ]

    def _names(self) -> dict[str, list[str]]:
        """Sides of the results, by those of tiles: several where they lie one behind the other."""
        names = iter([name for name, _ in self.sides.named])
        together = zip(self.flat.named, sides_together(self.convolution), strict=True)
        return {flat: [next(names) for _ in range(count)] for (flat, _), count in together}

    def _named(self, names: list[str], place: str) -> list[str]:
        """Statements that find the place along each of some sides, by that along all of them together."""
        if len(names) == 1:
            return [f"const int {names[0]} = {place};"]
        made = {name: self._size(side.side.made) for name, side in self.sides.named}
        lines = [f"int along = {place};"]
        for name in reversed(names[1:]):
            lines += [f"const int {name} = along % {made[name]};", f"along /= {made[name]};"]
        return [*lines, f"const int {names[0]} = along;"]

    @property
    def _by_lanes(self) -> bool:
        """True where lanes keep what all results of a channel take until these change hands."""
        return bool(self.beside.rows) and _LANES % self.tiling.chunk == 0

    def _rows_begun(self) -> list[str]:
        """Statements that make it, for all channels of the tile: a wait for memory, not one a chunk."""
        if not self._by_lanes:
            return []
        count, each = math.ceil(self.tiling.columns / _LANES), len(self.beside.rows)
        made = self.at_place().made_before(self.beside.rows, lambda at, code: f"of_lane[s][{at}] = {code};")
        first = "channel_here + " if self.tiling.channel_tiles > 1 else ""
        return [
            "// What all results of a channel take is made once: a lane has that of each 32nd.",
            f"float of_lane[{count}][{each}] = {{}};",
            "#pragma unroll",
            *block(
                f"for (int s = 0; s < {count}; ++s)",
                [
                    f"const int row_here = {first}s * {_LANES}, {self.line_name} = lane;",
                    *self.row_found(),
                    *block(f"if ({self.is_row})", made),
                ],
            ),
        ]

    def _rows_given(self) -> list[str]:
        """Statements that put it behind the results of a chunk, where it is not made there."""
        if not self._by_lanes:
            return self.rows_made(self.tiling.chunk)
        given = [
            f"of_row[{at}] = of_lane[c * CHUNK / {_LANES}][{at}];" for at in range(len(self.beside.rows))
        ]
        return block(
            f"if (lane / CHUNK == c % ({_LANES} / CHUNK))",
            [f"float* const of_row = results + lane % CHUNK * LINE + {self.wide};", *given],
        )

    def written(self) -> list[str]:
        meet = "__syncwarp();" if self.blocks == 1 else "cluster.sync();"
        changed = [
            "const int sum_row = m * 16 + lane / 4 + i / 2 % 2 * 8;",
            "const int sum_column = i / 4 * 8 + quarter * 2 + i % 2;",
            f"results[sum_column * LINE + sum_row] = {self.factors.sums}[m][c * CHUNK / 2 + i];",
        ]
        chunk = [
            "#pragma unroll",
            *block(
                f"for (int m = 0; m < {self.tiling.twice}; ++m)",
                ["#pragma unroll", *block("for (int i = 0; i < CHUNK / 2; ++i)", changed)],
            ),
            f"const int row_here = {'channel_here + ' if self.tiling.channel_tiles > 1 else ''}c * CHUNK;",
            *self._rows_given(),
            meet,
            *block(f"if ({self.is_column})", self.finished_column()),
            meet,
        ]
        return [
            "// The results, some channels at a time. In shared memory a warp's sums change hands:",
            "// neighbouring lanes go on with neighbouring places.",
            *self.column_found(),
            *self._own_lines(),
            *self._rows_begun(),
            "#pragma unroll",
            *block("for (int c = 0; c < ACROSS / CHUNK; ++c)", chunk),
        ]
