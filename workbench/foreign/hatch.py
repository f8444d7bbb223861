"""The hatch between the trusted side and the solution's process: tensors in and out, answers validated.

Owns the two arenas on the trusted side. Everything that comes through is data of code nobody trusts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError
from torch import Tensor

from workbench.foreign import verdicts
from workbench.foreign.arena import Arena
from workbench.foreign.inmate import Inmate
from workbench.foreign.protocol import Answer, Ready, Weighed
from workbench.foreign.values import ForeignOptions
from workbench.model import DTYPE_BYTES, Case, Crashed, DType, Outcome, Problem
from workbench.numerics.bounds import OutputBound
from workbench.numerics.dtypes import TORCH

A = TypeVar("A", bound=Answer)


class Decided(Exception):
    """The verdict is known before all questions were asked."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def decide(outcome: Outcome | None) -> None:
    """Raise ``Decided`` where there is an outcome."""
    if outcome is not None:
        raise Decided(outcome)


@dataclass
class Hatch:
    """Asks the solution's process; ``at`` says what is being done, for an obituary."""

    problem: Problem
    options: ForeignOptions
    inmate: Inmate
    inbox: Arena
    outbox: Arena
    at: str = ""
    notes: dict[str, None] = field(default_factory=dict)

    def asked(self, shape: type[A], question: dict[str, Any]) -> A:
        """The answer to a question of ordinary length. Raises ``Ended`` and ``Decided``."""
        return self.valid(shape, self.inmate.ask(question, self.options.allowance.call_s))

    def valid(self, shape: type[A], answer: Mapping[str, Any]) -> A:
        """An answer of a known form. Raises ``Decided`` for nonsense."""
        try:
            if answer.get("raised") is not None and not shape.model_fields.keys() <= answer.keys():
                return shape.model_validate({"fences": ()} | dict(answer) if shape is Ready else answer)
            return shape.model_validate(answer)
        except ValidationError:
            raise Decided(
                Crashed(case=self.at, message="the process gave an answer that makes no sense")
            ) from None

    def hand_over(self, case: Case, tensors: Mapping[str, Tensor]) -> None:
        """Give the solution's module the reference's parameters and buffers, with these values."""
        held = [spec for spec in self.problem.tensors if spec.role != "input"]
        self.inbox.clear()
        if not held:
            return
        notes = [{**self.inbox.put(tensors[spec.name]), "path": spec.path or spec.name} for spec in held]
        weighed = self.asked(Weighed, {"kind": "weights", "notes": notes})
        if weighed.raised is not None:
            raise Decided(verdicts.failed(weighed.raised, case.label))
        decide(verdicts.weights(weighed, case.label))
        if weighed.more:
            self.notes[f"tensors of ModelNew that the reference lacks: {', '.join(weighed.more[:5])}"] = None

    def arguments(self, tensors: Mapping[str, Tensor], returned: bool) -> list[dict[str, Any]]:
        """Notes for the call's arguments; tensors go into the inbox behind what is there."""
        statics = {static.name: static.value for static in self.problem.statics}
        notes: list[dict[str, Any]] = []
        for name in self.problem.signature:
            if name not in tensors:
                notes.append({"name": name, "value": statics[name]})
                continue
            note = {**self.inbox.put(tensors[name]), "name": name}
            if returned:
                note["after"] = self._poisoned(tensors[name].numel() * tensors[name].element_size())
            notes.append(note)
        return notes

    def slots(self, bounds: Sequence[OutputBound]) -> list[dict[str, Any]]:
        """Places for the outputs, filled with NaN (all bits set) so that nothing old can be read."""
        return self.places([(bound.dtype, tuple(bound.expected.shape)) for bound in bounds])

    def places(self, outputs: Sequence[tuple[DType, tuple[int, ...]]]) -> list[dict[str, Any]]:
        """The same for outputs of these types and shapes."""
        return [
            {
                "dtype": name,
                "torch": str(TORCH[name]),
                "shape": list(shape),
                "offset": self._poisoned(math.prod(shape) * DTYPE_BYTES[name]),
            }
            for name, shape in outputs
        ]

    def _poisoned(self, nbytes: int) -> int:
        """Offset of a new place in the outbox, all bits set."""
        offset = self.outbox.reserve(nbytes)
        self.outbox.view({"dtype": "u8", "shape": [nbytes], "offset": offset}).fill_(verdicts.POISON)
        return offset

    def read(self, slots: list[dict[str, Any]]) -> tuple[Tensor, ...]:
        """Copies of the outputs that were put into the slots."""
        return tuple(self.outbox.view(slot).clone() for slot in slots)

    def written(self, arguments: list[dict[str, Any]], tensors: Mapping[str, Tensor], case: Case) -> None:
        """Inputs must come back as they went."""
        for note in arguments:
            if "after" in note:
                back = self.outbox.view({**note, "offset": note["after"]}).clone()
                name = str(note["name"])
                decide(verdicts.inputs_back(name, case.label, back, tensors[name]))
