"""Runs compute-sanitizer on one call of a plan, in processes of their own, and makes verdicts of its words.

Owns the command lines and the reading of the reports: memcheck, racecheck, initcheck and synccheck at one
small case. Slow (seconds a tool), so it is asked for by policy only. Imports no torch and holds no CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.compile import load_cubin
from workbench.errors import DeviceError
from workbench.model import (
    DTYPE_BYTES,
    Case,
    CompileFailed,
    Hazard,
    Kernel,
    Problem,
    Target,
    TensorMeta,
    Value,
)
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.referee.gpu_protocol import CubinImage
from workbench.referee.planning import plan_cases
from workbench.workers.environment import scrubbed

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "synccheck", "racecheck", "initcheck")
"""In this order: what comes first makes what comes later look worse than it is."""
TIMEOUT_S = 60.0
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/compute-sanitizer", "/usr/local")
MOST_ELEMENTS = 2**16
FOUND, MARK = 86, "WORKBENCH BUFFER"
KINDS: tuple[tuple[str, str], ...] = (
    ("Misaligned", "misaligned"),
    ("Invalid __shared__", "out_of_bounds"),
    ("Invalid __local__", "out_of_bounds"),
    ("Invalid __global__", "out_of_bounds"),
    ("Invalid", "out_of_bounds"),
    ("Race reported", "race"),
    ("hazard", "race"),
    ("Uninitialized", "uninitialised"),
    ("Divergent thread(s) in warp", "warp_sync"),
    ("Barrier error", "barrier"),
    ("Divergent", "barrier"),
)
_PLACE = re.compile(
    r"(?:at|access at)\s+(?P<kernel>.+?)\+0x[0-9a-f]+(?:\s+in\s+(?P<file>\S+):(?P<line>\d+))?"
)
_THREAD = re.compile(r"by thread (\(\d+,\d+,\d+\)) in block (\(\d+,\d+,\d+\))")
_ADDRESS = re.compile(r"(?:Access to|Address|Access at) (0x[0-9a-f]+)")
_NEAREST = re.compile(r"and is ([\d,]+) bytes (after|before) the nearest allocation at (0x[0-9a-f]+)")

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class NotLooked(Exception):
    """The sanitizer said nothing about the kernel; the message says why in a few words."""


class SanitizeRequest(Value):
    """One call of a plan, with machine code that knows its lines."""

    problem: Problem
    case: Case
    plan: Plan
    images: tuple[CubinImage, ...]
    device: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Buffer:
    """A tensor of the run and where it lay."""

    name: str
    address: int
    meta: TensorMeta


def sanitized(
    problem: Problem, kernel: Kernel, target: Target, device: int = 0, run: Run | None = None
) -> Hazard | None:
    """The first hazard any of the tools sees at the largest small case; None when all of them are content.

    Takes seconds a tool; the GPU should be idle. ``run`` starts a command line, for tests. Raises
    ``NotLooked`` with the reason.
    """
    sanitizer = find_sanitizer() if run is None else "compute-sanitizer"
    request = request_of(problem, kernel, target, device)
    with tempfile.TemporaryDirectory(prefix="workbench-sanitizer-") as folder:
        path = Path(folder) / "request.json"
        path.write_text(request.model_dump_json(), encoding="utf-8")
        for tool in TOOLS:
            done = (run or _run)(command_line(sanitizer, tool, path))
            hazard = hazard_of(done.stdout + done.stderr, request.case.label, kernel.source)
            if hazard is not None:
                return hazard
            if done.returncode not in (0, FOUND):
                raise NotLooked(f"{tool}: {why_none(done.stdout + done.stderr, done.returncode)}")
    return None


def request_of(problem: Problem, kernel: Kernel, target: Target, device: int) -> SanitizeRequest:
    """The largest proof the plan covers that is small. Raises ``NotLooked``."""
    program = parse(kernel.source)
    wanted = [(case, tuple(problem.metas(case).items())) for case in (*problem.proofs, *problem.cases)]
    small = [one for one in wanted if sum(meta.numel for _, meta in one[1]) <= MOST_ELEMENTS]
    covered = [one for one in plan_cases(program, small, target) if one.plan is not None]
    if not covered:
        raise NotLooked("no size is small enough")
    best = max(covered, key=lambda one: sum(meta.numel for meta in problem.metas(one.case).values()))
    assert best.plan is not None
    images = []
    for consts in dict.fromkeys(consts for _, consts in best.plan.instances):
        names = [name for name, its in best.plan.instances if its == consts]
        image = load_cubin(kernel.source, consts, names, target.arch, lineinfo=True)
        if isinstance(image, CompileFailed):
            raise NotLooked(image.diagnostics[0].message)
        pairs = tuple((name, image[1][name]) for name in names)
        images.append(CubinImage(consts=consts, cubin=image[0], names=pairs))
    return SanitizeRequest(
        problem=problem, case=best.case, plan=best.plan, images=tuple(images), device=device
    )


def command_line(sanitizer: str, tool: Tool, path: Path) -> list[str]:
    """The whole command of one tool."""
    return [
        sanitizer,
        "--tool", tool,
        "--error-exitcode", str(FOUND),
        "--print-limit", "10",
        "--show-backtrace", "no",
        *(("--padding", "512") if tool == "memcheck" else ()),
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


# ------------------------------------------------------------------------------------ what it printed


def hazard_of(output: str, case: str, source: str) -> Hazard | None:
    """The first report of a kernel of this text, as a verdict; None when there is none."""
    buffers = buffers_of(output)
    for report in reports_of(output):
        head = report[0]
        kind = next((kind for words, kind in KINDS if words in head), None)
        place = next((found for line in report if (found := _PLACE.search(line))), None)
        if kind is None or place is None or not _own(place["kernel"], source):
            continue
        line = int(place["line"]) if place["line"] and place["file"].endswith("kernel.cu") else None
        where = f"line {line}: " if line else f"in {place['kernel']}: "
        told = [head.strip().removesuffix("."), _thread(report), _tensor(report, buffers)]
        message = f"{where}{', '.join(filter(None, told))} (compute-sanitizer)"
        return Hazard.model_validate({"hazard": kind, "case": case, "line": line, "message": message})
    return None


def reports_of(output: str) -> list[list[str]]:
    """Reports of the tool: the first line of each and those indented below it."""
    reports: list[list[str]] = []
    for line in output.splitlines():
        if not line.startswith("========="):
            continue
        text = line.removeprefix("=========")
        if text.startswith("     ") and reports:
            reports[-1].append(text)
        elif text.strip():
            reports.append([text])
    return reports


def buffers_of(output: str) -> tuple[Buffer, ...]:
    """Tensors of the run, as the watched program told."""
    found = []
    for line in output.splitlines():
        if line.startswith(MARK):
            _, _, rest = line.partition(MARK)
            with suppress(ValueError):  # a kernel may print what it likes
                name, address, meta = rest.strip().split(" ", 2)
                found.append(Buffer(name, int(address), TensorMeta.model_validate_json(meta)))
    return tuple(found)


def told_of(name: str, address: int, meta: TensorMeta) -> str:
    """The line that ``buffers_of`` reads."""
    return f"{MARK} {name} {address} {meta.model_dump_json()}"


def _own(kernel: str, source: str) -> bool:
    names = re.findall(r"\w+", re.split(r"[<(]", kernel.replace("void ", ""), maxsplit=1)[0])
    return bool(names) and re.search(rf"\b{names[-1]}\b", source) is not None


def _thread(report: Iterable[str]) -> str:
    found = next((m for line in report if (m := _THREAD.search(line))), None)
    return f"thread {found[1]} of block {found[2]}" if found else ""


def _tensor(report: Sequence[str], buffers: Sequence[Buffer]) -> str:
    """Which tensor, and which element of it, an address belongs to."""
    near = next((m for line in report if (m := _NEAREST.search(line))), None)
    if near is not None:
        base = int(near[3], 16)
        owner = next((one for one in buffers if one.address == base), None)
        name = owner.name if owner else "a workspace"
        return f"{near[1]} bytes {near[2]} the memory of {name}"
    address = next((int(m[1], 16) for line in report if (m := _ADDRESS.search(line))), None)
    for one in buffers if address is not None else ():
        nbytes = one.meta.nbytes
        if address is not None and one.address <= address < one.address + nbytes:
            return f"{one.name}, element {(address - one.address) // DTYPE_BYTES[one.meta.dtype]}"
    return ""


def why_none(output: str, code: int) -> str:
    """Why a tool said nothing, from what it printed."""
    for words in ("Device not supported", "Unable to find", "Target application terminated", "Error: "):
        line = next((line for line in output.splitlines() if words in line), None)
        if line is not None:
            return line.removeprefix("=========").strip()[:200]
    last = [line for line in output.splitlines() if line.strip()][-1:]
    return f"the watched program ended with code {code}: {last[0][:200] if last else 'it said nothing'}"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    places = os.pathsep.join([str(root), *(place for place in sys.path if place)])
    # Every tensor in an allocation of its own: from torch's own cache a stray access hits a neighbour.
    own = {"PYTHONPATH": places, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    environment = scrubbed(os.environ) | own
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotLooked(f"compute-sanitizer did not end within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise DeviceError(f"compute-sanitizer cannot be started: {error.strerror or error}") from error
