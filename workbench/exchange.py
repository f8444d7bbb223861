"""One exchange with a language model as the tree keeps it: all but its texts, read when they are asked for.

Prompts and answers are nine tenths of a journal and are looked at one branch at a time, so the tree holds
where they are written and what they must hash to. Owns that value; who can read them back is a ``Source``,
and this module opens no file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from sys import intern
from typing import Any, Literal, NamedTuple, Protocol

from workbench.errors import SessionError
from workbench.events import ModelAnswered, Said
from workbench.model import BranchId, Digest, Operator

FACTS = tuple(name for name in ModelAnswered.model_fields if name not in ("kind", "messages", "answer"))
"""What the tree keeps of the event as it is."""
REPEATED = ("role", "model", "prompt", "failed")
"""The same words in many exchanges: held once."""


class Texts(NamedTuple):
    """What was said to a model and what it said."""

    messages: tuple[Said, ...]
    answer: str

    @property
    def mark(self) -> bytes:
        """Hash of the texts, 16 bytes."""
        content = json.dumps([[[said.role, said.text] for said in self.messages], self.answer])
        return blake2b(content.encode(), digest_size=16).digest()


class Source(Protocol):
    """Where texts are written down."""

    def texts(self, at: int) -> Texts:
        """The texts at a place. Raises ``SessionError`` when they cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """Texts of an exchange that is in no file, or not yet."""

    kept: Texts

    def texts(self, at: int) -> Texts:
        """All that there is, wherever it is asked for."""
        return self.kept


@dataclass(frozen=True, slots=True)
class Exchange:
    """A ``ModelAnswered`` without its texts; two are equal when their events are, wherever the texts lie."""

    id: str
    role: str
    model: str
    prompt: str
    branch: BranchId | None
    round: int
    operator: Operator | None
    parents: tuple[BranchId, ...]
    request: Digest
    tokens_in: int
    tokens_out: int
    counted: Literal["server", "estimate"]
    cost_usd: float | None
    seconds: float
    tries: tuple[str, ...]
    failed: str
    cached: bool
    mark: bytes
    """Of the texts: what is read must hash to this."""
    source: Source = field(compare=False, repr=False)
    at: int = field(default=0, compare=False, repr=False)
    """Where in the source."""

    @classmethod
    def of(cls, event: ModelAnswered) -> Exchange:
        """The exchange with its texts in memory, until somebody has written them down."""
        facts: dict[str, Any] = {name: getattr(event, name) for name in FACTS}
        facts |= {name: intern(facts[name]) for name in REPEATED}
        texts = Texts(event.messages, event.answer)
        return cls(**facts, mark=texts.mark, source=InMemory(texts))

    def texts(self) -> Texts:
        """What was said. Raises ``SessionError`` when it cannot be read any more, or is not what was said."""
        found = self.source.texts(self.at)
        if found.mark != self.mark:
            raise SessionError(f"the texts of {self.id} were changed after they were recorded")
        return found

    @property
    def answer(self) -> str:
        """What the model said. Raises ``SessionError`` like ``texts``."""
        return self.texts().answer

    def event(self) -> ModelAnswered:
        """The event it was made of, texts and all. Raises ``SessionError`` like ``texts``."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in FACTS}
        return ModelAnswered(**facts, **self.texts()._asdict())
