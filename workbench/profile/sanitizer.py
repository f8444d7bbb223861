"""Runs compute-sanitizer on one call of a plan, in processes of their own, and makes verdicts of its words.

Owns the command lines and the reading of the reports: memcheck, racecheck, initcheck and synccheck at a few
small sizes, of which one is odd and one has unaligned inputs. Slow (seconds a tool), so it is asked for, or
runs while nobody wants the card. Imports no torch and holds no CUDA.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from workbench.referee.planning import ONE_SM, UNALIGNED, plan_cases, situations
from workbench.workers.environment import scrubbed

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "synccheck", "racecheck", "initcheck")
"""In this order: what comes first makes what comes later look worse than it is."""
TIMEOUT_S = 60.0
PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/compute-sanitizer", "/usr/local")
MOST_ELEMENTS = 2**16
FOUND, MARK, CASE = 86, "WORKBENCH BUFFER", "WORKBENCH CASE"
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


@dataclass(frozen=True)
class Buffer:
    """A tensor of the run and where it lay."""

    name: str
    address: int
    meta: TensorMeta


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
            hazard = hazard_of(done.stdout + done.stderr, request.calls[0].case.label, kernel.source)
            if hazard is not None:
                return hazard
            if done.returncode not in (0, FOUND):
                raise NotLooked(f"{tool}: {why_none(done.stdout + done.stderr, done.returncode)}")
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
    """The first report of a kernel of this text, as a verdict; None when there is none.

    ``case`` is where it ran when the watched program does not say.
    """
    for label, part in parts_of(output, case):
        if (found := _hazard_in(part, label, source)) is not None:
            return found
    return None


def parts_of(output: str, first: str) -> Iterator[tuple[str, str]]:
    """What was printed, call by call, with the case's label."""
    before, *rest = output.split(CASE)
    yield first, before
    for part in rest:
        label, _, said = part.partition("\n")
        yield label.strip(), said


def _hazard_in(output: str, case: str, source: str) -> Hazard | None:
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


def run_tool(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run one tool to its end. Raises ``NotLooked`` when it takes too long, ``DeviceError`` without it."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env=surroundings(), check=False
        )
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
