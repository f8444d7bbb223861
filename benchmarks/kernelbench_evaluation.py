"""KernelBench's own evaluation of exported files: extensions built ahead, then one process that judges them.

Owns the two kinds of child processes. KernelBench's code runs unmodified: what its package imports for asking
language models, and its evaluation never calls, is replaced by empty modules where it is not installed.
Used by kernelbench.py; as a program it is the process that judges: ``kernelbench_evaluation.py SRC``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from workbench.workers.keeping import end, kept

Json = dict[str, Any]
AT_ONCE = max(2, (os.cpu_count() or 2) - 4)
CLIENTS = {
    "dotenv": "load_dotenv",
    "openai": "OpenAI",
    "litellm": "completion",
    "tqdm": "tqdm",
    "requests": "get",
}
"""Modules that asking a language model takes, and a name KernelBench's ``utils`` imports from each."""
BUILD = "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), {})"


def environment(out: Path) -> dict[str, str]:
    """Where extensions are built, and for which card."""
    folder = str((out / "extensions").resolve())
    return {**os.environ, "TORCH_EXTENSIONS_DIR": folder, "TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "2"}


class Builds:
    """Builds the extension of every solution that appears in ``OUT/solutions``, several at once."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        (out / "logs").mkdir(parents=True, exist_ok=True)

    def look(self) -> None:
        """Start what can be started and note what has ended; returns at once."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[name]
                log = (self.out / "logs" / f"build_{name}.txt").read_text()[-400:]
                self.ended[name] = "built" if process.returncode == 0 else f"not built: {log}"
        for path in sorted((self.out / "solutions").glob("*.py")):
            if path.stem not in self.ended and path.stem not in self.running and len(self.running) < AT_ONCE:
                with (self.out / "logs" / f"build_{path.stem}.txt").open("wb") as log_file:
                    self.running[path.stem] = subprocess.Popen(
                        kept([sys.executable, "-c", BUILD, str(path)]),
                        stdout=log_file,
                        stderr=subprocess.STDOUT,
                        env=environment(self.out),
                    )

    def wait(self, name: str, limit_s: float) -> str:
        """``built``, or why not."""
        stem, give_up = name.replace("/", "_"), time.monotonic() + limit_s
        while time.monotonic() < give_up:
            self.look()
            if stem in self.ended:
                return self.ended[stem]
            time.sleep(0.2)
        return f"not built within {limit_s:.0f} s"


class Evaluator:
    """The process that runs KernelBench's evaluation; a new one after a crash or a limit."""

    def __init__(self, source: Path, out: Path) -> None:
        self.source, self.out = source, out
        self.process: subprocess.Popen[str] | None = None

    def judge(self, name: str, problem: Path, wanted: Json, limit_s: float) -> Json:
        """KernelBench's words on one solution: ``correct``, ``ms``, ``reference_ms``, ``speedup``, ..."""
        stem = name.replace("/", "_")
        answer = (self.out / "logs" / f"theirs_{stem}.json").resolve()
        answer.unlink(missing_ok=True)
        solution = self.out / "solutions" / f"{stem}.py"
        request = {"problem": str(problem), "solution": str(solution), "answer": str(answer), **wanted}
        process = self.started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        give_up = time.monotonic() + limit_s
        while time.monotonic() < give_up and process.poll() is None and not answer.is_file():
            time.sleep(0.05)
        if answer.is_file():
            found: Json = json.loads(answer.read_text())
            return found
        died = process.poll() is not None
        self.close()
        return {"error": "its process died" if died else f"no answer within {limit_s:.0f} s"}

    def started(self) -> subprocess.Popen[str]:
        """The process, which takes seconds to import what it needs; call early."""
        if self.process is not None and self.process.poll() is not None:
            self.close()
        if self.process is None:
            with (self.out / "logs" / "theirs.txt").open("ab") as log_file:
                self.process = subprocess.Popen(
                    kept([sys.executable, __file__, str(self.source)]),
                    stdin=subprocess.PIPE,
                    stdout=log_file,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=environment(self.out),
                )
        return self.process

    def close(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            end(process)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


# ------------------------------------------------------------------------------------ the process that judges


def stand_ins() -> None:
    """Empty modules in place of those that are not installed."""
    for name, taken in CLIENTS.items():
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = ModuleType(name)
            setattr(sys.modules[name], taken, lambda *args, **kwargs: None)


def verdict(request: Json) -> Json:
    """Run their evaluation; the share of our own kernels is looked at afterwards, by a profiler."""
    import torch

    theirs = importlib.import_module("kernelbench.eval")
    problem, solution = Path(request["problem"]).read_text(), Path(request["solution"]).read_text()
    started = time.perf_counter()
    result = theirs.eval_kernel_against_ref(
        problem,
        solution,
        num_correct_trials=request["correct_trials"],
        num_perf_trials=request["perf_trials"],
        measure_performance=True,
        timing_method="cuda_event",
        device=torch.device("cuda:0"),
        backend="cuda",
        precision=torch.float32,
    )
    if result is None:
        return {"error": "their evaluation gave no result"}
    found: Json = {
        "compiled": result.compiled,
        "correct": result.correctness,
        "ms": result.runtime,
        "reference_ms": result.ref_runtime,
        "speedup": result.ref_runtime / result.runtime if result.runtime > 0 else None,
        "metadata": {key: str(value)[:300] for key, value in result.metadata.items()},
        "seconds": round(time.perf_counter() - started, 1),
    }
    if result.correctness and request["profile"]:
        found["own_share"] = own_share(problem, solution)
    return found


def own_share(problem: str, solution: str) -> float | None:
    """Share of the device's time in kernels of the exported file, all others being a library's."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    names: Json = {}
    exec(problem, names)
    with torch.device("cuda"), torch.no_grad():
        inputs, init = names["get_inputs"](), names["get_init_inputs"]()
        exec(solution, names)
        model = names["ModelNew"](*init).cuda()
        model(*inputs)
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            model(*inputs)
            torch.cuda.synchronize()
    times = {event.key: event.self_device_time_total for event in seen.key_averages()}
    total = sum(times.values())
    return (
        round(sum(t for key, t in times.items() if "sizes" in key and "::" in key) / total, 4)
        if total
        else None
    )


def main() -> None:
    """Requests as lines of JSON on standard input; each answer goes into the file it names."""
    stand_ins()
    sys.path.insert(0, sys.argv[1])
    importlib.import_module("kernelbench.eval")  # takes seconds: before the first request comes
    import torch

    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = verdict(request)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {str(error)[:400]}"}
        gc.collect()
        torch.cuda.empty_cache()
        fresh = Path(request["answer"] + ".new")
        fresh.write_text(json.dumps(found))
        fresh.replace(request["answer"])


if __name__ == "__main__":
    main()
