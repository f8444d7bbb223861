"""All that is worth running on a machine with an NVIDIA GPU: phases of benchmarks, and parts of one's own.

    python benchmarks/on_the_gpu.py PHASE... --seconds 580      the phases of gpu_phases.py, one by one
    python benchmarks/on_the_gpu.py PHASE... --resume           those of them that are not done yet
    python benchmarks/on_the_gpu.py --list                      what there is, and how long it takes
    python benchmarks/on_the_gpu.py PHASE... --dry-run          the smallest form, on a machine without a GPU
    python benchmarks/on_the_gpu.py PHASE... --asked FILE       with phases of a file: gpu_phases.asked
    python benchmarks/on_the_gpu.py --parts probe,recovery      parts of this file alone

Each phase or part runs in a process of its own under its own time limit and writes its own receipt, so that
one that fails or hangs costs the others nothing; phases whose times count come first, each alone on a quiet
card. Receipts and logs are packed after each into ``on_the_gpu.tgz`` in the folder ``$WORKBENCH_RECEIPTS``,
for ``take_receipts.py``. A call goes on in ``--work`` where an earlier one stopped, on a fresh machine
``--from`` what that one packed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

from workbench.workers.keeping import wait_kept  # noqa: E402

LIMITS_S = {
    "probe": 40.0,
    "recovery": 60.0,
    "verdicts": 50.0,
    "judged": 110.0,
    "memory": 40.0,
    "launch": 40.0,
    "clock": 60.0,
    "tests": 90.0,
    "inline": 100.0,
    "compared": 150.0,
    "address": 40.0,
    "routes": 40.0,
}
OPS = ("softmax", "layer_norm", "linear_rowsum", "layer_norm_3d", "rms_channels", "instance_norm")
"""Files of ``benchmarks/problems``, else of ``sample_ops``."""
FIGURES = {"launch": "launch_figures", "clock": "clock_figures"}
"""Modules with a ``figures() -> dict`` that belong to other parts of the workbench."""
LARGEST_BYTES = 8 * 10**9


class Receipt:
    """A dict on disk: rewritten at every change, whole."""

    def __init__(self, part: str) -> None:
        self.path = workplace() / f"gpu_{part}.json"
        self.values: dict[str, Any] = {
            "part": part,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    def put(self, name: str, value: Any) -> None:
        """Add or replace an entry."""
        self.values[name] = value
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.values, indent=1, default=str))
        fresh.replace(self.path)

    def add(self, name: str, row: Any) -> None:
        """Append to a list."""
        self.put(name, [*self.values.get(name, []), row])

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Record a failure and go on."""
        try:
            yield
        except Exception as error:
            print(f"FAILED {what}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            self.add("failures", {"what": what, "traceback": traceback.format_exc(limit=-6)})


def workplace() -> Path:
    """Where parts write; the same for all parts of one run."""
    made = os.environ.setdefault("WORKBENCH_PARTS", tempfile.mkdtemp(prefix="on-the-gpu-"))
    return Path(made)


def pack(name: str = "on_the_gpu.tgz") -> None:
    """All receipts so far as one file in ``$WORKBENCH_RECEIPTS``."""
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS") or ROOT / "out" / "receipts")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / name, "w:gz") as tar:
        tar.add(workplace(), "on_the_gpu")


# ------------------------------------------------------------------------------------ parts


def probe(receipt: Receipt, _: argparse.Namespace) -> None:
    """What the driver says, what was picked, how long a process takes to warm up."""
    from workbench.compile.toolchain import toolchain_facts
    from workbench.devices.cards import probed, usable
    from workbench.devices.select import told

    receipt.put("probe", probed().model_dump())
    receipt.put("usable", usable(probed())[1] or "yes")
    receipt.put("told", told())
    print(told(), flush=True)
    with receipt.guarded("doctor"):
        receipt.put("doctor", [fact.model_dump() for fact in toolchain_facts()])
    with receipt.guarded("card"):
        device = open_device(timing=False)
        started = time.perf_counter()
        receipt.put("card", device.card.model_dump())
        receipt.put("first_warm_s", time.perf_counter() - started)
        receipt.put("notebook_process_has_cuda", "libcuda" in Path("/proc/self/maps").read_text())
        print(device.card.model_dump_json(indent=1), flush=True)
        asyncio.run(device.close())


def recovery(receipt: Receipt, _: argparse.Namespace) -> None:
    """Every way to break a process: the outcome, and how soon the next kernel is judged."""
    from breaking import KERNELS, SOFTMAX
    from softmax_problem import RIGHT

    from workbench.model import Kernel

    device = open_device(timing=False, hazards=False, kernel_s=2.0)
    right = Kernel(source=RIGHT)
    receipt.put("right_first", judged_row(device, SOFTMAX, right))
    receipt.put("right_again", judged_row(device, SOFTMAX, right))
    print(receipt.values["right_again"], flush=True)
    for name, breaking in KERNELS.items():
        with receipt.guarded(name):
            before = len(device.takeovers_s)
            bad = judged_row(device, SOFTMAX, breaking.kernel)
            after = judged_row(device, SOFTMAX, right)
            row = {
                "kernel": name,
                "as_wanted": bad["kind"] in breaking.outcomes and breaking.word in json.dumps(bad["outcome"]),
                "bad": bad,
                "takeover_s": list(device.takeovers_s[before:]),
                "next": after,
            }
            receipt.add("rows", row)
            taken = f"{bad['s']:.2f} s, next {after['kind']} in {after['s']:.2f} s, {row['takeover_s']}"
            print(f"{name:<30}{bad['kind']:<16}{taken} {json.dumps(bad['outcome'])[:220]}", flush=True)
            if row["takeover_s"]:
                time.sleep(2.5)  # the next spare warms up; a person's next broken kernel is not sooner
    asyncio.run(device.close())


def verdicts(receipt: Receipt, _: argparse.Namespace) -> None:
    """Compile to verdict: fresh sources on a warm process, the compiler's cache cold for each."""
    _fresh_verdicts(receipt, "rows", "median_s", 12, {"timing": False, "hazards": False})
    _fresh_verdicts(receipt, "timed_rows", "timed_median_s", 6, {"hazards": False, "baselines": ("eager",)})
    _fresh_verdicts(receipt, "emulator_beside_rows", "emulator_beside_median_s", 3, {"timing": False})


def _fresh_verdicts(
    receipt: Receipt, name: str, median: str, turns: int, options: dict[str, Any], unseen: int = 1
) -> None:
    """Judge fresh sources of one kernel at four shapes; the first ``unseen`` warm the process up."""
    from breaking import SOFTMAX
    from softmax_problem import RIGHT, case

    from workbench.model import Kernel

    shapes = tuple(case(*size, declared=True) for size in ((4096, 1024), (64, 4096), (512, 512), (33, 1000)))
    problem = SOFTMAX.model_copy(update={"cases": shapes})
    device = open_device(**options)
    for turn in range(turns):
        with receipt.guarded(f"{name} {turn}"):
            kernel = Kernel(source=RIGHT + f"\n// {name} {time.time_ns()} {turn}\n")
            row = judged_row(device, problem, kernel)
            receipt.add(name, row)
            print(name, turn, row["kind"], row["s"], row["seconds"], flush=True)
    asyncio.run(device.close())
    rows = [row for row in receipt.values.get(name, [])[unseen:] if row["kind"] == "passed"]
    if rows:
        receipt.put(median, statistics.median(row["s"] for row in rows))
        print(median, receipt.values[median], flush=True)


def compared(receipt: Receipt, given: argparse.Namespace) -> None:
    """Compile to verdict, without timing and with, and the same kernel as a torch extension: one run."""
    _fresh_verdicts(receipt, "rows", "median_s", 12, {"timing": False, "hazards": False}, unseen=2)
    _fresh_verdicts(receipt, "timed_rows", "timed_median_s", 8, {"hazards": False}, unseen=2)
    with receipt.guarded("load_inline"):
        inline(receipt, given)
    if {"median_s", "load_inline_s"} <= set(receipt.values):
        receipt.put("ratio", receipt.values["load_inline_s"] / receipt.values["median_s"])
        print("load_inline over compile to verdict", receipt.values["ratio"], flush=True)


def address(receipt: Receipt, _: argparse.Namespace) -> None:
    """An illegal address, three times over: how soon the next kernel finds a warm process."""
    from breaking import KERNELS, SOFTMAX
    from softmax_problem import RIGHT

    from workbench.model import Kernel

    device = open_device(timing=False, hazards=False)
    judged_row(device, SOFTMAX, Kernel(source=RIGHT))
    for turn in range(3):
        with receipt.guarded(f"turn {turn}"):
            time.sleep(2.5)  # the next spare warms up
            bad = judged_row(device, SOFTMAX, KERNELS["illegal address"].kernel)
            next_ = judged_row(device, SOFTMAX, Kernel(source=RIGHT))
            row = {"bad": bad["kind"], "message": bad["outcome"].get("message", ""), "next": next_["kind"]}
            row |= {"takeover_s": device.takeovers_s[-1], "next_verdict_s": next_["s"]}
            receipt.add("rows", row)
            print(row, flush=True)
    asyncio.run(device.close())


def routes(receipt: Receipt, _: argparse.Namespace) -> None:
    """What a launch costs the host, by every way and piece."""
    from launch_figures import host_costs

    receipt.put("figures", {"host_costs": host_costs()})
    print(json.dumps(receipt.values["figures"], indent=1), flush=True)


def judged(receipt: Receipt, given: argparse.Namespace) -> None:
    """Sample ops: the seeds, checked and timed against eager and torch.compile, at their declared shapes."""
    from workbench.playbook.generate import generate
    from workbench.playbook.rules.moves import seed_vectors
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem

    device = open_device(timing=True)
    device.keep_receipts(workplace() / "receipts")
    target = device.target
    for op in given.ops.split(",") if given.ops else OPS:
        with receipt.guarded(op):
            started = time.perf_counter()
            problem = open_problem(read_file(_problem_file(op)))
            small = [
                c for c in problem.cases if sum(m.nbytes for m in problem.metas(c).values()) < LARGEST_BYTES
            ]
            problem = problem.model_copy(update={"cases": tuple(small)})
            seeds = sorted(seed_vectors(problem, target, count=5), key=lambda s: -s.predicted_factor)
            if given.slow:
                with receipt.guarded(f"slow baselines of {op}"):
                    receipt.add("slow", [r.model_dump() for r in device.time_slow_baselines(problem)])
            for seed in seeds[: given.seeds]:
                draft = generate(problem, seed.vector)
                row = judged_row(device, problem, draft.kernel, full=True)
                receipt.add("rows", {"op": op, "title": seed.title, "vector": dict(seed.vector), **row})
                print(f"{op:<16}{seed.title[:40]:<42}{row['kind']:<10}{row['s']:.1f} s", flush=True)
                for line in row["times"]:
                    print("    ", line, flush=True)
                if row["kind"] != "passed":
                    print("    ", json.dumps(row["outcome"])[:400], flush=True)
            receipt.add("ops", {"op": op, "s": time.perf_counter() - started})
    asyncio.run(device.close())


def _problem_file(op: str) -> Path:
    own = ROOT / "benchmarks" / "problems" / f"{op}.py"
    return own if own.exists() else ROOT / "sample_ops" / f"{op}.py"


def memory(receipt: Receipt, _: argparse.Namespace) -> None:
    """A problem with an output of 6 GB: judged, and how much memory that took beyond inputs and outputs."""
    from breaking import SOFTMAX
    from softmax_problem import RIGHT, case

    from workbench.model import Kernel

    problem = SOFTMAX.model_copy(update={"cases": (case(4096, 393216, declared=True),)})
    device = open_device(timing=True, hazards=False, baselines=("eager",))
    row = judged_row(device, problem, Kernel(source=RIGHT), full=True)
    receipt.put("row", row)
    print({k: row[k] for k in ("kind", "s", "seconds", "times")}, flush=True)
    for label, peak, io in row["peaks"]:
        receipt.put("beyond_share", (peak - io) / io)
        print(f"{label}: peak {peak / 1e9:.2f} GB, inputs and outputs {io / 1e9:.2f} GB", flush=True)
    asyncio.run(device.close())


def figures(receipt: Receipt, given: argparse.Namespace) -> None:
    """The figures of another module, in this process."""
    module = importlib.import_module(FIGURES[given.part])
    found = module.figures()
    receipt.put("figures", found)
    print(json.dumps(found, indent=1, default=str)[:6000], flush=True)


def tests(receipt: Receipt, _: argparse.Namespace) -> None:
    """The tests that need a GPU."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/gpu",
        "tests/referee",
        "tests/live",
        "-m",
        "gpu",
        "-q",
        "-rs",
    ]
    command += ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    receipt.put("rc", done.returncode)
    receipt.put("output", (done.stdout + done.stderr)[-12000:])
    print((done.stdout + done.stderr)[-6000:], flush=True)


def inline(receipt: Receipt, _: argparse.Namespace) -> None:
    """The same kernel as a torch extension: what compile to verdict is held against."""
    import torch
    from softmax_problem import RIGHT
    from torch.utils.cpp_extension import load_inline

    kernel = RIGHT.partition("*/")[2]
    host = """
    #include <torch/extension.h>
    torch::Tensor softmax(torch::Tensor x) {
        auto y = torch::empty_like(x);
        softmax_rows<128><<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), (int)x.size(1));
        return y;
    }
    """
    started = time.perf_counter()
    built = load_inline(
        name=f"softmax_{time.time_ns()}",  # a name of its own: nothing is built already
        cpp_sources="torch::Tensor softmax(torch::Tensor x);",
        cuda_sources=kernel + host,
        functions=["softmax"],
    )
    receipt.put("load_inline_s", time.perf_counter() - started)
    x = torch.randn(64, 1000, device="cuda")
    torch.testing.assert_close(built.softmax(x), torch.softmax(x, 1))
    print("load_inline", receipt.values["load_inline_s"], flush=True)


PARTS: dict[str, Callable[[Receipt, argparse.Namespace], None]] = {
    "probe": probe,
    "recovery": recovery,
    "verdicts": verdicts,
    "judged": judged,
    "memory": memory,
    "launch": figures,
    "clock": figures,
    "tests": tests,
    "inline": inline,
    "compared": compared,
    "address": address,
    "routes": routes,
}

# ------------------------------------------------------------------------------------ judging


def open_device(**options: Any) -> Any:
    """The first usable GPU under some ``GpuOptions``; ends the program where there is none."""
    from workbench.devices.cards import probed, usable
    from workbench.devices.cuda import CudaDevice
    from workbench.referee.gpu_judge import GpuOptions

    gpu, why = usable(probed())
    if gpu is None:
        raise SystemExit(f"no usable GPU: {why}")
    return CudaDevice(gpu.index, gpu.uuid, GpuOptions(**options))


def judged_row(device: Any, problem: Any, kernel: Any, full: bool = False) -> dict[str, Any]:
    """Judge one kernel; what a receipt keeps of it, with the whole evaluation when ``full``."""
    started = time.perf_counter()
    evaluation = asyncio.run(device.evaluate(problem, kernel, lambda stage: None))
    row = {
        "kind": evaluation.outcome.kind,
        "s": round(time.perf_counter() - started, 4),
        "outcome": json.loads(evaluation.outcome.model_dump_json()),
        "seconds": dict(evaluation.seconds),
        "checks": len(evaluation.checks),
        "worst_ratio": evaluation.worst_ratio,
        "peaks": [list(one) for one in evaluation.card_bytes],
        "times": [_time_line(time_) for time_ in evaluation.times],
    }
    if full:
        row["evaluation"] = json.loads(
            evaluation.model_dump_json(include={"times", "compiled", "facts", "target", "kernel"})
        )
    return row


def _time_line(one: Any) -> str:
    rivals = ", ".join(
        f"{r.name} {r.time_us:.1f} us {r.ratio:.3f} [{r.low:.3f}, {r.high:.3f}] {r.verdict}"
        for r in one.measured.rivals
    )
    measured = one.measured
    return (
        f"{one.case}: {one.time_us:.2f} us [{measured.low_us:.2f}, {measured.high_us:.2f}], "
        f"{measured.clock}, {one.roofline_share:.0%} of roofline; {rivals}; "
        f"missing {dict(measured.missing)}; cross-checks {dict(measured.crosschecks)} {measured.suspicion}"
    )


# ------------------------------------------------------------------------------------ running parts


def run_part(part: str, given: argparse.Namespace) -> int:
    """In the part's own process; 1 where something in it failed."""
    receipt = Receipt(part)
    receipt.put("finished", False)
    started = time.perf_counter()
    with receipt.guarded(part):
        PARTS[part](receipt, given)
    receipt.put("seconds", time.perf_counter() - started)
    receipt.put("finished", True)
    return int(bool(receipt.values.get("failures")))


def run_all(given: argparse.Namespace) -> list[str]:
    """Parts one after the other, each under its limit, all under ``--seconds``; those that are not whole."""
    failed = []
    give_up = time.monotonic() + given.seconds
    workplace()
    for part in given.parts.split(","):
        limit = min(LIMITS_S[part], give_up - time.monotonic())
        if limit < 5:
            print(f"==== {part}: no time left", flush=True)
            failed.append(part)
            continue
        print(f"==== {part} (at most {limit:.0f} s)", flush=True)
        command = [sys.executable, __file__, "--part", part, "--ops", given.ops, "--seeds", str(given.seeds)]
        command += ["--slow"] if given.slow else []
        started = time.monotonic()
        try:
            failed += [part] if wait_kept(command, limit) else []
        except subprocess.TimeoutExpired:
            print(f"==== {part} ran past its limit", flush=True)
            failed.append(part)
        print(f"==== {part}: {time.monotonic() - started:.1f} s", flush=True)
        pack()
    return failed


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("phases", nargs="*", metavar="PHASE")
    parser.add_argument("--resume", action="store_true", help="leave out phases that were ok")
    parser.add_argument("--dry-run", action="store_true", help="no GPU: the emulator, the smallest form")
    parser.add_argument("--list", action="store_true", help="phases, the seconds they take and their limits")
    parser.add_argument("--asked", type=Path, help="a file of more phases, each of them run")
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "gpu-session", help="folder of phases")
    parser.add_argument(
        "--from", type=Path, dest="archive", help="an earlier session's archive to go on from"
    )
    parser.add_argument("--parts", default="probe,recovery,verdicts,judged,memory,launch,clock")
    parser.add_argument("--part", default="")
    parser.add_argument("--seconds", type=float, default=275.0)
    parser.add_argument("--ops", default="", help="of the grid, in this order, or of the part judged")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="time max-autotune and CUDA graphs first")
    given = parser.parse_args()
    if given.part:
        raise SystemExit(run_part(given.part, given))
    if given.list or given.phases or given.asked:
        import gpu_phases

        raise SystemExit(gpu_phases.list_phases() if given.list else gpu_phases.run_phases(given))
    if failed := run_all(given):
        raise SystemExit(f"not whole: {', '.join(failed)}")


if __name__ == "__main__":
    main()
