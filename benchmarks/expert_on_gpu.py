"""The scripted expert on a GPU: softmax, layer norm and linear + row-sum through every role, with receipts.

People wrote the answers (``tests/agents/expert_answers``); a test server speaks them, the product asks for
them, the GPU judges the kernels: two starts, a repair of what does not compile, a repair of what is wrong, a
crossing. Usage: ``python benchmarks/expert_on_gpu.py [NAME ...] [--device cuda]``. Prints a table; writes
``expert_on_gpu.json`` and the sessions (``expert_on_gpu.tgz``) to the folder that ``$WORKBENCH_RECEIPTS``
names. Exit code 1 where a session is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "agents")]

LARGER = {
    "softmax": (("s0", 4096), ("s1", 4096)),
    "layer_norm": (("s0", 65536),),
    "linear_rowsum": (("s0", 1024), ("s1", 512), ("s2", 256)),
}
"""Sizes that mean something on a GPU, beside the files' own, which are the emulator's."""
SHOULD_BE = {
    "b1": ("seed", "compile_failed"),
    "b1.1": ("repair", "mismatch"),
    "b1.2": ("repair", "passed"),
    "b2": ("seed", "passed"),
    "b3": ("crossover", "passed"),
}
ROLES = {"reasoner", "synthesizer", "compiler", "correctness", "reflection"}
NOTE = "Recorded with a scripted expert: people wrote its answers, no language model did."


def searched(name: str, folder: Path, device_name: str) -> dict[str, Any]:
    """One session, and what came of it."""
    from scripted_expert import problem_of, search

    from workbench.devices.select import open_device
    from workbench.model import Case

    problem = problem_of(name)
    sizes = LARGER[name]
    label = "x".join(str(size) for _, size in sizes)
    case = Case(label=label, sizes=sizes, origin="declared")
    problem = problem.model_copy(update={"cases": (*problem.cases, case), "notes": (*problem.notes, NOTE)})
    started = time.perf_counter()
    tree = search(name, folder, problem, open_device(device_name))
    # Where the crossing is not the fastest, the expert crosses again and writes the same kernel once more:
    # the search drops that by itself, as it should.
    again = {id for id, node in tree.nodes.items() if node.duplicate_of is not None}
    found = {id: (node.operator, node.verdict) for id, node in tree.nodes.items() if id not in again}
    roles = {exchange.role for exchange in tree.exchanges.values()}
    return {
        "problem": name,
        "device": device_name,
        "seconds": round(time.perf_counter() - started, 1),
        "as_it_should_be": found == SHOULD_BE and roles == ROLES and not tree.failures,
        "failures": [f"{one.role}: {one.message}" for one in tree.failures],
        "branches": [
            {
                "branch": id,
                "operator": node.operator,
                "verdict": node.verdict,
                "explanation": node.explanation,
                "times": [time.model_dump(mode="json") for time in node.evaluation.times],
            }
            for id, node in tree.nodes.items()
            if node.evaluation is not None
        ],
    }


def report(row: dict[str, Any]) -> str:
    """One session in lines."""
    good = "as it should be" if row["as_it_should_be"] else "NOT as it should be"
    lines = [f"{row['problem']} on {row['device']}: {good}, {row['seconds']} s", *row["failures"]]
    for one in row["branches"]:
        times = ", ".join(
            f"{t['case']} {t['time_us']:.1f} us against "
            + " ".join(f"{name} {us:.1f}" for name, us in t["baselines"])
            for t in one["times"]
        )
        lines.append(f"  {one['branch']:5} {one['operator']:9} {one['verdict']:14} {times}")
    return "\n".join(lines)


def main() -> None:
    """Search every problem, print and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=tuple(LARGER))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="expert-") as scratch:
        for name in options.names:
            rows.append(searched(name, Path(scratch) / name, options.device))
            print(report(rows[-1]), flush=True)
        if where := os.environ.get("WORKBENCH_RECEIPTS"):
            Path(where, "expert_on_gpu.json").write_text(json.dumps({"sessions": rows}, indent=1) + "\n")
            with tarfile.open(Path(where, "expert_on_gpu.tgz"), "w:gz") as packed:
                packed.add(scratch, "expert_on_gpu")
    sys.exit(0 if all(row["as_it_should_be"] for row in rows) else 1)


if __name__ == "__main__":
    main()
