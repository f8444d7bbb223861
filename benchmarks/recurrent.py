"""Recurrent layers on a card: what the library takes for them, and kernels that go through all steps at once.

    python benchmarks/recurrent.py --beside                 both by CUDA events around a call, and how far off
    python benchmarks/recurrent.py --sweep --seconds 200    every kernel judged; the referee's times
    python benchmarks/recurrent.py --told RECEIPT           no GPU: what the model of time makes of a receipt

``$WORKBENCH_RECEIPTS`` names the folder for ``recurrent.json``, which has what was measured by mode.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import on_the_gpu as gpu
import torch
from few_rows import keep

from workbench.gpu.kernels import load
from workbench.gpu.runner import PlanRunner
from workbench.model import H100, Passed, Problem, Vector
from workbench.plan.parse import parse
from workbench.playbook.generate import generate
from workbench.playbook.kernels.recurrent_tiling import UNITS
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.planning import plan_cases

Entry = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """Layers, and what they are given."""

    kind: str
    layers: int
    ways: int
    batch: int
    length: int
    inputs: int
    hidden: int


NETWORKS = (
    Network("LSTM", 6, 1, 10, 512, 128, 256),
    Network("GRU", 6, 1, 10, 512, 128, 256),
    Network("GRU", 6, 2, 10, 512, 128, 256),
    Network("LSTM", 1, 1, 32, 128, 256, 512),
    Network("LSTM", 2, 1, 1, 256, 512, 1024),
    Network("LSTM", 2, 2, 16, 200, 40, 320),
    Network("GRU", 2, 1, 64, 100, 64, 128),
    Network("RNN", 2, 1, 16, 256, 128, 256),
    Network("LSTM", 1, 1, 64, 256, 128, 256),
    Network("LSTM", 2, 1, 32, 100, 256, 256),
    Network("GRU", 1, 1, 1, 500, 80, 512),
    Network("LSTM", 3, 2, 8, 300, 80, 256),
)
RUNS = 12


def problem_of(network: Network) -> Problem:
    """A module of such layers, which is given what every layer begins with."""
    n = network
    states = f"torch.randn({n.layers * n.ways}, {n.batch}, {n.hidden})"
    given = ("(h, c)", f"{states}, {states}", "h, c") if n.kind == "LSTM" else ("h", states, "h")
    return open_problem(
        read_cell(
            "import torch\n"
            "class Layers(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            f"        self.layers = torch.nn.{n.kind}(\n"
            f"            {n.inputs}, {n.hidden}, {n.layers}, bidirectional={n.ways == 2}\n"
            "        )\n"
            f"    def forward(self, x, {given[2]}):\n"
            f"        return self.layers(x, {given[0]})[0]\n"
            "model = Layers()\n"
            f"inputs = [torch.randn({n.length}, {n.batch}, {n.inputs}), {given[1]}]\n"
        )
    )


def vector_of(problem: Problem, units: int) -> Vector:
    """So many units a warp."""
    return settled(problem, (("recurrent_layers", str(units)), ("vector_width", "4")))


def beside() -> Iterator[Entry]:
    """Microseconds of a call of the library's, and of each kernel; the largest difference between the two."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    for network in NETWORKS:
        n, problem = network, problem_of(network)
        torch.manual_seed(0)
        kind = getattr(torch.nn, n.kind)
        layers = kind(n.inputs, n.hidden, n.layers, bidirectional=n.ways == 2).cuda()
        count = 2 if n.kind == "LSTM" else 1
        states = [torch.randn(n.layers * n.ways, n.batch, n.hidden, device="cuda") for _ in range(count)]
        x = torch.randn(n.length, n.batch, n.inputs, device="cuda")
        given = tuple(states) if count > 1 else states[0]
        held = {name: p.detach() for name, p in layers.named_parameters()}
        tensors = {"x": x, **dict(zip("hc", states, strict=False)), **held}
        with torch.no_grad():
            wanted = layers(x, given)[0]
            entry = {**asdict(network), "library": round(call_us(partial(layers, x, given)), 1)}
        for units in UNITS:
            kernel = generate(problem, vector_of(problem, units)).kernel
            wants = [(case, tuple(problem.metas(case).items())) for case in problem.cases]
            (planned,) = plan_cases(parse(kernel.source), wants, H100)
            assert planned.plan is not None
            names = [name for name, _ in planned.plan.arguments]
            passed = {name: tensors[name.split("layers_")[-1]] for name in names}
            run = partial(PlanRunner(planned.plan, load(kernel.source, [planned.plan])), passed)
            apart = (run()[0] - wanted).abs().max().item()
            yield {**entry, "units": units, "us": round(call_us(run), 1), "apart": apart}


def call_us(call: Callable[[], Any]) -> float:
    """Microseconds of a call: a median, its launches included."""
    times = []
    with torch.no_grad():
        for _ in range(RUNS + 3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times[3:])


def sweep(seconds: float) -> Iterator[Entry]:
    """Every kernel that there is time for, network by network; each is judged."""
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    until = time.monotonic() + seconds
    for network in NETWORKS:
        problem = problem_of(network)
        for units in UNITS:
            if time.monotonic() > until:
                return
            kernel = generate(problem, vector_of(problem, units)).kernel
            judged = asyncio.run(device.evaluate(problem, kernel, lambda stage: None))
            entry = {**asdict(network), "units": units}
            if not isinstance(judged.outcome, Passed) or not judged.times:
                yield {**entry, "outcome": str(judged.outcome)[:300]}
                continue
            (timed,) = judged.times
            eager = 0.0 if timed.measured is None else timed.measured.rivals[0].time_us
            yield {**entry, "us": round(timed.time_us, 1), "eager": round(eager, 1)}


def told(receipt: Path) -> Iterator[str]:
    """What the model of time makes of each kernel of a receipt."""
    ratios = []
    kept = json.loads(receipt.read_text())
    for entry in [entry for mode in ("beside", "sweep") for entry in kept.get(mode, ()) if "us" in entry]:
        network = Network(**{name: entry[name] for name in Network.__dataclass_fields__})
        problem = problem_of(network)
        us = mean_us(problem, vector_of(problem, entry["units"]), H100)
        library = mean_us(problem, settled(problem, ()), H100)
        ratios.append(us / entry["us"])
        yield (
            f"{network}, {entry['units']} units a warp: {us:.0f} for {entry['us']:.0f} us, "
            f"the library {library:.0f} for {entry.get('eager') or entry['library']:.0f}"
        )
    yield f"{len(ratios)} kernels: {statistics.geometric_mean(ratios):.2f} of what they take"


def main() -> None:
    """Measure, or say what the model makes of a receipt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--told", type=Path, metavar="RECEIPT")
    parser.add_argument("--seconds", type=float, default=200.0)
    asked = parser.parse_args()
    for line in told(asked.told) if asked.told else ():
        print(line, flush=True)
    measured = {"beside": beside} if asked.beside else {}
    measured |= {"sweep": partial(sweep, asked.seconds)} if asked.sweep else {}
    if measured:
        keep({"device": torch.cuda.get_device_name(), "torch": torch.__version__}, measured, "recurrent.json")


if __name__ == "__main__":
    main()
