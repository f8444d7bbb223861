"""Drawings as plain JSON: the panel makes elements of them, a page without scripts gets them as markup.

An element is ``[tag, attributes, children]``; a child is an element or text, which is never parsed as markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.views.markup import Markup, tag

Drawing = list[Any]


def draw(name: str, /, *children: object, **attributes: object) -> Drawing:
    """One element. ``cls`` stands for ``class``, ``_`` for ``-``; None is left out, iterables flattened."""
    named = {
        "class" if key == "cls" else key.replace("_", "-"): _short(value)
        for key, value in attributes.items()
        if value is not None and value != ""
    }
    return [name, named, list(_flat(children))]


def _short(value: object) -> object:
    """A tenth of a pixel is enough."""
    return round(value, 1) if isinstance(value, float) else value


def _flat(children: Iterable[object]) -> Iterable[object]:
    for child in children:
        if child is None or child is False:
            continue
        if isinstance(child, str) or _is_element(child):
            yield child
        elif isinstance(child, Iterable):
            yield from _flat(child)
        else:
            yield str(child)


def _is_element(child: object) -> bool:
    return isinstance(child, list) and len(child) == 3 and isinstance(child[0], str)


def canvas(width: float, height: float, words: str, *children: object, cls: str = "plot") -> Drawing:
    """A whole drawing; ``words`` say what is in it to those who do not see it."""
    box = f"0 0 {width:g} {height:g}"
    return draw("svg", *children, viewBox=box, cls=cls, role="img", aria_label=words)


def text(words: str, x: float, y: float, cls: str = "bar-text", anchor: str | None = None) -> Drawing:
    """A line of text; ``anchor`` is ``middle`` or ``end``."""
    return draw("text", words, x=float(x), y=float(y), cls=cls, text_anchor=anchor)


def at(*numbers: float) -> str:
    """Coordinates in a path, to a tenth of a pixel."""
    return " ".join(f"{number:.1f}".removesuffix(".0") for number in numbers)


def to_markup(drawing: Drawing) -> Markup:
    """The drawing for a page without scripts; text and attributes are escaped."""
    name, attributes, children = drawing
    inner = [child if isinstance(child, str) else to_markup(child) for child in children]
    return tag(name, *inner, **attributes)
