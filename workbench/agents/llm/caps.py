"""What can be promised of caps before a session begins."""

from __future__ import annotations

from workbench.agents.llm.prices import price_of
from workbench.agents.llm.settings import Settings
from workbench.errors import UsageError
from workbench.policy import Policy


def check_caps(settings: Settings, policy: Policy) -> None:
    """Raises ``UsageError`` for a cap in money on models whose price nobody knows."""
    unknown = sorted({model for model in settings.models.values() if price_of(model, settings) is None})
    if policy.money_usd > 0 and unknown:
        raise UsageError(
            f"the price of {', '.join(unknown)} is unknown, so a cap in money cannot be held: set "
            "WORKBENCH_PRICES=IN/OUT (US dollars a million tokens), or cap tokens instead"
        )
