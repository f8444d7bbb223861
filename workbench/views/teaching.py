"""What the playbook teaches about a technique, for the chips on a card."""

from __future__ import annotations

from typing import NamedTuple

from workbench.playbook.techniques.table import TECHNIQUES


class Teaching(NamedTuple):
    """A technique's title and its paragraph; the paragraph is empty for one the playbook does not know."""

    title: str
    paragraph: str
    plain: str = ""
    """The value a kernel has before anybody thinks of the technique."""
    values: tuple[str, ...] = ()
    """All values there are, the plain one first."""


def teaching(technique: str) -> Teaching:
    """Title and paragraph by the technique's name."""
    known = TECHNIQUES.get(technique)
    if known is None:
        return Teaching(technique.replace("_", " "), "")
    return Teaching(known.title, f"{known.teaches} Look for: {known.look_for}.", known.plain, known.values)
