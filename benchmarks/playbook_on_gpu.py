"""The playbook's kernels on a real GPU: right numbers, and times against eager PyTorch.

Runs on a machine with an NVIDIA GPU. For every sample op and declared shape it generates the seeds and
the most promising moves, compiles them with NVRTC, launches the plans through the driver, compares with
float64 and times with CUDA events, inputs flushed out of L2 before every sample. This is a first look
and not the referee's clock: no CUPTI, no ABBA, no torch.compile. Prints a table; writes a JSON receipt
into ``$WORKBENCH_RECEIPTS``. Usage: ``python benchmarks/playbook_on_gpu.py [OP ...]``
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, ObjectCode, launch
from cuda.core._utils.cuda_utils import CUDAError

from workbench.compile import load_cubin
from workbench.errors import PlanError, WorkbenchError
from workbench.model import (
    H100,
    Case,
    CompileFailed,
    Draft,
    Problem,
    TensorMeta,
)
from workbench.numerics.dtypes import TORCH
from workbench.numerics.inputs import draw
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, Plan, ScalarArg, View
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.problem.capture import read_file
from workbench.problem.intake import open_problem
from workbench.problem.reference import Reference
from workbench.referee.librarymeta import library_meta

SAMPLES = 20
FLUSH_BYTES = 256 * 2**20
LARGEST_BYTES = 6 * 2**30
DEFAULT_SHARED_BYTES = 48 * 1024
SCALARS = {
    "bool": np.bool_,
    "int": np.int32,
    "unsigned int": np.uint32,
    "long": np.int64,
    "unsigned long": np.uint64,
    "long long": np.int64,
    "unsigned long long": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


class Runner:
    """Executes plans on the current device with torch's allocator and stream."""

    def __init__(self) -> None:
        self.device = Device(torch.cuda.current_device())
        self.device.set_current()
        self.stream = torch.cuda.Stream()
        self.kernels: dict[Any, Any] = {}

    def load(self, source: str, plan: Plan) -> None:
        """Compile and load every kernel the plan launches."""
        by_consts: dict[Any, list[str]] = {}
        for name, consts in plan.instances:
            by_consts.setdefault(consts, []).append(name)
        for consts, names in by_consts.items():
            answer = load_cubin(source, consts, names)
            if isinstance(answer, CompileFailed):
                raise RuntimeError(answer.diagnostics[0].message)
            image, mangled = answer
            code = ObjectCode.from_cubin(image)
            for name in names:
                self.kernels[source, name, consts] = code.get_kernel(mangled[name])

    def run(
        self, source: str, plan: Plan, tensors: dict[str, torch.Tensor], poison: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """One execution on the runner's stream; with ``poison`` new buffers start out as NaN."""
        known = dict(tensors)
        for step in plan.steps:
            match step:
                case Allocate(buffer=name, meta=meta, zero=zero):
                    known[name] = _empty(meta, poison)
                    if zero:
                        known[name].zero_()
                case View(buffer=name, of=of, meta=meta, offset=offset):
                    known[name] = known[of].as_strided(meta.shape, meta.strides, offset)
                case Library():
                    _library(step, known)
                case Launch():
                    self._launch(source, step, known)
        return tuple(known[name] for name in plan.outputs)

    def _launch(self, source: str, step: Launch, known: dict[str, torch.Tensor]) -> None:
        kernel = self.kernels[source, step.kernel, step.consts]
        if step.shared_bytes > DEFAULT_SHARED_BYTES:
            _allow_shared(kernel, step.shared_bytes, self.device.device_id)
        config = LaunchConfig(grid=step.grid, block=step.block, shmem_size=step.shared_bytes)
        stream = self.device.create_stream(self.stream)
        launch(stream, config, kernel, *(_argument(arg, known) for arg in step.args))


def _allow_shared(kernel: Any, shared_bytes: int, device: int) -> None:
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(attribute, shared_bytes, kernel.handle, device)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{shared_bytes} bytes of shared memory: {error.name}")


def _argument(arg: BufferArg | ScalarArg, known: dict[str, torch.Tensor]) -> Any:
    if isinstance(arg, BufferArg):
        return known[arg.buffer].data_ptr()
    return SCALARS[arg.ctype](arg.value)


def _empty(meta: TensorMeta, poison: bool) -> torch.Tensor:
    made = torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype], device="cuda")
    return made.fill_(float("nan")) if poison and made.is_floating_point() else made


def _library(step: Library, known: dict[str, torch.Tensor]) -> None:
    def real(value: Any) -> Any:
        if isinstance(value, BufferArg):
            return known[value.buffer]
        return [real(v) for v in value] if isinstance(value, tuple) else value

    namespace, name, *overload = step.op.split(".")
    op = getattr(getattr(torch.ops, namespace), name)
    op = getattr(op, overload[0]) if overload else op
    result = op(*(real(a) for a in step.args), **{k: real(v) for k, v in step.kwargs})
    results = result if isinstance(result, tuple | list) else (result,)
    known.update(zip(step.results, results, strict=True))


def timed(act: Callable[[], Any], stream: torch.cuda.Stream) -> list[float]:
    """Microseconds of each sample, L2 flushed before it; CUDA events on ``stream``."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    samples = []
    with torch.cuda.stream(stream):
        for _ in range(5):
            act()
        for _ in range(SAMPLES):
            flush.fill_(1)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # Keep the device busy while the host queues the work, so that launch latency stays out.
            torch.cuda._sleep(200_000)
            start.record()
            act()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1e3)
    return samples


def candidates(problem: Problem) -> list[tuple[str, Draft]]:
    """Five seeds and the most promising changes of the best of them, distinct by technique vector."""
    seeds = seed_vectors(problem, H100, count=5)
    best = max(seeds, key=lambda seed: seed.predicted_factor)
    cards = (*seeds, *moves(problem, best.vector, None, H100)[:5])
    distinct = {card.vector: card for card in reversed(cards)}
    return [(card.title, generate(problem, card.vector)) for card in reversed(distinct.values())]


def measure(runner: Runner, problem: Problem, case: Case) -> list[dict[str, Any]]:
    """A row a candidate: correctness against float64, time, eager's time."""
    reference = Reference(problem)
    tensors = {k: v.cuda() for k, v in draw(problem, case, "normal", 0).items()}
    exact = reference.oracle(tensors)
    eager = timed(lambda: reference.call(tensors), runner.stream)
    rows = []
    for title, draft in candidates(problem):
        source = draft.kernel.source
        row: dict[str, Any] = {
            "case": case.label,
            "title": title,
            "vector": dict(draft.vector),
            "eager_us": eager,
        }
        try:
            plan = interpret(parse(source), problem.metas(case), H100, library_meta)
            runner.load(source, plan)
            with torch.cuda.stream(runner.stream):
                got = runner.run(source, plan, tensors, poison=True)
            torch.cuda.synchronize()
            row["max_abs"] = max(
                float((g.double() - e.double()).abs().max()) for g, e in zip(got, exact, strict=True)
            )
            row["us"] = timed(partial(runner.run, source, plan, tensors), runner.stream)
        except (PlanError, RuntimeError, CUDAError) as error:
            row["failed"] = f"{type(error).__name__}: {str(error)[:200]}"
        rows.append(row)
    return rows


def main() -> None:
    """Measure the named ops, or all; print and write."""
    folder = Path(__file__).resolve().parent.parent / "sample_ops"
    names = sys.argv[1:] or sorted(path.stem for path in folder.glob("*.py"))
    runner = Runner()
    rows: list[dict[str, Any]] = []
    started = time.time()
    for name in names:
        try:
            problem = open_problem(read_file(folder / f"{name}.py"))
            for case in problem.cases:
                if sum(m.nbytes for m in problem.metas(case).values()) > LARGEST_BYTES:
                    continue
                for row in measure(runner, problem, case):
                    rows.append({"op": name, **row})
                    _print(rows[-1])
                torch.cuda.empty_cache()
        except WorkbenchError as error:
            print(f"{name}: {error}", flush=True)
    receipt = {
        "what": "first look: CUDA events, cold L2, median of samples; not the referee's clock",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "seconds": time.time() - started,
        "rows": rows,
    }
    if target := os.environ.get("WORKBENCH_RECEIPTS"):
        Path(target, "playbook_on_gpu.json").write_text(json.dumps(receipt, indent=1))


def _print(row: dict[str, Any]) -> None:
    head = f"{row['op']:<20}{row['case']:<22}{_short(row['vector']):<46}"
    if "failed" in row:
        print(f"{head}FAILED {row['failed']}", flush=True)
        return
    ours, eager = statistics.median(row["us"]), statistics.median(row["eager_us"])
    print(
        f"{head}{ours:>10.1f} us  eager {eager:>10.1f}  {eager / ours:>6.2f}x  err {row['max_abs']:.1e}",
        flush=True,
    )


def _short(vector: dict[str, str]) -> str:
    return " ".join(f"{name[:9]}={value}" for name, value in vector.items() if value not in ("off", "1"))


if __name__ == "__main__":
    main()
