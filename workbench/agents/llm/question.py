"""What a role asks, and how a request is recognised. Values only."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from workbench.agents.llm.endpoint import Call
from workbench.agents.llm.prompts import Prompt
from workbench.agents.llm.settings import Role
from workbench.events import Said
from workbench.model import BranchId, Digest, Operator, Value

TEMPERATURES: dict[Role, float] = {
    "reasoner": 0.8, "synthesizer": 0.2, "compiler": 0.0, "correctness": 0.0, "reflection": 0.2,
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What a role asks, and the place in the tree that it is for."""

    role: Role
    kind: type[Value]
    prompt: Prompt
    branch: BranchId | None = None
    round: int = 0
    operator: Operator | None = None
    parents: tuple[BranchId, ...] = ()

    @property
    def place(self) -> str:
        """Beginning of the exchange's id."""
        if self.branch is not None:
            return f"{self.branch}/{self.role}"
        return "/".join([f"r{self.round}", self.operator or "", *self.parents, self.role])

    def call(self, model: str, messages: tuple[Said, ...], max_tokens: int) -> Call:
        """The question as a call to a model, in these words."""
        temperature = TEMPERATURES[self.role]
        return Call(
            model=model, messages=messages, kind=self.kind, temperature=temperature, max_tokens=max_tokens
        )


def request_of(call: Call) -> Digest:
    """Hash of model, settings and messages: equal for calls whose answers may stand for each other."""
    settings = (call.model, call.temperature, call.max_tokens, call.kind.__name__)
    content = json.dumps([settings, [(said.role, said.text) for said in call.messages]])
    return Digest(hashlib.sha256(content.encode()).hexdigest())
