"""What a plan alone says about one case: launches, bytes, workspace, share of library calls.

Owns the counting. Never runs anything and never estimates time (referee/roofline.py does).
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model import DTYPE_BYTES, PlanFacts, TensorMeta, base_name
from workbench.plan.libraries import VIEW_OPS
from workbench.plan.overlap import distinct_elements
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, LibraryArg, Plan, View


def facts(plan: Plan, case_label: str) -> PlanFacts:
    """Count what a plan does at one case."""
    metas, roots = _buffers(plan)
    moved = [(step, sum(_bytes(metas[b]) for b in _touched(step))) for step in plan.steps]
    total = sum(n for _, n in moved)
    library = sum(n for step, n in moved if isinstance(step, Library))
    returned = {roots[b] for b in plan.outputs}
    owned = {root for root in roots.values() if root.startswith("%")}
    return PlanFacts(
        case=case_label,
        launches=len(plan.launches),
        kernels=tuple(dict.fromkeys(step.kernel for step in plan.launches)),
        bytes_min=sum(_bytes(m) for _, m in plan.arguments) + sum(_bytes(metas[b]) for b in plan.outputs),
        bytes_plan=total,
        workspace_bytes=sum(metas[root].nbytes for root in owned - returned),
        library_calls=tuple(s.op for s in plan.steps if isinstance(s, Library)),
        library_share=library / total if total else 0.0,
    )


def _buffers(plan: Plan) -> tuple[dict[str, TensorMeta], dict[str, str]]:
    """Metadata of every buffer, and the buffer whose memory it is."""
    metas = dict(plan.arguments)
    roots = {name: name for name in metas}
    for step in plan.steps:
        match step:
            case Allocate(buffer=name, meta=meta):
                metas[name], roots[name] = meta, name
            case View(buffer=name, of=of, meta=meta):
                metas[name], roots[name] = meta, roots[of]
            case Library(results=results, metas=new):
                metas.update(zip(results, new, strict=True))
                source = next(_buffers_in(step.args), None) if base_name(step.op) in VIEW_OPS else None
                roots.update({name: roots[source] if source else name for name in results})
            case Launch():
                pass
    return metas, roots


def _touched(step: Allocate | View | Launch | Library) -> set[str]:
    """Buffers a step reads or writes as a whole."""
    match step:
        case Allocate(buffer=name, zero=True):
            return {name}
        case Launch(args=args):
            return {a.buffer for a in args if isinstance(a, BufferArg)}
        case Library() if base_name(step.op) not in VIEW_OPS:
            values = (*step.args, *(value for _, value in step.kwargs))
            return {*_buffers_in(values), *step.results}
    return set()


def _bytes(meta: TensorMeta) -> int:
    """Bytes of the distinct elements: an expanded axis is stored once."""
    return distinct_elements(meta) * DTYPE_BYTES[meta.dtype]


def _buffers_in(values: tuple[LibraryArg, ...]) -> Iterator[str]:
    for value in values:
        if isinstance(value, BufferArg):
            yield value.buffer
        elif isinstance(value, tuple):
            yield from _buffers_in(value)
