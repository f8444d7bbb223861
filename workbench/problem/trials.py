"""Runs a reference for real at its small sizes and learns what it can be trusted with.

Owns three questions: does it run on fresh values, do two runs agree,
and can it be run in float64. Runs in a worker child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.model import Case, Dim, OpNode, Problem, Ref, size_of
from workbench.numerics.bounds import agrees
from workbench.numerics.inputs import draw
from workbench.numerics.pointwise import POINTWISE
from workbench.numerics.running import Running
from workbench.problem.cost import fixed_elements
from workbench.problem.domains import with_domains
from workbench.problem.form import Form
from workbench.problem.fresh import runnable, with_index_bounds
from workbench.problem.proofs import LARGE_FIXED
from workbench.problem.reference import Reference, run, run_in_float64
from workbench.problem.refusals import check_outputs
from workbench.problem.running import told

_GRAPH_ELEMENTS = 2**16
"""Of a case that the graph is always tried at."""
_DECLARED_ELEMENTS = 2**21
"""Of the declared case, where the graph holds for no other."""
_Shapes = dict[tuple[str, int | None], tuple[Dim, ...]]
"""Of all tensors and results, by name and item."""


Asks = Literal["guess", "know", "everywhere"]
"""Of a graph that holds for some sizes only: whether it may be guessed, or must be known, that these are the
declared ones; or whether it has to hold everywhere."""


class OnlyAsDeclared(Exception):
    """A graph has a number in it that the reference makes of the sizes, as a tenth of all, rounded down.

    ``is_known`` is False where that is guessed: the declared sizes are too large to try the graph at.
    """

    def __init__(self, is_known: bool) -> None:
        super().__init__()
        self.is_known = is_known


def examine(problem: Problem, form: Form, asks: Asks = "guess") -> Problem:
    """Return the problem with settled samplers and notes; ``runnable`` must not be empty.

    Raises ``ProblemError``, and ``OnlyAsDeclared`` as is asked.
    """
    cases = runnable(problem)
    if fixed_elements(problem) > LARGE_FIXED:
        cases = cases[:1]
    problem = with_index_bounds(problem, form, cases)
    problem = with_domains(problem, form, cases, _middle(problem, cases))
    for case in cases:
        _check_repeatable(problem, form, case)
    problem = problem.model_copy(update={"notes": (*problem.notes, *_oracle_notes(problem, form, cases))})
    return _where_the_graph_holds(problem, form, asks)


def _middle(problem: Problem, cases: Sequence[Case]) -> Case:
    """Large enough to be typical, small enough to run a dozen times."""
    ordered = sorted(cases, key=lambda case: problem.elements(case))
    return ordered[len(ordered) // 2]


# ------------------------------------------------------------------------------------ repeatability


def _check_repeatable(problem: Problem, form: Form, case: Case) -> None:
    tensors = draw(problem, case, "normal", 0)
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(check_outputs(run(form, tensors)))
    if not all(_same(a, b) for a, b in zip(*runs, strict=True)):
        raise ProblemError(
            "two runs of the reference on the same inputs differ. A reference must compute its output from "
            "its inputs alone: no random numbers, no counters, no clock."
        )


def _same(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(a, b) or torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5)))


# ------------------------------------------------------------------------------------ the graph


def _where_the_graph_holds(problem: Problem, form: Form, asks: Asks) -> Problem:
    """Leave out proofs at which the traced graph computes something else than the reference does.

    An export may silently hold for some sizes only, such as even ones. Where it holds for none, as where bits
    of a rounded value are read, all stay: a kernel is held against the reference. Raises ``OnlyAsDeclared``
    where it holds for the declared sizes and for no others, or may.
    """
    small = [case for case in problem.proofs if problem.elements(case) <= _GRAPH_ELEMENTS]
    wrong = [case for case in small if not _graph_holds(problem, form, case)]
    if wrong and wrong == small:  # none of them vouches for the larger ones
        wrong += [
            case for case in problem.proofs if case not in small and not _graph_holds(problem, form, case)
        ]
    kept = tuple(case for case in problem.proofs if case not in wrong)
    declared = problem.cases[0]
    if wrong and all(1 in case.size_map.values() or case.sizes == declared.sizes for case in kept):
        kept = ()  # of one element many things are the same, and of the declared sizes the graph was made
    if kept:
        _refuse_other_paths(problem, form, kept)
    if not wrong:
        return problem
    if asks == "everywhere":
        raise OnlyAsDeclared(is_known=False)
    is_untried = declared.sizes not in [case.sizes for case in wrong]
    is_small = problem.elements(declared) <= _DECLARED_ELEMENTS
    if not kept and is_untried and (_graph_holds(problem, form, declared) if is_small else asks == "guess"):
        raise OnlyAsDeclared(is_small)
    labels = ", ".join(case.label for case in wrong)
    note = f"the exported graph does not describe the reference at {labels}: these sizes are not checked"
    if not kept:
        note = (
            "the exported graph says nothing of rounding here: kernels are held against the reference alone"
        )
    return problem.model_copy(update={"proofs": kept or problem.proofs, "notes": (*problem.notes, note)})


def _graph_holds(problem: Problem, form: Form, case: Case) -> bool:
    tensors = draw(problem, case, "normal", 3)
    expected = Reference(problem, form).oracle(tensors)
    try:
        tracked = Running(case.size_map, problem.contract).outputs(problem.graph, tensors, keep=False)
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError):
        return False
    if not all(agrees(got, wanted) for got, wanted in zip(tracked, expected, strict=True)):
        return False
    shapes: _Shapes = {(spec.name, None): spec.dims for spec in problem.tensors}
    shapes |= {(n.name, item): out.dims for n in problem.graph.nodes for item, out in enumerate(n.outs)}
    declared = problem.cases[0].size_map
    return not any(
        _broadcast_by_chance(shapes, (declared, case.size_map), node)
        for node in problem.graph.nodes
        if node.base_name in POINTWISE
    )


def _refuse_other_paths(problem: Problem, form: Form, kept: Sequence[Case]) -> None:
    """Refuse declared sizes at which the reference computes something else, as a branch for a batch of one
    does."""
    for case in problem.cases if len(problem.cases) > 1 else ():
        with suppress(RuntimeError, ValueError, IndexError):
            if not _graph_holds(problem, form, _small_like(problem, case, kept)):
                raise ProblemError(
                    f"shapes: the reference computes something else at {case.label} than at other sizes. "
                    "Make it a problem of its own, with inputs of that size."
                )


def _small_like(problem: Problem, case: Case, kept: Sequence[Case]) -> Case:
    """The case itself; of a large one only its sizes of 1, among small sizes at which the graph holds."""
    if problem.elements(case) <= _GRAPH_ELEMENTS:
        return case
    ones = {symbol: 1 for symbol, size in case.sizes if size == 1}
    others = max(kept, key=lambda small: sum(size > 1 for _, size in small.sizes))
    return Case(label=case.label, sizes=tuple({**others.size_map, **ones}.items()))


def _broadcast_by_chance(
    shapes: _Shapes, declared_and_here: tuple[Mapping[str, int], Mapping[str, int]], node: OpNode
) -> bool:
    """True where an operand's axis is 1 long and repeated at these sizes, though not at the declared ones.

    The halves of three columns, two and one, can be multiplied; a kernel for equal halves would read on. An
    axis that is 1 long at every size is repeated by the graph itself.
    """
    wide = node.outs[0].dims
    for ref in (arg for arg in node.args if isinstance(arg, Ref)):
        own = shapes.get((ref.ref, ref.item)) or shapes.get((ref.ref, 0), ())
        for one, whole in zip(reversed(own), reversed(wide), strict=False):
            equal = [size_of(one, sizes) == size_of(whole, sizes) for sizes in declared_and_here]
            if equal == [True, False] and one != 1:
                return True
    return False


# ------------------------------------------------------------------------------------ float64


def _oracle_notes(problem: Problem, form: Form, cases: Sequence[Case]) -> tuple[str, ...]:
    """Warn when float64 cannot be had or says something else than the reference does."""
    case = _middle(problem, cases)
    tensors = draw(problem, case, "normal", 0)
    plain = check_outputs(run(form, tensors))
    try:
        wide = check_outputs(run_in_float64(form, tensors))
    except Exception as error:
        return (
            f"no float64 oracle: {told(error, 'the reference')}; kernels are compared with its own precision",
        )
    far = [index for index, (a, b) in enumerate(zip(plain, wide, strict=True)) if not _near(a, b)]
    if far:
        return (
            f"output {far[0]} is far from the same code run in float64: the reference may be ill-conditioned",
        )
    return ()


def _near(plain: Tensor, wide: Tensor) -> bool:
    """Within a hundredth of the output's size, element by element; integer outputs may differ by ties."""
    if plain.shape != wide.shape or not plain.dtype.is_floating_point:
        return plain.shape == wide.shape
    exact = wide.double()
    finite = exact.isfinite() & plain.isfinite()
    scale = exact[finite].abs().mean() if bool(finite.any()) else torch.zeros(())
    return bool(((plain.double() - exact)[finite].abs() <= 0.05 * (exact[finite].abs() + scale)).all())
