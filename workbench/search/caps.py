"""The caps on what language models may cost. Pure."""

from __future__ import annotations

from workbench.policy import Policy
from workbench.tree import Spent


def used_up(spent: Spent, policy: Policy) -> str:
    """Which cap is reached, in words; empty when none is."""
    if 0 < policy.tokens <= spent.tokens:
        return f"the cap of {policy.tokens:,} tokens is reached"
    if 0 < policy.money_usd <= spent.money_usd:
        return f"the cap of ${policy.money_usd:g} is reached"
    return ""
