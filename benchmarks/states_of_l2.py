"""Kernels that read 100 and 268 MB once, behind different things: whose lines does L2 hold as they begin?

The referee flushes by writing, so a kernel begins while L2 is full of lines that are still to be written to
memory. This times a bare read of 103 MB and kernels of the playbook behind nothing (inputs in turns, more of
them than L2 holds, so that only the code is warm), behind a pass that reads, one that writes, and both.
CUPTI's times by torch's profiler, medians of 32; ours, not the referee's.

Usage on a machine with an NVIDIA GPU: ``python benchmarks/states_of_l2.py``, half a minute.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bare_moves import source

from workbench.live.applied import Applied
from workbench.model import H100
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import parse_vector
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem

ROWS = "vector_width=4 single_pass=on loads_in_flight=4 row_cache=reread stream_hints=on block_size=256"
COLUMNS = (
    "block_size=512 columns_by=bundle grid_split=on split_join=last threads_per_row=thread vector_width=4"
)
WIDE, TALL = "torch.rand(512, 50304)", "torch.rand(65536, 1024)"
CELLS = {
    "bare read": ("x.sum() + like", {"x": WIDE, "like": "torch.rand(4)"}, ""),
    "cross_entropy": (
        "torch.nn.functional.cross_entropy(x, labels)",
        {"x": WIDE, "labels": "torch.randint(0, 50304, (512,))"},
        f"{ROWS} row_totals=last",
    ),
    "logsumexp": ("torch.logsumexp(x, 1)", {"x": WIDE}, ROWS),
    "column_mean": ("x.mean(0)", {"x": TALL}, COLUMNS),
}
"""What is computed, its inputs, and the vector of the kernel; a bare read has none."""
SETS, CALLS = 6, 32


def made(expression: str, inputs: Mapping[str, str], vector: str) -> Applied:
    """The cell with its kernel in place."""
    function = f"import torch\ndef f({', '.join(inputs)}):\n    return {expression}\n"
    problem = open_problem(read_cell(f"{function}inputs = [{', '.join(inputs.values())}]\n"))
    space: dict[str, Any] = {}
    exec(function, space)
    text = generate(problem, parse_vector(vector)).kernel.source if vector else source(256, 4)
    return Applied(space["f"], problem, text, H100)


def median_us(call: Callable[..., Any], sets: Sequence[Any], between: Callable[[], Any]) -> float:
    """Of the one kernel that ``call`` launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    call(*sets[0])
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for turn in range(CALLS):
            between()
            call(*sets[turn % len(sets)])
        torch.cuda.synchronize()
    own = ("move(", "f<", "f_")
    times = [one.device_time for one in seen.events() if one.name.removeprefix("void ").startswith(own)]
    if len(times) != CALLS:
        raise SystemExit(f"{len(times)} kernels where {CALLS} were called")
    return float(statistics.median(times))


def main() -> None:
    """See the module."""
    import torch

    written, read = (torch.zeros(64 * 2**20, device="cuda") for _ in range(2))
    ways: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "a read": read.sum,
        "a write": written.zero_,
        "a write, a read": lambda: (written.zero_(), read.sum()),
    }
    print("| us, behind | " + " | ".join(ways) + " |\n|---|" + "---:|" * len(ways))
    for name, (expression, inputs, vector) in CELLS.items():
        call = made(expression, inputs, vector)
        space = {"torch": torch}
        sets = [[eval(text, space).cuda() for text in inputs.values()] for _ in range(SETS)]
        times = [f"{median_us(call, sets, between):.1f}" for between in ways.values()]
        if call.fallback_calls:
            raise SystemExit(f"{name}: {call.last_fallback}")
        print(f"| {name} | {' | '.join(times)} |", flush=True)


if __name__ == "__main__":
    main()
