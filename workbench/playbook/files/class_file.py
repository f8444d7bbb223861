"""One file with the kernels of several classes of shapes: the plan branches, a macro picks the kernels.

Owns the text around them. Each class is compiled without the others, so that none of its kernels is ever
compiled for a shape that it was not made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.files.plan_text import PlanText
from workbench.playbook.files.shape_classes import ShapeClass
from workbench.playbook.kernels.kernel_text import KernelText, threads_of
from workbench.playbook.text.titles import TITLES

MACRO = "SHAPE_CLASS"
_WIDTH = 104


@dataclass(frozen=True)
class ClassPart:
    """What is written for one class."""

    shapes: ShapeClass
    body: tuple[str, ...]
    """Its lines of the plan, from the sizes on to the return."""
    kernels: tuple[KernelText, ...]
    code: tuple[str, ...]
    """Of the kernels that are written: some repeat others."""
    threads: int


def class_file(plan: PlanText, parts: Sequence[ClassPart], shared: Sequence[str]) -> str:
    """The whole file; ``shared`` are headers and helper functions, which all classes use."""
    texts = [plan.comment(_branches(parts)), _legend(parts)]
    if any(part.kernels for part in parts):
        texts += [*_threads(parts), *shared]
    for number, part in enumerate(parts, start=1):
        if part.kernels:
            code = "\n\n".join(part.code)
            texts.append(f"#if {MACRO} == {number}  // {_words(part)}\n\n{code}\n\n#endif")
    return "\n\n".join(texts) + "\n"


def _branches(parts: Sequence[ClassPart]) -> list[str]:
    """The plan's choice; every branch returns."""
    lines: list[str] = []
    for number, part in enumerate(parts):
        condition = part.shapes.condition.text
        head = f"{'if' if number == 0 else 'elif'} {condition}:" if condition else "else:"
        lines += [f"{head}  # {_labels(part)}", *(f"    {line}" for line in part.body)]
    return lines


def _labels(part: ClassPart) -> str:
    return ", ".join(case.label for case in part.shapes.problem.cases)


def _words(part: ClassPart) -> str:
    return part.shapes.condition.text or "all other shapes"


def _legend(parts: Sequence[ClassPart]) -> str:
    """Which shapes take which kernels, and what the kernels have of their own."""
    lines = [
        "// No kernel is best at every shape: each class of shapes takes what was fastest at the shapes in",
        f"// brackets. The plan looks at the shape and sets {MACRO}.",
    ]
    vectors = [dict(part.shapes.vector) for part in parts]
    for number, part in enumerate(parts, start=1):
        own = [
            TITLES[name, value].lower()
            for name, value in part.shapes.vector
            if any(other.get(name) != value for other in vectors)
        ]
        lines += _filled(f"{number}: {_words(part)} ({_labels(part)})", own)
    return "\n".join(lines)


def _filled(head: str, words: Sequence[str]) -> list[str]:
    """A comment line a class, broken where it becomes too long."""
    lines = [f"//   {head}" + (": " if words else "")]
    for position, word in enumerate(words):
        piece = word + ("; " if position < len(words) - 1 else "")
        if len(lines[-1]) + len(piece.rstrip()) > _WIDTH:
            lines.append("//      ")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _threads(parts: Sequence[ClassPart]) -> list[str]:
    """Threads a block, where a class does not take them from the plan."""
    fixed = [
        (number, threads)
        for number, part in enumerate(parts, start=1)
        if part.kernels and (threads := threads_of(part.kernels, part.threads))
    ]
    if len(fixed) == len(parts) and len({threads for _, threads in fixed}) == 1:
        return [f"constexpr int THREADS = {fixed[0][1]};"]
    lines = []
    for turn, (number, threads) in enumerate(fixed):
        lines += [f"#{'elif' if turn else 'if'} {MACRO} == {number}", f"constexpr int THREADS = {threads};"]
    return ["\n".join([*lines, "#endif"])] if lines else []
