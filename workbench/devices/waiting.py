"""Runs a blocking judgement in a thread of its own and hands its end to the caller's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from workbench.devices.base import OnStage
from workbench.model import Evaluation, Stage


async def judged_in_thread(
    name: str, judge: Callable[[OnStage], Evaluation], on_stage: OnStage
) -> Evaluation:
    """Await ``judge(tell)``; stages are reported on the caller's own event loop. Raises what it raises."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Evaluation] = loop.create_future()

    def tell(stage: Stage) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(on_stage, stage)

    def settle(result: Evaluation | Exception) -> None:
        if answer.done():  # the caller gave up
            return
        if isinstance(result, Exception):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def work() -> None:
        result: Evaluation | Exception
        try:
            result = judge(tell)
        except Exception as error:
            result = error
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result)

    # A daemon: a kernel that loops for its whole limit must not hold up the end of the notebook.
    threading.Thread(target=work, name=name, daemon=True).start()
    return await answer
