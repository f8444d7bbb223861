"""From a plan's launch step to what the runtime takes: geometry and the arguments' bytes.

Owns the checks a GPU's driver would make. Starts nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import gcd, prod

from workbench.emulator import module
from workbench.emulator.values import Options
from workbench.errors import EmulatorLaunchError
from workbench.model import Diagnostic
from workbench.plan.steps import BufferArg, Launch, ScalarArg

# Hopper's limit for one block; a smaller target's limit is the plan interpreter's business.
MAX_DYNAMIC_SHARED_BYTES = 227 * 1024
MAX_THREADS = 1024
ONE_AFTER_THE_OTHER = 1
"""OS threads of a checked launch. A block then begins when those before it have ended, which is all that CUDA
lets an ordinary launch count on: one that waits for a later block is found on a machine of any size, where
sixteen cores would have started both."""

RUN = 16
"""Blocks side by side of which all or none are looked at for races: ``kRun`` of runtime/state.h."""
TRIES = 64
"""Numbers drawn until one has no divisor in common with the count of blocks."""


def geometry(step: Launch, options: Options, *, checked: bool) -> module.Geometry:
    """Raises ``EmulatorLaunchError`` for a launch a GPU refuses."""
    threads = step.block[0] * step.block[1] * step.block[2]
    if not 1 <= threads <= MAX_THREADS:
        raise _refused(step, f"{threads} threads a block; 1 to {MAX_THREADS} are allowed")
    if not all(step.grid):
        raise _refused(step, f"empty grid {step.grid}")
    if step.shared_bytes > MAX_DYNAMIC_SHARED_BYTES:
        raise _refused(
            step, f"{step.shared_bytes} bytes of shared memory; at most {MAX_DYNAMIC_SHARED_BYTES}"
        )
    if any(blocks % together for blocks, together in zip(step.grid, step.cluster, strict=True)):
        raise _refused(step, f"grid {step.grid} is no multiple of cluster {step.cluster}")
    blocks = prod(step.grid)
    clusters = blocks // prod(step.cluster)
    drawn = random.Random(options.draw)
    first, apart = _order(step, options, clusters, drawn)
    runs, race_sample = _race_sample(clusters, threads * prod(step.cluster), options)
    return module.Geometry(
        grid=step.grid,
        block=step.block,
        shared_bytes=step.shared_bytes,
        checks=_checks(options) if checked else 0,
        workers=options.workers or (ONE_AFTER_THE_OTHER if checked else 0),
        reverse=options.reverse,
        sample=_sampling_step(clusters, options.traced_blocks),
        race_sample=race_sample,
        race_first=drawn.randrange(min(runs, race_sample)),
        resident=blocks if step.cooperative else options.resident if checked else 0,
        first=first,
        step=apart,
        clock_start=drawn.randrange(2**40, 2**60),
        cluster=step.cluster,
        cooperative=step.cooperative,
        undefined=options.undefined,
    )


def cells(step: Launch, signature: tuple[str, ...], addresses: Mapping[str, int]) -> list[bytes]:
    """Bytes of every argument. Raises ``EmulatorLaunchError`` when one does not fit its parameter."""
    if len(signature) != len(step.args):
        raise _refused(step, f"{step.kernel} takes {len(signature)} arguments, {len(step.args)} given")
    encoded = []
    for number, (arg, code) in enumerate(zip(step.args, signature, strict=True), 1):
        try:
            encoded.append(_cell(arg, code, addresses))
        except (ValueError, OverflowError) as error:
            raise _refused(step, f"argument {number} of {step.kernel}: {error}") from None
    return encoded


def _cell(arg: BufferArg | ScalarArg, code: str, addresses: Mapping[str, int]) -> bytes:
    if isinstance(arg, BufferArg):
        if code != "p":
            raise ValueError("a tensor was given, the parameter is no pointer")
        return addresses[arg.buffer].to_bytes(8, "little")
    if code == "p":
        raise ValueError("a number was given, the parameter is a pointer")
    return module.encode_scalar(arg.value, code)


def _checks(options: Options) -> int:
    races = module.RACES | module.SHARED_INITIAL
    return module.STATISTICS * options.statistics | races * options.races


def _sampling_step(blocks: int, wanted: int) -> int:
    """Every n-th block; odd, not to fall in with rows of tiles, whose numbers are mostly powers of two."""
    return -(-blocks // wanted) | 1


def _order(step: Launch, options: Options, count: int, drawn: random.Random) -> tuple[int, int]:
    """Which block begins first, and by how much the numbers of those that follow it grow."""
    order = options.order
    if order == "by number" and options.reverse and step.cooperative:
        order = "last first"
    match order:
        case "by number":
            return 0, 1
        case "last first":
            return count - 1, max(count - 1, 1)
        case "drawn":
            coprime = [n for n in (drawn.randrange(1, count + 1) for _ in range(TRIES)) if gcd(n, count) == 1]
            return drawn.randrange(count), (*coprime, 1)[0]


def _race_sample(blocks: int, threads: int, options: Options) -> tuple[int, int]:
    """How many runs of blocks a launch has, and among how many of them one is looked at for races."""
    runs = -(-blocks // RUN)
    wanted = max(options.raced_threads // (RUN * threads), 1)
    return runs, 1 if blocks * threads <= options.raced_threads else -(-runs // wanted)


def _refused(step: Launch, message: str) -> EmulatorLaunchError:
    return EmulatorLaunchError((Diagnostic(line=step.line, message=message),))
