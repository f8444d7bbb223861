"""What a search will cost before it begins: calls by role, tokens by the length of real prompts, money.

An estimate, and said to be one: answers are assumed, prompts are rendered. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.agents.base import ReasonRequest, SynthesisRequest
from workbench.agents.llm.endpoint import estimated_tokens
from workbench.agents.llm.prices import price_of, table
from workbench.agents.llm.prompts import Prompt
from workbench.agents.llm.roles import reasoner_prompt, synthesizer_prompt
from workbench.agents.llm.settings import Settings
from workbench.model import Hypothesis, Problem, Target
from workbench.policy import Policy

ANSWERS: Mapping[str, int] = {
    "reasoner": 900,
    "synthesizer": 2200,
    "compiler": 2400,
    "correctness": 2400,
    "reflection": 150,
}
"""Assumed tokens of an answer by role, thinking not included."""
_KERNEL_TOKENS = 1200
"""Assumed length of a kernel in a prompt."""
_MENDED = 0.5
"""Assumed repairs a kernel; half of them of what does not compile."""


@dataclass(frozen=True)
class Estimate:
    """Expected cost of a search."""

    calls: int
    tokens_in: int
    tokens_out: int
    money_usd: float | None
    """None when the price of a model is unknown."""
    unknown: tuple[str, ...] = ()
    """Models without a price."""
    free: bool = False

    def __str__(self) -> str:
        """One line for the person."""
        size = (
            f"about {self.calls} calls, {_round(self.tokens_in)} tokens in and {_round(self.tokens_out)} out"
        )
        if self.unknown:
            return f"{size}; the price of {', '.join(self.unknown)} is unknown"
        if self.free:
            return f"{size}; costs nothing"
        return f"{size}; about ${self.money_usd:.2f} (prices of {table().date})"


def estimate(problem: Problem, target: Target, policy: Policy, settings: Settings) -> Estimate:
    """Expected cost if every planned round runs; only roles that models play count."""
    calls = {role: count for role, count in _calls(policy).items() if role in settings.models}
    lengths = _prompt_tokens(problem, target)
    money: float | None = 0.0
    into = out = 0
    unknown: dict[str, None] = {}
    for role, count in calls.items():
        role_in, role_out = round(count * lengths[role]), round(count * ANSWERS[role])
        into, out = into + role_in, out + role_out
        price = price_of(settings.models[role], settings)
        if price is None:
            unknown[settings.models[role]] = None
        elif money is not None:
            money += price.cost_usd(role_in, role_out)
    free = not unknown and money == 0.0
    found = None if unknown else money
    return Estimate(math.ceil(sum(calls.values())), into, out, found, tuple(unknown), free)


def _calls(policy: Policy) -> dict[str, float]:
    """Expected calls by role."""
    wide = policy.parents * policy.hypotheses
    branches = float(min(policy.seeds + (policy.rounds - 1) * wide, policy.branches))
    repairs = min(branches * _MENDED, max(policy.branches - branches, 0.0), branches * policy.repairs)
    return {
        "reasoner": 1.0 + (policy.rounds - 1) * policy.parents,
        "synthesizer": branches,
        "compiler": repairs / 2,
        "correctness": repairs / 2,
        "reflection": branches + repairs,
    }


def _prompt_tokens(problem: Problem, target: Target) -> dict[str, int]:
    """Tokens of a typical prompt by role: the first prompts, and a kernel where a later one has one."""
    seed = ReasonRequest(problem=problem, target=target, operator="seed", parents=(), count=3)
    card = Hypothesis(title="", bottleneck="memory", cause="", fix="")
    kernel = SynthesisRequest(problem=problem, target=target, operator="seed", hypothesis=card)
    reasoner, synthesizer = _tokens(reasoner_prompt(seed)), _tokens(synthesizer_prompt(kernel))
    return {
        "reasoner": reasoner + _KERNEL_TOKENS,
        "synthesizer": synthesizer + 2 * _KERNEL_TOKENS,
        "compiler": synthesizer + _KERNEL_TOKENS,
        "correctness": synthesizer + _KERNEL_TOKENS,
        "reflection": 700,
    }


def _tokens(prompt: Prompt) -> int:
    return estimated_tokens(sum(len(said.text) for said in prompt.messages))


def _round(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1e6 else f"{round(count, -3):,}"
