"""Large problems judged a slice at a time, where rows do not know of each other.

Owns the question whether a problem falls apart along its first axis, and the slices. Float64 oracles and
bounds need many times the memory of the tensors themselves: a slice keeps that small, and all slices
together still see every element. Runs in worker children only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.model import Case, Dim, Problem
from workbench.numerics.inputs import draw

RELATIVE = 1e-12
"""Float64 results of a slice may differ by this much: libraries choose another order for another size."""

Oracle = Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Slices:
    """How a case is cut: along the first axis of every tensor that has ``symbol`` there."""

    symbol: str
    inputs: tuple[str, ...]
    """Tensors that are cut; the others belong to every slice whole."""
    size: int
    """Length of the axis at this case."""
    step: int

    def __iter__(self) -> Iterator[slice]:
        for first in range(0, self.size, self.step):
            yield slice(first, min(first + self.step, self.size))

    def of(self, tensors: Mapping[str, Tensor], part: slice) -> dict[str, Tensor]:
        """The tensors of one slice; no data is moved."""
        return {name: t[part] if name in self.inputs else t for name, t in tensors.items()}

    def sizes(self, case: Case, part: slice) -> dict[str, int]:
        """The case's sizes in one slice."""
        return {**case.size_map, self.symbol: part.stop - part.start}


def separable(problem: Problem, oracle: Oracle) -> str:
    """The symbol along which the problem falls apart, shown by trying it; empty when it does not."""
    for symbol in problem.symbols:
        if not (_leads_everywhere(problem, symbol)):
            continue
        tall = [case for case in problem.proofs if case.size_map.get(symbol, 0) >= 2]
        if tall and _falls_apart(problem, symbol, min(tall, key=lambda c: problem.elements(c)), oracle):
            return symbol
    return ""


def slices(problem: Problem, case: Case, symbol: str, most_elements: int) -> Slices:
    """Cut a case so that a slice has about ``most_elements`` elements in all tensors together."""
    size = case.size_map[symbol]
    per_row = max(problem.elements(case) // max(size, 1), 1)
    step = max(1, min(size, most_elements // per_row))
    inputs = tuple(t.name for t in problem.tensors if t.dims and t.dims[0] == symbol)
    return Slices(symbol, inputs, size, step)


def _leads_everywhere(problem: Problem, symbol: str) -> bool:
    """True when the symbol is the first size of every output and nowhere anything else."""
    tensors = [spec.dims for spec in problem.tensors]
    outputs = [spec.dims for spec in problem.outputs]
    strided = any(spec.strides is not None for spec in problem.tensors)
    cut = [dims for dims in tensors if dims and dims[0] == symbol]
    return (
        bool(cut)
        and not strided
        and all(dims and dims[0] == symbol for dims in outputs)
        and not any(_mentions(dim, symbol) for dims in (*tensors, *outputs) for dim in dims[1:])
        and not any(_mentions(dims[0], symbol) for dims in tensors if dims and dims[0] != symbol)
    )


def _mentions(dim: Dim, symbol: str) -> bool:
    return isinstance(dim, str) and symbol in dim


def _falls_apart(problem: Problem, symbol: str, case: Case, oracle: Oracle) -> bool:
    tensors = draw(problem, case, "normal", 77)
    whole = oracle(tensors)
    size = case.size_map[symbol]
    cut = Slices(symbol, slices(problem, case, symbol, 0).inputs, size, -(-size // 2))
    try:
        for part in cut:
            for got, expected in zip(oracle(cut.of(tensors, part)), whole, strict=True):
                if not torch.allclose(got, expected[part], rtol=RELATIVE, atol=RELATIVE, equal_nan=True):
                    return False
    except Exception:  # the person's own code, at a size it may not take
        return False
    return True
