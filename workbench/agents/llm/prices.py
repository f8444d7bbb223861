"""What a model's tokens cost: a table with source and date, or the person's own figures.

A model that is in neither has no price; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from workbench.agents.llm.settings import Settings


@dataclass(frozen=True)
class Price:
    """US dollars a million tokens."""

    into: float
    out: float

    def cost_usd(self, tokens_in: int, tokens_out: int) -> float:
        """Cost of a call."""
        return (tokens_in * self.into + tokens_out * self.out) / 1e6


@dataclass(frozen=True)
class Table:
    """The price table of ``prices.json``."""

    source: str
    date: str
    models: dict[str, Price]


@cache
def table() -> Table:
    """The table that ships with the workbench."""
    data = json.loads((Path(__file__).parent / "prices.json").read_text(encoding="utf-8"))
    models = {name: Price(*pair) for name, pair in data["models"].items()}
    return Table(data["source"], data["date"], models)


def price_of(model: str, settings: Settings) -> Price | None:
    """Price of a model; a dated name such as ``gpt-5-mini-2026-08-01`` has the price of the name without.

    The table is for OpenAI's own server: elsewhere a model of the same name may cost anything. On this
    machine tokens are free. None when the price is unknown.
    """
    if settings.prices is not None:
        return Price(*settings.prices)
    if settings.is_local:
        return Price(0.0, 0.0)
    if settings.host != "api.openai.com":
        return None
    return table().models.get(re.sub(r"-\d{4}-\d{2}-\d{2}$", "", model))
