"""A model's text becomes an answer value, or one line on why it cannot.

Lenient in the wrapping (fences, talk around the JSON), strict in the content. Owns the cleaning of
strangers' text. Never runs, imports or formats anything of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from workbench.agents.llm.answers import Card, Change, KernelAnswer, RepairAnswer
from workbench.model import Value

A = TypeVar("A", bound=Value)
SOURCE_LIMIT = 256 * 1024
"""Most characters of a kernel."""
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^[ \t]*\1[`~]*[ \t]*$", re.M | re.S)
_CODE = ("cuda", "cu", "cpp", "c++", "c", "")
_UNSOUND = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S)


class Unreadable(Exception):
    """The answer cannot be used; the message says why in a line that the model can be told."""


def read_answer(kind: type[A], text: str) -> A:
    """The answer in a model's text. Raises ``Unreadable``."""
    text = _THOUGHT.sub("", sound(text)).strip()
    if not text:
        raise Unreadable("the answer is empty")
    problem = "there is no JSON object in it"
    for found in _objects(text):
        try:
            return kind.model_validate(_filled(kind, _known(kind, found), text))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            problem = f"{place}: {first['msg']}" if place else first["msg"]
    if issubclass(kind, KernelAnswer) and (source := _fenced_code(text)):
        return kind.model_validate({"name": "kernel", "description": "", "source": source})
    raise Unreadable(problem)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects of a text: the whole of it, what stands in fences, what begins at a brace."""
    for candidate in (text, *(match[3] for match in _FENCE.finditer(text))):
        if isinstance(found := _loads(candidate), dict):
            yield found
    decoder = json.JSONDecoder(strict=False)
    start = text.find("{")
    for _ in range(20):
        if start < 0:
            return
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if isinstance(found, dict):
                yield found
        start = text.find("{", end)


def _loads(text: str) -> Any:
    try:
        # Raw newlines inside strings are the usual slip of models that write code into JSON.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _known(kind: type[Value], found: dict[str, Any]) -> dict[str, Any]:
    """The object without fields nobody asked for; a list alone, or one card, is put in its place."""
    fields = kind.model_fields
    if "cards" in fields and "cards" not in found and "title" in found:
        found = {"cards": [found]}
    kept = {name: _sound_all(value) for name, value in found.items() if name in fields}
    if isinstance(kept.get("cards"), list):
        kept["cards"] = _good_cards(kept["cards"])
    return kept


def _good_cards(cards: list[Any]) -> list[Any]:
    """Cards without fields nobody asked for, and without those that are none; all of them if none is good."""
    pruned = [_pruned(card, Card) for card in cards]
    good = [card for card in pruned if _is_valid(card)]
    return good or pruned


def _pruned(value: Any, kind: type[Value]) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if name in kind.model_fields}
    if kind is Card and isinstance(kept.get("changes"), list):
        kept["changes"] = [_pruned(change, Change) for change in kept["changes"]]
    return kept


def _is_valid(card: Any) -> bool:
    try:
        Card.model_validate(card)
    except ValidationError:
        return False
    return True


def _sound_all(value: Any) -> Any:
    """A JSON value with sound text throughout: escapes in JSON can spell what its own bytes could not."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, list):
        return [_sound_all(item) for item in value]
    if isinstance(value, dict):
        return {sound(name): _sound_all(item) for name, item in value.items()}
    return value


def _filled(kind: type[Value], found: dict[str, Any], text: str) -> dict[str, Any]:
    """Code that stands in a fence beside the JSON belongs into it."""
    if "source" in kind.model_fields and not found.get("source") and (code := _fenced_code(text)):
        found["source"] = code
    return found


def _fenced_code(text: str) -> str:
    """The longest block of code in fences that has a plan; empty when there is none."""
    blocks = [m[3] for m in _FENCE.finditer(text) if m[2].lower() in _CODE and "/* plan" in m[3]]
    return max(blocks, key=len, default="")


def clean_source(answer: KernelAnswer | RepairAnswer) -> str:
    """The kernel's text without fences around it. Raises ``Unreadable`` for none, or one too long."""
    source = sound(answer.source).strip("\n")
    if "```" in source or "~~~" in source:
        source = _fenced_code(source) or _bare(source)
    if not source.strip():
        raise Unreadable("source is empty")
    if len(source) > SOURCE_LIMIT:
        raise Unreadable(f"source has {len(source):,} characters; {SOURCE_LIMIT:,} are the limit")
    return source.strip("\n") + "\n"


def _bare(source: str) -> str:
    """Without the lines that are fences."""
    return "\n".join(
        line for line in source.split("\n") if not re.match(r"\s*(`{3,}|~{3,})[\w+-]*\s*$", line)
    )


def sound(text: str) -> str:
    """Text that any file and any JSON can hold: no lone surrogates, no control characters."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    return _UNSOUND.sub("", text)


def line_of(text: str, limit: int = 300) -> str:
    """One line of prose of limited length."""
    words = " ".join(sound(text).split())
    return words if len(words) <= limit else f"{words[: limit - 1].rstrip()}…"


def word_of(text: str) -> str:
    """A word for a technique or its value: letters, digits and underscores; empty when none is left."""
    return re.sub(r"[^a-z0-9_.]+", "_", text.lower()).strip("_.")[:40]


def factor_of(value: float) -> float:
    """A believable factor: finite, between a tenth and a thousand."""
    return min(max(value, 0.1), 1000.0) if math.isfinite(value) else 1.0
