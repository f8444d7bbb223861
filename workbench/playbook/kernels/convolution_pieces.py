"""A piece of a convolution's input: a few channels are waited for in shared memory, and taken in from there.

Owns the text of that; convolution_brought.py brings them, convolution_kernel.py has what stands around it.
"""

from __future__ import annotations

from workbench.playbook.ir.program import Side
from workbench.playbook.kernels.convolution_brought import brought, places_brought
from workbench.playbook.kernels.convolution_frame import ConvolutionFrame
from workbench.playbook.kernels.convolution_tiling import LANES, first_met, layers
from workbench.playbook.kernels.kernel_text import block

TOGETHER = 4
"""Weights that a thread reads with one request: 16 bytes."""


def pieces_text(one: ConvolutionFrame) -> list[str]:
    """A few channels of the input at a time: brought in, waited for, and taken in."""
    reads = one.size(one.made.read)
    if not one.comes_ahead:
        body = [*brought(one), "__pipeline_wait_prior(0);", "__syncthreads();", *_taken_in(one)]
        if not one.in_one_piece:
            body = block(f"for (int first = 0; first < {reads}; first += PIECE)", [*body, "__syncthreads();"])
        return [*places_brought(one), *body]
    ahead = [
        f"if (first + PIECE < {reads}) {{",
        "    bring(buffer ^ 1, first + PIECE);",
        "    __pipeline_wait_prior(1);  // of what was asked for, the last may be missing",
        "} else {",
        "    __pipeline_wait_prior(0);",
        "}",
    ]
    loop = f"for (int first = 0, buffer = 0; first < {reads}; first += PIECE, buffer ^= 1)"
    bring = block("const auto bring = [&](int buffer, int first)", brought(one))
    return [
        *places_brought(one),
        *bring[:-1],
        "};",
        "bring(0, 0);",
        "// While a piece is taken in, the next one is on its way.",
        *block(loop, [*ahead, "__syncthreads();", *_taken_in(one), "__syncthreads();"]),
    ]


def shifted(code: str, by: int) -> str:
    """The sum with a number."""
    return code if by == 0 else f"{code} {'+' if by > 0 else '-'} {abs(by)}"


# ------------------------------------------------------------------------------------ taken in


def _taken_in(one: ConvolutionFrame) -> list[str]:
    """Every product of the piece, added to the sum that it belongs to."""
    made = one.made
    place = f"taps{one.held}[c]{one.in_layer('down', 'across')}[own_channels + q * {TOGETHER}]"
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
    lines = [f"const float value = seen{one.held}[c]{one.in_layer(down, across)};", "#pragma unroll"]
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
