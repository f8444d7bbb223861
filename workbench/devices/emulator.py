"""The CPU emulator as a device: kernels run in worker processes, times are a roofline model.

Owns how many judgements run at once. What a verdict means is the referee's business.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from shutil import rmtree
from tempfile import mkdtemp

from workbench.devices.base import OnStage
from workbench.devices.waiting import judged_in_thread
from workbench.errors import DeviceError
from workbench.model import H100, Evaluation, Kernel, Problem, Target
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions, fresh_seed
from workbench.referee.protocol import Kept

PARALLEL = 2


class EmulatorDevice:
    """Judges on this machine's CPU; ``parallel`` kernels at once make sense on two cores."""

    name = "emulator"

    def __init__(
        self, target: Target = H100, options: JudgeOptions | None = None, parallel: int = PARALLEL
    ) -> None:
        self.target = target
        self.parallel = parallel
        options = options or JudgeOptions()
        self._options = options.drawn()
        self._own_seeds = options.seed is None
        """Kernels share all inputs but those of one check, where no seed was asked for."""
        self._kept = Kept(folder=mkdtemp(prefix="workbench-expected-"), secret=secrets.token_hex(32))
        self._forget = weakref.finalize(self, rmtree, self._kept.folder, ignore_errors=True)
        self._turns = threading.Semaphore(parallel)
        self._closed = False

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge one kernel in a worker; stages are reported on the caller's own event loop.

        More than ``parallel`` at once wait their turn. Raises ``DeviceError`` once closed.
        """
        self._refuse_when_closed()

        def work(tell: OnStage) -> Evaluation:
            with self._turns:
                self._refuse_when_closed()
                own = {"own_seed": fresh_seed()} if self._own_seeds else {}
                options = self._options.model_copy(update=own)
                return judge(problem, kernel, self.target, options, tell, self._kept)

        return await judged_in_thread(self.name, work, on_stage)

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise DeviceError("the emulator device is closed; open another session")

    async def close(self) -> None:
        """Take no more kernels; idempotent. Those in flight are left to their limits."""
        self._closed = True
        self._forget()
