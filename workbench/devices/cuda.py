"""An NVIDIA GPU as a device: kernels are checked and timed on the card, by processes that hold it.

Owns the processes of one card. This process never holds a CUDA context: it plans, compiles in children, and
asks. What a verdict means is the referee's business.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from workbench.devices.background import IdleTimes
from workbench.devices.base import OnFollowed, OnStage, OnTime
from workbench.devices.cards import keep_card, kept_card
from workbench.devices.profiling import Profiling
from workbench.devices.sanitizing import Leisure, found_at_leisure
from workbench.devices.usage import Usage, look
from workbench.devices.waiting import judged_in_thread
from workbench.devices.warm import WarmPair
from workbench.errors import DeviceError
from workbench.model import Case, Digest, Evaluation, Kernel, Problem, Profile, Target
from workbench.profile.sanitizer import NotLooked, sanitized
from workbench.referee.clock.store import BaselineRecord
from workbench.referee.gpu_baselines import WALL_S, is_lost, kept, request_of, still_to_time
from workbench.referee.gpu_judge import GpuOptions, judge_on_gpu
from workbench.referee.gpu_preparation import WALL_S as PREPARE_S
from workbench.referee.gpu_preparation import loss_of, preparation, report_of
from workbench.referee.gpu_protocol import Card, PrepareReport, WarmRequest
from workbench.referee.later_baselines import followed_in
from workbench.workers import Conversation, ForkServer, Limits, torch_ready

SERVE = "workbench.referee.gpu_trial:serve"
PARALLEL = 4
"""Kernels at once: they plan and compile beside each other and take turns on the card."""
LIMITS = Limits(
    wall_s=600.0,
    cpu_s=7 * 24 * 3600,  # the process lasts for a session
    memory_bytes=2**40,  # what the driver maps counts as private memory, used or not
    file_bytes=8 * 2**30,
)


class CudaDevice:
    """Judges on GPU number ``index``; ``uuid`` is the card's, where it is known beforehand."""

    name = "cuda"
    parallel = PARALLEL

    def __init__(
        self,
        index: int = 0,
        uuid: str = "",
        options: GpuOptions | None = None,
        server: ForkServer | None = None,
        serve: str = SERVE,
    ) -> None:
        options = options or GpuOptions()
        # One seed for the session: what the oracle says of it is kept from kernel to kernel.
        self._options = replace(options, judge=options.judge.drawn())
        self._index = index
        self._known = kept_card(uuid) if uuid else None
        self._closed = False
        self._card_lock = threading.Lock()
        warm = WarmRequest(device=index)
        first = warm.model_copy(update={"measure_copy": self._known is None})
        self._pair = WarmPair(
            partial(_open, server or torch_ready(), serve),
            warm.model_dump_json().encode(),
            first.model_dump_json().encode(),
        )
        self._idle = IdleTimes(self._time_baselines, self._hold_again)
        self._on_time: OnTime | None = None
        self._on_followed: OnFollowed | None = None
        self.prepared: PrepareReport | None = None
        """What came of the latest preparation; None while it is under way, or where it failed."""
        self._in_baselines = False
        """True while a baseline is timed, which nothing else on the card may disturb."""
        self._compiled: set[Digest] = set()
        """Problems of which a kernel was held against every baseline a person waits for."""
        self._profiling = Profiling(index, self._pair.alone)

    @property
    def card(self) -> Card:
        """What the driver says of the card; waits for it the first time. Raises ``DeviceError``."""
        with self._card_lock:
            if self._known is None:
                self._known = Card.model_validate_json(self._pair.warmed())
                keep_card(self._known)
            return self._known

    @property
    def target(self) -> Target:
        """The card as plans see it."""
        return self.card.target

    def usage(self) -> Usage:
        """What the card is doing now; returns at once, a card that is still being opened has no figures."""
        in_hand, left = self._idle.wanted
        card = self._known
        seen = look(card.target.name, self._index, card.uuid) if card else Usage(card="", index=self._index)
        return seen.model_copy(update={"in_hand": in_hand, "baselines_left": left})

    @property
    def losses(self) -> int:
        """Processes that kernels have broken so far."""
        return self._pair.losses

    @property
    def warm_s(self) -> float:
        """Seconds the process in use took to be warm; 0 while it is not."""
        return self._pair.warm_s

    @property
    def takeovers_s(self) -> tuple[float, ...]:
        """Seconds each loss took until a warm process was in place."""
        return tuple(self._pair.takeovers_s)

    def keep_receipts(self, folder: Path) -> None:
        """From now on write a receipt of every measured kernel into ``folder``."""
        self._options = replace(self._options, receipts=folder)

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Judge one kernel; stages are reported on the caller's own event loop.

        Raises ``DeviceError`` when the machine fails, or once closed.
        """
        if self._closed:
            raise DeviceError("the cuda device is closed; open another session")

        def work(tell: OnStage) -> Evaluation:
            first = None if problem.digest in self._compiled else self._on_time
            options = replace(self._options, first_time=first)
            with self._idle.occupied():
                evaluation = judge_on_gpu(problem, kernel, (self.card, self._pair.seat()), options, tell)
            if evaluation.times:
                self._compiled.add(problem.digest)
                self._profiling.begin()
            if self._options.slow_baselines and evaluation.times:
                self._idle.ask(problem, lambda: still_to_time(problem, self.card))
            return self._profiling.with_estimate(problem, kernel, evaluation, self.target)

        return await judged_in_thread(self.name, work, on_stage)

    def prepare(self, problem: Problem, on_time: OnTime) -> None:
        """Have inputs and bounds made while the first kernel is written; see ``Early``."""
        self._on_time = on_time
        payload = preparation(problem, self._options.judge).model_dump_json().encode()

        def work() -> None:
            # What fails here fails again where a kernel waits for it, and is told there.
            with suppress(DeviceError), self._idle.occupied():
                answer = self._pair.ask(
                    payload, PREPARE_S, lambda answer: "lost" if loss_of(answer) else "none"
                )
                self.prepared = report_of(answer)

        threading.Thread(target=work, name="preparing", daemon=True).start()

    def _sanitized(self, problem: Problem, kernel: Kernel, evaluation: Evaluation) -> Evaluation:
        """A third look at a kernel that passed; what compute-sanitizer finds is the verdict."""
        try:
            with self._pair.alone():
                hazard = sanitized(problem, kernel, self.target, self._index)
        except NotLooked as why:
            raise DeviceError(f"compute-sanitizer did not look at the kernel: {why}") from why
        if hazard is None:
            return evaluation
        return evaluation.model_copy(update={"outcome": hazard, "times": ()})

    def repeat_seeds(self, seed: int, own_seed: int | None) -> None:
        """From now on judge every kernel on these seeds, as a receipt asks for."""
        judge = self._options.judge.model_copy(update={"seed": seed, "own_seed": own_seed})
        self._options = replace(self._options, judge=judge)

    def look_with_sanitizer(self) -> None:
        """From now on run every kernel that passes under compute-sanitizer too."""
        self._options = replace(self._options, sanitizer=True)

    async def sanitize(self, problem: Problem, kernel: Kernel) -> str:
        """See ``Sanitizer``: gives way to whoever wants the card."""
        leisure = Leisure(lambda: self._in_baselines or any(self._idle.wanted), lambda: self._closed)
        return await found_at_leisure(problem, kernel, (self.target, self._index), leisure)

    async def profile(self, problem: Problem, kernel: Kernel, evaluation: Evaluation) -> Profile | None:
        """Counters of a kernel judged before, or an estimate that says why there are none; seconds.

        Raises ``DeviceError`` once closed.
        """
        if self._closed:
            raise DeviceError("the cuda device is closed; open another session")

        def work(tell: OnStage) -> Evaluation:
            with self._idle.occupied():
                found = self._profiling.closer(problem, kernel, evaluation, self.target)
            return evaluation.model_copy(update={"profile": found})

        return (await judged_in_thread("profile", work, lambda stage: None)).profile

    def time_slow_baselines(self, problem: Problem) -> tuple[BaselineRecord, ...]:
        """Time and remember what is not known yet of a problem's slow baselines; blocks, for minutes.

        Every later kernel is then held against them too. Raises ``DeviceError``.
        """
        return tuple(self._time_baselines(problem, case) for case in still_to_time(problem, self.card))

    def follow(self, on_followed: OnFollowed) -> None:
        """See ``Follower``. What a kernel's new claims rest on is a receipt beside its first one."""
        self._on_followed = on_followed

    def _hold_again(self, problem: Problem) -> None:
        """Hold kernels judged before against the slow baselines, from the samples of their receipts."""
        folder, tell = self._options.receipts, self._on_followed
        if folder is None or tell is None:
            return
        for kernel, measured in followed_in(folder, problem, self.card):
            tell(kernel, measured)

    def _time_baselines(self, problem: Problem, case: Case) -> BaselineRecord:
        payload = request_of(problem, case).model_dump_json().encode()
        self._in_baselines = True
        try:
            result = self._pair.seat(last=True).ask(
                payload, WALL_S, lambda answer: "lost" if is_lost(answer) else "none", quiet=True
            )
        finally:
            self._in_baselines = False
        return kept(problem, case, self.card, result)

    async def close(self) -> None:
        """End the processes of the card; idempotent."""
        self._closed = True
        self._idle.close()
        self._profiling.close()
        self._pair.close()


def _open(server: ForkServer, serve: str) -> Conversation:
    return server.open(serve, LIMITS)
