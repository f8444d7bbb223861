"""Which values a reference is defined for: of any sign, or only those of the range that was seen.

Owns that question; values are drawn elsewhere. Runs in a worker child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.model import Case, Problem, Sampler, TensorSpec
from workbench.numerics.inputs import draw
from workbench.problem.form import Form
from workbench.problem.fresh import error_at, replaced
from workbench.problem.reference import run
from workbench.problem.refusals import check_outputs
from workbench.problem.samplers import as_normal

Specs = Sequence[TensorSpec]
Wider = Callable[[Sampler], Sampler | None]


def with_domains(problem: Problem, form: Form, cases: Sequence[Case], middle: Case) -> Problem:
    """Let tensors that were seen positive take any sign where the reference stays finite.

    Probabilities, variances and the like keep their range; where larger values do no harm they may
    still be scaled. The middle case says so, and at no other may the reference fail then. Tensors that
    modules of one class hold under one name, as all norms of a network their variances, are asked about
    together, and apart only where all together do harm: a deep network is run a few times, not once for each.
    """
    trial = _Trial(problem, form, cases, middle)
    pending = list(_alike(problem, form))
    while pending:
        names = pending.pop(0)
        if not any(trial.widen(names, wider) for wider in (_any_sign, _larger)) and len(names) > 1:
            half = len(names) // 2
            pending[:0] = [names[:half], names[half:]]
    return trial.problem


def _alike(problem: Problem, form: Form) -> tuple[tuple[str, ...], ...]:
    """Names of tensors seen in a range of their own; those that a class of modules uses alike together."""
    found: dict[Any, list[str]] = {}
    for spec in problem.tensors:
        if spec.sampler.kind == "uniform":
            found.setdefault(_use(spec.name, form), []).append(spec.name)
    return tuple(map(tuple, found.values()))


def _use(name: str, form: Form) -> Any:
    """The class of modules that holds a tensor and its name there; of others, the tensor's own name."""
    held = form.held.get(name)
    if held is None or held.module is None:
        return name
    owner, _, key = held.key.rpartition(".")
    return type(held.module.get_submodule(owner)), key


def _any_sign(sampler: Sampler) -> Sampler | None:
    """What is tried first; what is kept then is of the mean and spread that were seen."""
    return Sampler(kind="normal", low=0.0, high=max(abs(sampler.low), abs(sampler.high)))


def _larger(sampler: Sampler) -> Sampler | None:
    changes = {"low": sampler.low * 64, "high": sampler.high * 64}
    return sampler.model_copy(update=changes) if sampler.low >= 0 else None


class _Trial:
    """A problem whose samplers are widened one after the other; only tensors that change are drawn anew."""

    def __init__(self, problem: Problem, form: Form, cases: Sequence[Case], middle: Case) -> None:
        self.problem = problem
        self._form = form
        self._middle = middle
        self._seen = draw(problem, middle, "normal", 1)
        self._base = _bad(form, self._seen)
        self._drawn = [(case, draw(problem, case, "normal", 0)) for case in cases]

    def widen(self, names: Sequence[str], wider: Wider) -> bool:
        """Draw these tensors from wider samplers from now on, unless the reference takes harm from that."""
        specs = [spec for spec in self.problem.tensors if spec.name in names]
        samplers = [wider(spec.sampler) for spec in specs]
        if not all(samplers):
            return False
        tried = [s.model_copy(update={"sampler": one}) for s, one in zip(specs, samplers, strict=True)]
        if self._harmful(tried):
            return False
        kept = [_kept(spec.sampler, one) for spec, one in zip(specs, samplers, strict=True) if one]
        for spec, sampler in zip(specs, kept, strict=True):
            self.problem = replaced(self.problem, spec, sampler)
        changed = [spec for spec in self.problem.tensors if spec.name in names]
        self._drawn = [(case, {**tensors, **self._draw(changed, case, 0)}) for case, tensors in self._drawn]
        return True

    def _harmful(self, specs: Specs) -> bool:
        if _bad(self._form, {**self._seen, **self._draw(specs, self._middle, 1)}) > self._base:
            return True
        tried = ({**tensors, **self._draw(specs, case, 0)} for case, tensors in self._drawn)
        return any(error_at(self._form, tensors) is not None for tensors in tried)

    def _draw(self, specs: Specs, case: Case, seed: int) -> dict[str, Tensor]:
        return draw(self.problem.model_copy(update={"tensors": tuple(specs)}), case, "normal", seed)


def _kept(seen: Sampler, tried: Sampler) -> Sampler:
    if tried.kind == "normal":
        return as_normal(seen)
    return seen.model_copy(update={"scalable": True})


def _bad(form: Form, tensors: Mapping[str, Tensor]) -> float:
    """Elements of the outputs that are not finite; infinitely many when the reference raises.

    An output of integers cannot show them, an argmax of NaN is a place like any other: then those of all
    results on the way count.
    """
    on_the_way = _NotFinite()
    try:
        with on_the_way:
            results = check_outputs(run(form, tensors))
    except Exception:
        return float("inf")
    if not all(r.dtype.is_floating_point for r in results):
        return float(on_the_way.elements)
    return float(sum(int((~r.isfinite()).sum()) for r in results))


class _NotFinite(TorchDispatchMode):
    """Counts NaN and infinities among the results of all operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **kwargs or {})
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, Tensor) and one.dtype.is_floating_point:
                self.elements += int((~one.isfinite()).sum())
        return made
