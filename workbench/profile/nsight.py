"""Runs Nsight Compute on one call of a plan, in processes of their own, and reads what it says.

Owns the command line and the reasons why there are no counters. Imports no torch and holds no CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from workbench.model import KernelProfile, Profile
from workbench.plan.parse import parse
from workbench.profile.metrics import METRICS
from workbench.profile.raw_page import read_page
from workbench.profile.request import ProfileRequest
from workbench.profile.sentences import bound_of, longest, sentences
from workbench.workers.environment import scrubbed
from workbench.workers.keeping import run_kept

TIMEOUT_S = 120.0
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute", "/usr/local")
"""Where the toolkit puts the profiler when it is not on the path."""
REASONS = (
    ("ERR_NVGPUCTRPERM", "the driver refuses its counters to this user (ERR_NVGPUCTRPERM)"),
    ("ERR_NVGPUCTRACTIVE", "another profiler holds the counters (ERR_NVGPUCTRACTIVE)"),
    ("Driver does not support", "Nsight Compute is newer or older than this driver takes"),
    ("==ERROR==", "Nsight Compute failed"),
)
"""What the profiler prints, and what a person is told."""

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class NoCounters(Exception):
    """There are no counters; the message says why in a few words."""


def profile_kernel(request: ProfileRequest, run: Run | None = None, timeout_s: float = TIMEOUT_S) -> Profile:
    """Counters of one call of a kernel's plan, interpreted. Takes seconds; the GPU should be idle.

    ``run`` starts the command line, for tests. Raises ``NoCounters`` with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-profile-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(request.model_dump_json(), encoding="utf-8")
        command = command_line(request, path)
        try:
            done = run(command) if run is not None else _run(command, timeout_s)
        except subprocess.TimeoutExpired:
            raise NoCounters(f"Nsight Compute did not end within {timeout_s:g} s") from None
        except OSError as error:
            raise NoCounters(f"Nsight Compute cannot be started: {error.strerror or error}") from error
    kernels = read_page(done.stdout)
    if not kernels:
        raise NoCounters(why_none(done.stdout + done.stderr, done.returncode))
    return profile_of(request, kernels)


def own_kernels(source: str, kernels: Sequence[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Those of the launches that are of kernels a text defines, where the profiler looked at all."""
    ours = re.compile(rf"\b(?:{_alternatives(source)})\b")
    return tuple(one for one in kernels if ours.search(one.kernel))


def profile_of(request: ProfileRequest, kernels: tuple[KernelProfile, ...]) -> Profile:
    """What the counters of some launches say."""
    return Profile(
        case=request.case.label,
        source="counters",
        kernels=kernels,
        sentences=sentences(kernels),
        bound=bound_of(dict(longest(kernels).metrics)),
    )


def command_line(request: ProfileRequest, path: Path) -> list[str]:
    """The whole command. Raises ``NoCounters`` without the profiler."""
    only = ["--kernel-name", f"regex:^({_alternatives(request.source)})$"]
    return [*_profiler(), *only, *_program(str(path))]


def standby_line(folder: Path, owner: int) -> list[str]:
    """The command for a profiler that waits in ``folder`` for its kernel, whose name nobody knows yet.

    Raises ``NoCounters`` without the profiler.
    """
    return [*_profiler(), *_program(str(folder), str(owner))]


def _program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workbench.profile.child", *arguments]


def _alternatives(source: str) -> str:
    return "|".join(sorted({re.escape(name) for name in kernel_names(source)}))


def _profiler() -> list[str]:
    return [
        find_ncu(),
        "--csv",
        "--page", "raw",
        "--print-units", "base",
        "--metrics", ",".join(metric.counter for metric in METRICS),
        "--clock-control", "none",
        "--target-processes", "application-only",
        "--profile-from-start", "off",
        "--kernel-name-base", "function",
    ]  # fmt: skip


def kernel_names(source: str) -> list[str]:
    """Names of the kernels a text defines, without templates and namespaces."""
    return [signature.name.rpartition("::")[2] for signature in parse(source).kernels.signatures]


def find_ncu() -> str:
    """Path of the profiler. Raises ``NoCounters``."""
    if found := shutil.which("ncu"):
        return found
    for place in map(Path, PLACES):
        for pattern in ("ncu", "*/ncu", "cuda-*/bin/ncu"):
            if found := next(
                (str(p) for p in sorted(place.glob(pattern), reverse=True) if p.is_file()), None
            ):
                return found
    raise NoCounters("Nsight Compute (ncu) is not installed")


def why_none(output: str, code: int) -> str:
    """Why a run of the profiler has no table, from what it printed."""
    for mark, reason in REASONS:
        if mark in output:
            line = next(line for line in output.splitlines() if mark in line)
            detail = line.replace("==ERROR==", "").strip()
            return reason if mark.startswith("ERR_") else f"{reason}: {detail[:160]}"
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return f"the profiled program ended with code {code}: {last[0][:160] if last else 'it said nothing'}"


def surroundings() -> dict[str, str]:
    """Environment of the profiled program: the same packages as here, wherever they were found."""
    root = Path(__file__).resolve().parents[2]
    places = os.pathsep.join([str(root), *(place for place in sys.path if place)])
    return scrubbed(os.environ) | {"PYTHONPATH": places}


def _run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return run_kept(command, timeout_s, surroundings())
