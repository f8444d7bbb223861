"""Answers of the solution's process, validated: they come from code nobody trusts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from workbench.foreign.stopwatch import ATTEMPTS
from workbench.foreign.values import Fence, Share, Text
from workbench.model import Value


class Answer(Value):
    """Every answer may be an exception of the solution instead."""

    raised: RaisedInside | None = None


class RaisedInside(Value):
    """An exception that left the solution's code."""

    type: Text
    message: Text
    line: int
    """Line of the solution's file; 0 when none is on the stack."""


class Ready(Answer):
    """The first message: what the sandbox holds."""

    fences: tuple[Fence, ...]


class Loaded(Answer):
    """The solution was imported and ``ModelNew`` built."""

    claims: tuple[Text, ...] = ()
    missing: bool = False
    """True when there is no class ``ModelNew``."""
    build: Text = ""


class Weighed(Answer):
    """Parameters and buffers were handed over, or why not."""

    missing: tuple[Text, ...] = ()
    unlike: tuple[Text, ...] = ()
    more: tuple[Text, ...] = ()
    """Tensors of ``ModelNew`` that the reference does not have."""


class OutputFacts(Value):
    """What one output is, as the solution's process tells it."""

    type: Text
    dtype: Text = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    device: Text = ""
    overlaps: bool = False
    view_of: Text = ""


class Called(Answer):
    """One call, or the last of many."""

    outputs: tuple[OutputFacts, ...] = ()
    precision: tuple[Text, ...] = ()
    settings: tuple[Text, ...] = ()
    replaced: tuple[Text, ...] = ()
    done: int = 1


class Followed(Answer):
    """Whether the caller's stream waits for what a call began."""

    late: Text = ""
    """What it did not wait for; empty where there is nothing."""
    late_us: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """How long after that stream was free this ended."""


class Profiled(Followed):
    """A profile of one call."""

    shares: tuple[Share, ...] = ()
    own: tuple[Text, ...] = ()
    own_kernels: tuple[Text, ...] = ()
    defined: tuple[Text, ...] = ()
    launches: int = 0
    clock: Literal["processor", "device", "blind"] = "processor"
    why_blind: Text = ""


class Sampled(Called):
    """One timed call."""

    time_us: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    host_us: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Until the call returned."""
    late_us: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Part of ``time_us`` by which other streams ended after the current one."""
    attempt: int = Field(default=0, ge=0, lt=ATTEMPTS)
    """Which of the seeds its contents came from."""


Answer.model_rebuild()
