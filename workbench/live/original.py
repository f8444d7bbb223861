"""The reference of a cell under its own name: built when it is first called, reading what the notebook has.

Owns which names of the notebook it follows. Imports torch only when it is called.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from workbench.model import Problem

_OWN = ("_problem", "_target", "_notebook", "_place", "_followed")


class Original:
    """A cell's function or module, as if the cell had run.

    ``problem`` may wait until the cell is read, and raise ``ProblemError``. Names that the cell takes from
    the ``notebook`` are looked up there at every call, as they would be in a function of the notebook.
    """

    def __init__(self, problem: Callable[[], Problem], notebook: Mapping[str, Any] | None = None) -> None:
        self._problem = problem
        self._target: Callable[..., Any] | None = None
        self._notebook: Mapping[str, Any] = notebook if notebook is not None else {}
        self._place: dict[str, Any] = {}
        """The globals that the cell's code reads."""
        self._followed: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = self.target
        self.refresh()
        return target(*args, **kwargs)

    @property
    def target(self) -> Callable[..., Any]:
        """The function or module itself. Raises ``ProblemError`` when the cell no longer runs."""
        if self._target is None:
            with random_state_kept():
                self._target = self._built(self._problem())
        return self._target

    @property
    def followed(self) -> tuple[str, ...]:
        """Names it looks up in the notebook."""
        assert self.target is not None  # built: they are known
        return self._followed

    def refresh(self) -> None:
        """Look up the notebook's names again."""
        place, notebook = self._place, self._notebook
        for name in self._followed:
            value = notebook.get(name, place)
            if value is not place and value is not place[name]:
                place[name] = value

    def _built(self, problem: Problem) -> Callable[..., Any]:
        from workbench.problem.reference import build, rebuilt
        from workbench.problem.running import run_source, without_gpu

        followed = [name for name in _taken(problem) if name in self._notebook]
        if not followed:
            return rebuilt(problem)
        # Definitions are the notebook's own from the start, values once the cell has run on copies of them:
        # running it must change nothing in the notebook.
        definitions = {name: self._notebook[name] for name in followed}
        alias = _alias(problem, followed)
        definitions = {
            name: value
            for name, value in definitions.items()
            if isinstance(value, types.FunctionType | type) or name == alias
        }
        with without_gpu():
            self._place = run_source(problem.source, problem.payload, (problem.entry,), definitions)
            # The notebook's own object stays in the mode it is in.
            target = self._place[problem.entry] if alias else build(problem.entry, "", self._place)
        if not alias:
            self._followed = tuple(name for name in followed if name in self._place)
        self.refresh()
        return target

    def __getattr__(self, name: str) -> Any:
        # A module's parameters and the rest; that a notebook looks for ``_repr_html_`` builds nothing.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.target, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.target, name, value)

    def __repr__(self) -> str:
        if self._target is None:
            return "<the original of the cell, not called yet>"
        reads = f", which reads {', '.join(self._followed)}" if self._followed else ""
        return f"<the original of the cell: {self._target!r}{reads}>"


def _taken(problem: Problem) -> list[str]:
    """Names that the cell takes from the notebook and does not change itself."""
    from workbench.problem.statements import ALWAYS, free_names, needed, read_statements

    if problem.kind == "pickled":
        return []
    statements = needed(read_statements(problem.source), (problem.entry,))
    touched = {name for statement in statements for name in statement.touches}
    return [name for name in free_names(statements) if name not in touched and name not in ALWAYS]


def _alias(problem: Problem, followed: list[str]) -> str:
    """Which of the ``followed`` names the cell's is another one for; empty where it is none."""
    from workbench.problem.statements import read_statements

    for statement in reversed(read_statements(problem.source)):
        if problem.entry in statement.binds:
            value = getattr(statement.node, "value", None)
            return value.id if isinstance(value, ast.Name) and value.id in followed else ""
    return ""


def original_of(problem: Problem, notebook: Mapping[str, Any] | None = None) -> Any:
    """The original a cell defines: a stand-in for a function or an instance, a module class itself."""
    if problem.kind not in ("module_class", "kernelbench"):
        return Original(lambda: problem, notebook)
    from workbench.problem.running import run_source

    with random_state_kept():
        return run_source(problem.source, problem.payload, (problem.entry,))[problem.entry]


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Building a reference seeds the generators; the notebook's own state comes back afterwards."""
    import numpy
    import torch

    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    numpy_state = numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        numpy.random.set_state(numpy_state)
