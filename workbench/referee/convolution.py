"""Multiply-adds of a convolution, ordinary or transposed, from shapes alone: done directly, and at the least.

Directly: one for each pair of a value and a weight that meet. A pair whose value is padding, or whose result
is cut off, is none. At the least: what no algorithm goes below. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.model import Convolved, ConvolvedSide

Shape = tuple[int, ...]
ORDINARY = (1, 0, 1, False)
"""Stride, padding, dilation, not transposed."""


@dataclass(frozen=True)
class Side:
    """One spatial dimension. The kernel moves over ``wide`` in steps, one for each of ``narrow``."""

    narrow: int
    """Results of a convolution, values of a transposed one: where that has results, this has values."""
    wide: int
    taps: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def pairs(self) -> int:
        """Of a tap and a step that lie within ``wide``."""
        return sum(self._steps(tap * self.dilation - self.padding) for tap in range(self.taps))

    def _steps(self, offset: int) -> int:
        """Steps s of all with 0 <= s * stride + offset < wide."""
        first = max(0, -(offset // self.stride))
        last = min(self.narrow - 1, (self.wide - 1 - offset) // self.stride)
        return max(0, last - first + 1)


@dataclass(frozen=True)
class Convolution:
    """An ``aten.convolution`` at its sizes."""

    planes: int
    """Pairs of a plane of the input and one of the output, over the batch: N * C_out * C_in / groups."""
    sides: tuple[Side, ...]

    @property
    def direct(self) -> int:
        """Multiply-adds of the sum as it is written."""
        return self.planes * math.prod(side.pairs for side in self.sides)

    @property
    def least(self) -> int:
        """Multiply-adds that no algorithm saves, a pair of planes for itself.

        Winograd's and FFT's do with far fewer than ``direct``, and cuDNN picks either by itself. A product of
        a matrix and a vector takes a multiplication for each of its rows and for each of its columns
        (S. Winograd, On the number of multiplications necessary to compute certain functions, 1970): here,
        for each value that is used and for each result. Transforms are not counted.
        """
        wide = math.prod(min(side.wide, side.pairs) for side in self.sides)
        narrow = math.prod(min(side.narrow, side.pairs) for side in self.sides)
        return self.planes * max(wide, narrow)


def convolution_of(inputs: Sequence[Shape], output: Shape, settings: Sequence[Any]) -> Convolution:
    """From the shapes of input and weight, and stride, padding, dilation and whether it is transposed.

    The weight of a transposed one is (C_in, C_out / groups, ...), else (C_out, C_in / groups, ...).
    Settings that are not given are the ordinary ones.
    """
    x, weight = inputs[0], inputs[1]
    known: list[Any] = [*settings, *ORDINARY[len(settings) :]]
    stride, padding, dilation, transposed = known
    count = len(weight) - 2
    narrow, wide = (x, output) if transposed else (output, x)
    steps, edges, gaps = (_each(value, count) for value in (stride, padding, dilation))
    sides = tuple(
        Side(narrow[i + 2], wide[i + 2], weight[i + 2], steps[i], edges[i], gaps[i]) for i in range(count)
    )
    # A plane on the narrow side meets the weight's second dimension of planes on the wide one.
    return Convolution(narrow[0] * narrow[1] * weight[1], sides)


def convolved_of(
    inputs: Sequence[Shape], output: Shape, settings: Sequence[Any], groups: int, element_bytes: int
) -> Convolved:
    """The same for the model of a library's time; ``element_bytes`` of the wider factor."""
    x, weight = inputs[0], inputs[1]
    known: list[Any] = [*settings, *ORDINARY[len(settings) :]]
    stride, _, dilation, transposed = known
    steps, gaps = (_each(value, len(weight) - 2) for value in (stride, dilation))
    sides = tuple(
        ConvolvedSide(x[i + 2], output[i + 2], taps, steps[i], gaps[i]) for i, taps in enumerate(weight[2:])
    )
    reads, makes = x[1] // groups, output[1] // groups
    return Convolved(x[0], groups, reads, makes, sides, transposed, element_bytes)


def _each(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """A setting for every dimension: a list of them, or of one, or a number for all."""
    values: tuple[int, ...] = (value,) if isinstance(value, int) else tuple(value)
    return values * count if len(values) == 1 else values
