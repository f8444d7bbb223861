"""Markup built from trusted tags and untrusted text: whatever is not ``Markup`` is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"path", "rect", "circle", "br", "meta", "hr"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element. ``cls`` stands for ``class``, ``_`` for ``-``; None and False are left out."""
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = "class" if key == "cls" else key.replace("_", "-")
        words.append(f" {key}" if value is True else f' {key}="{escape(str(value), quote=True)}"')
    head = f"<{name}{''.join(words)}"
    if name in VOID and not children:
        return Markup(f"{head}/>")
    return Markup(f"{head}>{join(children)}</{name}>")


def join(content: object) -> Markup:
    """Children one after another; strings escaped, None left out, iterables flattened."""
    if content is None or content is False:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, Iterable) and not isinstance(content, str):
        return Markup("".join(join(part) for part in content))
    return Markup(escape(str(content), quote=False))


def grid(headings: list[str], rows: Iterable[list[object]], numeric: Iterable[int] = ()) -> Markup:
    """A table; ``numeric`` columns are right-aligned."""
    right = frozenset(numeric)
    cells = [tag("th", text, cls="num" if i in right else None) for i, text in enumerate(headings)]
    body = [
        tag("tr", [tag("td", cell, cls="num" if i in right else None) for i, cell in enumerate(row)])
        for row in rows
    ]
    return tag(
        "div", tag("table", tag("thead", tag("tr", cells)), tag("tbody", body), cls="grid"), cls="wide"
    )
