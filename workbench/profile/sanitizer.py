"""Runs compute-sanitizer on one call of a plan, in processes of their own, and makes verdicts of its words.

Owns the command lines: memcheck, racecheck, initcheck and synccheck at a few small sizes, of which one is
odd and one has unaligned inputs. What they print is read by ``sanitizer_reports``. Slow (seconds a tool), so
it is asked for, or runs while nobody wants the card. Imports no torch and holds no CUDA.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from workbench.compile import load_cubin
from workbench.errors import DeviceError
from workbench.model import Case, CompileFailed, Hazard, Kernel, Problem, Target, Value
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.profile.sanitizer_reports import hazard_of, unread, why_none
from workbench.referee.gpu_protocol import CubinImage
from workbench.referee.planning import ONE_SM, UNALIGNED, plan_cases, situations
from workbench.workers.environment import scrubbed
from workbench.workers.keeping import run_kept

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "synccheck", "racecheck", "initcheck")
"""In this order: what comes first makes what comes later look worse than it is."""
TIMEOUT_S = 60.0
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/compute-sanitizer", "/usr/local")
MOST_ELEMENTS = 2**16
FOUND = 86
"""What a tool ends with when it has found something."""
PRINTED = 1000
"""Most reports a tool prints; the one of the kernel must be among them."""
RED_ZONE = 512
"""Bytes behind every allocation that memcheck knows to be nobody's: ``cudaMalloc`` places allocations at
multiples of 512, so that one element beyond a tensor the next one may begin."""

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class NotLooked(Exception):
    """The sanitizer said nothing about the kernel; the message says why in a few words."""


class SanitizedCall(Value):
    """One call of a plan."""

    case: Case
    plan: Plan

    @property
    def unaligned(self) -> bool:
        """True where inputs lie at addresses that only their own element size divides."""
        return self.case.label.endswith(UNALIGNED)


class SanitizeRequest(Value):
    """Calls of a plan, with machine code that knows its lines."""

    problem: Problem
    calls: tuple[SanitizedCall, ...]
    images: tuple[CubinImage, ...]
    device: int = 0
    seed: int = 0


def sanitized(
    problem: Problem, kernel: Kernel, target: Target, device: int = 0, run: Run | None = None
) -> Hazard | None:
    """The first hazard any of the tools sees at a few small sizes; None when all of them are content.

    Takes seconds a tool; the GPU should be idle. ``run`` starts a command line, for tests. Raises
    ``NotLooked`` with the reason.
    """
    sanitizer = find_sanitizer() if run is None else _found_or_named()
    request = request_of(problem, kernel, target, device)
    with tempfile.TemporaryDirectory(prefix="workbench-sanitizer-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(request.model_dump_json(), encoding="utf-8")
        for tool in TOOLS:
            done = (run or run_tool)(command_line(sanitizer, tool, path))
            said = done.stdout + done.stderr
            hazard = hazard_of(said, request.calls[0].case.label, kernel.source)
            if hazard is not None:
                return hazard
            if done.returncode not in (0, FOUND):
                raise NotLooked(f"{tool}: {why_none(said, done.returncode)}")
            if done.returncode == FOUND and (reason := unread(said)):
                raise NotLooked(f"{tool}: {reason}")
    return None


def request_of(problem: Problem, kernel: Kernel, target: Target, device: int) -> SanitizeRequest:
    """A few small sizes that the plan covers. Raises ``NotLooked``."""
    wanted = [
        (case, metas)
        for case, metas in situations(problem)
        if sum(meta.numel for _, meta in metas) <= MOST_ELEMENTS and not case.label.endswith(ONE_SM)
    ]
    planned = plan_cases(parse(kernel.source), wanted, target)
    calls = few_of([SanitizedCall(case=one.case, plan=one.plan) for one in planned if one.plan is not None])
    if not calls:
        raise NotLooked("no size is small enough")
    wanted_names: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    for name, consts in (instance for call in calls for instance in call.plan.instances):
        wanted_names.setdefault(consts, {})[name] = None
    images = []
    for consts, names in wanted_names.items():
        image = load_cubin(kernel.source, consts, list(names), target.arch, lineinfo=True)
        if isinstance(image, CompileFailed):
            raise NotLooked(image.diagnostics[0].message)
        pairs = tuple((name, image[1][name]) for name in names)
        images.append(CubinImage(consts=consts, cubin=image[0], names=pairs))
    return SanitizeRequest(problem=problem, calls=tuple(calls), images=tuple(images), device=device)


def few_of(calls: Sequence[SanitizedCall]) -> list[SanitizedCall]:
    """The largest size, the largest odd one, the smallest, and the one with unaligned inputs."""
    ordered = sorted(calls, key=lambda call: -sum(meta.numel for _, meta in call.plan.arguments))
    plain = [call for call in ordered if not call.unaligned]
    odd = [call for call in plain if call.case.sizes and call.case.sizes[-1][1] % 2]
    unaligned = [call for call in ordered if call.unaligned]
    return list(dict.fromkeys((*plain[:1], *odd[:1], *plain[-1:], *unaligned)))


def command_line(sanitizer: str, tool: Tool, path: Path) -> list[str]:
    """The whole command of one tool.

    A library asks the driver for functions that another version has, and is told no; memcheck takes each such
    answer for an error of the program. On an H100 there were 35 of them before the kernel ran, more than were
    printed, and the kernel's own were not.
    """
    return [
        sanitizer,
        "--tool", tool,
        "--error-exitcode", str(FOUND),
        "--print-limit", str(PRINTED),
        "--show-backtrace", "no",
        *(("--padding", str(RED_ZONE), "--report-api-errors", "no") if tool == "memcheck" else ()),
        sys.executable, "-m", "workbench.profile.sanitized", str(path),
    ]  # fmt: skip


def find_sanitizer() -> str:
    """Path of compute-sanitizer. Raises ``NotLooked``."""
    if found := shutil.which("compute-sanitizer"):
        return found
    for place in map(Path, PLACES):
        for pattern in ("compute-sanitizer", "*/compute-sanitizer", "cuda-*/bin/compute-sanitizer"):
            files = (str(p) for p in sorted(place.glob(pattern), reverse=True) if p.is_file())
            if found := next(files, None):
                return found
    raise NotLooked("compute-sanitizer is not installed")


def run_tool(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run one tool to its end. Raises ``NotLooked`` when it takes too long, ``DeviceError`` without it."""
    try:
        return run_kept(command, TIMEOUT_S, surroundings())
    except subprocess.TimeoutExpired:
        raise NotLooked(f"compute-sanitizer did not end within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise DeviceError(f"compute-sanitizer cannot be started: {error.strerror or error}") from error


def surroundings() -> dict[str, str]:
    """The environment of the watched program."""
    root = Path(__file__).resolve().parents[2]
    places = os.pathsep.join([str(root), *(place for place in sys.path if place)])
    # Every tensor in an allocation of its own: from torch's own cache a stray access hits a neighbour.
    own = {"PYTHONPATH": places, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return dict(scrubbed(os.environ) | own)


def _found_or_named() -> str:
    """Its path, or its name for who starts command lines otherwise."""
    try:
        return find_sanitizer()
    except NotLooked:
        return "compute-sanitizer"
