"""What becomes of a hint: which words of it the playbook reads, in a line for the person.

The playbook looks for techniques by their name, their title's words and their values; language models get the
text as it is.
"""

from __future__ import annotations

import re

MOST_NAMED = 4
_COMMON_TEXT = """
    a an and are as at be by each every for from in into is it its more no not of off on one than that the to
    use what with
"""
COMMON = frozenset(_COMMON_TEXT.split())
"""Words that say nothing about a technique."""


def hint_words(text: str, brain: str) -> str:
    """What the next round makes of a hint, for a brain's name as a session records it."""
    if brain.startswith("replay"):
        return "Noted, but a replay goes on as it was recorded: no hint changes it."
    thinks = brain.partition("reasoner=")[2].partition(",")[0] or brain
    if thinks != "playbook":
        return f"Noted for the next round: {thinks} is given these words."
    words, names = recognised(text)
    if not words:
        return (
            "Noted, but the playbook reads none of it: it knows techniques by name, such as vector_width or "
            "row_cache. Language models read free text (--brain llm)."
        )
    told = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
    return (
        f"Noted for the next round: of it the playbook reads {' and '.join(map(repr, words))} alone, and "
        f"puts cards about {told} first, where there are such."
    )


def recognised(text: str) -> tuple[list[str], list[str]]:
    """The hint's words that the playbook knows, and the techniques they stand for, the best match first."""
    from workbench.playbook.techniques.table import TECHNIQUES

    words = [word for word in dict.fromkeys(re.findall(r"[a-z0-9_]+", text.lower())) if word not in COMMON]
    spoken = {
        name: {name, *name.split("_"), *technique.title.lower().split(), *technique.values}
        for name, technique in TECHNIQUES.items()
    }
    read = [word for word in words if any(word in known for known in spoken.values())]
    named = [name for name, known in spoken.items() if known & set(read)]
    return read, sorted(named, key=lambda name: (name not in read, -len(spoken[name] & set(read))))
