"""Worker functions that start kernels in a runner, as the referee does, and tell what came of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from launching import KERNELS, Out, Shape, built_together, plan_of

from workbench.emulator import build as building
from workbench.emulator import patience
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.hosts import RunnerEnded
from workbench.emulator.runner import Runner, start
from workbench.emulator.values import Options
from workbench.workers import prepared_by


def outputs(kernel: str, args: dict[str, Any], runner: Runner) -> list[list[float]]:
    plan = plan_of(kernel, Shape(1, 1), args)
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    source = (KERNELS / "host_code.cu").read_text()
    # Without the first wall, so that the second one is what is tested.
    building.refuse_host_object = lambda contents, source: None
    module = build(source, [(name, ()) for name in built_together(source, kernel)], "plain")
    execution = execute(plan, module, tensors, Options(workers=1), runner)
    return [tensor.flatten().tolist() for tensor in execution.outputs]


def letters(path: str) -> torch.Tensor:
    return torch.tensor(list(path.encode()), dtype=torch.int32)


@prepared_by(start)
def read_files(payload: bytes, _: Callable[[bytes], None], runner: Runner) -> bytes:
    """What a kernel reads from each of some paths: text, or None where it was refused."""
    found: dict[str, str | None] = {}
    for path in json.loads(payload):
        place = path.format(self=runner.pid, trusted=os.getpid(), server=os.getppid())
        text = letters(place)
        args = {"letters": text, "y": Out((4096,)), "count": len(text), "n": 4096}
        (values,) = outputs("reads_file", args, runner)
        found[path] = None if values[0] < 0 else bytes(int(v) for v in values).rstrip(b"\0").decode("latin1")
    return json.dumps(found).encode()


@prepared_by(start)
def write_file(payload: bytes, _: Callable[[bytes], None], runner: Runner) -> bytes:
    text = letters(payload.decode())
    return json.dumps(
        outputs("writes_file", {"letters": text, "y": Out((1,)), "count": len(text)}, runner)
    ).encode()


@prepared_by(start)
def call_out(payload: bytes, _: Callable[[bytes], None], runner: Runner) -> bytes:
    return json.dumps(outputs("calls_out", {"y": Out((1,)), "port": int(payload)}, runner)).encode()


@prepared_by(start)
def attack_parent(_: bytes, __: Callable[[bytes], None], runner: Runner) -> bytes:
    return json.dumps(outputs("attacks_parent", {"y": Out((2,))}, runner)).encode()


@prepared_by(start)
def forge(payload: bytes, _: Callable[[bytes], None], runner: Runner) -> bytes:
    """The outputs of a kernel that answers for the runtime, or how its process ended."""
    try:
        return json.dumps(outputs(payload.decode(), {"y": Out((2,))}, runner)).encode()
    except RunnerEnded as ended:
        return str(ended).encode()


@prepared_by(start)
def wait_with_secret(payload: bytes, send: Callable[[bytes], None], runner: Runner) -> bytes:
    """Keep a payload in this process while the caller looks at the runner."""
    outputs("attacks_parent", {"y": Out((2,))}, runner)
    send(str(runner.pid).encode())
    time.sleep(0.3)
    return payload[:0]


def environment(_: bytes) -> bytes:
    """What a worker without any rule against reading finds in its own environment and its server's."""
    text = json.dumps(dict(os.environ)).encode()
    return text + Path("/proc/self/environ").read_bytes()


@prepared_by(start)
def spin(payload: bytes, _: Callable[[bytes], None], runner: Runner) -> bytes:
    """How a launch ends that does not come to an end, its processor time, and what it still said."""
    patience.FIRST_CPU_S = 1.0
    try:
        outputs("spins", {"y": Out((1,), zero=True)}, runner)
    except RunnerEnded as ended:
        printed = ended.printed.text if ended.printed else ""
        return json.dumps([str(ended), ended.cpu_s, ended.line, printed]).encode()
    return b"[]"
