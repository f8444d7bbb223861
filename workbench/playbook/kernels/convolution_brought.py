"""How a piece of a convolution's input and its weights come into shared memory: asked for, not waited for.

Owns the text of that. Where a thread's elements lie is the same for every channel, so it is found once. On an
H100 a transposed convolution of 32 channels takes 1992 us so, and 2498 where threads load and then store
(docs/notes/2026-11-26-convolutions-in-flight.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.playbook.ir.program import Side
from workbench.playbook.ir.sizes import product
from workbench.playbook.kernels.convolution_frame import ConvolutionFrame
from workbench.playbook.kernels.convolution_tiling import PADDING, apart, layers, left_free, seen
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.text.scope import statement

_MOST_KEPT = 8
"""Places that a thread keeps; where it would be more, they are found again for each channel."""


@dataclass(frozen=True)
class _Copied:
    """What a block copies of each channel, ``at`` by ``at``."""

    array: str
    """In shared memory."""
    what: str
    count: str
    """What the kernel calls the number of them."""
    of: str
    """That number as a product."""
    steps: int
    """Of a thread."""
    finding: list[str]
    """Statements that find where one lies."""
    offset: str
    """Of the channel's first in memory."""
    inside: str
    """When there is one; empty where always."""
    to: str
    """Its place in the array."""

    @property
    def is_kept(self) -> bool:
        return self.steps <= _MOST_KEPT

    @property
    def source(self) -> str:
        """The offset, -1 where there is nothing."""
        return f"{self.inside} ? {self.offset} : -1" if self.inside else self.offset

    @property
    def loop(self) -> str:
        return f"for (int s = 0; s < ({self.count} + THREADS - 1) / THREADS; ++s)"


def places_brought(one: ConvolutionFrame) -> list[str]:
    """What a thread finds out before the first channel."""
    lines = list[str]()
    for copied in (_elements(one), _weights(one)):
        lines.append(f"constexpr int {copied.count} = {copied.of};")
        lines += _found_once(copied) if copied.is_kept else []
    return lines


def brought(one: ConvolutionFrame) -> list[str]:
    """All channels of a piece, on their way."""
    made, elements, weights = one.made, _elements(one), _weights(one)
    of_planes = one.size(product(side.read for side in made.sides))
    plane = "size_t(image)"
    if not (made.groups * made.read).is_one:
        plane = f"({plane} * {one.size(made.groups * made.read)} + {one.of_group(made.read)}{one.read})"
    body = [
        f"const float* plane = {one.source} + {plane} * {of_planes};",
        *_copies(one, elements, "plane"),
        f"const float* window = {one.weight} + {_first_window(one)};",
        *_copies(one, weights, "window"),
    ]
    if one.may_end:
        body = block(f"if ({one.read} < {one.size(made.read)})", body)
    return ["#pragma unroll", *block("for (int c = 0; c < PIECE; ++c)", body), "__pipeline_commit();"]


def _first_window(one: ConvolutionFrame) -> str:
    """Where the weights of a channel of the input begin, for the block's first channel."""
    made, taps = one.made, math.prod(side.taps for side in one.made.sides)
    if made.transposed:
        channel = f"({one.of_group(made.read)}{one.read}) * {one.size(made.made)}"
        return f"{channel} * {taps}" if one.has_all_channels else f"({channel} + first_channel) * {taps}"
    first = f"{one.of_group(made.made)}{one.own}".removesuffix(" + ")
    first = f"({first})" if " " in first else first
    first = f"{first} * {one.size(made.read)} + " if first else ""
    return f"({first}{one.read}) * {taps}"


def _found_once(copied: _Copied) -> list[str]:
    kept = [(f"{copied.array}_from", copied.source), (f"{copied.array}_to", copied.to)]
    kept = [(name, value) for name, value in kept if value != "at"]
    if not kept:
        return []
    none = ", -1 where there is none" if copied.inside else ""
    lines = [
        "const int at = s * THREADS + threadIdx.x;",
        *copied.finding,
        *(f"{name}[s] = {value};" for name, value in kept),
    ]
    each = f"[({copied.count} + THREADS - 1) / THREADS]"
    return [
        f"// Where the {copied.what} lie that the thread brings in of each channel{none}.",
        f"int {', '.join(f'{name}{each}' for name, _ in kept)};",
        "#pragma unroll",
        *block(copied.loop, lines),
    ]


def _copies(one: ConvolutionFrame, copied: _Copied, pointer: str) -> list[str]:
    start = f"&{copied.array}{one.held}[c]{one.in_layer('0', '0', deep='0')}"
    start += "[0]" if copied.array == "taps" else ""
    if not copied.is_kept:
        fetched = f"fetch_or_zero({start} + {copied.to}, {pointer}, {copied.source});"
        loop = f"for (int at = threadIdx.x; at < {copied.count}; at += THREADS)"
        return block(loop, [*copied.finding, *statement(fetched)])
    source = "at" if copied.source == "at" else f"{copied.array}_from[s]"
    to = "at" if copied.to == "at" else f"{copied.array}_to[s]"
    copy = [f"fetch_or_zero({start} + {to}, {pointer}, {source});"]
    lines = ["const int at = s * THREADS + threadIdx.x;", *block(f"if (at < {copied.count})", copy)]
    return ["#pragma unroll", *block(copied.loop, lines)]


def _elements(one: ConvolutionFrame) -> _Copied:
    """The elements of a channel that the tile is made of: zero where there are none."""
    made, tiling, wide = one.made, one.tiling, one.size(one.right.read)
    row = seen(made, one.right, tiling.wide) + left_free(made, tiling)
    count, number = "SEEN_ACROSS", row
    tests, offset = list[str](), "from_col"
    finding = ["const int from_col = seen_col + at % SEEN_ACROSS;"]
    if one.down is None:
        finding = ["const int from_col = seen_col + at;"]
    else:
        count, number = f"SEEN_DOWN * {count}", number * seen(made, one.down, tiling.tall)
        rows = "at / SEEN_ACROSS" + (" % SEEN_DOWN" if one.deep else "")
        finding.append(f"const int from_row = seen_row + {rows};")
        tests.append(f"unsigned(from_row) < {one.size(one.down.read)}")
        offset = f"from_row * {wide} + from_col"
    if one.deep is not None and one.down is not None:
        step = one.deep.dilation // (math.gcd(one.deep.dilation, one.deep.stride) if made.transposed else 1)
        layer = "at / (SEEN_DOWN * SEEN_ACROSS)"
        layer = layer if step == 1 else f"{layer} * {step}"
        finding.append(f"const int from_depth = seen_depth {'-' if made.transposed else '+'} {layer};")
        tests.append(f"unsigned(from_depth) < {one.size(one.deep.read)}")
        offset = f"(from_depth * {one.size(one.down.read)} + from_row) * {wide} + from_col"
        count, number = f"{layers(made)} * {count}", number * layers(made)
    tests.append(f"unsigned(from_col) < {wide}")
    finding += [f"const bool inside = {tests[0]}", *(f"    && {test}" for test in tests[1:])]
    finding[-1] += ";"
    steps = -(-number // tiling.threads)
    return _Copied("seen", "elements", "SEEN", count, steps, finding, offset, "inside", "at")


def _weights(one: ConvolutionFrame) -> _Copied:
    """The weights of a channel, those of the block's channels side by side.

    Threads go along the weights as they lie in memory: window after window.
    """
    made, tiling = one.made, one.tiling
    plane = math.prod(side.taps for side in made.sides[-2:])
    window, whole = plane * layers(made), math.prod(side.taps for side in made.sides)
    tests = [f"{one.own}at / {window} < {one.size(made.made)}"] if one.has_more_channels else []
    tap, finding = f"at % {window}" if window > 1 else "", list[str]()
    if one.some_planes and one.deep is not None:
        finding = [f"const int z = at / {plane} % {layers(made)};"]
        tap = f"({_plane_of(one.deep)}) * {plane}{f' + at % {plane}' if plane > 1 else ''}"
        tests.append("z < met")
    apart_by = str(whole) if made.transposed else f"({one.size(made.read)} * {whole})"
    offset = f"at / {window} * {apart_by}{f' + {tap}' if tap else ''}"
    if made.transposed and not one.some_planes:
        offset = "at"  # they lie as they are wanted
    to = f"at % {window} * (CHANNELS_HERE + {PADDING}) + at / {window}" if window > 1 else "at"
    of = f"{window} * CHANNELS_HERE" if window > 1 else "CHANNELS_HERE"
    steps = -(-window * tiling.channels // tiling.threads)
    return _Copied("taps", "weights", "TAPS", of, steps, finding, offset, " && ".join(tests), to)


def _plane_of(side: Side) -> str:
    """Which weight along the depth, of those that meet the block's places."""
    return "z" if (step := apart(side)) == 1 else f"rest + z * {step}"
