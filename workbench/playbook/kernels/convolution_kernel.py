"""A direct convolution: a block brings what a tile of results is made of into shared memory, once for all.

Owns the text of such a kernel; convolution_tiling.py says what a block and a thread have of the results. A
transposed convolution is one for each remainder of the stride: a place meets the weights of its own alone.
"""

from __future__ import annotations

import math

from workbench.playbook.ir.program import Convolution, Kernel, Side
from workbench.playbook.kernels.convolution_frame import ConvolutionFrame
from workbench.playbook.kernels.convolution_pieces import pieces_text, shifted
from workbench.playbook.kernels.convolution_tiling import (
    LANES,
    PADDING,
    Tiling,
    apart,
    first_met,
    layers,
    left_free,
    seen,
)
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for


def convolution_kernel(site: Site, made: Convolution, name: str, tiling: Tiling) -> KernelText:
    """Write the kernel of a convolution and of what is made of its results."""
    frame = frame_for(site, Kernel(list(made.stores)), vector=False)
    frame.helpers |= {"load", "fetch_or_zero"}
    one = ConvolutionFrame(frame, made, tiling)
    lines = [*_constants(one), *_place(one), *_corner(one), *_started(one), *pieces_text(one), *_written(one)]
    return frame.finish(name, lines, _grid(site, one))


def _grid(site: Site, one: ConvolutionFrame) -> str:
    """Blocks, in the plan language: tiles of a plane, planes, channels, images."""
    tiling, made = one.tiling, one.made
    parts = [f"cdiv({site.size(one.right.made)}, {tiling.wide})"]
    parts += [f"cdiv({site.size(one.down.made)}, {tiling.tall})"] if one.down else []
    parts += [site.factor(one.deep.made)] if one.deep else []
    parts += [] if one.has_all_channels else [f"cdiv({site.size(made.made)}, {tiling.channels})"]
    parts += [site.factor(size) for size in (made.groups, made.batch) if not size.is_one]
    return " * ".join(parts)


# ------------------------------------------------------------------------------------ where a block is


def _constants(one: ConvolutionFrame) -> list[str]:
    """What a block has of the results, and what waits in shared memory for it."""
    made, tiling = one.made, one.tiling
    window = " x ".join(str(side.taps) for side in made.sides)
    kind = "transposed convolution" if made.transposed else "convolution"
    deep = f"[{layers(made)}]" if one.deep else ""
    beside = f", BESIDE = {tiling.beside}" if one.several else ""
    free = left_free(made, tiling)
    two = "[2]" if one.comes_ahead else ""
    return [
        *_of_block(one, kind, window),
        f"constexpr int PIECE = {tiling.piece};",
        *_of_thread(one),
        f"constexpr int EACH = {tiling.each}, {one.places} = {tiling.below}{beside};",
        *([f"constexpr int SEEN_DOWN = {seen(made, one.down, tiling.tall)};"] if one.down else []),
        *_free_of_banks(free),
        f"constexpr int SEEN_ACROSS = {seen(made, one.right, tiling.wide)}{f' + {free}' if free else ''};",
        *(["// Two pieces: one at hand, one on its way."] if one.comes_ahead else []),
        f"__shared__ float seen{two}[PIECE]{deep}{'[SEEN_DOWN]' if one.down else ''}[SEEN_ACROSS];",
        f"// Between the weights of two taps {PADDING} floats are left free: threads that store weights of",
        "// different taps would all meet in one bank of shared memory.",
        f"__shared__ __align__(16) float taps{two}[PIECE]{deep}"
        f"{f'[{one.down.taps}]' if one.down else ''}[{one.right.taps}][CHANNELS_HERE + {PADDING}];",
    ]


def _of_block(one: ConvolutionFrame, kind: str, window: str) -> list[str]:
    """What a block makes, and of what."""
    tiling = one.tiling
    waits = "What these need of input and weights waits in shared memory,"
    channels = f"CHANNELS_HERE = {tiling.channels};"
    last = "// PIECE channels of the input at a time: it comes from memory once a block, not once a result."
    if one.down is None:
        return [
            f"// A {kind} with windows of {window}, done directly. A block makes WIDE places of a",
            f"// line, for CHANNELS_HERE channels. {waits}",
            last,
            f"constexpr int WIDE = {tiling.wide}, {channels}",
        ]
    return [
        f"// A {kind} with windows of {window}, done directly. A block makes TALL x WIDE places of a",
        f"// plane, for CHANNELS_HERE channels. {waits}",
        last,
        f"constexpr int TALL = {tiling.tall}, WIDE = {tiling.wide}, {channels}",
    ]


def _of_thread(one: ConvolutionFrame) -> list[str]:
    """What a thread has of it."""
    if one.down is None:
        steps = f"{LANES} steps" if one.several else str(LANES)
        return [
            f"// A thread has ALONG places, {steps} from one to the next, of EACH channels: neighbouring",
            "// threads have neighbouring places. An element that it reads goes into EACH sums, a weight",
            "// into as many as the thread has places.",
        ]
    return [
        "// A thread has BELOW places one below the other, of EACH channels: an element that it reads",
        "// goes into EACH sums, a weight into as many as the thread has places.",
    ]


def _free_of_banks(free: int) -> list[str]:
    """Why rows lie further apart than they are long."""
    if not free:
        return []
    return [
        f"// {free} more between rows: a warp's lanes are in several rows, and those that are in one bank of",
        "// shared memory wait for one another.",
    ]


def _place(one: ConvolutionFrame) -> list[str]:
    """Which tile the block has, and the thread's first place in it."""
    tiling, made = one.tiling, one.made
    lanes, groups = tiling.across, tiling.channels // tiling.each
    counts = [("first_col", "TILES_ACROSS", one.size(one.right.made), "WIDE")]
    counts += [("first_row", "TILES_DOWN", one.size(one.down.made), "TALL")] if one.down else []
    channels = ("first_channel", "TILES_OF_CHANNELS", one.size(made.made), "CHANNELS_HERE")
    lines = ["int block_at = blockIdx.x;"]
    for name, tiles, size, edge in counts:
        lines += _counted(name, tiles, size, edge)
    if one.deep:
        size = one.size(one.deep.made)
        lines += [f"const int depth = block_at % {size};", f"block_at /= {size};"]
    lines += [] if one.has_all_channels else _counted(*channels)
    if made.groups.is_one:
        lines.append("const int image = block_at;")
    else:
        lines.append(f"const int group = block_at % {one.size(made.groups)};")
        lines.append(f"const int image = block_at / {one.size(made.groups)};")
    strip = "warp" if groups == 1 else f"warp / {groups}"
    if lanes < LANES:
        strip = f"({strip} * {LANES // lanes} + lane / {lanes})"
    places = [
        f"const int place = lane{'' if lanes == LANES else f' % {lanes}'};",
        f"const int line = {strip} * BELOW;",
    ]
    if one.down is None:
        places = [f"const int place = {'' if one.same_places else f'{strip} * ALONG * {LANES} + '}lane;"]
    return [
        *lines,
        f"const int lane = threadIdx.x % {LANES}, warp = threadIdx.x / {LANES};",
        "// All lanes of a warp have the same channels: they read the same weights, in one request.",
        f"const int own_channels = {'0' if groups == 1 else f'warp % {groups} * EACH'};",
        *places,
    ]


def _counted(name: str, tiles: str, size: str, edge: str) -> list[str]:
    """The first of a tile's places along an axis."""
    return [
        f"constexpr int {tiles} = ({size} + {edge} - 1) / {edge};",
        f"const int {name} = block_at % {tiles} * {edge};",
        f"block_at /= {tiles};",
    ]


def _corner(one: ConvolutionFrame) -> list[str]:
    """The first element that the tile sees."""
    transposed = one.made.transposed
    lines = ["// The first element of the input that the tile is made of; zeros lie around the input."]
    for word, side in (("row", one.down), ("col", one.right)):
        if side is None:
            continue
        first, stride = f"first_{word}", side.stride
        if transposed:
            code = first if stride == 1 else f"{first} / {stride}"
            code = shifted(code, first_met(side))
        else:
            code = shifted(first if stride == 1 else f"{first} * {stride}", -side.padding)
        lines.append(f"const int seen_{word} = {code};")
    if one.deep is None:
        return lines
    stride, padded = one.deep.stride, shifted("depth", one.deep.padding)
    if not transposed:
        scaled = "depth" if stride == 1 else f"depth * {stride}"
        return [*lines, f"const int seen_depth = {shifted(scaled, -one.deep.padding)};"]
    if stride == 1:
        return [*lines, f"const int seen_depth = {padded};"]
    return [*lines, *_planes_met(one.deep, f"({padded})" if " " in padded else padded)]


def _planes_met(side: Side, padded: str) -> list[str]:
    """Of the weights along the depth, the first that meets the block's plane, and how many more there are."""
    step, common = apart(side), math.gcd(side.stride, side.dilation)
    met = f"({side.taps + step - 1} - rest) / {step}"
    lines = ["// Of the weights along the depth, every so many: those that put an element on the plane."]
    if side.dilation == 1:
        return [
            *lines,
            f"const int rest = {padded} % {step};",
            f"const int seen_depth = {padded} / {step};",
            f"const int met = {met};",
        ]
    turned = pow(side.dilation // common, -1, step) if step > 1 else 0
    scaled = f"{padded} / {common}" if common > 1 else padded
    first = "0" if step == 1 else f"{scaled}{f' * {turned}' if turned > 1 else ''} % {step}"
    return [
        *lines,
        f"const int rest = {first};",
        f"const int seen_depth = ({padded} - rest * {side.dilation}) / {side.stride};",
        f"const int met = {f'{padded} % {common} ? 0 : ' if common > 1 else ''}{met};",
    ]


# ------------------------------------------------------------------------------------ results


def _started(one: ConvolutionFrame) -> list[str]:
    return [f"float sums[{one.places}]{'[BESIDE]' if one.several else ''}[EACH] = {{}};"]


def _written(one: ConvolutionFrame) -> list[str]:
    """What is made of each result, from registers."""
    made = one.made
    channel = f"{one.own}own_channels + e"
    tests = [f"{channel} < {one.size(made.made)}"] if one.has_more_channels else []
    tests += [f"row < {one.size(one.down.made)}"] if one.down else []
    tests += [f"col < {one.size(one.right.made)}"]
    inner = one.results.stored("result" if one.several else "sums[b][e]")
    row = ["const int row = first_row + line + b;"] if one.down else []
    stored = block(f"if ({' && '.join(tests)})", inner)
    if one.several:
        lines = [*row, *_turned(one, stored)]
    else:
        along = "place" if one.down else f"place + b * {LANES}"
        lines = [*row, f"const int col = first_col + {along};", *stored]
    lines = [
        f"const int channel = {one.of_group(made.made)}{channel};",
        "#pragma unroll",
        *block(f"for (int b = 0; b < {one.places}; ++b)", lines),
    ]
    found = ["#pragma unroll", *block("for (int e = 0; e < EACH; ++e)", lines)]
    if not one.several:
        return found
    return [
        "// What a thread has side by side goes through shared memory: neighbours store neighbouring places.",
        f"__shared__ float turned[THREADS / {LANES}][{LANES} * BESIDE];",
        *found,
    ]


def _turned(one: ConvolutionFrame, stored: list[str]) -> list[str]:
    """A warp's results of a row, turned about so that each of its stores is of neighbours."""
    lanes = one.tiling.across
    if one.down is None:
        at = f"s * {LANES} + lane"
        first = f"b * {LANES}" if one.same_places else f"(place - lane + b * {LANES})"
        col = f"{first} * BESIDE + {at}"
    elif lanes == LANES:
        at = col = f"s * {LANES} + lane"
    else:
        at, col = f"lane / {lanes} * {lanes} * BESIDE + s * {lanes} + place", f"s * {lanes} + place"
    beside = "for (int s = 0; s < BESIDE; ++s)"
    given = [f"const float result = turned[warp][{at}];", f"const int col = first_col + {col};", *stored]
    return [
        "#pragma unroll",
        *block(beside, ["turned[warp][lane * BESIDE + s] = sums[b][s][e];"]),
        "__syncwarp();",
        "#pragma unroll",
        *block(beside, given),
        "__syncwarp();",
    ]
