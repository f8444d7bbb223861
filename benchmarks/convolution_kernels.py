"""The playbook's convolutions on a GPU: the library's, on float32 units, and two on tensor cores.

    export WORKBENCH_RECEIPTS=out
    python benchmarks/convolution_kernels.py [--seconds 240] [--named "pool"] [--dtype float32]

A row is a convolution with a bias, and a ReLU, a pool, or what goes across channels: the referee's verdict
and quick time of every way to make it, in microseconds, and what the model of time had expected. Eager alone
is timed beside them. Writes ``gpu_convolution_kernels.json``; what there is no time for is named.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import on_the_gpu as gpu

from workbench.model import H100, Passed, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.problem.capture import Capture
from workbench.problem.intake import open_problem
from workbench.views.numbers import verdict_message


@dataclass(frozen=True)
class Shape:
    """Of a convolution: the input, channels made, and torch's own settings."""

    x: tuple[int, ...]
    makes: int
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    groups: int = 1
    transposed: bool = False
    pool: int = 1
    """Results along each side of which a pool behind it takes the largest; 1 for none."""
    across: str = ""
    """A method of tensors that is called on the results, for their channels."""
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """As ``8x64x56x56 to 64, 3x3 by 2``."""
        kind = "transposed " if self.transposed else ""
        by = f" by {self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        sides = "x".join(map(str, self.x))
        pool = f", pool of {self.pool}" if self.pool > 1 else ""
        across = f", {self.across}" if self.across else ""
        dtype = f", {self.dtype}" if self.dtype != "float32" else ""
        behind = f"{by}{groups}{pool}{across}{dtype}"
        return f"{kind}{sides} to {self.makes}, {'x'.join(map(str, self.window))}{behind}"

    @property
    def source(self) -> str:
        """A module as a person would write it."""
        kind = f"Conv{'Transpose' if self.transposed else ''}{len(self.window)}d"
        settings = f"stride={self.stride}, padding={self.padding}, groups={self.groups}"
        dtype = "" if self.dtype == "float32" else f", dtype=torch.{self.dtype}"
        made = f"self.conv(x).{self.across}" if self.across else "torch.relu(self.conv(x))"
        if self.pool > 1:
            made = f"nn.functional.max_pool{len(self.window)}d({made}, {self.pool})"
        return (
            "import torch\nfrom torch import nn\n\n"
            "class Model(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            f"        self.conv = nn.{kind}({self.x[1]}, {self.makes}, {self.window}, {settings}{dtype})\n\n"
            "    def forward(self, x):\n"
            f"        return {made}\n\n"
            f"def get_inputs():\n    return [torch.rand({self.x}{dtype})]\n"
        )


SHAPES = (
    Shape((64, 3, 224, 224), 32, (3, 3), stride=2, padding=1),
    Shape((64, 8, 128, 128), 32, (3, 3), padding=1),
    Shape((64, 16, 128, 128), 64, (3, 3), padding=1),
    Shape((32, 64, 128, 128), 64, (3, 3), padding=1),
    Shape((64, 64, 56, 56), 64, (3, 3), padding=1),
    Shape((64, 64, 56, 56), 128, (3, 3), stride=2, padding=1),
    Shape((64, 256, 28, 28), 256, (3, 3), padding=1),
    Shape((32, 96, 96, 96), 96, (1, 1)),
    Shape((32, 32, 128, 128), 64, (5, 1), padding=0),
    Shape((16, 128, 16384), 128, (7,), padding=3),
    Shape((32, 128, 64, 64), 128, (3, 3), padding=1, groups=4),
    Shape((640, 147, 32), 147, (1,), groups=3),
    Shape((40, 588, 32), 588, (1,), groups=12),
    Shape((32, 240, 28, 28), 240, (1, 1), groups=3),
    Shape((32, 64, 56, 56), 64, (3, 3), padding=1, groups=2),
    Shape((32, 128, 56, 56), 128, (3, 3), padding=1, groups=8),
    Shape((32, 512, 14, 14), 512, (3, 3), padding=1, groups=32),
    Shape((10, 384, 28, 28), 32, (3, 3), padding=1),
    Shape((10, 512, 14, 14), 32, (3, 3), padding=1),
    Shape((10, 992, 14, 14), 32, (3, 3), padding=1),
    Shape((10, 992, 7, 7), 32, (3, 3), padding=1),
    Shape((10, 832, 7, 7), 160, (1, 1)),
    Shape((10, 512, 14, 14), 112, (1, 1)),
    Shape((64, 3, 16, 64, 64), 16, (3, 3, 3)),
    Shape((16, 16, 32, 64, 64), 32, (3, 3, 3), padding=1),
    Shape((32, 64, 64, 64), 64, (3, 3), padding=1, transposed=True),
    Shape((32, 64, 64, 64), 64, (4, 4), stride=2, padding=1, transposed=True),
    Shape((16, 32, 16, 32, 32), 32, (3, 3, 3), padding=1, transposed=True),
    Shape((16, 64, 64, 128), 128, (3, 5), transposed=True),
    Shape((16, 64, 16, 32, 32), 128, (3, 3, 3), transposed=True),
    Shape((32, 64, 64, 64), 128, (4, 4), stride=2, padding=1, transposed=True),
    Shape((64, 3, 224, 224), 64, (3, 3), padding=1, pool=2),
    Shape((64, 64, 56, 56), 64, (3, 3), padding=1, pool=2),
    Shape((64, 64, 64, 64), 128, (3, 3), padding=1, pool=2),
    Shape((32, 16, 128, 128), 32, (3, 3), padding=1, pool=4),
    Shape((16, 64, 16384), 64, (7,), padding=3, pool=4),
    Shape((16, 256, 128, 128), 21, (1, 1), across="softmax(1)"),
    Shape((16, 256, 128, 128), 21, (1, 1), across="argmax(1)"),
    Shape((32, 64, 128, 128), 64, (3, 3), padding=1, across="softmax(1)"),
    Shape((32, 64, 128, 128), 64, (3, 3), padding=1, across="amin(1)"),
    Shape((64, 64, 64, 64), 128, (3, 3), padding=1, across="amin(1)"),
    Shape((32, 64, 64, 64), 64, (4, 4), stride=2, padding=1, transposed=True, across="softmax(1)"),
)
SHAPES += tuple(replace(one, dtype="bfloat16") for one in SHAPES)
WAYS: dict[str, Vector] = {
    "library": (("convolution", "library"),),
    "float32 units": (("block_size", "128"), ("convolution", "8x8")),
    "tensor cores, places across": (("convolution", "three_tf32"),),
    "tensor cores, channels across": (("block_size", "256"), ("convolution", "patches")),
    "the same, blocks of 128": (("block_size", "128"), ("convolution", "patches")),
    "channels in pairs": (("block_size", "256"), ("channel_pairs", "on"), ("convolution", "patches")),
    "in pairs, blocks of 128": (("block_size", "128"), ("channel_pairs", "on"), ("convolution", "patches")),
    "as the model has it": (("convolution", "each"), ("split_k", "each")),
}


def ways_of(problem: Problem) -> dict[str, Vector]:
    """Those that the playbook offers for a problem."""
    found = {}
    for way, asked in WAYS.items():
        vector = settled(problem, tuple(sorted((*asked, ("vector_width", "4")))))
        same = dict(vector).get("convolution") == dict(asked)["convolution"]
        if same and vector not in found.values():
            found[way] = vector
    return found


async def row_of(device: Any, shape: Shape) -> dict[str, Any]:
    """Every way to make one convolution, judged."""
    capture = Capture(
        source=shape.source, name="Model", entry="Model", kind="module_class", inputs="get_inputs()"
    )
    problem = open_problem(capture)
    ways = ways_of(problem)
    kernels = [generate(problem, vector).kernel for vector in ways.values()]
    judged = await asyncio.gather(*(device.evaluate(problem, kernel, lambda _: None) for kernel in kernels))
    row: dict[str, Any] = {"convolution": shape.name, "card": device.target.name}
    for (way, vector), evaluation in zip(ways.items(), judged, strict=True):
        expected = round(mean_us(problem, vector, H100), 1)
        if not isinstance(evaluation.outcome, Passed):
            row[way] = {"why": verdict_message(evaluation.outcome), "expected_us": expected}
            continue
        (timed,) = evaluation.times
        row[way] = {"us": round(timed.time_us, 1), "expected_us": expected}
        row["eager_us"] = round(dict(timed.baselines)["eager"], 1)
    return row


async def measure(seconds: float, named: str, dtype: str) -> list[str]:
    """All rows of such a name and type that there is time for; the names of the others."""
    give_up, left = time.monotonic() + seconds, list[str]()
    receipt = gpu.Receipt("convolution_kernels")
    device = gpu.open_device(timing=True, hazards=False, baselines=("eager",))
    for shape in (one for one in SHAPES if named in one.name and dtype in one.dtype):
        if time.monotonic() > give_up:
            left.append(shape.name)
            continue
        with receipt.guarded(shape.name):
            row = await row_of(device, shape)
            receipt.add("rows", row)
            times = {way: row[way].get("us", "-") for way in WAYS if way in row}
            print(f"{shape.name:<48}{row.get('eager_us')}  {times}", flush=True)
    await device.close()
    return left + [one["what"] for one in receipt.values.get("failures", [])]


def main() -> None:
    """See the module."""
    if folder := os.environ.get("WORKBENCH_RECEIPTS"):
        os.environ.setdefault("WORKBENCH_PARTS", folder)
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--named", default="", help="part of the names of rows")
    parser.add_argument("--dtype", default="", help="of the rows, as float32; all without it")
    told = parser.parse_args()
    if left := asyncio.run(measure(told.seconds, told.named, told.dtype)):
        raise SystemExit(f"no times: {'; '.join(left)}")


if __name__ == "__main__":
    main()
