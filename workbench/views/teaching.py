"""What the playbook teaches about a technique, for the chips on a card."""

from __future__ import annotations

from typing import NamedTuple


class Teaching(NamedTuple):
    """A technique's title and its paragraph; the paragraph is empty for one the playbook does not know."""

    title: str
    paragraph: str


def teaching(technique: str) -> Teaching:
    """Title and paragraph by the technique's name."""
    return Teaching(technique.replace("_", " "), "")
