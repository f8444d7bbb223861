"""Fresh values of the inputs at sizes of the workbench's own: which of them a reference takes.

Owns where integers end (at a size, where they are labels or indices) and which sizes are left out because
the reference raises there, on data. Runs in a worker child.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from workbench.errors import ProblemError
from workbench.model import Case, Dim, Problem, Sampler, TensorSpec
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import InputKind
from workbench.problem.cost import elements, multiplications
from workbench.problem.form import Form
from workbench.problem.index_bounds import counted_ends, indexed_sizes
from workbench.problem.proofs import MOST_PROOFS, Accept, proofs
from workbench.problem.reference import run
from workbench.problem.refusals import Watch, check_outputs
from workbench.problem.running import told
from workbench.problem.samplers import in_general

_DRAWN: tuple[tuple[InputKind, int], ...] = (
    ("normal", 0), ("normal", 1), ("scale 64", 2), ("scale 64", 3), ("offset", 4), ("sparse", 5),
)  # fmt: skip
"""Kinds and seeds of the values on which a reference is run at sizes that it may refuse."""
_NARROW = {"BFloat16": "torch.bfloat16", "Half": "torch.float16"}
_MOST_RUNS = 80
"""Sizes that are tried then."""
_MOST_GIVEN = 4096
"""Elements of a buffer that keeps its values."""
_RUN_ELEMENTS = 2**22
_RUN_PRODUCTS = 2**30
"""Without proofs, the declared case is run only up to this size."""


def runnable(problem: Problem) -> tuple[Case, ...]:
    """The cases a reference is run at: its proofs, else the declared one if it is not too large."""
    return problem.proofs or (problem.cases[:1] if _is_small(problem) else ())


def _is_small(problem: Problem) -> bool:
    """True where the declared case itself can be run here."""
    sizes = problem.cases[0].size_map
    return elements(problem, sizes) <= _RUN_ELEMENTS and multiplications(problem, sizes) <= _RUN_PRODUCTS


def with_index_bounds(problem: Problem, form: Form, cases: Sequence[Case]) -> Problem:
    """Make integer inputs end at a size where the reference asks for that (class labels, indices).

    Raises ``ProblemError`` where it fails at some case whatever they are.
    """
    error: Exception | None = None
    for candidate in _bound_choices(problem):
        error = first_error(candidate, form, cases)
        if error is None:
            return candidate
    assert error is not None
    raise _as_told(error) from error


def with_own_buffers(problem: Problem, form: Form) -> Problem | None:
    """With the values that small buffers have, as edges in order or numbers of levels; None without any."""
    given = [spec for spec in problem.tensors if spec.role == "buffer" and _may_be_given(form, spec)]
    own = problem
    for spec in given:
        values = tuple(form.held[spec.name].value.detach().cpu().double().reshape(-1).tolist())
        own = replaced(own, spec, Sampler(kind="given", values=values, scalable=False))
    names = ", ".join(spec.path or spec.name for spec in given)
    note = f"with other values of its buffers the reference fails: {names} keep those that they have"
    return own.model_copy(update={"notes": (*own.notes, note)}) if given else None


def _may_be_given(form: Form, spec: TensorSpec) -> bool:
    held = form.held.get(spec.name)
    if held is None or isinstance(held.value, FakeTensor) or held.value.is_meta or held.value.is_complex():
        return False
    return 0 < held.value.numel() <= _MOST_GIVEN


def where_it_runs(problem: Problem, form: Form, accept: Accept) -> Problem | None:
    """The problem at small sizes at which the reference runs on data, and a note that there are others.

    Only its data shows that a reference indexes the fourth row, or counts on eight columns. None where it
    fails at the person's own sizes too, or where no small size is left.
    """
    first = problem.cases[:1] if _is_small(problem) else ()
    best: tuple[Case, ...] = ()
    chosen, why = problem, ""
    for candidate in _bound_choices(problem):
        if first_error(candidate, form, first) is None:
            small, refused = _sizes_it_takes(candidate, form, accept)
            if len(small) > len(best):
                best, chosen, why = small, candidate, refused
        if len(best) == MOST_PROOFS:
            break
    if not why or not best:
        return None
    note = f"sizes at which the reference fails on data are not checked: {why.rstrip('.')}"
    return chosen.model_copy(update={"proofs": best, "notes": (*chosen.notes, note)})


def _sizes_it_takes(problem: Problem, form: Form, accept: Accept) -> tuple[tuple[Case, ...], str]:
    """Small sizes at which the reference runs, else the declared one, and what it raised elsewhere."""
    refused: list[str] = []
    left = _MOST_RUNS

    def runs(sizes: Mapping[str, int]) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            return False
        error = first_error(problem, form, (Case(label="", sizes=tuple(sizes.items())),), _DRAWN)
        refused.extend([told(error, "the reference")] if error else [])
        return error is None and accept(sizes)

    declared = problem.cases[0].size_map
    small: tuple[Case, ...]
    if _is_small(problem):
        others = {s: ({**declared, s: max(n // 2, 1)}, {**declared, s: n + 1}) for s, n in declared.items()}
        fixed: dict[str, Dim] = {s: declared[s] for s, sizes in others.items() if not any(map(runs, sizes))}
        small = proofs(problem, runs, like=fixed) or problem.cases[:1]
    else:
        small = proofs(problem, runs)
        for size in sorted(set(declared.values())) if not small else ():
            left = _MOST_RUNS
            if small := proofs(problem, runs, like={s: n for s, n in declared.items() if n == size}):
                break
    return small, refused[0] if refused else ""


def _as_told(error: Exception) -> ProblemError:
    if isinstance(error, ProblemError):
        return error
    if mixed := _narrow_type_of_a_mix(error):
        return ProblemError(
            f"{told(error, 'the reference')}\n(16-bit inputs meet float32 weights or constants: convert "
            f"these, a module with .to({mixed}))"
        )
    return ProblemError(
        f"{told(error, 'the reference')}\n(on fresh random values of the inputs' range; where only some "
        "values of that range suit, compute them in the reference, with clamp or %)"
    )


def _narrow_type_of_a_mix(error: Exception) -> str:
    """``torch.bfloat16`` where torch says that it met float32 in an operation that takes one type; else
    nothing."""
    message = str(error)
    if not re.search(r"same dtype|should be the same|expected scalar type", message):
        return ""
    if not re.search(r"\b[Ff]loat\b", message):
        return ""
    return next((name for word, name in _NARROW.items() if word in message), "")


def _bound_choices(problem: Problem) -> Iterator[Problem]:
    """With any matrices where covariances were given, and with covariances where the reference wants them."""
    general = problem
    for spec in problem.tensors:
        if spec.sampler.kind == "covariances":
            general = replaced(general, spec, in_general(spec.sampler))
    yield from _choices_of_bounds(general)
    if general != problem:
        yield from _choices_of_bounds(problem)


def _choices_of_bounds(problem: Problem) -> Iterator[Problem]:
    counted = _with_counted_ends(problem)
    yield counted
    if counted != problem:
        yield _with_indexed_sizes(counted)
        yield problem
    indexing = _with_indexed_sizes(problem)
    if indexing != problem:
        yield indexing
    integers = [i for i, spec in enumerate(problem.tensors) if spec.sampler.kind in ("integers", "labels")]
    declared = problem.cases[0].size_map
    for index in integers:
        spec = problem.tensors[index]
        fitting = sorted((n, s) for s, n in declared.items() if n >= spec.sampler.high)
        for _, symbol in fitting:
            yield with_sampler(problem, spec, high_dim=symbol, low=_low(spec.sampler))
    if len(integers) > 1:
        for symbol in declared:
            everywhere = problem
            for index in integers:
                place = everywhere.tensors[index]
                everywhere = with_sampler(everywhere, place, high_dim=symbol, low=_low(place.sampler))
            yield everywhere


def _with_counted_ends(problem: Problem) -> Problem:
    """Lengths and places that are compared with those of an axis end where it does, as the graph has it."""
    for name, end in counted_ends(problem).items():
        spec = next(spec for spec in problem.tensors if spec.name == name)
        problem = with_sampler(problem, spec, high_dim=end, low=min(spec.sampler.low, 1.0))
    return problem


def _with_indexed_sizes(problem: Problem) -> Problem:
    """Indices end where everything that they index still has a place for them, as the graph has it."""
    for name, sizes in indexed_sizes(problem).items():
        if any(isinstance(size, str) for size in sizes):
            spec = next(spec for spec in problem.tensors if spec.name == name)
            end = sizes[0] if len(sizes) == 1 else sizes
            problem = with_sampler(problem, spec, high_dim=end, low=_low(spec.sampler))
    return problem


def _low(sampler: Sampler) -> float:
    """Where indices begin; of labels it is the mark, which may lie behind them."""
    return sampler.low if sampler.kind == "labels" else min(sampler.low, 0.0)


def first_error(
    problem: Problem,
    form: Form,
    cases: Sequence[Case],
    drawn: Sequence[tuple[InputKind, int]] = (("normal", 0),),
) -> Exception | None:
    """What the reference raises on fresh values, at the first case, kind and seed where it does."""
    for case, (kind, seed) in product(cases, drawn):
        error = error_at(form, draw(problem, case, kind, seed))
        if error is not None:
            return error
    return None


def error_at(form: Form, tensors: Mapping[str, Tensor]) -> Exception | None:
    """What the reference raises on these tensors."""
    try:
        with Watch(tensors):
            check_outputs(run(form, tensors))
    except Exception as error:
        return error
    return None


def with_sampler(problem: Problem, spec: TensorSpec, **changes: Dim | tuple[Dim, ...] | float) -> Problem:
    """The problem with one tensor drawn a little otherwise."""
    return replaced(problem, spec, spec.sampler.model_copy(update=changes))


def replaced(problem: Problem, spec: TensorSpec, sampler: Sampler) -> Problem:
    """The problem with one tensor drawn by another sampler."""
    tensors = tuple(
        s.model_copy(update={"sampler": sampler}) if s.name == spec.name else s for s in problem.tensors
    )
    return problem.model_copy(update={"tensors": tensors})
