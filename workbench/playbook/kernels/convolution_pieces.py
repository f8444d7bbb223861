"""A piece of a convolution's input: a few channels are brought into shared memory, and taken in from there.

Owns the text of that; convolution_kernel.py has what stands around it.
"""

from __future__ import annotations

import math

from workbench.playbook.ir.program import Side
from workbench.playbook.kernels.convolution_frame import ConvolutionFrame
from workbench.playbook.kernels.convolution_tiling import LANES, apart, first_met, layers
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.text.scope import statement

TOGETHER = 4
"""Weights that a thread reads with one request: 16 bytes."""


def pieces_text(one: ConvolutionFrame) -> list[str]:
    """A few channels of the input at a time: brought in, waited for, and taken in."""
    body = [*_elements(one), *_weights(one), "__syncthreads();", *_taken_in(one)]
    if one.in_one_piece:
        return body
    loop = f"for (int first = 0; first < {one.size(one.made.read)}; first += PIECE)"
    return block(loop, [*body, "__syncthreads();"])


def shifted(code: str, by: int) -> str:
    """The sum with a number."""
    return code if by == 0 else f"{code} {'+' if by > 0 else '-'} {abs(by)}"


# ------------------------------------------------------------------------------------ brought in


def _elements(one: ConvolutionFrame) -> list[str]:
    """The elements that the tile is made of, channel by channel: zero where there are none."""
    made, plane, tests = one.made, "size_t(image)", list[str]()
    if not (made.groups * made.read).is_one:
        plane += f" * {one.size(made.groups * made.read)} + {one.of_group(made.read)}{one.read}"
    lines = ["const int across = at % SEEN_ACROSS, down = at / SEEN_ACROSS % SEEN_DOWN;"]
    count = "PIECE * SEEN_DOWN * SEEN_ACROSS"
    if one.down is None:
        lines = ["const int across = at % SEEN_ACROSS, c = at / SEEN_ACROSS;"]
        count = "PIECE * SEEN_ACROSS"
    elif one.deep is None:
        lines.append("const int c = at / (SEEN_DOWN * SEEN_ACROSS);")
    else:
        deep, step = layers(made), one.deep.dilation
        step //= math.gcd(step, one.deep.stride) if made.transposed else 1
        along = f"{'-' if made.transposed else '+'} {'z' if step == 1 else f'z * {step}'}"
        count = f"PIECE * {deep} * SEEN_DOWN * SEEN_ACROSS"
        lines += [
            f"const int z = at / (SEEN_DOWN * SEEN_ACROSS) % {deep};",
            f"const int c = at / ({deep} * SEEN_DOWN * SEEN_ACROSS);",
            f"const int from_depth = seen_depth {along};",
        ]
        tests.append(f"unsigned(from_depth) < {one.size(one.deep.read)}")
        plane = f"({plane}) * {one.size(one.deep.read)} + from_depth"
    line = "plane"
    if one.down is None:
        lines.append("const int from_col = seen_col + across;")
    else:
        lines.append("const int from_row = seen_row + down, from_col = seen_col + across;")
        tests.append(f"unsigned(from_row) < {one.size(one.down.read)}")
        line = f"(plane * {one.size(one.down.read)} + from_row)"
    wide = one.size(one.right.read)
    tests.append(f"unsigned(from_col) < {wide}")
    tests += [f"{one.read} < {one.size(made.read)}"] if one.may_end else []
    lines += [
        f"const bool inside = {' && '.join(tests)};",
        f"const size_t plane = {plane};",
        *statement(
            f"seen[c]{one.in_layer('down', 'across')} = "
            f"inside ? {one.source}[{line} * {wide} + from_col] : 0.0f;"
        ),
    ]
    return block(f"for (int at = threadIdx.x; at < {count}; at += THREADS)", lines)


def _weights(one: ConvolutionFrame) -> list[str]:
    """The weights of the piece, those of the block's channels side by side.

    Threads go along the weights as they lie in memory: windows, then what lies one after the other there.
    """
    made, tall, wide = one.made, one.down.taps if one.down else 1, one.right.taps
    window = layers(made) * tall * wide
    lines = [f"const int across = at % {wide}{f', down = at / {wide} % {tall}' if one.down else ''};"]
    lines += [f"const int z = at / {tall * wide} % {layers(made)};"] if one.deep else []
    tests = [f"{one.own}o < {one.size(made.made)}"] if one.has_more_channels else []
    tests += [f"{one.read} < {one.size(made.read)}"] if one.may_end else []
    if made.transposed:
        lines.append(f"const int o = at / {window} % CHANNELS_HERE, c = at / ({window} * CHANNELS_HERE);")
        place = f"({one.of_group(made.read)}{one.read}) * {one.size(made.made)} + {one.own}o"
    else:
        lines.append(f"const int c = at / {window} % PIECE, o = at / ({window} * PIECE);")
        place = f"({one.of_group(made.made)}{one.own}o) * {one.size(made.read)} + {one.read}"
    if one.deep is not None:
        place = f"({place}) * {one.deep.taps} + {'z' if not one.some_planes else _plane_of(one.deep)}"
        tests += ["z < met"] if one.some_planes else []
    line = f"(window * {tall} + down)" if one.down else "window"
    element = f"{one.weight}[{line} * {wide} + across]"
    value = f"{' && '.join(tests)} ? {element} : 0.0f" if tests else element
    lines += [
        f"const int window = {place};",
        *statement(f"taps[c]{one.in_layer('down', 'across')}[o] = {value};"),
    ]
    return block(f"for (int at = threadIdx.x; at < PIECE * {window} * CHANNELS_HERE; at += THREADS)", lines)


# ------------------------------------------------------------------------------------ taken in


def _taken_in(one: ConvolutionFrame) -> list[str]:
    """Every product of the piece, added to the sum that it belongs to."""
    made = one.made
    place = f"taps[c]{one.in_layer('down', 'across')}[own_channels + q * {TOGETHER}]"
    body = [
        f"Pack<float, {TOGETHER}> weights[EACH / {TOGETHER}];",
        "#pragma unroll",
        *block(f"for (int q = 0; q < EACH / {TOGETHER}; ++q)", [f"weights[q] = load<{TOGETHER}>(&{place});"]),
        *_products(one),
    ]
    body = ["#pragma unroll", *block(f"for (int across = 0; across < {one.right.taps}; ++across)", body)]
    if one.down is not None:
        body = ["#pragma unroll", *block(f"for (int down = 0; down < {one.down.taps}; ++down)", body)]
    if one.deep is not None:
        count = "met" if one.some_planes else str(layers(made))
        body = ["#pragma unroll 1", *block(f"for (int z = 0; z < {count}; ++z)", body)]
    there = f"min(PIECE, {one.size(made.read)} - first)" if one.may_end else "PIECE"
    return ["#pragma unroll 1", *block(f"for (int c = 0; c < {there}; ++c)", body)]


def _products(one: ConvolutionFrame) -> list[str]:
    """One weight of each of a thread's channels, with the elements that it meets."""
    tests, down, transposed = list[str](), "", one.made.transposed
    first = "place" if one.down else f"place + b * {LANES}"
    if one.down is not None and transposed:
        line = "line" if one.down.stride == 1 else f"line / {one.down.stride}"
        down, tests = _met_by(one.down, line, "b", "down"), [_meets(one.down, "b", "down")]
    elif one.down is not None:
        down = _slid("line + b", one.down, "down")
    if transposed:
        beside = "s" if one.several else ""
        across = _met_by(one.right, first, beside, "across")
        tests.append(_meets(one.right, beside, "across"))
    else:
        across = _slid(first, one.right, "across")
    weight = f"weights[e / {TOGETHER}].at[e % {TOGETHER}]"
    place = "[s]" if one.several else ""
    lines = [f"const float value = seen[c]{one.in_layer(down, across)};", "#pragma unroll"]
    lines += block("for (int e = 0; e < EACH; ++e)", [f"sums[b]{place}[e] += value * {weight};"])
    if any(tests):
        lines = block(f"if ({' && '.join(test for test in tests if test)})", lines)
    if one.several:
        lines = ["#pragma unroll", *block("for (int s = 0; s < BESIDE; ++s)", lines)]
    return ["#pragma unroll", *block(f"for (int b = 0; b < {one.places}; ++b)", lines)]


def _slid(place: str, side: Side, tap: str) -> str:
    """Where the element lies that a place meets through a weight: in a window that slides."""
    first = place
    if side.stride > 1:
        first = f"({place}) * {side.stride}" if " " in place else f"{place} * {side.stride}"
    return f"{first} + {_spread(side, tap)}"


def _met_by(side: Side, first: str, each: str, tap: str) -> str:
    """The same of a transposed convolution: with each weight some elements before.

    ``first`` counts steps of the input, ``each`` the places of a thread from there on.
    """
    if side.stride == 1:
        place = shifted(f"{first} + {each}" if each else first, (side.taps - 1) * side.dilation)
        return f"{place} - {_spread(side, tap)}"
    return shifted(f"{first} + ({_ahead(side, each, tap)}) / {side.stride}", -first_met(side))


def _meets(side: Side, each: str, tap: str) -> str:
    """When a place meets an element through a weight, and not a gap between two of them."""
    if side.stride == 1:
        return ""
    return f"({_ahead(side, each, tap)}) % {side.stride} == 0"


def _ahead(side: Side, each: str, tap: str) -> str:
    """Places from where a weight puts the step's element to the place."""
    return f"{shifted(each, side.padding)} - {_spread(side, tap)}"


def _spread(side: Side, tap: str) -> str:
    return tap if side.dilation == 1 else f"{tap} * {side.dilation}"


def _plane_of(side: Side) -> str:
    """Which weight along the depth, of those that meet the block's places."""
    return "z" if (step := apart(side)) == 1 else f"rest + z * {step}"
