"""The receipt of a measured evaluation: everything its claims rest on, in one JSON file.

Owns the file's content and name. A receipt holds the problem and the kernel whole, so that it can be replayed
with nothing but itself; ``replay.py`` does. Imports no torch.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

import workbench
from workbench.compile.options import SEED, nvrtc_version
from workbench.errors import DeviceError, UsageError
from workbench.model import Digest, Kernel, Measured, Problem, Target, Value
from workbench.plan.steps import Plan
from workbench.referee.clock.options import ClockOptions, Physics
from workbench.referee.clock.samples import RawTimes

FORMAT: Literal["workbench-receipt/1"] = "workbench-receipt/1"
SEED_FACT = ("nvrtc -frandom-seed", SEED)
"""Among the versions of a receipt whose machine code can be made again, whatever its source includes."""
PACKAGES = ("torch", "triton", "cupti-python", "nvidia-ml-py", "cuda-core", "cuda-bindings")


class Machine(Value):
    """Where it was measured."""

    card: str
    uuid: str = ""
    driver: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    """Packages, the compiler and the workbench itself."""
    flags: tuple[tuple[str, bool], ...] = ()
    """Torch's precision flags during timing."""


class Cubin(Value):
    """Machine code of all kernels under one set of consts, by its hash."""

    consts: tuple[tuple[str, str], ...]
    kernels: tuple[str, ...]
    sha256: str


class CaseReceipt(Value):
    """One case: what ran, what was sampled, what was claimed."""

    case: str
    sizes: tuple[tuple[str, int], ...]
    plan: Digest
    cubins: tuple[Cubin, ...]
    input_seed: int
    time_us: float
    floor_us: float = 0.0
    """Speed of light: the roofline share is this over the time."""
    measured: Measured
    physics: Physics = Physics()
    raw: RawTimes
    baselines: RawTimes | None = None
    """Samples of the baselines that were timed earlier, where the claims chain to them."""


class Receipt(Value):
    """One kernel on one card."""

    format: Literal["workbench-receipt/1"] = FORMAT
    made: str
    """UTC, to the second."""
    problem: Problem
    problem_digest: Digest
    kernel: Kernel
    kernel_digest: Digest
    target: Target
    machine: Machine
    options: ClockOptions
    seed: int = 0
    """Of the correctness checks."""
    own_seed: int | None = None
    """Of the one check that was this kernel's alone; None in receipts of before it was kept."""
    cases: tuple[CaseReceipt, ...]
    command: str
    """Repeats the measurement."""

    @property
    def file_name(self) -> str:
        """Kernel, card and time of day: receipts of one kernel lie side by side."""
        card = re.sub(r"[^a-z0-9]+", "-", self.machine.card.lower()).strip("-")
        return f"{self.kernel_digest[:12]}-{card}-{re.sub('[^0-9T]', '', self.made)}.json"


def receipt_of(
    problem: Problem,
    kernel: Kernel,
    target: Target,
    machine: Machine,
    cases: Iterable[CaseReceipt],
    options: ClockOptions,
    seed: int = 0,
) -> Receipt:
    """Put a receipt together; its claims are those of ``cases``."""
    receipt = Receipt(
        made=now(),
        problem=problem,
        problem_digest=problem.digest,
        kernel=kernel,
        kernel_digest=kernel.digest,
        target=target,
        machine=machine,
        options=options,
        seed=seed,
        cases=tuple(cases),
        command="",
    )
    return receipt.model_copy(update={"command": f"workbench replay-receipt {receipt.file_name}"})


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_receipt(receipt: Receipt, folder: Path) -> Path:
    """Write into ``folder``, whole or not at all; returns the file. Raises ``DeviceError``."""
    path = folder / receipt.file_name
    unfinished = path.with_suffix(".new")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(receipt.model_dump_json(indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise DeviceError(f"the receipt cannot be written to {folder}: {error.strerror}") from error
    return path


def read_receipt(path: Path) -> Receipt:
    """Read a file. Raises ``UsageError`` for one that is no receipt."""
    try:
        return Receipt.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(f"{path} is no receipt of a measurement: {why}") from error


def cubin_of(consts: tuple[tuple[str, str], ...], kernels: Iterable[str], image: bytes) -> Cubin:
    """The hash of one image."""
    return Cubin(consts=consts, kernels=tuple(sorted(kernels)), sha256=hashlib.sha256(image).hexdigest())


def wanted_kernels(plan: Plan) -> Mapping[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Kernels of a plan by the consts they are compiled under."""
    found: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kernel, consts in plan.instances:
        found.setdefault(consts, []).append(kernel)
    return {consts: tuple(sorted(set(kernels))) for consts, kernels in found.items()}


def versions() -> tuple[tuple[str, str], ...]:
    """What is installed here, of what a time depends on."""
    found = {"workbench": workbench.__version__, "nvrtc": nvrtc_version(), SEED_FACT[0]: SEED_FACT[1]}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return tuple(found.items())
