"""Problems made from plain functions, for the tests of the playbook."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from workbench.model import Case, Problem, Sampler, TensorSpec
from workbench.problem.trace import trace
from workbench.problem.translate import DTYPES

Call = Callable[[dict[str, Tensor]], Tensor | tuple[Tensor, ...]]
NORMAL = Sampler(kind="normal")


def problem_of(
    call: Call,
    tensors: Mapping[str, Tensor],
    name: str = "op",
    varying: bool = True,
    cases: tuple[Mapping[str, int], ...] = (),
) -> Problem:
    """A problem as the intake would make it; cases give sizes of symbols, the traced sizes come first."""
    with torch.no_grad():
        traced = trace(call, tensors, varying)
    specs = tuple(
        TensorSpec(name=n, role="input", dtype=DTYPES[tensors[n].dtype], dims=dims, sampler=NORMAL)
        for n, dims in traced.dims
    )
    return Problem(
        name=name,
        source="",
        entry=name,
        kind="function",
        tensors=specs,
        symbols=traced.symbols,
        outputs=traced.outputs,
        returns_tuple=len(traced.outputs) > 1,
        cases=tuple(_case(sizes) for sizes in (dict(traced.sizes), *cases)),
        graph=traced.graph,
    )


def _case(sizes: Mapping[str, int]) -> Case:
    return Case(label="x".join(map(str, sizes.values())) or "static", sizes=tuple(sizes.items()))
