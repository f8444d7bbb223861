"""Two kernels held side by side, line by line, with the words of a line that changed. Pure; golden-tested."""

from __future__ import annotations

import difflib
import re
from typing import Any

from workbench.model import BranchId
from workbench.tree import Node, Tree
from workbench.views.highlight import highlight

Json = dict[str, Any]
CONTEXT_LINES = 3
REFERENCE = "reference"
"""Stands for the person's own text in the place of a branch's id."""


def differences(tree: Tree, branch: BranchId, against: str) -> Json:
    """What it takes to get from ``against`` to ``branch``: a branch's kernel, or the reference.

    The reference is another language: it is shown whole beside the kernel. Raises ``SessionError`` for an
    unknown branch.
    """
    node = tree.node(branch)
    if against == REFERENCE:
        text = tree.opened.problem.source if tree.opened else ""
        return {"branch": branch, "against": against, "reference": runs_of(text), "lines": None}
    other = tree.node(BranchId(against))
    return {"branch": branch, "against": against, "reference": None, "lines": changed_lines(other, node)}


def parents_diff(tree: Tree, node: Node) -> list[Json] | None:
    """Lines against the first parent's kernel; None without two kernels."""
    return changed_lines(tree.nodes[node.branch.parents[0]], node) if node.branch.parents else None


def changed_lines(before: Node, after: Node) -> list[Json] | None:
    """Lines with some context around each change; None without two kernels."""
    if before.draft is None or after.draft is None:
        return None
    old, new = before.draft.kernel.source, after.draft.kernel.source
    was, now = old.split("\n"), new.split("\n")
    shown_old, shown_new = runs_of(old), runs_of(new)
    found: list[Json] = []
    for group in difflib.SequenceMatcher(None, was, now, autojunk=False).get_grouped_opcodes(CONTEXT_LINES):
        if found:
            found.append(_line("gap", None, None, []))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [_line("same", i + 1, i - i1 + j1 + 1, shown_old[i]) for i in range(i1, i2)]
                continue
            gone, come = _word_marks(was[i1:i2], now[j1:j2])
            found += [_line("removed", i + 1, None, shown_old[i], gone[i - i1]) for i in range(i1, i2)]
            found += [_line("added", None, j + 1, shown_new[j], come[j - j1]) for j in range(j1, j2)]
    return found


def runs_of(text: str) -> list[list[list[str]]]:
    """A text as lines of [class, words]."""
    return [[list(run) for run in line] for line in highlight(text)]


def _line(
    tag: str, old: int | None, new: int | None, runs: list[list[str]], marks: tuple[tuple[int, int], ...] = ()
) -> Json:
    return {"tag": tag, "old": old, "new": new, "runs": runs, "marks": [list(mark) for mark in marks]}


Marks = list[tuple[tuple[int, int], ...]]
"""For each line: from and to, in characters, of what differs in it."""


def _word_marks(was: list[str], now: list[str]) -> tuple[Marks, Marks]:
    """What differs within lines that stand for each other; nothing where whole lines came or went."""
    if len(was) != len(now):
        return [()] * len(was), [()] * len(now)
    pairs = [_words(old, new) for old, new in zip(was, now, strict=True)]
    return [old for old, _ in pairs], [new for _, new in pairs]


def _words(old: str, new: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    a, b = re.findall(r"\w+|\s+|[^\w\s]", old), re.findall(r"\w+|\s+|[^\w\s]", new)
    gone, come = [], []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        gone.append((len("".join(a[:i1])), len("".join(a[:i2]))))
        come.append((len("".join(b[:j1])), len("".join(b[:j2]))))
    return tuple(m for m in gone if m[1] > m[0]), tuple(m for m in come if m[1] > m[0])
