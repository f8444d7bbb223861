"""Batches of seeds in processes of their own, some of them side by side.

Owns the processes: a crash or a loop without end costs its batch, which is then gone through seed by seed,
not the run. What is done with a seed is the caller's.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.workers.keeping import end_with

DEADLINE_S = 600

Rows = list[dict[str, Any]]
Work = Callable[[list[int]], Rows]
"""What becomes of some seeds, a row each."""


@dataclass(frozen=True)
class Child:
    """A batch at work."""

    pid: int
    seeds: tuple[int, ...]
    answer: Path

    def rows(self, status: int) -> Rows:
        """What it left; nothing where it ended early and should go on seed by seed."""
        text = self.answer.read_text() if self.answer.exists() else ""
        self.answer.unlink(missing_ok=True)
        if text:
            return list(json.loads(text))
        failure = f"crash: the process ended with status {os.waitstatus_to_exitcode(status)}"
        return [{"seed": self.seeds[0], "failure": failure}] if len(self.seeds) == 1 else []


def started(work: Work, seeds: Sequence[int], folder: Path) -> Child:
    """Fork; the answer is in its file, whole, when the process has ended."""
    answer = folder / f"{seeds[0]}.json"
    owner, pid = os.getpid(), os.fork()
    if pid:
        return Child(pid, tuple(seeds), answer)
    signal.alarm(DEADLINE_S)
    end_with(owner)
    try:
        draft = answer.with_suffix(".draft")
        draft.write_text(json.dumps(work(list(seeds))))
        draft.rename(answer)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def side_by_side(
    work: Work,
    batches: Iterable[Sequence[int]],
    processes: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Rows]:
    """Rows of batches as they come, so many batches at a time; none is begun after `seconds` of `clock`.

    A seed whose process crashed has the row ``{"seed": ..., "failure": ...}``.
    """
    until = clock() + seconds
    waiting = deque(batches)
    running: dict[int, Child] = {}
    with tempfile.TemporaryDirectory(prefix="seed-batches-") as folder:
        while running or (waiting and clock() < until):
            while waiting and len(running) < processes and clock() < until:
                child = started(work, waiting.popleft(), Path(folder))
                running[child.pid] = child
            if not running:
                return
            pid, status = os.wait()
            if pid not in running:
                continue
            child = running.pop(pid)
            rows = child.rows(status)
            if rows:
                yield rows
            else:
                waiting.extendleft([seed] for seed in child.seeds)


def save_into(path: Path, merged: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Replace a receipt by what ``merged`` makes of it, in one step: one that is stopped leaves it whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(merged(before), indent=1) + "\n")
    draft.rename(path)


def with_run(receipt: Mapping[str, Any], run: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of a receipt and this one; a run that went on replaces what it left before."""
    same = ("date", "playbook", "first_seed")
    kept = [old for old in receipt.get("runs", ()) if [old[k] for k in same] != [run[k] for k in same]]
    return [*kept, run]
