"""What the browser may say, checked before anything is done with it, and whom it is said to."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from workbench.model import BranchId, Value

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


class GiveHint(Value):
    type: Literal["hint"]
    text: Annotated[str, Field(min_length=1, max_length=2000)]


class RunRounds(Value):
    type: Literal["rounds"]
    rounds: Annotated[int, Field(ge=1, le=20)]


class StopSearch(Value):
    type: Literal["stop"]


Message = Annotated[
    Select | Approve | Prune | Undo | Edit | GiveHint | RunRounds | StopSearch, Field(discriminator="type")
]
MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


class Steering(Protocol):
    """What a person can do to a session. Every method returns at once: it records or queues."""

    def approve(self, branch: str, undo: bool = False) -> None: ...
    def prune(self, branch: str, reason: str = "", undo: bool = False) -> None: ...
    def undo(self) -> str: ...
    def edit(self, branch: str, source: str) -> str: ...
    def hint(self, text: str) -> None: ...
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


def carry_out(message: Message, steering: Steering) -> str:
    """Pass a person's word on; returns a line for the person, which may be empty.

    Raises what ``steering`` raises. ``Select`` is the panel's own and is not passed on.
    """
    match message:
        case Approve(branch=branch, undo=undo):
            steering.approve(branch, undo=undo)
        case Prune(branch=branch, undo=undo):
            steering.prune(branch, undo=undo)
        case Undo():
            return steering.undo()
        case Edit(branch=branch, source=source):
            return f"{steering.edit(branch, source)} is being judged."
        case GiveHint(text=text):
            steering.hint(text)
            return "The hint is noted for the next round."
        case RunRounds(rounds=rounds):
            steering.next_round(rounds)
        case StopSearch():
            steering.stop()
            return "Stopping after what is running."
        case Select():
            pass
    return ""
