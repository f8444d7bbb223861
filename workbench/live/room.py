"""Does a problem fit the card? What cannot be run there is refused once, before any kernel is written."""

from __future__ import annotations

import math

from workbench.errors import ProblemError
from workbench.model import DTYPE_BYTES, Case, Problem, Target, size_of
from workbench.plan.overlap import span_of


def check_room(problem: Problem, target: Target) -> None:
    """Raises ``ProblemError`` where a declared shape needs more memory than the card has."""
    for case in problem.cases:
        given, made = _bytes(problem, case)
        if given + made > target.dram_bytes:
            raise ProblemError(
                f"at {case.label} the inputs need {given / 1e9:.4g} GB and the outputs {made / 1e9:.4g} GB, "
                f"and the card has {target.dram_bytes / 1e9:.4g} GB: no kernel can run there. "
                "Declare smaller shapes."
            )


def _bytes(problem: Problem, case: Case) -> tuple[int, int]:
    """Bytes of inputs and of outputs."""
    sizes = case.size_map
    given = sum(span_of(meta) * DTYPE_BYTES[meta.dtype] for meta in problem.metas(case).values())
    made = sum(
        math.prod(size_of(dim, sizes) for dim in spec.dims) * DTYPE_BYTES[spec.dtype]
        for spec in problem.outputs
    )
    return given, made
