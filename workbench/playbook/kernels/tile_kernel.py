"""Pointwise kernels whose inputs lie across their result: tiles are turned round in shared memory.

Owns the text of such a kernel. turning.py says which loads are turned; how all others are read is
indexing.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from workbench.playbook.analysis.again import ALL_BACKWARDS, BACKWARDS, by_plane, goes_back
from workbench.playbook.analysis.turning import Turn, pitch, plain_loads, tiled_loads
from workbench.playbook.ir.expr import Expr, Index, Load
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.flat_kernel import narrow_limits, narrowed, store_elements
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.text.cuda_text import PRODUCT, SUM, Text
from workbench.playbook.text.indexing import index_terms, index_text, name_pieces
from workbench.playbook.text.scope import Scope

_MOST_AHEAD = 32
"""Registers of a thread for what waits for the barrier."""
_SLOT = "k / (THREADS / TILE)"


@dataclass
class _Tiles:
    """The kernel being written, and what its coordinates are called."""

    frame: Frame
    turn: Turn
    loads: tuple[Load, ...]
    names: dict[int, str] = field(default_factory=dict)
    """Of the turned loads' tiles, by the load."""
    ahead: dict[int, str] = field(default_factory=dict)
    """Of loads along the result, which wait in registers from before the barrier."""
    at: tuple[str, ...] = ()
    """Coordinate of every axis."""

    @property
    def size(self) -> int:
        return self.frame.site.schedule.tile

    def index(self, view: View) -> Text:
        """The element a view finds at the coordinates."""
        macros = self.frame.macros
        parts = self.turn.parts(view)
        if parts is None:
            return index_text(view, "i", macros, wide=True)
        ahead: list[str] = []
        back: list[str] = []
        for name, part in zip(self.at, parts, strict=True):
            plus, minus = index_terms(part, name, macros, wide=True)
            ahead += plus
            back += minus
        offset = view.offset
        if not offset.is_zero:
            (back if offset.is_negative else ahead).append(
                macros.text(-offset if offset.is_negative else offset)
            )
        code = " - ".join([" + ".join(ahead) or "0", *back])
        return Text(code, SUM if len(ahead) + len(back) > 1 else PRODUCT)

    def linear(self) -> str:
        """The index on the whole line."""
        parts: list[str] = []
        inner = ONE
        for name, size in zip(reversed(self.at), reversed(self.turn.axes), strict=True):
            parts.insert(0, name if inner.is_one else f"{name} * {self.frame.macros.text(inner)}")
            inner = inner * size
        return " + ".join(parts)


def tile_kernel(site: Site, kernel: Kernel, name: str, turn: Turn) -> KernelText:
    """Write the kernel of stores over the same line, some of whose loads are turned."""
    frame = frame_for(site, kernel, vector=False)
    tiles = _Tiles(frame, turn, tiled_loads(turn, site.schedule.tile))
    lines = [*_head(tiles, kernel), *_fetched(tiles, kernel), *_read(tiles), "__syncthreads();"]
    lines += _written(tiles, kernel)
    grid = _grid(site, turn)
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


def _grid(site: Site, turn: Turn) -> str:
    tile = site.schedule.tile
    parts = [f"cdiv({site.size(turn.along)}, {tile})", f"cdiv({site.size(turn.down)}, {tile})"]
    if not _outer(turn).is_one:
        parts.append(site.factor(_outer(turn)))
    return " * ".join(parts)


def _outer(turn: Turn) -> Size:
    """Indices of all axes that lie in no tile."""
    return product(size for i, size in enumerate(turn.axes[:-1]) if i != turn.across)


# ------------------------------------------------------------------------------------ where a block is


def _head(tiles: _Tiles, kernel: Kernel) -> list[str]:
    frame, turn = tiles.frame, tiles.turn
    for word in ("TILE", "line", "across", "below", "first_row", "first_col"):
        frame.names.new(word)
    along, down = frame.macros.text(turn.along), frame.macros.text(turn.down)
    lines = [f"constexpr int TILE = {tiles.size};"]
    lines += [
        "// Read along the input's neighbours, used along the result's: a tile turns round in shared memory."
    ]
    lines += ["// Its rows are padded, so that a column of it spreads over all banks."]
    for load in tiles.loads:
        name = tiles.names[load.serial] = frame.names.new(f"{load.buffer}_tile")
        buffer = frame.site.buffer(load.buffer)
        padding = pitch(tiles.size, buffer.dtype) - tiles.size
        lines.append(f"__shared__ {frame.element_type(load.buffer)} {name}[TILE][TILE + {padding}];")
    lines += ["const int lane = threadIdx.x % TILE;", "const int line = threadIdx.x / TILE;"]
    if goes_back(frame.site.program, frame.site.schedule, kernel, in_planes=True):
        return [*lines, *_from_end(tiles, kernel)]
    lines += [f"const size_t across = ({along} + TILE - 1) / TILE;"]
    lines += ["const size_t first_col = blockIdx.x % across * TILE;"]
    outer = _outer(turn)
    if outer.is_one:
        return [*lines, "const size_t first_row = blockIdx.x / across * TILE;", *_coordinates(tiles, "0")]
    lines += [f"const size_t below = ({down} + TILE - 1) / TILE;"]
    lines += ["const size_t first_row = blockIdx.x / across % below * TILE;"]
    return [*lines, *_coordinates(tiles, "blockIdx.x / (across * below)")]


def _from_end(tiles: _Tiles, kernel: Kernel) -> list[str]:
    """The tile of a block where they are taken from the last to the first.

    Those that lie beside one another in the input follow one another: they were read together before.
    """
    macros, turn = tiles.frame.macros, tiles.turn
    planes, apart = macros.text(_outer(turn)), by_plane(tiles.frame.site.program, kernel)
    place = tiles.frame.names.new("place")
    at, outer = "blockIdx.x", "0"
    if not _outer(turn).is_one and apart:
        at, outer = f"blockIdx.x / {planes}", f"blockIdx.x % {planes}"
    elif not _outer(turn).is_one:
        at, outer = "blockIdx.x % (across * below)", f"({planes} - 1 - blockIdx.x / (across * below))"
    return [
        ALL_BACKWARDS if apart else BACKWARDS,
        f"const size_t across = ({macros.text(turn.along)} + TILE - 1) / TILE;",
        f"const size_t below = ({macros.text(turn.down)} + TILE - 1) / TILE;",
        f"const size_t {place} = {at};",
        f"const size_t first_col = (across - 1 - {place} / below) * TILE;",
        f"const size_t first_row = {place} % below * TILE;",
        *_coordinates(tiles, outer),
    ]


def _coordinates(tiles: _Tiles, outer: str) -> list[str]:
    """Names for the coordinates; those outside the tile are the block's."""
    frame, turn = tiles.frame, tiles.turn
    places = [i for i in range(len(turn.axes) - 1) if i != turn.across]
    names, lines, inner = {turn.across: "row", len(turn.axes) - 1: "col"}, [], ONE
    for place in reversed(places):
        names[place] = frame.names.new("plane" if len(places) == 1 else f"at_{place}")
        code = outer if inner.is_one else f"{outer} / {frame.macros.text(inner)}"
        if place != places[0]:
            code += f" % {frame.macros.text(turn.axes[place])}"
        lines.append(f"const size_t {names[place]} = {code};")
        inner = inner * turn.axes[place]
    tiles.at = tuple(names[i] for i in range(len(turn.axes)))
    return lines


def _over_tile(tiles: _Tiles, row: str, col: str, body: list[str]) -> list[str]:
    """A tile's elements, ``THREADS`` at a time; the last tiles of a row or column are not full."""
    macros, turn = tiles.frame.macros, tiles.turn
    inside = f"row < {macros.text(turn.down)} && col < {macros.text(turn.along)}"
    place = [f"const size_t row = first_row + {row};", f"const size_t col = first_col + {col};"]
    loop = "for (int k = 0; k < TILE; k += THREADS / TILE)"
    return ["#pragma unroll", *block(loop, [*place, *block(f"if ({inside})", body)])]


# ------------------------------------------------------------------------------------ elements


def _fetched(tiles: _Tiles, kernel: Kernel) -> list[str]:
    """What is read along the result, asked for before the tiles: both ways to memory are gone at once."""
    each = tiles.size**2 // tiles.frame.site.schedule.threads
    loads = [load for load in plain_loads(kernel) if _runs_along(tiles, load)][: _MOST_AHEAD // max(each, 1)]
    if not loads:
        return []
    lines = ["// On their way before the barrier, so that nobody waits twice."]
    body = []
    for load in loads:
        name = tiles.ahead[load.serial] = tiles.frame.names.new(f"{load.buffer}_here")
        lines.append(f"{tiles.frame.element_type(load.buffer)} {name}[TILE * TILE / THREADS];")
        element = tiles.frame.element(load.buffer, tiles.index(load.view))
        body.append(f"{name}[{_SLOT}] = {_once(tiles, load, element)};")
    return [*lines, *_over_tile(tiles, "line + k", "lane", body)]


def _runs_along(tiles: _Tiles, load: Load) -> bool:
    """True for a load of an element of its own for every element of the tile, neighbours along the result."""
    strides = tiles.turn.strides(load.view)
    if strides is None or load.serial in tiles.names:
        return False
    return strides[-1].is_one and not strides[tiles.turn.across].is_zero


def _read(tiles: _Tiles) -> list[str]:
    """Every turned load, along its own neighbours."""
    body = []
    for load in tiles.loads:
        element = tiles.frame.element(load.buffer, tiles.index(load.view))
        body.append(f"{tiles.names[load.serial]}[line + k][lane] = {_once(tiles, load, element)};")
    return _over_tile(tiles, "lane", "line + k", body)


def _once(tiles: _Tiles, load: Load, element: str) -> str:
    streamed = tiles.frame.site.schedule.stream and tiles.frame.has_hints(load.buffer)
    return f"__ldcs(&{element})" if streamed else element


def _written(tiles: _Tiles, kernel: Kernel) -> list[str]:
    frame = tiles.frame
    scope = _scope(tiles)
    scope.prepare(store.value for store in kernel.stores)
    store_elements(frame, scope, kernel, tiles.index)
    lines = name_pieces(scope.lines, "i", frame.names)
    if any(re.search(r"\bi\b", line) for line in lines):
        lines = [f"const size_t i = {tiles.linear()};", *lines]
    return _over_tile(tiles, "line + k", "lane", lines)


def _scope(tiles: _Tiles) -> Scope:
    frame = tiles.frame

    def leaf(expr: Expr) -> Text:
        if expr.serial in tiles.names and isinstance(expr, Load):
            return frame.value(expr, f"{tiles.names[expr.serial]}[lane][line + k]")
        if expr.serial in tiles.ahead and isinstance(expr, Load):
            return frame.value(expr, f"{tiles.ahead[expr.serial]}[{_SLOT}]")
        assert isinstance(expr, (Load, Index))
        base = tiles.index(expr.view)
        if isinstance(expr, Index):
            return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
        element = frame.element(expr.buffer, lookup_text(expr, base, frame, scope.text))
        linear = expr.view.is_linear and not expr.lookups
        return frame.value(expr, _once(tiles, expr, element) if linear else element)

    scope = Scope(leaf, frame.names, frame.macros, frame.site.schedule.fast_math)
    return scope
