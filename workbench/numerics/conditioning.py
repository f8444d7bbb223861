"""How far a reference's results move where its inputs move by a rounding.

No rule of a graph is asked: the reference itself is run in float64, a few times, with every element of every
float input moved by up to half a unit in the last place of what must be accumulated in. Beside a pole, and
where large numbers cancel, results move far; elsewhere by a rounding or two. That is the shape that the
errors of any honest kernel have, whatever the reference's own happened to be on this draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.numerics.dtypes import accumulate_unit, name_of
from workbench.numerics.tracked import deviation

PROBES = 6
"""A result moves less than a tenth as far as it might in every one of six draws about once in a million."""
MORE_PROBES = 24
"""Where nothing but these draws tells of millions of results: of 16 million sums that cancel, six left a
few dozen with a bound that torch's own rounding may exceed."""


@dataclass(frozen=True, eq=False)
class Oracle:
    """The reference in float64, for some tensors."""

    results: tuple[Tensor, ...]
    call: Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]] | None = None
    """Runs it again, for others; None where that cannot be done."""

    def swings(self, tensors: Mapping[str, Tensor], probes: int = PROBES) -> tuple[Tensor, ...]:
        """How far each element moves at most, in so many draws; 0 where the reference cannot be run
        so, or makes results of other shapes: of a double the bits are two columns of int32. Results that are
        no longer numbers do not count."""
        found = [
            torch.zeros(result.shape, dtype=torch.float64, device=result.device) for result in self.results
        ]
        where = next((tensor.device for tensor in tensors.values()), torch.device("cpu"))
        generator = torch.Generator(where).manual_seed(0)
        for _ in range(probes if self.call is not None else 0):
            moved = {name: _moved(tensor, generator) for name, tensor in tensors.items()}
            with suppress(Exception):
                made = self.call(moved)  # type: ignore[misc]
                if [one.shape for one in made] == [result.shape for result in self.results]:
                    found = [
                        torch.maximum(far, deviation(result, one).nan_to_num(0.0, 0.0, 0.0))
                        for far, result, one in zip(found, self.results, made, strict=True)
                    ]
        return tuple(found)


def _moved(tensor: Tensor, generator: torch.Generator) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device)
    return tensor.to(torch.float64) * (1 + accumulate_unit(name_of(tensor.dtype)) * (2 * drawn - 1))
