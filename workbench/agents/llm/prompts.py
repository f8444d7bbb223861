"""Prompts from their files: ``prompts/ROLE.j2``, each with its version in the first line.

Owns loading, rendering and the quoting of untrusted text. A prompt's file has a system part and a user
part, divided by a line ``--- user ---``. Strangers' prose goes through ``quoted`` (one line, as a JSON
string), strangers' code through ``fenced`` (a fence that the code cannot close).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench.agents.llm.reading import sound

if TYPE_CHECKING:
    from jinja2 import Environment

from workbench.events import Said

FOLDER = Path(__file__).parent / "prompts"
_FIRST_LINE = re.compile(r"\{# version (\d+): .+ #\}")
_DIVIDER = "--- user ---\n"


class Prompt(NamedTuple):
    """A rendered prompt."""

    name: str
    """``reasoner-1``: the file and its version."""
    messages: tuple[Said, ...]


def render(name: str, values: Mapping[str, object]) -> Prompt:
    """The prompt of a file, with every value it names. Raises ``jinja2.UndefinedError`` for a missing one."""
    template = _environment().get_template(f"{name}.j2")
    text = template.render(values)
    system, user = text.split(_DIVIDER, 1)
    messages = (Said(role="system", text=_tidy(system)), Said(role="user", text=_tidy(user)))
    return Prompt(f"{name}-{version(name)}", messages)


@cache
def version(name: str) -> int:
    """Version in a prompt's first line; it goes up with every change."""
    first = (FOLDER / f"{name}.j2").read_text(encoding="utf-8").partition("\n")[0]
    found = _FIRST_LINE.fullmatch(first)
    if found is None:
        raise ValueError(f"{name}.j2 must begin with {{# version N: what it asks for #}}")
    return int(found[1])


def examples() -> tuple[str, ...]:
    """The worked examples of the kernel format, simplest first."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted((FOLDER / "examples").glob("*.cu")))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Plain text for a model: HTML escaping belongs where HTML is made.
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(quoted=quoted, fenced=fenced)
    return made


def quoted(text: str, limit: int = 600) -> str:
    """Untrusted prose as one JSON string: it ends where its quotes end."""
    words = " ".join(sound(text).split())
    return json.dumps(words if len(words) <= limit else f"{words[: limit - 1]}…", ensure_ascii=False)


def fenced(text: str, language: str = "cuda") -> str:
    """Untrusted code in a fence longer than any run of backticks in it."""
    code = sound(text).strip("\n")
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
