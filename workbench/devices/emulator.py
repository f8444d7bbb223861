"""The CPU emulator as a device: kernels run in worker processes, times are a roofline model.

Owns the threads that wait for workers. What a verdict means is the referee's business.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = threading.Lock()

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge one kernel in a worker; stages are reported on the caller's own thread."""
        loop = asyncio.get_running_loop()

        def tell(stage: Stage) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_stage, stage)

        def work() -> Evaluation:
            return judge(problem, kernel, self.target, self._options, tell)

        return await loop.run_in_executor(self._executor(), work)

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise DeviceError("the emulator device is closed; open another session")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.parallel, thread_name_prefix="emulator")
            return self._pool

    async def close(self) -> None:
        """Take no more kernels and wait for those in flight; idempotent."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            end: Callable[[], None] = pool.shutdown
            await asyncio.to_thread(end)
