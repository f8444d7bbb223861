"""``%cuda_apply``: the best kernel goes behind a name of the notebook, and back."""

from __future__ import annotations

import inspect
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from workbench.errors import ProblemError, UsageError, nearest
from workbench.live.applied import EMULATED_ELEMENTS, Applied
from workbench.live.live_session import LiveSession
from workbench.live.original import Original, original_of, random_state_kept
from workbench.model import Problem
from workbench.views.phrases import factor_text

if TYPE_CHECKING:
    from workbench.live.captured import Captured

LARGEST_COPY = 2**26
"""Bytes of parameters; a larger reference is built without them to see what else it reads."""
Namespace = MutableMapping[str, Any]


class AppliedClass:
    """Behind the name of a module class: makes the original's instances, each with the kernel in front."""

    def __init__(self, original: type, make: Any) -> None:
        self.original = original
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Applied:
        applied: Applied = self._make(self.original(*args, **kwargs).eval())
        return applied

    def __repr__(self) -> str:
        return f"<{self.original.__name__}: instances run a CUDA kernel>"


def announce(live: LiveSession, namespace: Namespace) -> None:
    """Let a cell's function be called by its name, as if the cell had run. Nothing runs before the call."""

    def problem() -> Problem:
        live.opened()
        opened = live.tree.opened
        assert opened is not None  # opened() would have raised
        return opened.problem

    namespace[live.name] = Original(problem, namespace)


def apply(live: LiveSession, namespace: Namespace) -> str:
    """Put the best kernel behind the problem's name; returns lines that say what runs where.

    Raises ``UsageError`` when there is no correct kernel yet.
    """
    best, opened = live.best, live.tree.opened
    if best is None or opened is None:
        raise UsageError(f"{live.name} has no correct kernel ({live.state}); see session.to_frame()")
    problem = opened.problem
    known = namespace.get(live.name)
    original = known.original if isinstance(known, Applied | AppliedClass) else known
    if original is None:
        original = original_of(problem, namespace)
    wanted = _made_for(problem)

    def make(target: Any) -> Applied:
        made = Applied(target, problem, best.source, opened.target)
        if wanted is not None:
            made.made_for(wanted)
        if _cuda_in_use():
            made.preload(_current_device())
        return made

    applied = AppliedClass(original, make) if inspect.isclass(original) else make(original)
    namespace[live.name] = applied
    lines = [_where(live.name, f"{live.name} now runs {best.id} ({best.title})")]
    if best.slower:
        lines.append(f"It is {best.slower}, {factor_text(best.score)}: what you had is the faster one.")
    if isinstance(applied, Applied):
        lines.append(applied.watch.words())
    return "\n".join(filter(None, lines))


def _where(name: str, head: str) -> str:
    if _has_gpu():
        return (
            f"{head} for CUDA tensors, on the current stream; small CPU tensors go through the emulator, "
            f"all else to the original: {name}.last_fallback says why."
        )
    return (
        f"{head} on the emulator, for calls of at most "
        f"{EMULATED_ELEMENTS:,} elements; larger ones fall back to the original: there is no GPU here."
    )


def _made_for(problem: Problem) -> Captured | None:
    """What the reference read when the kernel was made; None where that can no longer be seen."""
    from workbench.live.captured import captured
    from workbench.problem.reference import rebuilt

    try:
        with random_state_kept():
            return captured(rebuilt(problem, LARGEST_COPY))
    except ProblemError:
        return None


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _cuda_in_use() -> bool:
    """True once the notebook itself has used its GPU: applying a kernel is no reason to begin with it."""
    import torch

    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _current_device() -> int:
    import torch

    return torch.cuda.current_device()


def restore(name: str, namespace: Namespace) -> str:
    """Put the original back; returns one line. Raises ``UsageError`` when nothing was applied."""
    known = namespace.get(name)
    if not isinstance(known, Applied | AppliedClass):
        raise UsageError(f"no kernel is applied to {name!r}.{nearest(name, _applied(namespace))}")
    original = known.original
    # One that follows names of the notebook has to stand in front of the cell's function, to look them up.
    if isinstance(original, Original) and not original.followed:
        original = original.target
    namespace[name] = original
    return f"{name} is the original again."


def _applied(namespace: Namespace) -> list[str]:
    return [name for name, value in namespace.items() if isinstance(value, Applied | AppliedClass)]
