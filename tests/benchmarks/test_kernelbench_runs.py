"""KernelBench's runs: even numbers stay closed, a cut run goes on, the page says what the receipts say."""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import kernelbench as runs  # noqa: E402
from kernelbench_evaluation import Builds, Evaluator  # noqa: E402
from kernelbench_table import kernelbench_section  # noqa: E402

from workbench.model import Evaluation, Kernel, OpNode, Passed  # noqa: E402

DOUBLE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2 + 1

def get_inputs():
    return [torch.rand(64, 100)]

def get_init_inputs():
    return []
"""


def folder_of(root: Path) -> Path:
    for level, number in (("level1", 19), ("level1", 20), ("level2", 3), ("level2", 103), ("level3", 1)):
        (root / level).mkdir(exist_ok=True)
        text = DOUBLE if number % 2 else "raise SystemExit('opened')"
        (root / level / f"{number}_Some_Name.py").write_text(text)
    return root


def given_of(tmp_path: Path, **changes: Any) -> argparse.Namespace:
    plain = {"out": tmp_path / "out", "device": "emulator", "kernels": 1, "again": False, "each": 30.0}
    return argparse.Namespace(**{**plain, **changes})


def test_even_numbers_stay_closed(tmp_path: Path) -> None:
    root = folder_of(tmp_path)
    (root / "level1" / "20_Some_Name.py").chmod(0)
    assert list(runs.problem_files(root, "")) == ["level1/19", "level2/3", "level2/103"]
    assert list(runs.problem_files(root, "level2/3")) == ["level2/3"]
    assert list(runs.problem_files(root, "level3/1")) == ["level3/1"], "networks by name"
    with pytest.raises(SystemExit, match="even number"):
        runs.problem_files(root, "level1/19,level1/20")
    with pytest.raises(SystemExit, match="no level1/21"):
        runs.problem_files(root, "level1/21")


def test_small_ones_first_and_levels_in_turns() -> None:
    sizes = {"level1/1": 9, "level1/3": 1, "level1/5": 5, "level2/7": 100}
    assert runs.interleaved(list(sizes), sizes) == ["level1/3", "level2/7", "level1/5", "level1/1"]


def test_only_large_constants_get_smaller() -> None:
    text = "features = 8192  # many\nbatch_size=128\neps = 1e-5\nrate = 0.25\n    inner = 8192\n"
    found = runs.CONSTANT.sub(lambda m: f"{m[1]}{int(m[2]) // 8}", text)
    assert found == text.replace("features = 8192", "features = 1024")


def test_likely_memory_bound_problems_come_first() -> None:
    def named(*ops: str) -> Any:
        nodes = [OpNode(name=op, op=f"aten.{op}.default", outs=()) for op in ops]
        return argparse.Namespace(graph=argparse.Namespace(nodes=nodes))

    assert [
        runs.likely_bound(named(*ops)) for ops in (("mul",), ("mm", "relu", "sum"), ("permute", "mm"))
    ] == [
        0,
        1,
        2,
    ]


def test_only_files_that_are_right_and_not_judged_are_evaluated() -> None:
    assert runs.is_wanted({"export": "written"})
    assert runs.is_wanted({"export": "written", "verdict": "passed", "theirs": {"error": "not built"}})
    assert not runs.is_wanted({"export": "written", "verdict": "mismatch"})
    assert not runs.is_wanted({"export": "written", "theirs": {"correct": False}})
    assert not runs.is_wanted({"export": "in torch while training"})


def test_a_run_writes_a_row_and_a_solution_and_goes_on(tmp_path: Path) -> None:
    files = runs.problem_files(folder_of(tmp_path), "level1/19")
    given = given_of(tmp_path)
    asyncio.run(runs.judge_all(given, files))
    row = json.loads((given.out / "kernelbench.json").read_text())["problems"]["level1/19"]
    assert (row["verdict"], row["export"], row["library"], row["launches"]) == ("passed", "written", [], 1)
    assert "class ModelNew" in (given.out / "solutions" / "level1_19.py").read_text()
    receipt = runs.Receipt(given.out)
    receipt.row("level1/19")["seconds"] = -1.0
    receipt.write()
    asyncio.run(runs.judge_all(given, files))
    assert runs.Receipt(given.out).row("level1/19")["seconds"] == -1.0
    receipt.row("level1/19")["verdict"] = "suspect"  # work of others may have been the cause
    receipt.write()
    asyncio.run(runs.judge_all(given, files))
    settled = runs.Receipt(given.out).row("level1/19")
    assert settled["verdict"] == "passed" and settled["seconds"] > 0


def test_one_alone_waits_for_all_and_keeps_the_later_ones_waiting() -> None:
    seen: list[tuple[str, int]] = []

    async def work(turns: runs.Turns, name: str, alone: bool, inside: set[str]) -> None:
        async with turns.taken(alone):
            inside.add(name)
            for _ in range(5):
                await asyncio.sleep(0)
                seen.append((name, len(inside)))
            inside.remove(name)

    async def all_of() -> None:
        turns, inside = runs.Turns(2), set[str]()
        asked = [("a", False), ("b", False), ("large", True), ("huge", True), ("c", False), ("d", False)]
        await asyncio.gather(*(work(turns, name, alone, inside) for name, alone in asked))

    asyncio.run(all_of())
    most = {name: max(count for one, count in seen if one == name) for name, _ in seen}
    assert most == {"a": 2, "b": 2, "large": 1, "huge": 1, "c": 2, "d": 2}
    assert list(dict.fromkeys(name for name, _ in seen)) == ["a", "b", "large", "huge", "c", "d"]


def test_who_gives_up_waiting_for_all_turns_gives_back_those_it_had() -> None:
    async def takes(turns: runs.Turns, alone: bool, ends: asyncio.Event) -> None:
        async with turns.taken(alone):
            await ends.wait()

    async def all_of() -> None:
        turns, ends = runs.Turns(2), asyncio.Event()
        first, large = (asyncio.create_task(takes(turns, alone, ends)) for alone in (False, True))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the large one has one turn of two now
        large.cancel()
        ends.set()
        await asyncio.gather(first, large, return_exceptions=True)
        for alone in (False, True):
            await asyncio.wait_for(takes(turns, alone, ends), timeout=60)

    asyncio.run(all_of())


def test_a_solution_that_does_not_build_is_told(tmp_path: Path) -> None:
    solutions = tmp_path / "solutions"
    solutions.mkdir()
    (solutions / "level1_1.py").write_text("x = 1\n")
    (solutions / "level1_3.py").write_text("raise RuntimeError('nvcc is missing')\n")
    builds = Builds(tmp_path)
    assert builds.wait("level1/1", 60.0) == "built"
    assert "nvcc is missing" in builds.wait("level1/3", 60.0)
    assert builds.wait("level1/5", 0.3) == "not built within 0 s"


EVALUATION = """
import os

class Result:
    compiled = correctness = True
    runtime, ref_runtime, metadata = 2.0, 3.0, {"hardware": "none"}

def eval_kernel_against_ref(problem, solution, **options):
    if "crash" in solution:
        os._exit(1)
    assert options["num_perf_trials"] == 7
    return Result()
"""


TORCH = """
device, float32 = str, "float32"

class cuda:
    def empty_cache():
        pass
"""


def test_their_evaluation_is_asked_in_a_process_that_may_die(tmp_path: Path) -> None:
    package = tmp_path / "src" / "kernelbench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from dotenv import load_dotenv\nfrom litellm import completion\n")
    (package / "eval.py").write_text(EVALUATION)
    (tmp_path / "src" / "torch.py").write_text(TORCH)
    for number, text in ((1, "fine"), (3, "crash"), (5, "fine")):
        path = tmp_path / "solutions" / f"level1_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "logs").mkdir()
    evaluator = Evaluator(tmp_path / "src", tmp_path)
    wanted = {"correct_trials": 1, "perf_trials": 7, "profile": False}
    try:
        found = [evaluator.judge(f"level1/{n}", package / "eval.py", wanted, 100.0) for n in (1, 3, 5)]
    finally:
        evaluator.close()
    assert [one.get("speedup") for one in found] == [1.5, None, 1.5]
    assert found[1] == {"error": "its process died"}


NOTHING = "is zero, or too small to tell from rounding,"
CPU = {
    "problems": {
        "level1/3": {"verdict": "passed", "launches": 0, "library": ["aten.bmm"], "library_bytes_share": 1.0},
        "level1/19": {"verdict": "passed", "launches": 1, "library": [], "library_bytes_share": 0.0},
        "level2/83": {"verdict": "refused", "reason": "the plan is wrong. Always"},
        "level2/85": {"verdict": "refused", "reason": f"Model: the output {NOTHING} for every input tried"},
    }
}
GPU = {
    "seconds": 200.0,
    "problems": {
        "level1/19": {
            "verdict": "passed",
            "time": {"us": 10.0, "factor": 1.6, "baselines": {"eager": 40.0, "compile": 16.0}},
            "theirs": {"correct": True, "speedup": 3.9, "own_share": 1.0},
            "export": "written",
        },
        "level1/3": {"verdict": "mismatch", "reason": "wrong"},
        "level2/85": {"verdict": "refused", "reason": f"Model: the output {NOTHING} for every input tried"},
        "level2/83": {"theirs": {"correct": True, "speedup": 1.2, "own_share": 0.5}, "export": "written"},
    },
}


def test_the_page_adds_up() -> None:
    text = kernelbench_section(CPU)
    assert "| level2/83 | refused: the plan is wrong |  |  |" in text
    assert "| level2/85 | asks for nothing |  |  |" in text and "1 *asks for nothing*" in text
    assert "2 of 3 problems have a right kernel: 1 without a library call, 0 " in text
    assert "H100" not in text
    both = kernelbench_section(CPU, GPU)
    assert "| level1/19 | passed | 1 | - | 10.0 | 40.0 | 16.0 | 1.60 | correct | 3.90 | 100% |" in both
    assert "| level1/3 | passed | 0 | 100% | mismatch |" in both
    assert "counted as 1x: geometric mean 1.26, median 1.30, above 1.0 in 50%" in both
    assert "2 of 2 correct" in both  # the second is judged by them alone
    assert "2 problems were judged" in both
    assert "| card |" not in both and "On a GPU (200 s" in both and "On the GPU 2 problems" in both


def test_a_row_names_the_card_it_was_judged_on() -> None:
    draft = argparse.Namespace(vector={})
    seen = Evaluation(kernel=Kernel(source="x").digest, device="cuda", target="NVIDIA H200", outcome=Passed())
    assert runs.row_of(draft, seen, 1.0)["card"] == "NVIDIA H200"
    assert runs.row_of(draft, seen.model_copy(update={"device": "emulator"}), 1.0)["card"] == ""


def test_rows_of_two_cards_are_told_apart() -> None:
    rows = json.loads(json.dumps(GPU["problems"]))
    rows["level1/19"] |= {"card": "NVIDIA H200"}
    rows["level1/19"]["theirs"]["metadata"] = {"hardware": "NVIDIA H100 80GB HBM3"}
    rows["level1/3"] |= {"card": "NVIDIA H100 80GB HBM3"}
    text = kernelbench_section(CPU, GPU | {"problems": rows, "note": "So it was."})
    assert "On GPUs: 1 problems on an NVIDIA H100 80GB HBM3 and 1 problems on an NVIDIA H200 (200 s" in text
    assert "So it was.\n" in text
    assert "| 10.0 | 40.0 | 16.0 | 1.60 | correct (H100) | 3.90 | 100% | H200 |" in text
    assert "| mismatch |  |  |  |  |  |  | H100 |" in text
    _, together, h100, h200 = text.split("\nOn ")[-4:]
    assert together.startswith("all cards together 2 problems were judged, 1 of them")
    assert h100.startswith("the H100 alone 1 problems were judged, 1 of them")
    assert "1 of 1 correct" in h100 and "KernelBench's evaluation" not in h200
    assert "fastest of eager and torch.compile: geometric mean 1.60" in h200
