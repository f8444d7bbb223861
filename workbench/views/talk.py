"""What models said about a branch, for readers without scripts: answers only, a fold each.

Prompts are ten times as long and stay in the journal: the interactive page and `workbench conversation` show
them. Every text is a stranger's and is only ever text.
"""

from __future__ import annotations

from typing import Any

from workbench.views.markup import Markup, tag

Json = dict[str, Any]


def talk(exchanges: list[Json]) -> list[object]:
    """The exchanges of ``detail``'s ``conversation``; nothing where no model had a part."""
    if not exchanges:
        return []
    where = "Answers; the prompts are in the session's journal (workbench conversation)."
    return [tag("h3", "Conversation"), tag("p", where, cls="fine"), [_said(one) for one in exchanges]]


def _said(one: Json) -> Markup:
    failed = f"; {one['failed']}" if one["failed"] else ""
    who = f"{one['role']}, {one['model']}: {one['words']}{failed}"
    # Answers are JSON: one long line, which a paragraph breaks and a listing would not.
    return tag("details", tag("summary", who), tag("p", one["answer"] or "(nothing)"))
