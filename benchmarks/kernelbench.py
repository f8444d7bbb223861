"""KernelBench, odd-numbered problems only: the playbook's kernels, judged by our referee and by theirs.

    python benchmarks/kernelbench.py --root FOLDER                                   verdicts, on the emulator
    python benchmarks/kernelbench.py --root FOLDER --device cuda --evaluate SRC      times, and theirs

FOLDER holds ``level1/`` to ``level3/`` with problem files; it is the person's and never committed. Even
numbers are kept for a final exam: they are neither opened nor run. On a GPU every right kernel is exported as
a ``ModelNew`` file, its extension is built beside the measuring, and with ``--evaluate`` KernelBench's own
unmodified ``eval_kernel_against_ref`` (SRC is its ``src`` folder) judges it. A run goes on where the last one
with the same ``--out`` stopped; everything is in ``OUT/kernelbench.json`` as soon as it is known.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from kernelbench_evaluation import Builds, Evaluator  # noqa: E402

from workbench.workers.keeping import end, kept  # noqa: E402

Json = dict[str, Any]
LEVELS = ("level1", "level2", "level3")
NUMBERED = re.compile(r"(\d+)_\w*\.py")
BESIDE = 3
"""Problems in hand at once: the next are planned and compiled while one is on the card."""
LARGE_BYTES = 4 * 10**9
"""Declared bytes from which a problem is in hand alone: beside others the card's memory would not do."""
MOST_STEPS = 24
"""Steps of a plan whose times are kept, longest first."""
UNSETTLED = {"suspect", "crashed", "timed_out"}
"""Verdicts of an earlier run that are asked for once more, alone: work of others may have been the cause."""


# ------------------------------------------------------------------------------------ problems


def problem_files(root: Path, wanted: str) -> dict[str, Path]:
    """Files by ``level1/19``, in order. Even-numbered files are passed over by their names alone."""
    found = {}
    for level in LEVELS:
        for path in root.glob(f"{level}/*.py"):
            named = NUMBERED.fullmatch(path.name)
            if named and int(named[1]) % 2:
                found[f"{level}/{int(named[1])}"] = path
    names = sorted(found, key=lambda name: (name.split("/")[0], int(name.split("/")[1])))
    if not wanted:  # networks take minutes each
        return {name: found[name] for name in names if not name.startswith(LEVELS[-1])}
    chosen = wanted.split(",")
    for name in chosen:
        if int(name.partition("/")[2] or 0) % 2 == 0:
            raise SystemExit(f"{name} has an even number: those problems are kept for the exam")
        if name not in found:
            raise SystemExit(f"there is no {name} in {root}")
    return {name: found[name] for name in names if name in chosen}


def opened(path: Path, out: Path) -> Any:
    """The problem of a file, kept in ``OUT/opened``: the intake of a large one takes a minute."""
    from workbench.model import Problem
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem

    capture = read_file(path)
    kept = out / "opened" / f"{path.parent.name}_{path.name.partition('_')[0]}.json"
    if kept.is_file():
        problem = Problem.model_validate_json(kept.read_text())
        if problem.source == capture.source:
            return problem
    problem = open_problem(capture)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(problem.model_dump_json())
    return problem


LARGE_PARAMETERS = 2**26
"""Bytes of parameters above which the emulator's run takes minutes a problem."""
CONSTANT = re.compile(r"^(\w+ *= *)(\d{4,})\b", re.MULTILINE)


def smaller(problem: Any, path: Path) -> Any:
    """The problem with its constants of four digits and more divided by eight, where its weights are huge."""
    from workbench.problem.capture import read_file
    from workbench.problem.intake import open_problem

    metas = problem.metas(problem.cases[0])
    held = sum(metas[spec.name].nbytes for spec in problem.tensors if spec.role != "input")
    if held <= LARGE_PARAMETERS:
        return problem
    capture = read_file(path)
    source = CONSTANT.sub(lambda found: f"{found[1]}{int(found[2]) // 8}", capture.source)
    return open_problem(capture.model_copy(update={"source": source}))


def declared_bytes(problem: Any) -> int:
    """Bytes of all inputs and parameters at the most important size."""
    return sum(meta.nbytes for meta in problem.metas(problem.cases[0]).values())


FEW_CHANNELS, FEW_TERMS = 8, 200
"""Of a convolution that exported files leave to a kernel."""
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "dot"}
"""Operations that the playbook leaves to the library."""


def likely_bound(problem: Any) -> int:
    """0: memory-bound, no matrix product in it; 1: a product with work behind it; 2: little but a product."""
    products = sum(node.base_name in PRODUCTS for node in problem.graph.nodes)
    return 0 if not products else 1 if len(problem.graph.nodes) > products + 1 else 2


def in_order(problems: Json) -> list[str]:
    """Most likely memory-bound first; among those the small ones, levels in turns."""
    groups: list[list[str]] = [[], [], []]
    for name, problem in problems.items():
        groups[likely_bound(problem)].append(name)
    sizes = {name: declared_bytes(problem) for name, problem in problems.items()}
    return [name for group in groups if group for name in interleaved(group, sizes)]


def interleaved(names: Sequence[str], sizes: dict[str, int]) -> list[str]:
    """Small problems first, levels in turns, so that a run that is cut short has seen both."""
    levels = [[n for n in sorted(names, key=lambda n: sizes[n]) if n.startswith(level)] for level in LEVELS]
    longest = max(map(len, levels))
    return [level[i] for i in range(longest) for level in levels if i < len(level)]


# ------------------------------------------------------------------------------------ receipt


class Receipt:
    """``OUT/kernelbench.json``: one row a problem, rewritten whole at every change."""

    def __init__(self, out: Path) -> None:
        self.path = out / "kernelbench.json"
        self.values: Json = json.loads(self.path.read_text()) if self.path.is_file() else {}
        self.values.setdefault("problems", {})

    def row(self, name: str) -> Json:
        """The row of a problem; empty when nothing is known."""
        found: Json = self.values["problems"].setdefault(name, {})
        return found

    def write(self) -> None:
        """Whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.values, indent=1, sort_keys=True) + "\n")
        fresh.replace(self.path)


# ------------------------------------------------------------------------------------ judging


def device_of(given: argparse.Namespace) -> Any:
    """The machine kernels are judged on."""
    from workbench.referee.options import JudgeOptions

    if given.device == "emulator":
        from workbench.devices.emulator import EmulatorDevice

        options = JudgeOptions(wall_s=10 * given.each, cpu_s=int(20 * given.each))
        return EmulatorDevice(options=options, parallel=1)
    from workbench.devices.cards import probed, usable
    from workbench.devices.cuda import CudaDevice
    from workbench.referee.gpu_judge import GpuOptions

    gpu, why = usable(probed())
    if gpu is None:
        raise SystemExit(f"no usable GPU: {why}")
    # Races, stray accesses and other kinds of input are the emulator run's: here they cost the card's time.
    options = GpuOptions(
        hazards=False,
        wall_s=given.each,
        baselines=tuple(given.baselines.split(",")),
        judge=JudgeOptions(kinds=("normal", "heavy-tailed", "special values")),
    )
    return CudaDevice(gpu.index, gpu.uuid, options)


def drafts(problem: Any, count: int) -> list[Any]:
    """The kernels the playbook expects most of on an H100."""
    from workbench.model import H100
    from workbench.playbook.generate import generate
    from workbench.playbook.rules.moves import seed_vectors

    seeds = sorted(seed_vectors(problem, H100, count=5), key=lambda seed: -seed.predicted_factor)
    return [generate(problem, seed.vector) for seed in seeds[:count]]


def row_of(draft: Any, evaluation: Any, seconds: float) -> Json:
    """What a receipt keeps of one judged kernel."""
    facts = evaluation.facts[0] if evaluation.facts else None
    why = [one.message for one in getattr(evaluation.outcome, "diagnostics", ())]
    row = {
        "verdict": evaluation.outcome.kind,
        "device": evaluation.device,
        "card": evaluation.target if evaluation.device == "cuda" else "",
        "reason": getattr(evaluation.outcome, "message", "") or next(iter(why), ""),
        "vector": dict(draft.vector),
        "launches": facts.launches if facts else 0,
        "library": sorted(set(facts.library_calls)) if facts else [],
        "library_bytes_share": round(facts.library_share, 3) if facts else 0.0,
        "checks": len(evaluation.checks),
        "worst_ratio": evaluation.worst_ratio,
        "seconds": round(seconds, 1),
    }
    if evaluation.times:
        row["time"] = time_of(evaluation.times[0])
    return row


def time_of(one: Any) -> Json:
    """Our clock's word on the declared size; from the model of time on the emulator."""
    found = {
        "source": one.source,
        "us": round(one.time_us, 3),
        "floor_us": round(one.floor_us, 3),
        "bound": one.bound,
        "baselines": {name: round(us, 3) for name, us in one.baselines},
    }
    fastest = one.measured.fastest if one.measured else None
    if fastest is not None:
        found |= {"fastest": fastest.name, "factor": fastest.ratio, "low": fastest.low, "high": fastest.high}
        found |= {"word": fastest.verdict, "suspicion": one.measured.suspicion}
    if one.measured and one.measured.steps:
        longest = sorted(one.measured.steps, key=lambda step: -step.time_us)[:MOST_STEPS]
        found["library_share"] = round(one.measured.library_share, 3)
        found["steps_us"] = round(one.measured.steps_us, 3)
        found["longest"] = [[step.step, step.kind, step.line, round(step.time_us, 2)] for step in longest]
    return found


class Turns:
    """Some at once, or one alone, in the order in which they ask."""

    def __init__(self, count: int) -> None:
        self._count, self._free, self._door = count, asyncio.Semaphore(count), asyncio.Lock()

    @contextlib.asynccontextmanager
    async def taken(self, alone: bool) -> AsyncIterator[None]:
        """Wait for a turn, or for all of them."""
        count, held = self._count if alone else 1, 0
        try:
            async with self._door:  # two that each hold a part of all turns would wait for ever
                while held < count:
                    await self._free.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._free.release()


async def judge_problem(
    given: argparse.Namespace, device: Any, receipt: Receipt, name: str, problem: Any
) -> None:
    """Judge the best seeds, keep the best row and write its solution."""
    best: tuple[float, Json, Any] | None = None
    for draft in await asyncio.to_thread(drafts, problem, given.kernels):
        started = time.perf_counter()
        evaluation = await device.evaluate(problem, draft.kernel, lambda stage: None)
        row = row_of(draft, evaluation, time.perf_counter() - started)
        if (
            best is None
            or evaluation.score > best[0]
            or (evaluation.passed and best[1]["verdict"] != "passed")
        ):
            best = (evaluation.score, row, draft)
    assert best is not None
    _, row, draft = best
    row["bytes"] = declared_bytes(problem)
    if row["verdict"] == "passed":
        row["export"] = await asyncio.to_thread(write_solution, given, name, problem, draft)
    receipt.row(name).update(row)
    receipt.write()
    print(told(name, row), flush=True)


def export_all(given: argparse.Namespace, files: dict[str, Path]) -> None:
    """Solutions of all problems, before anything is judged, so that they can be built meanwhile."""
    found = {}
    for name, path in files.items():
        try:
            problem = opened(path, given.out)
            words = write_solution(given, name, problem, drafts(problem, 1)[0])
            found[name] = {"export": words, "bytes": declared_bytes(problem)}
        except Exception as error:  # a problem that breaks costs the others nothing
            found[name] = {"export": f"{type(error).__name__}: {error}", "bytes": 0}
    given.exports.write_text(json.dumps(found))


def for_their_reference(problem: Any, draft: Any) -> Any:
    """The draft, or the same with the library's convolution.

    Their reference multiplies with TF32. Where a result has many terms, an exact one differs from that by
    more than they allow, and tensor cores are ahead; of few channels neither is so.
    """
    from workbench.playbook.generate import generate
    from workbench.playbook.techniques.traits import traits_of

    vector = dict(draft.vector)
    made = traits_of(problem).convolutions if vector.get("convolution", "library") != "library" else ()
    reads = [one.read.at(problem.cases[0].size_map) for one in made]
    terms = [
        count * math.prod(side.taps for side in one.sides) for count, one in zip(reads, made, strict=True)
    ]
    if max(reads, default=0) <= FEW_CHANNELS and max(terms, default=0) <= FEW_TERMS:
        return draft
    return generate(problem, tuple((vector | {"convolution": "library", "vector_width": "4"}).items()))


def write_solution(given: argparse.Namespace, name: str, problem: Any, draft: Any) -> str:
    """``OUT/solutions/level1_19.py``; the reason when it cannot be exported, else ``written``."""
    from workbench.errors import UsageError
    from workbench.export import kernelbench_file
    from workbench.model import H100

    path = given.out / "solutions" / f"{name.replace('/', '_')}.py"
    try:
        text = kernelbench_file(problem, for_their_reference(problem, draft).kernel, H100)
    except UsageError as error:
        return str(error)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.replace(path)
    return "in torch while training" if "not self.training" in text else "written"


def told(name: str, row: Json) -> str:
    """One line for people."""
    found = row.get("time", {})
    times = f"{found['us']:>10.1f} us  " if found else ""
    times += f"{found['factor']:.2f}x {found['fastest']} {found['word']}  " if "factor" in found else ""
    library = f"library {row['library_bytes_share']:.0%}" if row.get("library") else "own kernels"
    return f"{name:<10}{row['verdict']:<16}{row['seconds']:>6.1f} s  {times}{library}  {row['reason'][:90]}"


async def judge_all(given: argparse.Namespace, files: dict[str, Path]) -> None:
    """All problems that have no row of this device yet, some at once."""
    from workbench.errors import WorkbenchError

    receipt, device = Receipt(given.out), device_of(given)
    problems: Json = {}
    alone: set[str] = set()
    for name, path in files.items():
        row = receipt.row(name)
        if row.get("device") == device.name and row["verdict"] not in UNSETTLED and not given.again:
            continue
        try:
            problem = await asyncio.to_thread(opened, path, given.out)
            small = problem if given.device == "cuda" else await asyncio.to_thread(smaller, problem, path)
            row["smaller"] = small is not problem
            problems[name] = small
            if row.get("verdict") in UNSETTLED | {"error"} or declared_bytes(small) >= LARGE_BYTES:
                alone.add(name)
        except WorkbenchError as error:
            row.update({"verdict": "refused", "device": device.name, "reason": str(error)})
            receipt.write()
            print(f"{name:<10}refused  {error}", flush=True)
    turns = Turns(BESIDE if given.device == "cuda" else 1)

    async def one(name: str) -> None:
        async with turns.taken(name in alone):
            try:
                await judge_problem(given, device, receipt, name, problems[name])
            except Exception as error:  # a problem that breaks costs the others nothing
                receipt.row(name).update({"verdict": "error", "reason": f"{type(error).__name__}: {error}"})
                receipt.write()
                print(f"{name:<10}error  {error}", flush=True)

    await asyncio.gather(*(one(name) for name in in_order(problems)))
    await device.close()


# ------------------------------------------------------------------------------------ a run on a GPU


def run(given: argparse.Namespace, files: dict[str, Path]) -> None:
    """Judge in a process of its own under a limit, build what it exports, then let KernelBench judge."""
    began = time.monotonic()
    give_up = began + given.seconds
    builds, evaluator = Builds(given.out), Evaluator(given.evaluate, given.out)
    command = [sys.executable, __file__, *sys.argv[1:], "--only-judge"]
    exporting = start_exports(given, files) if given.evaluate else []
    share = given.evaluate_seconds if given.evaluate else 0.0
    with subprocess.Popen(kept(command), start_new_session=True) as judging:
        while judging.poll() is None and time.monotonic() < give_up - share:
            if given.evaluate:
                builds.look()
                if evaluator.process is None and time.monotonic() > give_up - share - 20:
                    evaluator.started()
            time.sleep(0.3)
        crashed = bool(judging.poll())
        end(judging)
    print(f"==== judged, {give_up - time.monotonic():.0f} s left", flush=True)
    receipt = Receipt(given.out)
    for number, child in enumerate(exporting):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(max(1.0, give_up - 30 - time.monotonic()))
        end(child)
        told_of = given.out / f"exports{number}.json"
        for name, found in (json.loads(told_of.read_text()) if told_of.is_file() else {}).items():
            receipt.row(name).update(found)
    if given.evaluate:
        evaluate(given, files, receipt, (builds, evaluator), give_up)
    receipt.values["seconds"] = round(receipt.values.get("seconds", 0.0) + time.monotonic() - began, 1)
    receipt.write()
    summary(receipt)
    broken = [name for name, row in receipt.values["problems"].items() if row.get("verdict") == "error"]
    if broken := broken + ["the judging process"] * crashed:
        raise SystemExit(f"broke: {', '.join(broken)}")


EXPORTERS = 4


def start_exports(given: argparse.Namespace, files: dict[str, Path]) -> list[subprocess.Popen[bytes]]:
    """Processes that write solutions; each has every fourth problem and a file for what it found."""
    names = list(files)
    children = []
    for number in range(EXPORTERS):
        own = names[number::EXPORTERS]
        out = str(given.out / f"exports{number}.json")
        command = [sys.executable, __file__, "--root", str(given.root), "--out", str(given.out)]
        if own:
            command += ["--problems", ",".join(own), "--exports", out]
            children.append(subprocess.Popen(kept(command)))
    return children


def evaluate(
    given: argparse.Namespace,
    files: dict[str, Path],
    receipt: Receipt,
    children: tuple[Builds, Evaluator],
    give_up: float,
) -> None:
    """KernelBench's verdict on every exported file that is built in time, cheap inputs first."""
    rows = receipt.values["problems"]
    names = [n for n in files if is_wanted(rows.get(n, {}))]
    builds, evaluator = children
    for name in sorted(names, key=lambda n: rows[n]["bytes"]):
        left = give_up - time.monotonic()
        if left < 6:
            break
        builds.look()
        if (built := builds.wait(name, min(left - 5, 60.0))) != "built":
            rows[name]["theirs"] = {"error": built}
            continue
        small = rows[name]["bytes"] < given.small_bytes
        trials = (
            {"correct_trials": 5, "perf_trials": 100} if small else {"correct_trials": 2, "perf_trials": 20}
        )
        wanted = {**trials, "profile": rows[name]["bytes"] < 10 * given.small_bytes}
        theirs = evaluator.judge(name, files[name], wanted, min(left - 2, 45.0))
        rows[name]["theirs"] = {**trials, **theirs}
        receipt.write()
        print(f"{name:<10}{json.dumps(theirs)[:200]}", flush=True)
    evaluator.close()
    receipt.write()


def is_wanted(row: Json) -> bool:
    """An exported file that KernelBench has not judged and our referee has not refused."""
    judged = "correct" in row.get("theirs", {})
    return row.get("export") == "written" and not judged and row.get("verdict", "passed") == "passed"


def summary(receipt: Receipt) -> None:
    """The end of a run, in three lines."""
    rows = receipt.values["problems"].values()
    right = [row for row in rows if row.get("verdict") == "passed"]
    passed = [row for row in rows if row.get("theirs", {}).get("correct")]
    print(f"{len(right)} of {len(rows)} right by our referee; {len(passed)} right by KernelBench's")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument(
        "--problems", default="", help="such as level1/19,level3/1; by default all odd ones of levels 1 and 2"
    )
    parser.add_argument("--device", choices=("emulator", "cuda"), default="emulator")
    parser.add_argument("--kernels", type=int, default=1, help="kernels judged a problem")
    parser.add_argument("--baselines", default="eager,compile")
    parser.add_argument("--seconds", type=float, default=280.0, help="of a run on a GPU, all in all")
    parser.add_argument(
        "--each", type=float, default=30.0, help="seconds for the checks of a kernel on a GPU"
    )
    parser.add_argument("--evaluate", type=Path, help="KernelBench's src folder")
    parser.add_argument("--evaluate-seconds", type=float, default=120.0, help="of --seconds, for KernelBench")
    parser.add_argument("--small-bytes", type=int, default=3 * 10**8, help="five trials up to here, else two")
    parser.add_argument("--out", type=Path, default=Path("out/kernelbench"))
    parser.add_argument("--again", action="store_true", help="judge what has been judged")
    parser.add_argument("--only-judge", action="store_true")
    parser.add_argument(
        "--exports", type=Path, help="only write solutions, and what came of it into this file"
    )
    given = parser.parse_args()
    files = problem_files(given.root, given.problems)
    if given.exports:
        export_all(given, files)
    elif given.device == "emulator" or given.only_judge:
        asyncio.run(judge_all(given, files))
        summary(Receipt(given.out))
    else:
        run(given, files)


if __name__ == "__main__":
    main()
