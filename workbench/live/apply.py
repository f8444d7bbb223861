"""``%cuda_apply``: the best kernel goes behind a name of the notebook, and back."""

from __future__ import annotations

import inspect
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from workbench.errors import ProblemError, UsageError, nearest
from workbench.live.applied import EMULATED_ELEMENTS, Applied
from workbench.live.applied_module import Make, applied_class, applied_module, original_behind
from workbench.live.known import Known
from workbench.live.live_session import LiveSession
from workbench.live.original import Original, original_of, random_state_kept
from workbench.model import Problem
from workbench.plan.parse import parse
from workbench.views.phrases import factor_text

if TYPE_CHECKING:
    from workbench.live.captured import Captured

LARGEST_COPY = 2**26
"""Bytes of parameters; a larger reference is built without them to see what else it reads."""
Namespace = MutableMapping[str, Any]


def announce(live: LiveSession, namespace: Namespace) -> None:
    """Let a cell's function be called by its name, as if the cell had run. Nothing runs before the call."""

    def problem() -> Problem:
        if live.tree.opened is None:  # once it is read, a search that fails takes nothing from it
            live.opened()
        opened = live.tree.opened
        assert opened is not None  # opened() would have raised
        return opened.problem

    namespace[live.name] = Original(problem, namespace)


def apply(live: Known, namespace: Namespace) -> str:
    """Put the best kernel behind the problem's name; returns lines that say what runs where.

    Raises ``UsageError`` when there is no correct kernel yet.
    """
    best, opened = live.best, live.tree.opened
    if best is None or opened is None:
        raise UsageError(f"{live.name} has no correct kernel ({live.state}); see session.to_frame()")
    problem = opened.problem
    known = namespace.get(live.name)
    original = original_behind(known)
    if original is None:
        original = known if known is not None else original_of(problem, namespace)
    wanted = _made_for(problem)

    def make(target: Any) -> Applied:
        made = Applied(target, problem, best.source, opened.target)
        made.judged_on(best.layouts)
        if wanted is not None:
            made.made_for(wanted)
        if _cuda_in_use():
            made.preload(_current_device())
        return made

    applied = None if inspect.isclass(original) else make(original)
    namespace[live.name] = _in_place(original, applied, make)
    lines = [_where(live.name, f"{live.name} now runs {best.id} ({best.title})")]
    if not parse(best.source).launches:
        lines.append("It has no kernel of its own: it calls the library's, as the original does.")
    if best.slower:
        lines.append(f"It is {best.slower}, {factor_text(best.score)}: what you had is the faster one.")
    if applied is not None:
        lines.append(applied.watch.words())
    return "\n".join(filter(None, lines))


def _in_place(original: Any, applied: Applied | None, make: Make) -> Any:
    """What goes behind the name: a class for a class, a module for a module, else a callable."""
    from torch import nn

    if applied is None:
        return applied_class(original, make)
    module = original.target if isinstance(original, Original) else original
    return applied_module(module, applied, make) if isinstance(module, nn.Module) else applied


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
    original = original_behind(namespace.get(name))
    if original is None:
        raise UsageError(f"no kernel is applied to {name!r}.{nearest(name, _applied(namespace))}")
    # One that follows names of the notebook has to stand in front of the cell's function, to look them up.
    if isinstance(original, Original) and not original.followed:
        original = original.target
    namespace[name] = original
    return f"{name} is the original again."


def _applied(namespace: Namespace) -> list[str]:
    return [name for name, value in namespace.items() if original_behind(value) is not None]
