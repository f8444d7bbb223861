"""Measures the bounds of results that jump (quantisers, floors, thresholds) from both sides.

For every operation and dtype of ``tests/numerics/quantisers.py``, over shapes, kinds of input and seeds: how
many elements are near an edge, the largest error over the bound among honest kernels, how much of what the
elements near an edge are allowed they use together, and on how many sets of inputs each wrong kernel is
refused. Usage, from the repository's root:

    python benchmarks/rounded_results.py --seeds 5

Prints a row each; writes ``rounded-results.json`` to ``benchmarks/receipts``, or into the folder
``$WORKBENCH_RECEIPTS`` names. Ends with an error when an honest kernel is refused or a wrong one never is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "numerics")]

from quantisers import FLOATS, HONEST, OPS, SHAPES, WRONG  # noqa: E402

from workbench.model import DType  # noqa: E402
from workbench.numerics.bounds import OutputBound  # noqa: E402
from workbench.numerics.compare import compare  # noqa: E402
from workbench.numerics.inputs import draw  # noqa: E402
from workbench.numerics.kinds import KINDS  # noqa: E402
from workbench.numerics.steps import in_doubt, used_share  # noqa: E402


@dataclass
class Tally:
    """Of one operation in one dtype."""

    inputs: int = 0
    elements: int = 0
    near: int = 0
    honest: int = 0
    refused: list[str] = field(default_factory=list)
    ratio: float = 0.0
    share: dict[str, float] = field(default_factory=dict)
    share_over_limit: float = 0.0
    caught: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, op: Any, tensors: dict[str, Any], label: str) -> None:
        """Judge every kernel on one set of inputs."""
        bound = op.bound(tensors)
        self.inputs += 1
        self.elements += bound.expected.numel()
        self.near += int(in_doubt(bound.step).sum()) if bound.step else 0
        for variant, kernel in {"eager": op.call, **HONEST[name]}.items():
            got = kernel(**tensors)
            found = compare(got, bound)
            self.honest += 1
            self.ratio = max(self.ratio, found.max_ratio)
            self._use(variant, got, bound)
            if found.max_ratio > 1:
                self.refused.append(f"{variant}, {label}")
        for variant, kernel in WRONG[name].items():
            wrong = compare(kernel(**tensors), bound).max_ratio > 1
            self.caught[variant] = self.caught.get(variant, 0) + wrong

    def _use(self, variant: str, got: torch.Tensor, bound: OutputBound) -> None:
        """Only where a share is asked at all: of few different distances none is."""
        if bound.step is None or bound.share >= 1:
            return
        off = (got.double() - bound.expected.double()).nan_to_num(0.0, 0.0, 0.0)
        share = used_share(off, bound.step)
        self.share[variant] = max(self.share.get(variant, 0.0), share)
        self.share_over_limit = max(self.share_over_limit, share / bound.share)


def row(name: str, dtype: DType, seeds: int) -> dict[str, Any]:
    """Measure one operation in one dtype."""
    tally = Tally()
    for shape in SHAPES:
        op = OPS[name](shape, dtype)
        for kind in KINDS:
            for seed in range(seeds):
                tensors = draw(op.problem, op.problem.cases[0], kind, seed)
                tally.add(name, op, tensors, f"{shape}, {kind}, seed {seed}")
    return {
        "op": name,
        "dtype": dtype,
        "inputs": tally.inputs,
        "near_an_edge": round(tally.near / tally.elements, 5),
        "honest": tally.honest,
        "honest_refused": tally.refused,
        "worst_honest_ratio": round(tally.ratio, 4),
        "largest_share": {key: round(value, 3) for key, value in tally.share.items()},
        "largest_share_over_limit": round(tally.share_over_limit, 3),
        "wrong_refused_on": tally.caught,
    }


def main() -> int:
    """Run, print, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in OPS:
        for dtype in FLOATS:
            rows.append(row(name, dtype, asked.seeds))
            print(json.dumps(rows[-1]), flush=True)
    receipt = {
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "shapes": [list(shape) for shape in SHAPES],
        "seeds": asked.seeds,
        "honest_judged": sum(one["honest"] for one in rows),
        "honest_refused": sum(len(one["honest_refused"]) for one in rows),
        "wrong_never_refused": sum(0 in one["wrong_refused_on"].values() for one in rows),
        "repeat": f"python benchmarks/rounded_results.py --seeds {asked.seeds}",
        "rows": rows,
    }
    folder = Path(os.environ.get("WORKBENCH_RECEIPTS", ROOT / "benchmarks" / "receipts"))
    (folder / "rounded-results.json").write_text(json.dumps(receipt, indent=1) + "\n")
    print(f"{receipt['honest_judged']} honest, {receipt['honest_refused']} of them refused")
    return 1 if receipt["honest_refused"] or receipt["wrong_never_refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
