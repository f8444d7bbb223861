"""Answers of the solution's process, validated: they come from code nobody trusts."""

from __future__ import annotations

from pydantic import Field

from workbench.foreign.values import Fence, Share
from workbench.model import Value


class Answer(Value):
    """Every answer may be an exception of the solution instead."""

    raised: RaisedInside | None = None


class RaisedInside(Value):
    """An exception that left the solution's code."""

    type: str = Field(max_length=100)
    message: str = Field(max_length=2000)
    line: int
    """Line of the solution's file; 0 when none is on the stack."""


class Ready(Answer):
    """The first message: what the sandbox holds."""

    fences: tuple[Fence, ...]


class Loaded(Answer):
    """The solution was imported and ``ModelNew`` built."""

    claims: tuple[str, ...] = ()
    missing: bool = False
    """True when there is no class ``ModelNew``."""
    build: str = ""


class Weighed(Answer):
    """Parameters and buffers were handed over, or why not."""

    missing: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    """Tensors of ``ModelNew`` that the reference does not have."""


class OutputFacts(Value):
    """What one output is, as the solution's process tells it."""

    type: str = Field(max_length=200)
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    device: str = ""
    overlaps: bool = False
    view_of: str = ""


class Called(Answer):
    """One call, or the last of many."""

    outputs: tuple[OutputFacts, ...] = ()
    precision: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    done: int = 1


class Profiled(Answer):
    """A profile of one call."""

    shares: tuple[Share, ...] = ()
    own: tuple[str, ...] = ()


Answer.model_rebuild()
