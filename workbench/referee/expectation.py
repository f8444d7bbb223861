"""What a check's outputs must be: the inputs, the float64 oracle, the bounds. Runs in a worker child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.model import Problem, TensorMeta, size_of
from workbench.numerics.bounds import DIFFER, OutputBound, bounds
from workbench.numerics.conditioning import Oracle
from workbench.numerics.inputs import draw, place
from workbench.numerics.kinds import KINDS
from workbench.problem.reference import Reference
from workbench.referee import matrix
from workbench.referee.nearby import nearby
from workbench.referee.protocol import NO_NUMBERS

SAME = 0.05
"""Relative and absolute: another order of additions is no other function."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """Everything one check needs to know before the kernel runs."""

    tensors: Mapping[str, Tensor]
    bounds: tuple[OutputBound, ...]
    note: str
    strides: tuple[tuple[int, ...], ...] = ()
    """Of the reference's own outputs."""
    unlike: bool = False
    """True where the reference's outputs have other shapes than the graph's."""

    @property
    def doubtful(self) -> bool:
        """True where the graph that kernels are made from is not what the reference computes here."""
        return self.unlike or any(limit.basis.startswith(DIFFER) for limit in self.bounds)


def expect(problem: Problem, reference: Reference, planned: matrix.PlannedCheck) -> Expectation | None:
    """Draw the inputs and compute what must come out; None when there are no inputs of that kind."""
    tensors = _tensors(problem, reference, planned)
    if tensors is None:
        return None
    laid = tensors if planned.inputs == matrix.YOURS else _laid(tensors, dict(planned.trial.plan.arguments))
    expected = held_against(problem, reference, planned.trial.case.size_map, laid, tensors)
    note = "; ".join(filter(None, (without_numbers(planned, tensors), expected.note)))
    return replace(expected, note=note)


def without_numbers(planned: matrix.PlannedCheck, tensors: Mapping[str, Tensor]) -> str:
    """Says so where the person's own tensors hold no number: whatever makes NaN of them passes."""
    if planned.inputs != matrix.YOURS:
        return ""
    floats = {name: t for name, t in tensors.items() if t.is_floating_point() and t.numel()}
    empty = [name for name, t in floats.items() if not bool(torch.isfinite(t).any())]
    return f"{', '.join(empty)}: {NO_NUMBERS}" if empty else ""


def held_against(
    problem: Problem,
    reference: Reference,
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    declared: Mapping[str, Tensor] | None = None,
    *,
    anywhere: bool = False,
) -> Expectation:
    """What must come out for ``tensors``, which are all the problem's tensors at one case.

    ``declared``: the same values in the problem's own layouts, which its graph was traced for. ``anywhere``:
    bounds may lie in the processor's memory, which is the faster place for small ones (``nearby``). Without a
    float64 oracle the reference's own result takes its place, and the note says so. Raises ``ProblemError``
    where the reference does not take ``tensors``, or makes something else of them than of ``declared``.
    """
    native = reference.call(tensors)
    usual = tensors if declared is None else declared
    if any(usual[name] is not tensor for name, tensor in tensors.items()):
        _refuse_other_results(native, reference.call(usual))
    notes, near, made = [], None, native
    try:
        oracle = Oracle(reference.oracle(usual), reference.oracle)
        near = nearby(problem, reference, sizes, usual, native, oracle.results) if anywhere else None
    except ProblemError:
        oracle = Oracle(tuple(t.to(torch.float64) if t.is_floating_point() else t for t in native))
        notes.append("no float64 oracle: compared with the reference's own precision")
    if near is not None:
        usual, oracle, made = near.tensors, near.oracle, near.native
    limits = bounds(problem, sizes, usual, oracle, lambda: made)
    if not all(limit.decisive for limit in limits):
        notes.append("rounding alone may be as large as the output here")
    notes += [limit.basis for limit in limits if not limit.basis.endswith("of the graph")]
    strides = tuple(tuple(result.stride()) for result in native)
    shapes = [tuple(size_of(dim, sizes) for dim in spec.dims) for spec in problem.outputs]
    unlike = [tuple(result.shape) for result in native] != shapes
    return Expectation(tensors, limits, "; ".join(dict.fromkeys(notes)), strides, unlike)


def _laid(tensors: Mapping[str, Tensor], metas: Mapping[str, TensorMeta]) -> dict[str, Tensor]:
    """The tensors as a plan's arguments lie; those that lie so already are the same."""
    return {
        name: tensor if tensor.stride() == metas[name].strides else place(tensor, metas[name])
        for name, tensor in tensors.items()
    }


def _refuse_other_results(native: Sequence[Tensor], usual: Sequence[Tensor]) -> None:
    """A reference that looks at strides means another function by them: nothing is known of that one."""
    for got, known in zip(native, usual, strict=True):
        near = got.shape == known.shape and torch.allclose(
            got.double(), known.double(), rtol=SAME, atol=SAME, equal_nan=True
        )
        if not near:
            raise ProblemError("the reference's result depends on how its inputs lie in memory")


def _tensors(
    problem: Problem, reference: Reference, planned: matrix.PlannedCheck
) -> Mapping[str, Tensor] | None:
    if planned.inputs == matrix.YOURS:
        own = reference.own_tensors()
        if own is None:
            return None
        return {name: own[name] for name, _ in planned.trial.plan.arguments}
    kind = next(kind for kind in KINDS if kind == planned.inputs)
    return draw(problem, planned.trial.case, kind, planned.seed)
