"""Reads the kernels of ``cheats/`` and ``honest/``, judges them, and says who caught what.

A file begins with comment lines ``// number:``, ``// name:``, ``// problem:``, ``// expect:``, then what it
does. ``expect`` lists verdicts, the first one that applies: ``mismatch``, ``hazard race``, ``suspect``,
``passed library`` (passed, and the card says that a library did the work).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cheat_problems import PROBLEMS

from workbench.model import (
    CompileFailed,
    Crashed,
    Evaluation,
    Hazard,
    Kernel,
    LaunchFailed,
    Mismatch,
    Passed,
    Problem,
    Suspect,
)

HERE = Path(__file__).parent
FIELDS = ("number", "name", "problem", "expect")


@dataclass(frozen=True)
class CheatFile:
    """One kernel and the verdict it must get."""

    path: Path
    number: str
    """In the referee's list of known cheats; ``honest`` for what must pass."""
    name: str
    problem: Problem
    expect: tuple[str, ...]
    kernel: Kernel

    @property
    def label(self) -> str:
        """``cheats/noop``."""
        return f"{self.path.parent.name}/{self.path.stem}"


def read(path: Path) -> CheatFile:
    """Read one file. Raises ``ValueError`` when its header lacks something."""
    source = path.read_text()
    head = {}
    for line in source.splitlines():
        if not line.startswith("// "):
            break
        key, colon, value = line.removeprefix("// ").partition(": ")
        if colon and key in FIELDS:
            head[key] = value.strip()
    if missing := [name for name in FIELDS if name not in head]:
        raise ValueError(f"{path.name}: the header has no {', '.join(missing)}")
    expected = tuple(word.strip() for word in head["expect"].split(","))
    kernel = Kernel(source=source)
    return CheatFile(path, head["number"], head["name"], PROBLEMS[head["problem"]], expected, kernel)


def all_files() -> tuple[CheatFile, ...]:
    """Cheats in the order of their numbers, then the honest ones."""
    cheats = sorted(map(read, (HERE / "cheats").glob("*.cu")), key=lambda f: (int(f.number), f.label))
    return (*cheats, *sorted(map(read, (HERE / "honest").glob("*.cu")), key=lambda f: f.label))


def verdict_of(evaluation: Evaluation) -> str:
    """The outcome in the words of ``expect``."""
    outcome = evaluation.outcome
    match outcome:
        case Hazard(hazard=kind):
            return f"hazard {kind}"
        case CompileFailed(stage="plan"):
            return "plan refused"
        case Passed(deterministic=False):
            return "passed varying"
        case Passed() if any(facts.library_share for facts in evaluation.facts):
            return "passed library"
        case _:
            return outcome.kind


def caught_by(evaluation: Evaluation) -> str:
    """The referee's own words, shortened."""
    outcome = evaluation.outcome
    match outcome:
        case Passed():
            share = max((facts.library_share for facts in evaluation.facts), default=0.0)
            return f"{share:.0%} of the bytes moved by library calls" if share else ""
        case CompileFailed(diagnostics=told) | LaunchFailed(diagnostics=told):
            return f"line {told[0].line}: {told[0].message}"
        case Mismatch(message=message) | Hazard(message=message) | Crashed(message=message):
            return message
        case Suspect(message=message):
            return message
        case _:
            return outcome.kind
