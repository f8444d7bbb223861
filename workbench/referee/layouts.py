"""Inputs that lie otherwise than declared: which are tried, and what is said of kernels that misread them.

A plan that asks for nothing takes whatever comes, a transposed tensor too. Owns the layouts and the words.
Pure; whether the reference takes such inputs is the business of the process that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from workbench.model import (
    Case,
    Hazard,
    Mismatch,
    Outcome,
    Problem,
    Target,
    TensorMeta,
    contiguous_strides,
)
from workbench.plan.interpret import refuse_library
from workbench.plan.parse import Program
from workbench.plan.steps import Plan
from workbench.problem.layout import dense_strides, unlike_declared
from workbench.referee.planning import Situation, plan_case, plan_cases, unlike_outputs
from workbench.referee.probing import Taken

MOST_WAYS = 3
"""Ways through a plan that are tried in other layouts, the smallest sizes of each."""

Lay = Callable[[TensorMeta], tuple[int, ...] | None]
"""Other strides for a tensor; None where it has no such layout."""


def plans_laid_otherwise(
    problem: Problem, program: Program, tried: Sequence[Taken], target: Target
) -> dict[Case, Plan]:
    """Plans for inputs in other layouts, where the plan neither turns these away nor fails at them."""
    asked = [
        (case, metas)
        for base in _smallest_of_every_way(problem, tried)
        for case, metas in _laid_otherwise(problem, base)
        if plan_case(program, case, dict(metas), target, refuse_library).covered
    ]
    planned = plan_cases(program, asked, target) if asked else ()
    return {
        one.case: one.plan
        for one in planned
        if one.plan is not None and not unlike_outputs(problem, one.case, one.plan)
    }


def told_of_layout(problem: Problem, plan: Plan, outcome: Outcome) -> Outcome:
    """The outcome, with the layout that led to it and what to write where a tensor lay otherwise."""
    metas = dict(plan.arguments)
    names = [layout.tensor for layout in unlike_declared(problem, metas)]
    if not names or not isinstance(outcome, Mismatch | Hazard):
        return outcome
    lay = " and ".join(f"{name} has strides {metas[name].strides}" for name in names)
    declared = {spec.name: spec.strides for spec in problem.tensors}
    wanted = " and ".join(
        f"{name}.is_contiguous" if declared[name] is None else f"{name}.strides == ..." for name in names
    )
    told = (
        f"{lay}: {outcome.message}; the plan does not ask how {' and '.join(names)} "
        f'{"lies" if len(names) == 1 else "lie"}: write require({wanted}, "..."), or index with the strides'
    )
    return outcome.model_copy(update={"message": told})


# ------------------------------------------------------------------------------------ which


def _smallest_of_every_way(problem: Problem, tried: Sequence[Taken]) -> list[Case]:
    """Of every way through the plan the smallest size of more than one row and column, where there is one."""

    def turn(case: Case) -> tuple[bool, int]:
        metas = problem.metas(case).values()
        return any(size == 1 for _, size in case.sizes), sum(meta.numel for meta in metas)

    ways: dict[object, Case] = {}
    for one in sorted(tried, key=lambda one: turn(one.case)):
        ways.setdefault(one.path, one.case)
    return list(ways.values())[:MOST_WAYS]


def _laid_otherwise(problem: Problem, base: Case) -> Iterator[Situation]:
    """Each input in each other layout alone, then all that can lie so."""
    metas = problem.metas(base)
    inputs = [spec.name for spec in problem.tensors if spec.role == "input"]
    for words, lay in _LAYOUTS:
        laid = {name: strides for name in inputs if (strides := lay(metas[name]))}
        groups: list[Mapping[str, tuple[int, ...]]] = [{name: laid[name]} for name in laid]
        for group in (*groups, *([laid] if len(laid) > 1 else [])):
            label = f"{base.label}, {' and '.join(group)} {words}"
            case = base.model_copy(update={"label": label, "origin": "proof"})
            yield (
                case,
                tuple(
                    (name, meta.model_copy(update={"strides": group.get(name, meta.strides)}))
                    for name, meta in metas.items()
                ),
            )


def _long(meta: TensorMeta) -> list[int]:
    return [axis for axis, size in enumerate(meta.shape) if size > 1]


def _transposed(meta: TensorMeta) -> tuple[int, ...] | None:
    """The last two axes change places in memory."""
    long = _long(meta)
    if not meta.is_contiguous or len(long) < 2:
        return None
    order = list(range(len(meta.shape)))
    one, other = long[-2:]
    order[one], order[other] = order[other], order[one]
    return dense_strides(meta.shape, order)


def _every_second(meta: TensorMeta) -> tuple[int, ...] | None:
    """As ``x[..., ::2]`` lies."""
    if not meta.is_contiguous or not _long(meta):
        return None
    return tuple(2 * stride for stride in meta.strides)


def _rows_apart(meta: TensorMeta) -> tuple[int, ...] | None:
    """As ``x[..., :-1]`` lies."""
    long = _long(meta)
    if not meta.is_contiguous or len(long) < 2:
        return None
    last = long[-1]
    wider = tuple(size + (axis == last) for axis, size in enumerate(meta.shape))
    return contiguous_strides(wider)


def _row_major(meta: TensorMeta) -> tuple[int, ...] | None:
    return None if meta.is_contiguous else contiguous_strides(meta.shape)


_LAYOUTS: tuple[tuple[str, Lay], ...] = (
    ("transposed", _transposed),
    ("of every second element", _every_second),
    ("with rows apart", _rows_apart),
    ("row-major", _row_major),
)
