"""Bounds of small cases are made on the processor, whose small operations begin sooner than a card's.

A bound asks for dozens of operations for every node of a graph, one after the other, and waits for some of
them; with few elements a card does little else than begin. Owns which cases are small, and that the reference
computes the same function in both places. The reference's own result is had on the card in any case. Never
bounds anything itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.model import Problem, size_of
from workbench.numerics.conditioning import Oracle
from workbench.problem.reference import Reference

SMALL = 2**13
"""Elements that a node of a small case has, of inputs and results together, in the mean. With
twice as many an H200 takes as long."""
ALIKE = 1e-9
"""Of a result's largest element: the same in float64, in another order."""


@dataclass(frozen=True, eq=False)
class Nearby:
    """What bounds are made of, in the processor's memory."""

    tensors: Mapping[str, Tensor]
    native: tuple[Tensor, ...]
    """The reference's own results, which a card made."""
    oracle: Oracle


def nearby(
    problem: Problem,
    reference: Reference,
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    native: Sequence[Tensor],
    expected: Sequence[Tensor],
) -> Nearby | None:
    """None where all of it is on the processor, is large, or the reference makes something else of it there.

    ``native`` and ``expected`` are what the reference makes of ``tensors`` where they are, in its own
    precision and in float64. Of two equal elements another place may choose the other one; a reference may
    even ask where it is.
    """
    if all(tensor.device.type == "cpu" for tensor in tensors.values()) or not is_small(problem, sizes):
        return None
    return moved(reference, tensors, native, expected)


def moved(
    reference: Reference,
    tensors: Mapping[str, Tensor],
    native: Sequence[Tensor],
    expected: Sequence[Tensor],
) -> Nearby | None:
    """The same, without asking how large it is."""
    there = {name: tensor.cpu() for name, tensor in tensors.items()}
    if any(there[name].stride() != tensor.stride() for name, tensor in tensors.items()):
        return None  # a reference may look at them
    try:
        results = reference.oracle(there)
    except ProblemError:
        return None
    if len(results) != len(expected) or not all(map(_alike, results, (one.cpu() for one in expected))):
        return None
    return Nearby(there, tuple(one.cpu() for one in native), Oracle(results, reference.oracle))


def is_small(problem: Problem, sizes: Mapping[str, int]) -> bool:
    """By the elements of every input and of every node's results."""
    results = [out.dims for node in problem.graph.nodes for out in node.outs]
    shapes = [*results, *(spec.dims for spec in problem.tensors)]
    elements = sum(prod(size_of(dim, sizes) for dim in dims) for dims in shapes)
    return elements <= SMALL * len(problem.graph.nodes)


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    finite = torch.isfinite(one)
    if not torch.equal(one.nan_to_num(1.0, 2.0, 3.0)[~finite], other.nan_to_num(1.0, 2.0, 3.0)[~finite]):
        return False
    largest = one[finite].abs().max() if bool(finite.any()) else 0.0
    return bool(((one - other)[finite].abs() <= ALIKE * largest).all())
