"""Baselines compiled before anything is timed: several programs side by side, which fill torch's caches.

Owns how many at once, and that torch's choices among compiled kernels are forgotten: it chooses by the clock,
and is to do so alone on the card. What is compiled is for grid.py and remeasure.py to say.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from workbench.compile.cache import cache_folder
from workbench.model import Problem
from workbench.workers.keeping import wait_kept

WARMING = 14
"""Programs that compile side by side."""


def warm(problem: Problem, without: list[str]) -> None:
    """Fill torch's caches with a problem's compiled baselines, in this process."""
    import torch

    from workbench.numerics.precision import precision
    from workbench.problem.reference import Reference
    from workbench.referee.clock.contestants import AUTOTUNED, COMPILE, Baselines
    from workbench.referee.gpu_baseline_timing import inputs

    baselines = Baselines(Reference(problem).form)
    with torch.no_grad(), precision(problem.contract):
        for case in problem.cases:
            wanted = [name for name in (COMPILE, AUTOTUNED) if name not in without]
            _, missing = baselines.acts(wanted, [inputs(problem, case, "cuda")])
            for name, why in missing:
                print(f"{problem.name} {case.label}: no {name}: {why}", flush=True)
            baselines.close()
            torch.cuda.empty_cache()


def warm_all(commands: Mapping[str, Sequence[str]], limit_s: float) -> list[str]:
    """Compile baselines, several programs at once, each within ``limit_s`` seconds; the names that failed."""

    def one(name: str) -> bool:
        try:
            return wait_kept(commands[name], limit_s) == 0
        except subprocess.TimeoutExpired:
            print(f"{name}: its baselines took longer than {limit_s:.0f} s to compile", flush=True)
            return False

    with ThreadPoolExecutor(WARMING) as pool:
        done = list(pool.map(one, commands))
    for choice in (cache_folder() / "inductor").rglob("*.best_config"):
        choice.unlink(missing_ok=True)
    return [name for name, fine in zip(commands, done, strict=True) if not fine]
