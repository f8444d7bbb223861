"""The cheat suite of the foreign lane: files with the verdict each must get, and a way to judge them all.

A file's docstring names its problem and its verdict, and for a cheat its number in the list of known
cheats. Used by the tests and by ``benchmarks/foreign_suite.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.foreign.judge import judge_solution
from workbench.foreign.values import Allowance, ForeignEvaluation, ForeignOptions
from workbench.model import Problem
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.workers import Limits, torch_ready

HERE = Path(__file__).parent
AT_ONCE = 2
AT_ONCE_ON_GPU = 6
CALLS = 150


@dataclass(frozen=True)
class Entry:
    """One solution of the suite."""

    path: Path
    what: str
    """What it tries, in a sentence."""
    problem: str
    verdicts: tuple[str, ...]
    """Kinds of outcome it may get."""
    number: str = ""
    """In the list of known cheats, or a word."""
    call_s: float = 60.0
    cpu_only: bool = False
    """True for a file that reads its tensors through host pointers."""
    timed: bool = False
    """True for a file of ``on_gpu`` that is timed as well."""

    @property
    def honest(self) -> bool:
        """True for what must pass."""
        return "passed" in self.verdicts

    @property
    def name(self) -> str:
        """Such as ``cheats/zeros``."""
        return f"{self.path.parent.name}/{self.path.stem}"


@dataclass(frozen=True)
class Judged:
    """An entry and what came of it."""

    entry: Entry
    evaluation: ForeignEvaluation

    @property
    def verdict(self) -> str:
        """Kind of outcome."""
        return self.evaluation.report.outcome.kind

    @property
    def as_it_must(self) -> bool:
        """True when the verdict is the one the file names."""
        return self.verdict in self.entry.verdicts


def entries(folders: tuple[str, ...] = ("cheats", "honest")) -> list[Entry]:
    """Every file of the folders, in order of name; those of ``on_gpu`` need a GPU."""
    return [_entry(path) for folder in folders for path in sorted((HERE / folder).glob("*.py"))]


def _entry(path: Path) -> Entry:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    what, _, facts = text.partition("\n\n")
    found = {key: value.strip() for key, _, value in (line.partition(":") for line in facts.splitlines())}
    return Entry(
        path=path,
        what=what,
        problem=found["problem"],
        verdicts=tuple(found["verdict"].split(", ")),
        number=found.get("number", ""),
        call_s=float(found.get("call_s", 60.0)),
        cpu_only="cpu_only" in found,
        timed="timed" in found,
    )


def problems(wanted: Iterable[Entry]) -> dict[str, Problem]:
    """Open every problem the entries name, once."""
    names = sorted({entry.problem for entry in wanted})
    with ThreadPoolExecutor(AT_ONCE) as threads:
        opened = threads.map(lambda name: open_problem(read_file(HERE / "problems" / f"{name}.py")), names)
        return dict(zip(names, opened, strict=True))


def judged(
    wanted: list[Entry], opened: dict[str, Problem], device: Literal["cpu", "cuda"] = "cpu"
) -> Iterator[Judged]:
    """Judge entries a few at a time, in order; on a GPU those that are timed come last, one at a time."""

    def one(entry: Entry) -> Judged:
        allowance = Allowance(call_s=entry.call_s, first_call_s=4 * entry.call_s)
        timing: Literal["gpu", "no"] = "gpu" if entry.timed else "no"
        options = ForeignOptions(device=device, calls=CALLS, allowance=allowance, timing=timing)
        return Judged(entry, judge_solution(opened[entry.problem], entry.path.read_text(), options))

    _leave_bytecode()
    with ThreadPoolExecutor(AT_ONCE_ON_GPU if device == "cuda" else AT_ONCE) as threads:
        yield from threads.map(one, [entry for entry in wanted if not entry.timed])
    yield from map(one, (entry for entry in wanted if entry.timed))


def _leave_bytecode() -> None:
    """What each solution's process imports, once in a process that may write.

    A fresh environment has no bytecode, and the sandbox writes none: every solution compiled setuptools
    anew, a third of what it took.
    """
    torch_ready().call(f"{__name__}:import_builder", b"", Limits())


def import_builder(payload: bytes) -> bytes:
    """Worker function of ``_leave_bytecode``."""
    import torch.utils.cpp_extension  # noqa: F401

    return payload
