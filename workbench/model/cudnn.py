"""How much of a card's arithmetic cuDNN makes use of, from a convolution's sizes alone.

Fitted to convolutions timed on an H100, in IEEE float32 and in 16 bits: docs/notes/2026-11-25-convolutions.md
and 2026-11-27-each-layer-in-its-own-way.md. Not a law: the library chooses among its ways by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
_OF_FEW_ONE_TAP = 75.0
"""Operations that each byte takes as long as, of one tap and fewer than 16 channels: 128 planes of 256 x 256
take 415 us with 3 channels to 6 and 2711 with 6 to 64, 0.73 and 0.87 TB/s (KernelBench, level3/17)."""
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


@dataclass(frozen=True)
class ConvolvedSide:
    """One spatial dimension."""

    read: int
    """Elements of the input along it."""
    made: int
    """Results."""
    taps: int
    stride: int = 1
    dilation: int = 1


@dataclass(frozen=True)
class Convolved:
    """A convolution's sizes."""

    batch: int
    groups: int
    reads: int
    """Channels that a group reads."""
    makes: int
    """Channels that a group makes."""
    sides: tuple[ConvolvedSide, ...]
    transposed: bool = False
    element_bytes: int = 4
    """Of input, weights and results."""

    @property
    def multiply_adds(self) -> float:
        """Of all results, as the sum is written, padding among it."""
        window = math.prod(side.taps / (side.stride if self.transposed else 1) for side in self.sides)
        return self.results * self.reads * window

    @property
    def results(self) -> int:
        return self.batch * self.groups * self.makes * math.prod(side.made for side in self.sides)

    @property
    def elements(self) -> int:
        """Of the input."""
        return self.batch * self.groups * self.reads * math.prod(side.read for side in self.sides)

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.reads == 1

    @property
    def is_grouped(self) -> bool:
        """In groups of more than one channel."""
        return self.groups > 1 and self.reads > 1


def cudnn_operations(made: Convolved) -> float:
    """Operations of float32 that take as long as cuDNN does, at the card's peak."""
    direct = 2.0 * made.multiply_adds
    if not direct:
        return 0.0
    if made.element_bytes == 4:
        few = made.groups == 1 and made.reads < _SOME // 2 and all(side.taps == 1 for side in made.sides)
        moved = 4.0 * (made.elements + made.results) if few else 0.0
        return max(direct / _share(made), _OF_FEW_ONE_TAP * moved)
    channels = math.sqrt(made.reads * made.makes) if made.transposed else made.reads
    rate = min(_MOST_TFLOPS, max(_LEAST_TFLOPS, _TFLOPS_A_CHANNEL * channels))
    if made.is_depthwise:
        rate = _OF_DEPTHWISE * _FP32_TFLOPS
    elif made.is_grouped and all(side.taps == 1 for side in made.sides):
        rate = _OF_GROUPS_16 if len(made.sides) > 1 else _OF_GROUPS_LINE_16
    if len(made.sides) > 2:
        rate *= _OF_VOLUMES if made.reads > _EIGHT else _OF_FEW_VOLUMES
    again = 0.0
    if any(side.taps > 1 for side in made.sides):
        again = _TO_OTHER_LAYOUT * made.element_bytes * (made.elements + made.results)
    return direct * _FP32_TFLOPS / rate + _OPERATIONS_A_BYTE * again


def _share(made: Convolved) -> float:
    """Part of the card's float32 arithmetic that cuDNN draws, counted as the sum is written."""
    share = _share_of_many(made)
    places = made.batch * math.prod(side.made for side in made.sides)
    channels, across = _TILE
    tiles = math.ceil(places / across) * math.ceil(made.makes / channels) * made.groups
    rounds = math.ceil(tiles / _AT_ONCE)
    return share if rounds > _FEW_ROUNDS else min(share, _OF_MORE) * tiles / (rounds * _AT_ONCE)


def _share_of_many(made: Convolved) -> float:
    """The same where there are tiles enough for all multiprocessors, round after round."""
    plane = len(made.sides) == 2
    whole = all((side.stride, side.dilation) == (1, 1) for side in made.sides)
    if made.transposed and not (whole and plane):
        apart = (_TRANSPOSED_LINE, _TRANSPOSED, _TRANSPOSED_DEEP)[len(made.sides) - 1]
        return _TRANSPOSED_WHOLE if whole else apart
    window, fewest = min(side.taps for side in made.sides), min(made.reads, made.makes)
    if whole and plane and window >= 5 and fewest >= _SOME:
        return _TURNED_BY_FFT if made.transposed else _BY_FFT
    if made.transposed:
        return _turned_share(made)
    if made.is_depthwise:
        return _OF_DEPTHWISE
    if made.is_grouped:
        several = any(side.taps > 1 for side in made.sides)
        return _OF_GROUPS if several else _OF_GROUPS_ONE_TAP if len(made.sides) > 1 else _OF_GROUPS_LINE
    if whole and plane and window == 3 and fewest >= _MANY and made.batch >= _IMAGES:
        return _BY_WINOGRAD
    if made.reads < _FEW:
        return _OF_FEW if sum(side.taps > 1 for side in made.sides) < 3 else _OF_FEW_DEEP
    if all(side.taps == 1 for side in made.sides):
        return _OF_ONE_TAP
    return min(_OF_MORE, _OF_EIGHT + _MORE_BY_TWICE * math.log2(max(made.reads, _EIGHT) / _EIGHT))


def _turned_share(made: Convolved) -> float:
    """The same of a plane's transposed convolution whose step is one."""
    wide = max(side.taps for side in made.sides) > 3
    if math.prod(side.made for side in made.sides) <= _LARGE:
        if min(made.reads, made.makes) < _FROM_WINOGRAD:
            return _OF_MORE
        return _TURNED_MANY_WIDE if wide else _TURNED_MANY
    if wide:
        return _TURNED_WIDE
    return _TURNED_SOME if max(made.reads, made.makes) <= _SOME else _TURNED_MORE
