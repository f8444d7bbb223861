"""Judges kernels that others published: KernelBench's adversarial ones and robust-kbench's best ones.

    python benchmarks/published_kernels.py prepare FOLDER KERNELBENCH ROBUST_KBENCH
    python benchmarks/published_kernels.py judge FOLDER [cpu|cuda]
    python benchmarks/published_kernels.py time FOLDER NAME...
    python benchmarks/published_kernels.py native FOLDER
    python benchmarks/published_kernels.py page

``prepare`` reads two git checkouts (or bare copies) and writes pairs of problem and solution into FOLDER;
``judge`` judges every pair that this machine can run, several at once, and writes a receipt and the table of
docs/foreign-lane.md; ``time`` judges some again on a GPU, one at a time, with their times; ``native``
puts a launch plan in the place of some kernels' host code and judges them on the emulator. Receipts go to
``benchmarks/receipts``, or into the folder ``$WORKBENCH_RECEIPTS`` names, where the page is left alone.
FOLDER is theirs and is never committed. Of KernelBench only the three adversarial kernels and the problem
they are written for (level 1, number 1) are read.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "foreign-lane.md"
RECEIPTS = ROOT / "benchmarks" / "receipts"
BEGIN, END = "<!-- written by benchmarks/published_kernels.py -->", "<!-- end of published -->"
Json = dict[str, Any]
BLIND = "the profiler saw no kernel on the device"
AT_ONCE = 6
"""Pairs judged at once on a GPU: most of a minute each goes into a compiler."""

MATMUL = "KernelBench/level1/1_Square_matrix_multiplication_.py"
ADVERSARIES = {
    "result_reuse": "returns memory it never wrote",
    "zero_out": "zeroes its inputs and returns zeros",
    "non_default_stream": "right, on a stream that a timer may not wait for",
}
EXPECTED = {
    "result_reuse": "its test wants: not correct",
    "zero_out": "its test wants: not correct",
    "non_default_stream": "its test wants: excessive speedup flagged",
}
TASKS = ("layernorm", "llama_ffw", "llama_rmsnorm", "mnist_conv_relu_pool", "mnist_cross_entropy",
         "mnist_linear", "mnist_linear_relu", "resnet_block")  # fmt: skip
SMALLER: dict[str, Json] = {"llama_ffw": {"num_features": 512, "up_features": 1792}}
"""Sizes in place of the published ones where three weights of 59 million elements each are too many to be
judged in double precision beside the clock; the ratios are kept."""
WRAPPED = """

from torch.utils.cpp_extension import load_inline

SOURCE = {source!r}
EXTENSION = load_inline(
    name={name!r}, cpp_sources={declarations!r}, cuda_sources=SOURCE, functions=[{function!r}],
    extra_ldflags=["-lcublas"],
)


class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=EXTENSION.{function})
"""


# ------------------------------------------------------------------------------------ prepare


def prepare(folder: Path, kernelbench: str, robust: str) -> None:
    """Write one folder a kernel: ``problem.py``, ``solution.py`` and ``about.json``."""
    for name, tries in ADVERSARIES.items():
        path = f"src/kernelbench/unit_tests/test_kernels/{name}_kernel.py"
        solution = shown(kernelbench, path)
        about = {"from": "KernelBench", "name": name, "what": tries, "theirs": EXPECTED[name], "path": path}
        write(folder / f"kernelbench-{name}", shown(kernelbench, MATMUL), solution, about)
        if "<<<" not in solution and "cublas" not in solution:  # host code only: it runs without a GPU too
            about |= {"cpu": True, "what": f"{tries} (its text has no device code: compiled as C++)"}
            write(folder / f"kernelbench-{name}-cpu", shown(kernelbench, MATMUL), as_cpp(solution), about)
    results = csv.DictReader(io.StringIO(shown(robust, "highlighted/results.csv")))
    told = {row["CUDA Filename"].split("/")[2]: row for row in results if "/forward/" in row["CUDA Filename"]}
    for task in TASKS:
        path = f"highlighted/{task}/forward/kernel.cu"
        problem = configured(
            shown(robust, f"tasks/{task}/func_forward.py"),
            shown(robust, f"tasks/{task}/config_forward.json"),
            SMALLER.get(task, {}),
        )
        eager, compiled = float(told[task]["Speedup"]), float(told[task]["Speedup Compile"])
        about = {
            "from": "robust-kbench",
            "name": task,
            "what": told[task]["Kernel Name"] + smaller_told(task),
            "theirs": f"correct; {eager:.2f}x eager, {compiled:.2f}x compile",
            "path": path,
        }
        pair = folder / f"robust-{task}"
        write(pair, problem, problem + wrapped(task, shown(robust, path)), about)
        (pair / "kernel.cu").write_text(shown(robust, path), encoding="utf-8")


def shown(checkout: str, path: str) -> str:
    """A committed file's text."""
    command = ["git", "-C", checkout, "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write(folder: Path, problem: str, solution: str, about: Json) -> None:
    """One pair."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("problem.py", problem), ("solution.py", solution), ("about.json", json.dumps(about))):
        (folder / name).write_text(text, encoding="utf-8")


def as_cpp(solution: str) -> str:
    """The same extension without nvcc: what was the .cu text is the C++ text."""
    text = solution.replace("#include <cuda_runtime.h>", "")
    text = re.sub(r"cpp_sources=\w+", "cpp_sources=matmul_cuda_source", text)
    return re.sub(r"\n\s*cuda_sources=\w+,", "", text)


def smaller_told(task: str) -> str:
    """At which sizes it is judged, where those are not the published ones."""
    sizes = ", ".join(f"{name} {size}" for name, size in SMALLER.get(task, {}).items())
    return f" (judged at {sizes})" if sizes else ""


def configured(problem: str, config: str, smaller: Json) -> str:
    """The task's problem file with its first configuration as constructor arguments and inputs."""
    found = json.loads(config)
    shared = found["single_shared_configs"][0] if found.get("single_shared_configs") else {}
    init = {**shared, **(found["single_init_configs"][0] if found.get("single_init_configs") else {})}
    sizes = {**shared, **(found["single_input_configs"][0] if found.get("single_input_configs") else {})}
    init |= {name: size for name, size in smaller.items() if name in init}
    sizes |= {name: size for name, size in smaller.items() if name in sizes}
    return f"""{problem}

import inspect as _inspect


def _known(function, values):
    taken = _inspect.signature(function).parameters
    return {{name: value for name, value in values.items() if name in taken}}


_make_inputs = get_inputs


def get_init_inputs():
    return _known(Model.__init__, {init!r})


def get_inputs():
    return _make_inputs(**_known(_make_inputs, {sizes!r}))
"""


def wrapped(name: str, cuda: str) -> str:
    """A ``ModelNew`` around a .cu text with Python bindings of its own, which ``load_inline`` makes anew."""
    bound = re.search(r'm\.def\(\s*"forward"\s*,\s*&\s*(\w+)', cuda)
    body = cuda[: cuda.index("PYBIND11_MODULE")]
    function = bound[1] if bound else "forward"
    declared = re.search(rf"((?:torch|at)::Tensor\s+{function}\s*\([^{{]*\))(?:\s|//[^\n]*)*\{{", body)
    if declared is None:  # without its declaration the bindings cannot be compiled
        raise SystemExit(f"{name}: {function} is not declared in a way this script can read")
    declarations = f"{declared[1]};"
    return WRAPPED.format(source=body, name=f"published_{name}", declarations=declarations, function=function)


# ------------------------------------------------------------------------------------ native

PLANS = {
    "llama_rmsnorm": """def plan(x, w):
    require(x.is_contiguous and w.is_contiguous, "contiguous only")
    y = empty_like(x)
    rows = x.numel // 4096
    launch("strided_rms_norm_kernel<512>", grid=rows, block=512, smem=64, args=[x, w, 1e-8, y, rows, 4096])
    return y
""",
    "mnist_linear": """def plan(x, weights, biases):
    require(x.is_contiguous and weights.is_contiguous and biases.is_contiguous, "contiguous only")
    m, k = x.shape
    n = weights.shape[0]
    y = empty((m, n), f32)
    launch("linear_forward_warp_kernel", grid=(n, m), block=32, args=[x, weights, biases, y, m, n, k])
    return y
""",
    "mnist_linear_relu": """def plan(x, weights, biases):
    require(x.is_contiguous and weights.is_contiguous and biases.is_contiguous, "contiguous only")
    rows, inner = x.shape
    outer = weights.shape[0]
    y = empty((rows, outer), f32)
    wide, high = min(cdiv(outer, 4), 512), min(rows + 1, 512)
    launch("linear_relu_shfl_strideloop_kernel<float>", grid=(wide, high), block=128,
           args=[x, weights, biases, y, rows, inner, outer])
    return y
""",
    "mnist_cross_entropy": """def plan(predictions, targets):
    require(predictions.is_contiguous and targets.is_contiguous, "contiguous only")
    rows, classes = predictions.shape
    loss = zeros((1,), f32)
    name = "cross_entropy_sharedwarp_unroll_kernel_dynamic"
    launch(name, grid=cdiv(rows, 8), block=256, smem=32 * classes,
           args=[predictions, targets, loss, rows, classes])
    return library("aten.div.Scalar", loss, rows)
""",
}
"""What each kernel's host code does, as a plan; constants are those of the task's configuration."""
HOST = re.compile(
    r"^(?:static inline int|torch::Tensor|at::Tensor|// Host wrapper|std::vector)", re.MULTILINE
)


def native(folder: Path) -> None:
    """Judge the device code of some published kernels as ``.cu`` with a plan, on the emulator."""
    from workbench.model import H100, Kernel
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem
    from workbench.referee.judge import judge as judged
    from workbench.referee.options import JudgeOptions
    from workbench.views.numbers import verdict_message

    rows = []
    for task, plan in PLANS.items():
        pair = folder / f"robust-{task}"
        text = (pair / "kernel.cu").read_text(encoding="utf-8")
        device = re.sub(
            r"#include <(?:torch|ATen|vector|cuda)[^>]*>\n", "", text[: HOST.search(text).start()]
        )
        problem = open_problem(read_file(pair / "problem.py", "Model"))
        found = judged(problem, Kernel(source=f"/* plan\n{plan}*/\n{device}"), H100, JudgeOptions(cpu_s=480),
                       lambda stage: None)  # fmt: skip
        reason = verdict_message(found.outcome)
        print(task, found.outcome.kind, reason, flush=True)
        about = json.loads((pair / "about.json").read_text())
        shapes = len({check.case for check in found.checks})
        work = f"{len(found.checks)} checks at {shapes} shapes"
        rows.append(
            {**about, "verdict": found.outcome.kind, "reason": reason, "work": work, "seed": found.seed}
        )
    _keep("native", {"device": "emulator, device code with a plan", "rows": rows})


# ------------------------------------------------------------------------------------ judge


def judge(folder: Path, device: str) -> None:
    """Judge every pair; what needs a GPU on a machine without one is listed as not judged."""
    pairs = [pair for pair in sorted(folder.iterdir()) if _fits(pair, device)]
    with ThreadPoolExecutor(AT_ONCE if device == "cuda" else 1) as threads:
        rows = list(threads.map(lambda pair: _judged(pair, device, timing=False), pairs))
    _keep(device, {"device": device, "rows": rows})
    _end(rows)


def timed(folder: Path, names: list[str]) -> None:
    """Judge some again on a GPU, alone, with their times."""
    pairs = [pair for pair in sorted(folder.iterdir()) if _fits(pair, "cuda") and pair.name in names]
    rows = [_judged(pair, "cuda", timing=True) for pair in pairs]
    _keep("cuda-timed", {"device": "cuda", "rows": rows})
    _end(rows)


def _end(rows: list[Json]) -> None:
    """A verdict is a finding whatever it says; a kernel without one is none."""
    if failed := [row["name"] for row in rows if row["verdict"] == "not judged"]:
        raise SystemExit(f"not judged: {', '.join(failed)}")


def _keep(name: str, receipt: Json) -> None:
    elsewhere = os.environ.get("WORKBENCH_RECEIPTS")
    place = Path(elsewhere) if elsewhere else RECEIPTS
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"published-{name}.json"
    path.write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
    if not elsewhere:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read_receipts()), encoding="utf-8")


def _fits(pair: Path, device: str) -> bool:
    """Whether a pair is for this device."""
    about = pair / "about.json"
    return about.is_file() and bool(json.loads(about.read_text()).get("cpu", False)) == (device == "cpu")


def _judged(pair: Path, device: str, timing: bool) -> Json:
    from workbench.errors import WorkbenchError
    from workbench.foreign.judge import judge_solution
    from workbench.foreign.values import ForeignOptions
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem
    from workbench.views.foreign_judgement import time_line
    from workbench.views.numbers import verdict_message

    about: Json = json.loads((pair / "about.json").read_text())
    try:
        problem = open_problem(read_file(pair / "problem.py", "Model"))
        options = ForeignOptions(
            device="cuda" if device == "cuda" else "cpu", calls=200, timing="gpu" if timing else "no"
        )
        report = judge_solution(problem, (pair / "solution.py").read_text(), options).report
    except WorkbenchError as error:
        print(about["name"], f"not judged: {error}", flush=True)
        return {**about, "verdict": "not judged", "reason": str(error), "work": "", "build": "", "replay": 0}
    work = report.provenance.sentence if report.provenance else ""
    found = {"verdict": report.outcome.kind, "reason": verdict_message(report.outcome), "work": work}
    times = [time_line(time) for time in report.times]
    print(about["name"], found, times, dict(report.seconds), list(report.notes), flush=True)
    return {
        **about,
        **found,
        "times": times,
        "notes": list(report.notes),
        "build": report.build,
        "seconds": dict(report.seconds),
        "replay": report.replay,
    }


def read_receipts() -> list[Json]:
    """Every receipt that is there, the GPU's last."""
    return [json.loads(path.read_text()) for path in sorted(RECEIPTS.glob("published-*.json"))]


def with_table(page: str, receipts: list[Json]) -> str:
    """The page with its table of published kernels replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(receipts)}{END}{after}"


def table(receipts: list[Json]) -> str:
    """One row a judged kernel: what was claimed, what their harness says, the verdict and the time here."""
    head = ("from", "kernel", "claimed", "their harness", "here", "time here", "why")
    lines = [f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"]
    again = {row["name"]: row for receipt in receipts for row in receipt["rows"] if row.get("times")}
    for receipt in receipts:
        for first in receipt["rows"]:
            on_gpu = receipt["device"] == "cuda"
            row = again.get(first["name"], first) if on_gpu else first
            if on_gpu and row is not first and not first.get("times"):
                continue  # judged again with its times
            lines.append(f"| {' | '.join(map(_plain, _cells(row, receipt['device'])))} |\n")
    return "".join(lines)


def _cells(row: Json, device: str) -> tuple[str, ...]:
    theirs, _, claimed = row["theirs"].partition("; ")
    why = row["reason"] or _work(row["work"])
    times = "; ".join(row.get("times", [])) or "not timed"
    named = f"{row['name']}: {row['what']}"
    return row["from"], named, claimed or "nothing", theirs, f"{row['verdict']} ({device})", times, why[:240]


def _work(sentence: str) -> str:
    """Who did the work, where that was seen: an early receipt's blind profiler says nothing of the kernel."""
    return "whose kernels ran was not seen" if sentence == BLIND else sentence


def _plain(cell: str) -> str:
    return cell.replace("|", "/")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", folder, kernelbench, robust]:
            prepare(Path(folder), kernelbench, robust)
        case ["page"]:
            PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read_receipts()), encoding="utf-8")
        case ["native", folder]:
            native(Path(folder))
        case ["time", folder, *names]:
            timed(Path(folder), names)
        case ["judge", folder, *device]:
            judge(Path(folder), *(device or ["cpu"]))
        case _:
            raise SystemExit(__doc__)
