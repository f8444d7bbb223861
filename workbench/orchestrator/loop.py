"""The fifth agent: ask search what to do, have it done, until there is nothing to wait for.

Owns which work is in flight. What is known is in the session, what comes next is decided by search, how
a command is carried out is in duties.py. Whatever moment a run is cut off at, the journal is consistent
and another run goes on from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

from workbench.agents.base import Team
from workbench.devices.base import Device
from workbench.errors import SessionError
from workbench.events import RoundsRequested
from workbench.orchestrator.duties import Duties, Task
from workbench.search import (
    Abandon,
    AskPerson,
    Command,
    EndRound,
    Evaluate,
    Propose,
    Reflect,
    Repair,
    Synthesize,
    decide,
)
from workbench.session import Session
from workbench.tree import Tree

_LEAST_PAUSE_S = 0.05
Clock = Callable[[], float]
"""Seconds from any fixed moment."""


async def run(
    session: Session,
    team: Team,
    device: Device,
    clock: Clock = time.monotonic,
    linger: bool = False,
) -> None:
    """Search until ``session.tree.stopped`` says why there is nothing more to do.

    With a manual review it waits for the person between rounds; with ``linger`` also after a stop, for
    edits and more rounds, until cancelled. Cancelling records ``SearchStopped``. Raises ``SessionError``
    when the journal cannot be written; a failing device stops the search and is recorded.
    """
    try:
        await Loop(Duties(session, team, device), Stopwatch(clock), linger).run()
    finally:
        await team.close()


def reopen(session: Session) -> None:
    """Go on where a stop cut the search off; a search that had run its course stops again by itself."""
    if session.tree.stopped is not None:
        session.post(RoundsRequested(rounds=0, by="person"))


class Stopwatch:
    """Counts working time: not the time spent waiting for the person."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None

    def elapsed_s(self) -> float:
        """Seconds counted so far."""
        return self._before + (self._clock() - self._since if self._since is not None else 0.0)

    def run(self, working: bool) -> None:
        """Count from now on, or pause."""
        if working != (self._since is not None):
            self._before, self._since = self.elapsed_s(), self._clock() if working else None

    def reset(self) -> None:
        """Begin at zero."""
        self._before = 0.0
        self._since = None if self._since is None else self._clock()


class Loop:
    """One run: tasks in flight, each known by the command it carries out."""

    def __init__(self, duties: Duties, watch: Stopwatch, linger: bool) -> None:
        self._duties = duties
        self._session = duties.session
        self._watch = watch
        self._linger = linger
        self._tasks: dict[Task, asyncio.Task[None]] = {}
        self._tried: set[Task] = set()
        """Nothing is done twice, whatever came of it, until a stop is lifted."""
        self._was_stopped = False

    async def run(self) -> None:
        """Decide, do, wait; in the end nothing is left in flight."""
        self._wake = asyncio.Event()
        loop, here = asyncio.get_running_loop(), threading.get_ident()

        def wake(_: Tree) -> None:
            # Most events are posted by our own tasks; only another thread has to interrupt the loop's sleep.
            if threading.get_ident() == here:
                self._wake.set()
            else:
                loop.call_soon_threadsafe(self._wake.set)

        unsubscribe = self._session.subscribe(wake)
        try:
            while self._proceed():
                await self._pause()
        except asyncio.CancelledError:
            # A journal that cannot be written must not hide that we were told to end.
            with contextlib.suppress(SessionError):
                self._duties.stop("interrupted", by="person")
            raise
        finally:
            unsubscribe()
            self._duties.over = True
            await self._cancel_all()
            await self._duties.let_go()

    async def _pause(self) -> None:
        """Until something has happened or the time budget is used."""
        left_s = None
        if self._session.policy.seconds > 0 and self._tasks and self._session.tree.stopped is None:
            left_s = max(self._session.policy.seconds - self._watch.elapsed_s(), _LEAST_PAUSE_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._wake.wait()

    def _proceed(self) -> bool:
        """Start all that can be started now; False when there is nothing to wait for."""
        self._wake.clear()
        self._collect()
        while True:
            tree = self._session.tree
            self._note_stop(tree)
            if tree.stopped is not None:
                self._let_go_of_agents()
            commands = decide(tree, self._session.policy, self._watch.elapsed_s())
            if not self._carry_out(commands):
                break
        self._watch.run(working=bool(self._tasks))
        return bool(self._tasks) or self._linger or any(isinstance(c, AskPerson) for c in commands)

    def _collect(self) -> None:
        """Forget finished tasks; a task raises only what must end the run."""
        for command, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[command]
                if not task.cancelled():
                    task.result()

    def _let_go_of_agents(self) -> None:
        """A stop does not wait for answers, which may take minutes; what is being judged is finished."""
        for command, task in self._tasks.items():
            if not isinstance(command, Evaluate):
                task.cancel()

    def _note_stop(self, tree: Tree) -> None:
        if self._was_stopped and tree.stopped is None:
            self._watch.reset()
            self._tried = set(self._tasks)
        self._was_stopped = tree.stopped is not None

    def _carry_out(self, commands: tuple[Command, ...]) -> bool:
        """Do what is done on the spot, start what takes time; True when it pays to decide again."""
        recorded = False
        for command in commands:
            match command:
                case AskPerson():
                    pass
                case Propose() | Synthesize() | Evaluate() | Repair():
                    self._start(command)
                case Reflect() if self._duties.looks_back:
                    self._start(command)
                case EndRound() if self._duties.looks_back and any(isinstance(c, Reflect) for c in commands):
                    pass  # the next round's reasoner is told the lessons
                case Abandon(branch=branch) if Evaluate(branch) in self._tasks:
                    pass
                case _:
                    self._duties.at_once(command)
                    recorded = True
        return recorded

    def _start(self, command: Task) -> None:
        if command in self._tried or not self._room_for(command):
            return
        self._tried.add(command)
        self._watch.run(working=True)
        if isinstance(command, Repair):
            self._duties.place_repair(command.chain)
        task = asyncio.ensure_future(self._duties.perform(command))
        task.add_done_callback(lambda _: self._wake.set())
        self._tasks[command] = task

    def _room_for(self, command: Task) -> bool:
        """Requests go one by one, since each is told what the ones before it took."""
        busy = sum(type(other) is type(command) for other in self._tasks)
        if isinstance(command, Propose):
            return busy == 0
        limit = self._session.policy.parallel
        if isinstance(command, Evaluate):
            limit = min(limit, self._duties.device.parallel)
        return busy < max(limit, 1)

    async def _cancel_all(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
