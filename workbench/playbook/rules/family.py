"""What a problem is like, sizes aside: the key under which conclusions about it are kept.

Owns two fingerprints of the lowered graph: the family, in words a person reads ("2 passes over rows (max,
sum), float32"), and the structure, a digest of the operations and how they hang together. Neither knows a
name that a person chose, nor a size.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workbench.model import Problem
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.row_shapes import row_shape
from workbench.playbook.ir.expr import Load, walk
from workbench.playbook.ir.program import (
    InPlaceOfCall,
    Kernel,
    LibraryCall,
    Program,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
)
from workbench.playbook.techniques.traits import program_of

_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class Family:
    """Fingerprints of a problem."""

    name: str
    """In words; equal for problems whose kernels are alike."""
    structure: str
    """Hex digest; equal for the same graph at other sizes."""


def family_of(problem: Problem) -> Family:
    """Fingerprint a problem."""
    program = program_of(problem, True)
    words = list(dict.fromkeys(_words(program, step) for step in program.steps))
    return Family(f"{'; '.join(words) or 'no kernel'}, {_dtypes(program)}", _structure(problem))


def _words(program: Program, step: ProgramStep) -> str:
    if isinstance(step, LibraryCall):
        return f"library {step.op.split('.')[1]}"
    if isinstance(step, Scan):
        return f"running {step.op} {'backwards' if step.backwards else 'forwards'}"
    if isinstance(step, Scatter):
        return f"{step.op} at places"
    if isinstance(step, RecurrentLayers):
        return f"recurrent {step.cell}"
    if isinstance(step, InPlaceOfCall) or step.stores[0].level == "flat":
        return "pointwise"
    return _row_words(program, step)


def _row_words(program: Program, kernel: Kernel) -> str:
    space = RowSpace(program.pool, kernel)
    passes = passes_of(space, kernel, single_pass=False)
    made = ", ".join(one.kind for step in passes for one in step.accumulators)
    along = "rows" if row_shape(space, passes).neighbours else "columns"
    stores = "" if any(store.level == "full" for store in kernel.stores) else ", a value each"
    return f"{len(passes)} pass{'es' if len(passes) > 1 else ''} over {along} ({made}{stores})"


def _dtypes(program: Program) -> str:
    read = {
        program.buffers[expr.buffer].dtype
        for step in program.steps
        if isinstance(step, Kernel)
        for store in step.stores
        for expr in walk(store.value, into_reductions=True)
        if isinstance(expr, Load)
    }
    return ", ".join(sorted(_DTYPES[dtype] for dtype in read if dtype in _DTYPES)) or "integers"


def _structure(problem: Problem) -> str:
    """Operations in order, each with where its operands come from; sizes and scalars left out."""
    numbers: dict[str, str] = {spec.name: spec.dtype for spec in problem.tensors}
    lines = []
    for number, node in enumerate(problem.graph.nodes):
        sources = [numbers.get(ref.ref, "?") for ref in node.refs]
        lines.append(f"{node.op}({','.join(sources)})")
        numbers[node.name] = str(number)
    lines.append(",".join(numbers.get(ref.ref, "?") for ref in problem.graph.outputs))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
