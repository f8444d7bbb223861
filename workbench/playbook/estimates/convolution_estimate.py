"""The model of time for convolutions: those that a kernel makes, and the library's.

Owns what a block asks for, and how much of a card's arithmetic cuDNN makes use of. Both were fitted to
convolutions timed on an H100 in IEEE float32 (docs/notes/2026-11-25-convolutions.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.convolution_tiling import (
    Tiling,
    lanes_a_bank,
    layers,
    left_free,
    met,
    seen,
    shared_bytes,
    tiling_of,
)
from workbench.playbook.schedules.residency import resident

_LANES = 32
_OF_A_WEIGHT = 1.0
"""Clocks of shared memory for each float that a lane reads, however many lanes read the same: it is the way
to the registers that is narrow."""
_BROUGHT = 8.0
"""Instructions to bring an element or a weight in, whose place is known (counted)."""
_UNEVEN = 1.45
"""Clocks over instructions, where warps wait for registers and for shared memory."""
_USUAL, _OF_LARGE = 128, 0.17
"""Of nine convolutions on an H100, blocks of 256 threads took 1.05 to 1.24 times as long as blocks of 128 in
seven."""
_ALONE = 1.6
_HELD = 40.0
"""Registers of a thread beside its sums: weights, elements and places."""
_BARRIERS_NS = 50.0
_NARROW_US, _FOUR = 3.9e-6, 4
"""More that a result takes where a warp stores to lines of four places: 661 million in planes 10 wide
(level1/59 of KernelBench) took 4354 us of which 1744 were expected."""

_FEW, _EIGHT, _SOME, _MANY = 4, 8, 32, 128
"""Channels that a convolution reads."""
_OF_FEW, _OF_FEW_DEEP, _OF_EIGHT, _MORE_BY_TWICE, _OF_MORE = 0.185, 0.13, 0.43, 0.11, 0.6
"""Of 3 channels: 64 windows of 3 x 3 x 1 take 2721 us (0.195), of 3 x 3 x 3 0.16, of 4 x 4 x 4 0.10. Of 8:
0.42 to 0.45; of 16, 128 windows of 3 x 3: 0.54; of 64: 0.56 to 0.63."""
_BY_WINOGRAD, _BY_FFT, _TURNED_BY_FFT = 1.45, 1.0, 2.4
"""The last of 512 transposed planes, 64 channels to 128 with 5 x 5: what is left of 2931 us without the
kernel behind, 1283 by the model (KernelBench, level2/11)."""
_IMAGES = 32
"""From which cuDNN takes Winograd's way: with 256 channels and 3 x 3, 64 images of 28 x 28 draw 1.48, 8 of
64 x 64 draw 0.44."""
_OF_ONE_TAP = 0.48
"""64 channels to 128, windows of 1 x 1, take 9735 us (KernelBench, level1/87)."""
_OF_GROUPS, _OF_GROUPS_ONE_TAP, _OF_GROUPS_LINE = 0.15, 0.23, 0.01
"""In groups of more than one channel: 3 x 3 windows draw 0.35 (4 groups of 32), 0.06 (2 of 32), 0.18 (8 of
16), 0.14 (32 of 16); one tap 0.23 (3 groups of 80, planes) and 0.01 (3 or 12 groups of 49, lines of 32:
640 x 147 x 32 take 490 us). From receipt 2026-11-27-h100-groups.json."""
_TRANSPOSED_LINE, _TRANSPOSED, _TRANSPOSED_DEEP, _TRANSPOSED_WHOLE = 0.13, 0.16, 0.09, 0.24
_TURNED_MANY, _TURNED_MANY_WIDE, _TURNED_SOME, _TURNED_MORE, _TURNED_WIDE = 1.2, 1.8, 0.14, 0.33, 0.65
_LARGE, _FROM_WINOGRAD = 200_000, 64
"""Transposed, with a step of one, of planes: 64 channels to 64 with 3 x 3 draw 1.18 of 258 x 258 places and
0.33 of 1026 x 1026, with 3 x 7 0.65 of 514 x 518, with 3 x 5 1.8 of 128 x 256, 32 channels 0.14 of 514 x 1026
(KernelBench, level2/19, level1/57, 65, 69, 71)."""

_TILE, _AT_ONCE, _FEW_ROUNDS = (64, 128), 132, 3
"""Channels and places, as if each multiprocessor made such a tile at a time: 16 planes draw 0.43 with 128
channels to 128 of 28 x 28 places and 3 x 3, 0.38 with 256 of 14 x 14, 0.32 with 1024 to 256 of these, 1 x 1,
0.29 with 512 of 7 x 7."""


_TFLOPS_A_CHANNEL, _LEAST_TFLOPS, _MOST_TFLOPS, _FP32_TFLOPS = 3.6, 20.0, 530.0, 60.0
"""Of 16-bit numbers, by channels that are read (transposed, by the mean of these and those made): bfloat16
planes draw 17 to 23 TFLOPS of 3 to 8 channels, 86 of 16, 200 to 260 of 64, 410 of 128, 533 of 256 with 3 x 3,
when what the two layouts and the kernel behind move is taken off (convolution_kernels.py)."""
_OF_DEPTHWISE = 0.027
"""In groups of one channel: 10 x 32 x 112 x 112 take 38 us with 3 x 3, 10 x 256 x 28 x 28 take 20 (level3/19
of KernelBench). Of 16-bit numbers as many operations are expected, which is a guess."""
_OF_GROUPS_16, _OF_GROUPS_LINE_16 = 13.0, 4.0
"""TFLOPS of one tap in groups of more than one channel: 3 groups of 80 of planes, 3 or 12 of 49 of lines."""
_OF_VOLUMES, _OF_FEW_VOLUMES = 1.2, 0.35
"""Of these, in three dimensions: 16 channels to 32 draw 68, 64 to 128 transposed 400; and 3 to 16 draw 6."""
_TO_OTHER_LAYOUT, _OPERATIONS_A_BYTE = 2.0, 20.0
"""Times that input and results move again, as channels have to lie side by side; and operations of float32
that a byte takes as long as."""


def library_operations(made: Convolution, sizes: Mapping[str, int]) -> float:
    """Operations of float32 that take as long as cuDNN does."""
    direct = 2.0 * multiply_adds_of(made, sizes)
    if made.dtype == "f32":
        return direct / library_share(made, sizes)
    reads = made.read.at(sizes)
    channels = math.sqrt(reads * made.made.at(sizes)) if made.transposed else reads
    rate = min(_MOST_TFLOPS, max(_LEAST_TFLOPS, _TFLOPS_A_CHANNEL * channels))
    if _is_depthwise(made, sizes):
        rate = _OF_DEPTHWISE * _FP32_TFLOPS
    elif _is_grouped(made, sizes) and all(side.taps == 1 for side in made.sides):
        rate = _OF_GROUPS_16 if made.down else _OF_GROUPS_LINE_16
    if made.deep is not None:
        rate *= _OF_VOLUMES if reads > _EIGHT else _OF_FEW_VOLUMES
    results = math.prod(size.at(sizes) for size in made.shape)
    given = made.batch.at(sizes) * (made.groups * made.read).at(sizes)
    given *= math.prod(side.read.at(sizes) for side in made.sides)
    again = 0.0
    if any(side.taps > 1 for side in made.sides):
        again = _TO_OTHER_LAYOUT * DTYPE_BYTES[made.dtype] * (given + results)
    return direct * _FP32_TFLOPS / rate + _OPERATIONS_A_BYTE * again


def multiply_adds_of(made: Convolution, sizes: Mapping[str, int]) -> float:
    """Of all results, as the sum is written, padding among it."""
    results = math.prod(size.at(sizes) for size in made.shape)
    window = math.prod(side.taps / (side.stride if made.transposed else 1) for side in made.sides)
    return results * made.read.at(sizes) * window


def library_share(made: Convolution, sizes: Mapping[str, int]) -> float:
    """Part of the card's float32 arithmetic that cuDNN draws, counted as the sum is written."""
    share = _share_of_many(made, sizes)
    places = made.batch.at(sizes) * math.prod(side.made.at(sizes) for side in made.sides)
    channels, across = _TILE
    tiles = math.ceil(places / across) * math.ceil(made.made.at(sizes) / channels) * made.groups.at(sizes)
    rounds = math.ceil(tiles / _AT_ONCE)
    return share if rounds > _FEW_ROUNDS else min(share, _OF_MORE) * tiles / (rounds * _AT_ONCE)


def _share_of_many(made: Convolution, sizes: Mapping[str, int]) -> float:
    """The same where there are tiles enough for all multiprocessors, round after round."""
    reads, makes = made.read.at(sizes), made.made.at(sizes)
    plane = len(made.sides) == 2
    whole = all((side.stride, side.dilation) == (1, 1) for side in made.sides)
    if made.transposed and not (whole and plane):
        apart = (_TRANSPOSED_LINE, _TRANSPOSED, _TRANSPOSED_DEEP)[len(made.sides) - 1]
        return _TRANSPOSED_WHOLE if whole else apart
    window = min(side.taps for side in made.sides)
    if whole and plane and window >= 5 and min(reads, makes) >= _SOME:
        return _TURNED_BY_FFT if made.transposed else _BY_FFT
    if made.transposed:
        return _turned_share(made, sizes)
    if _is_depthwise(made, sizes):
        return _OF_DEPTHWISE
    if _is_grouped(made, sizes):
        several = any(side.taps > 1 for side in made.sides)
        return _OF_GROUPS if several else _OF_GROUPS_ONE_TAP if made.down else _OF_GROUPS_LINE
    if whole and plane and window == 3 and min(reads, makes) >= _MANY and made.batch.at(sizes) >= _IMAGES:
        return _BY_WINOGRAD
    if reads < _FEW:
        return _OF_FEW if sum(side.taps > 1 for side in made.sides) < 3 else _OF_FEW_DEEP
    if all(side.taps == 1 for side in made.sides):
        return _OF_ONE_TAP
    return min(_OF_MORE, _OF_EIGHT + _MORE_BY_TWICE * math.log2(max(reads, _EIGHT) / _EIGHT))


def _is_depthwise(made: Convolution, sizes: Mapping[str, int]) -> bool:
    return made.groups.at(sizes) > 1 and made.read.at(sizes) == 1


def _is_grouped(made: Convolution, sizes: Mapping[str, int]) -> bool:
    return made.groups.at(sizes) > 1 and made.read.at(sizes) > 1


def _turned_share(made: Convolution, sizes: Mapping[str, int]) -> float:
    """The same of a plane's transposed convolution whose step is one."""
    reads, makes = made.read.at(sizes), made.made.at(sizes)
    wide = max(side.taps for side in made.sides) > 3
    if math.prod(side.made.at(sizes) for side in made.sides) <= _LARGE:
        if min(reads, makes) < _FROM_WINOGRAD:
            return _OF_MORE
        return _TURNED_MANY_WIDE if wide else _TURNED_MANY
    if wide:
        return _TURNED_WIDE
    return _TURNED_SOME if max(reads, makes) <= _SOME else _TURNED_MORE


def convolution_time(asked: Asked, made: Convolution) -> Estimate:
    """Time of all tiles of the kernel."""
    tiling = tiling_of(made, asked.schedule, asked.declared)
    assert tiling is not None
    down, right = made.down, made.right
    tiles = math.ceil(asked.at(right.made) / tiling.wide)
    tiles *= math.ceil(asked.at(down.made) / tiling.tall) if down else 1
    tiles *= asked.at(made.deep.made) if made.deep else 1
    parts = math.ceil(asked.at(made.made) / tiling.channels) * asked.at(made.groups)
    blocks = tiles * parts * asked.at(made.batch)
    reads = asked.at(made.read)
    pieces = math.ceil(reads / tiling.piece)
    deep = layers(made)
    elements = reads * deep * seen(made, right, tiling.wide) * (seen(made, down, tiling.tall) if down else 1)
    taps = right.taps * (down.taps if down else 1)
    weights = reads * deep * taps * tiling.channels
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    fresh = asked.bytes_of(made.source) + asked.bytes_of(made.weight) + asked.read_once(loads)
    near = max(0.0, 4.0 * (elements + weights) * blocks - fresh)
    apart = right.stride * (down.stride if down else 1) if made.transposed else 1
    fused = reads * deep * taps * tiling.each * tiling.below * tiling.beside / apart
    read = _read(made, tiling) * reads * deep
    tail = _tail(asked, made) * tiling.each * tiling.below * tiling.beside
    each = fused + read / 4 + tail
    brought = Walk(
        fresh_bytes=fresh / blocks,
        near_bytes=near / blocks,
        instructions=_BROUGHT * (elements + weights),
        trips=2.0 if tiling.waiting > 1 else 2.0 * pieces,  # until the first is there; others come meanwhile
        join_ns=pieces * _BARRIERS_NS,
    )
    summed = Walk(
        stored_bytes=asked.stored(made.stores) / blocks,
        instructions=_UNEVEN * _meeting(tiling) * each * tiling.threads,
        lines=_OF_A_WEIGHT * read * tiling.threads / _LANES,
        chain_cycles=_ALONE * each,
    )
    sums = tiling.each * tiling.below * tiling.beside
    shared = float(shared_bytes(made, tiling))
    teams = resident(asked.target, asked.schedule, tiling.threads, _HELD + sums, shared)
    found = launched(asked, Work(blocks, tiling.threads, teams, (brought, summed), 0.0, 0.0))
    results = math.prod(asked.at(size) for size in made.shape) if tiling.wide <= _FOUR else 0.0
    return replace(found, us=found.us + _NARROW_US * results, dram_bytes=fresh + asked.stored(made.stores))


def _meeting(tiling: Tiling) -> float:
    """What larger blocks lose: more warps wait for one another at each barrier."""
    return max(1.0, math.pow(tiling.threads / _USUAL, _OF_LARGE))


def _read(made: Convolution, tiling: Tiling) -> float:
    """Floats that a thread reads from shared memory, of a channel and a plane of the input."""
    down, right = made.down, made.right
    across = met(made, right) + (1 if tiling.beside > 1 else 0)
    if down is None:
        return right.taps * tiling.each + tiling.below * across * lanes_a_bank(made, tiling, 0)
    weights = down.taps * right.taps * tiling.each
    lines = met(made, down) - 1 + tiling.below / (down.stride if made.transposed else 1)
    if not made.transposed:
        lines = min((tiling.below - 1) * down.stride + down.taps, tiling.below * down.taps)
    return weights + lines * across * lanes_a_bank(made, tiling, left_free(made, tiling))


def _tail(asked: Asked, made: Convolution) -> float:
    """Instructions of a result, from its sum to memory."""
    values = [store.value for store in made.stores]
    return instructions_of(values, asked.schedule.fast_math) + 2.0 * A_REQUEST * len(values)
