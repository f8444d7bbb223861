"""Kernels of one file that are the same but for the names in them: written once, launched for all.

A network repeats its blocks. What is read of the file stays short, and so does the time of the compiler. Owns
which kernels are the same, by their text alone; never changes what one does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.kernels.kernel_text import KernelText, Step, kernels_of

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""Not the ``x`` of ``threadIdx.x``."""
_COMMENT = re.compile(r"//[^\n]*")
_SPACE = re.compile(r"\s+")
"""Where a line is broken depends on how long the names in it are."""
_OPENS = ("(", "<")
"""Right behind the name of a function, which is no name of the kernel's own."""
_WIDTH = 104


@dataclass(frozen=True)
class Repeats:
    """Which kernels stand for others."""

    names: Mapping[str, str]
    """Name of the kernel that is launched, by that of one that is not written."""

    def launched(self, kernel: str) -> str:
        """The kernel that the plan launches for this one."""
        return self.names.get(kernel, kernel)

    def written(self, kernels: Iterable[KernelText]) -> list[str]:
        """The code of all kernels that are written, each with what it is launched for beside its own work."""
        others: dict[str, list[str]] = {}
        for repeat, first in self.names.items():
            others.setdefault(first, []).append(repeat)
        return [
            _headed(kernel.code, others.get(kernel.name, ()))
            for kernel in kernels
            if kernel.name not in self.names
        ]


def repeats_of(steps: Iterable[Step]) -> Repeats:
    """The kernels of a file's steps that repeat an earlier one."""
    seen: dict[tuple[object, ...], str] = {}
    names = {}
    for kernel in (kernel for step in steps for kernel in kernels_of(step)):
        first = seen.setdefault(_anonymous(kernel), kernel.name)
        if first != kernel.name:
            names[kernel.name] = first
    return Repeats(names)


def _anonymous(kernel: KernelText) -> tuple[object, ...]:
    """The kernel without its own names: arguments, and what is called after them, by their number."""
    code = _SPACE.sub(" ", _COMMENT.sub("", kernel.code))
    head = re.search(rf"void {kernel.name}\(([^()]*)\)", code)
    parameters = [one.split()[-1] for one in head[1].split(",")] if head else []
    own = {name: number for number, name in enumerate((kernel.name, *parameters))}
    longest = sorted(own, key=len, reverse=True)

    def numbered(found: re.Match[str]) -> str:
        word = found[0]
        is_function = code[found.end() : found.end() + 1] in _OPENS
        for name in longest:
            if word == name or (word.startswith(f"{name}_") and not is_function):
                return f"@{own[name]}{word.removeprefix(name)}"  # no name in C++ has an @
        return word

    return _WORD.sub(numbered, code), kernel.cluster, kernel.cooperative


def _headed(code: str, others: Sequence[str]) -> str:
    if not others:
        return code
    lines = ["// Launched in place of kernels that would be the same:"]
    for number, name in enumerate(others):
        word = f" {name}{',' if number < len(others) - 1 else '.'}"
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("//")
        lines[-1] += word
    return "\n".join([*lines, code])
