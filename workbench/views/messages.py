"""What the browser may say, checked before anything is done with it, and whom it is said to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from workbench.model import BranchId, CompileReport, Operator, Outcome, Value

SOURCE_LIMIT = 256 * 1024
"""Most characters of an edited kernel."""


class Select(Value):
    """Asks for a branch's detail."""

    type: Literal["select"]
    branch: BranchId


class Approve(Value):
    type: Literal["approve"]
    branch: BranchId
    undo: bool = False


class Prune(Value):
    type: Literal["prune"]
    branch: BranchId
    undo: bool = False


class Undo(Value):
    """Takes back the last approve or prune."""

    type: Literal["undo"]


class Edit(Value):
    """A kernel the person wrote, to be judged as a child of ``branch``."""

    type: Literal["edit"]
    branch: BranchId
    source: Annotated[str, Field(min_length=1, max_length=SOURCE_LIMIT)]


class Check(Value):
    """Compile the text somebody is typing; ``ticket`` comes back with the answer."""

    type: Literal["check"]
    ticket: int
    source: Annotated[str, Field(max_length=SOURCE_LIMIT)]


class Differ(Value):
    """Asks for the lines in which a branch differs from another; ``reference`` for the person's text."""

    type: Literal["differ"]
    branch: BranchId
    against: BranchId


class Compare(Value):
    """Asks for two to four branches side by side."""

    type: Literal["compare"]
    branches: Annotated[tuple[BranchId, ...], Field(min_length=2, max_length=4)]


class Samples(Value):
    """Asks for the raw samples behind a branch's measured times."""

    type: Literal["samples"]
    branch: BranchId


class LoadEditor(Value):
    """Asks for the editor's script, once a page."""

    type: Literal["editor"]


class Shape(Value):
    """How the next round is filled."""

    type: Literal["shape"]
    operators: tuple[Operator, ...] = ()
    width: Annotated[int, Field(ge=1, le=20)] | None = None


class ReviewCards(Value):
    type: Literal["review_cards"]
    on: bool


class Rewrite(Value):
    """Other words and techniques on a card that has no kernel yet."""

    type: Literal["rewrite"]
    branch: BranchId
    title: Annotated[str, Field(min_length=1, max_length=200)]
    fix: Annotated[str, Field(max_length=2000)] = ""
    choices: dict[str, str] = Field(default_factory=dict)


class ReleaseCards(Value):
    type: Literal["release_cards"]


class GiveHint(Value):
    type: Literal["hint"]
    text: Annotated[str, Field(min_length=1, max_length=2000)]


class RunRounds(Value):
    type: Literal["rounds"]
    rounds: Annotated[int, Field(ge=1, le=20)]


class StopSearch(Value):
    type: Literal["stop"]


Question = Select | Check | Differ | Compare | Samples | LoadEditor
"""Answered by the panel itself; nothing is recorded."""
Act = (
    Approve | Prune | Undo | Edit | GiveHint | Shape | ReviewCards | Rewrite | ReleaseCards | RunRounds
    | StopSearch
)  # fmt: skip
Message = Annotated[Question | Act, Field(discriminator="type")]
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


class Steering(Protocol):
    """What a person can do to a session. Every method returns at once: it records or queues."""

    def approve(self, branch: str, /, *, undo: bool = False) -> None: ...
    def prune(self, branch: str, /, *, undo: bool = False) -> None: ...
    def undo(self) -> str: ...
    def edit(self, branch: str, source: str) -> str: ...
    def check(self, source: str, tell: Callable[[CompileReport | Outcome | None], None]) -> None: ...
    def shape(self, operators: tuple[str, ...] = (), width: int | None = None) -> None: ...
    def review_cards(self, on: bool = True) -> None: ...
    def rewrite(self, branch: str, title: str, fix: str, choices: dict[str, str] | None = None) -> None: ...
    def release_cards(self) -> None: ...
    def hint(self, text: str) -> str: ...
    def next_round(self, rounds: int = 1) -> None: ...
    def stop(self) -> None: ...


def read_message(content: Any) -> Message | str:
    """The message, or one line on what is wrong with it."""
    try:
        return MESSAGE.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}" if place else str(first["msg"])


def carry_out(act: Act, steering: Steering) -> str:
    """Pass a person's word on; returns a line for the person, which may be empty.

    Raises what ``steering`` raises.
    """
    match act:
        case Approve(branch=branch, undo=undo):
            steering.approve(branch, undo=undo)
        case Prune(branch=branch, undo=undo):
            steering.prune(branch, undo=undo)
        case Undo():
            return steering.undo()
        case Edit(branch=branch, source=source):
            return f"{steering.edit(branch, source)} is being judged."
        case GiveHint(text=text):
            return steering.hint(text)
        case Shape(operators=operators, width=width):
            steering.shape(operators, width)
        case ReviewCards(on=on):
            steering.review_cards(on)
        case Rewrite(branch=branch, title=title, fix=fix, choices=choices):
            steering.rewrite(branch, title, fix, choices)
            return f"The card of {branch} is rewritten."
        case ReleaseCards():
            steering.release_cards()
        case RunRounds(rounds=rounds):
            steering.next_round(rounds)
        case StopSearch():
            steering.stop()
            return "Stopping after what is running."
    return ""
