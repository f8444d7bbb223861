"""Interprets a candidate's plan at every case; in a worker when it calls the library.

Owns the choice of process. The interpretation itself is the plan package's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from workbench.errors import DeviceError, NotCovered, PlanError
from workbench.model import DTYPE_BYTES, Case, Problem, Target, TensorMeta, size_of
from workbench.plan.interpret import LibraryMeta, interpret_path, refuse_library
from workbench.plan.parse import Program, parse
from workbench.plan.steps import Plan
from workbench.problem.layout import dense_strides
from workbench.referee.protocol import PlanAnswer, Planned, PlanRequest
from workbench.workers import Limits, Returned, torch_ready

LIMITS = Limits()


UNALIGNED = " unaligned"
"""Ends the label of a case whose inputs lie at addresses that only their own element size divides."""

ONE_SM = " on one multiprocessor"
"""Ends the label of a case planned for a card with one multiprocessor: a grid that fits the card must
then go round several times even at a small shape, as a full card does at the declared ones."""
VARIANTS = (UNALIGNED, ONE_SM)

Situation = tuple[Case, tuple[tuple[str, TensorMeta], ...]]


def situations(problem: Problem) -> tuple[Situation, ...]:
    """Every case with its metadata, and small cases again: unaligned inputs, one multiprocessor."""
    cases = [*problem.cases, *problem.proofs]
    if problem.proofs:
        cases += [relabelled(case, ONE_SM) for case in _busiest(problem)]
    found = [(case, tuple(problem.metas(case).items())) for case in cases]
    if problem.proofs:
        found.append(unaligned(problem, problem.proofs[len(problem.proofs) // 2]))
    return tuple(found)


def relabelled(case: Case, variant: str) -> Case:
    """The case under a label that says how it is tried again."""
    return case.model_copy(update={"label": case.label + variant})


def is_variant(case: str) -> bool:
    """True for the label of a small case that is tried again under other circumstances."""
    return case.endswith(VARIANTS)


def _busiest(problem: Problem) -> tuple[Case, ...]:
    """The proofs with most elements and with most rows: those that start most blocks."""
    most = max(problem.proofs, key=lambda c: sum(m.numel for m in problem.metas(c).values()))
    tall = max(
        problem.proofs, key=lambda c: max((m.shape[:1] for m in problem.metas(c).values()), default=())
    )
    return tuple(dict.fromkeys((most, tall)))


def unaligned(problem: Problem, case: Case) -> Situation:
    """The case with inputs at addresses that only their own element size divides."""
    metas = problem.metas(case)
    for spec in problem.tensors:
        if spec.role == "input":
            meta = metas[spec.name]
            metas[spec.name] = meta.model_copy(update={"alignment": DTYPE_BYTES[meta.dtype]})
    return relabelled(case, UNALIGNED), tuple(metas.items())


def plan_cases(program: Program, wanted: Sequence[Situation], target: Target) -> tuple[Planned, ...]:
    """Interpret the plan in every situation. Raises ``DeviceError`` when the worker cannot say."""
    if not program.uses_library:
        return tuple(plan_case(program, case, dict(m), target, refuse_library) for case, m in wanted)
    request = PlanRequest(source=program.source, cases=tuple(wanted), target=target)
    payload = request.model_dump_json().encode()
    result = torch_ready().call("workbench.referee.planning:interpret_in_child", payload, LIMITS)
    if isinstance(result, Returned):
        try:
            return PlanAnswer.model_validate_json(result.payload).planned
        except ValidationError:
            pass
    raise DeviceError(f"the plan's library calls could not be interpreted: {result}")


def interpret_in_child(payload: bytes) -> bytes:
    """Worker function: a ``PlanRequest`` in, a ``PlanAnswer`` out."""
    from workbench.referee.librarymeta import library_meta

    request = PlanRequest.model_validate_json(payload)
    program = parse(request.source)
    planned = tuple(
        plan_case(program, case, dict(metas), request.target, library_meta) for case, metas in request.cases
    )
    return PlanAnswer(planned=planned).model_dump_json().encode()


def plan_case(
    program: Program, case: Case, metas: Mapping[str, TensorMeta], target: Target, library: LibraryMeta
) -> Planned:
    """Interpret the plan once; ``library`` knows what library calls return."""
    if case.label.endswith(ONE_SM):
        target = target.model_copy(update={"sm_count": 1})
    try:
        plan, path = interpret_path(program, metas, target, library)
        return Planned(case=case, plan=plan, path=path)
    except NotCovered as turned_away:
        return Planned(case=case, covered=False, diagnostics=turned_away.diagnostics)
    except PlanError as error:
        return Planned(case=case, diagnostics=error.diagnostics)


def unlike_outputs(problem: Problem, case: Case, plan: Plan) -> str:
    """Say how the plan's outputs differ from the reference's in number, type or shape; empty if not."""
    sizes = case.size_map
    if len(plan.outputs) != len(problem.outputs):
        return f"the plan returns {len(plan.outputs)} tensors, the reference {len(problem.outputs)}"
    for number, (name, spec) in enumerate(zip(plan.outputs, problem.outputs, strict=True)):
        meta, shape = plan.meta_of(name), tuple(size_of(d, sizes) for d in spec.dims)
        if meta.dtype != spec.dtype:
            return f"output {number} is {meta.dtype}, the reference returns {spec.dtype}"
        if meta.shape != shape:
            return f"output {number} has shape {meta.shape}, the reference returns {shape}"
    return ""


def unlike_layout(problem: Problem, plan: Plan, returned: Sequence[tuple[int, ...]]) -> str:
    """Say how an output lies in memory as nobody asked for; ``returned`` are the reference's own strides.

    Row-major is always right, and so are the reference's strides, those it has at the sizes it was traced at
    (an ``einsum`` over axes of size 1 is no matrix product) and those of an input of that shape: anything
    else leaves a copy to whoever comes next.
    """
    for number, (name, wanted) in enumerate(zip(plan.outputs, returned, strict=False)):
        meta = plan.meta_of(name)
        right = [wanted, *(given.strides for _, given in plan.arguments if given.shape == meta.shape)]
        if order := problem.outputs[number].order:
            right.append(dense_strides(meta.shape, order))
        if not meta.is_contiguous and not any(_same_layout(meta, strides) for strides in right):
            return f"output {number} has strides {meta.strides}, the reference returns {tuple(wanted)}"
    return ""


def _same_layout(meta: TensorMeta, strides: Sequence[int]) -> bool:
    """Axes of size 1 may have any stride."""
    return len(strides) == len(meta.shape) and all(
        size == 1 or mine == theirs
        for size, mine, theirs in zip(meta.shape, meta.strides, strides, strict=True)
    )
