"""The caps in tokens and money: a call starts only while what is spent and what is under way lie below.

So the calls under way together stay below the cap, and the one that starts last can pass it by itself alone.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from workbench.agents.base import Recorder
from workbench.errors import AgentError
from workbench.search.caps import used_up
from workbench.tree import Spent


class Used(NamedTuple):
    """What calls have cost."""

    tokens: int = 0
    money_usd: float = 0.0


class Budget:
    """What calls under way may still cost at most."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tokens = 0
        self._money_usd = 0.0
        self._active = 0
        self._changed = asyncio.Condition()

    async def begin(self, tokens: int, money_usd: float) -> None:
        """Start a call that takes at most this much; waits while calls under way may fill the cap.

        Raises ``AgentError`` when the cap is reached.
        """
        async with self._changed:
            while self._capped and (reason := used_up(self._foreseen(), self._recorder.policy)):
                if self._active == 0 or used_up(self._recorder.tree.spent, self._recorder.policy):
                    raise AgentError(reason)
                await self._changed.wait()
            self._active += 1
            self._tokens += tokens
            self._money_usd += money_usd

    @property
    def _capped(self) -> bool:
        """False where there is nothing to keep within, which saves adding up all that was spent."""
        return bool(self._recorder.policy.tokens or self._recorder.policy.money_usd)

    def _foreseen(self) -> Spent:
        spent = self._recorder.tree.spent
        return Spent(
            tokens_in=spent.tokens_in + self._tokens,
            tokens_out=spent.tokens_out,
            money_usd=spent.money_usd + self._money_usd,
        )

    async def end(self, tokens: int, money_usd: float, used: Used) -> None:
        """The call is over; what it used is held until ``release``, as it is not recorded yet."""
        async with self._changed:
            self._active -= 1
            self._tokens += used.tokens - tokens
            self._money_usd += used.money_usd - money_usd
            self._changed.notify_all()

    async def release(self, used: Used) -> None:
        """What was used is recorded now."""
        async with self._changed:
            self._tokens -= used.tokens
            self._money_usd -= used.money_usd
            self._changed.notify_all()
