"""The CPU emulator as a device: kernels run in worker processes, times are a roofline model.

Owns the threads that wait for workers. What a verdict means is the referee's business.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from workbench.devices.base import OnStage
from workbench.errors import DeviceError
from workbench.model import H100, Evaluation, Kernel, Problem, Stage, Target
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

PARALLEL = 2


class EmulatorDevice:
    """Judges on this machine's CPU; ``parallel`` kernels at once make sense on two cores."""

    name = "emulator"

    def __init__(
        self, target: Target = H100, options: JudgeOptions | None = None, parallel: int = PARALLEL
    ) -> None:
        self.target = target
        self.parallel = parallel
        self._options = options or JudgeOptions()
        self._turns = threading.Semaphore(parallel)
        self._closed = False

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge one kernel in a worker; stages are reported on the caller's own event loop.

        More than ``parallel`` at once wait their turn. Raises ``DeviceError`` once closed.
        """
        self._refuse_when_closed()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Evaluation] = loop.create_future()

        def tell(stage: Stage) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(on_stage, stage)

        def work() -> None:
            try:
                with self._turns:
                    self._refuse_when_closed()
                    evaluation = judge(problem, kernel, self.target, self._options, tell)
            except Exception as error:
                self._settle(loop, answer, error)
            else:
                self._settle(loop, answer, evaluation)

        # A daemon: a kernel that loops for its whole limit must not hold up the end of the notebook.
        threading.Thread(target=work, name="emulator", daemon=True).start()
        return await answer

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: asyncio.Future[Evaluation],
        result: Evaluation | Exception,
    ) -> None:
        def settle() -> None:
            if answer.done():  # the caller gave up
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise DeviceError("the emulator device is closed; open another session")

    async def close(self) -> None:
        """Take no more kernels; idempotent. Those in flight are left to their limits."""
        self._closed = True
