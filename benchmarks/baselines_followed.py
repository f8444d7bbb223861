"""Slow baselines come after the verdicts while a person looks: seen in a session as a notebook runs it.

One round in a session that waits for the person (``--review manual``), which is when nobody wants the card:
max-autotune and CUDA graphs are timed then, and kernels that were judged before are held against them. The
journal says when. Usage, on a machine with an NVIDIA GPU:

    python benchmarks/baselines_followed.py [OP ...] [--seconds 90]

Prints a line a kernel; writes ``baselines_followed.json`` to the folder ``$WORKBENCH_RECEIPTS`` names. Exit
code 1 where no kernel was held against more baselines than it was judged with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench.devices.base import Device  # noqa: E402
from workbench.live import optimize  # noqa: E402
from workbench.live.start import open_device_named  # noqa: E402
from workbench.model import Problem  # noqa: E402
from workbench.policy import Policy  # noqa: E402
from workbench.problem.capture import Capture, read_file  # noqa: E402
from workbench.session.journal import read_journal, read_times  # noqa: E402

Json = dict[str, Any]
AFTER_S = 2.0
"""The session stays open this long after the first kernel was followed: the others come with it."""


def watched(subject: Problem | Capture, device: Device, folder: Path, seconds: float) -> Json:
    """One round, then wait until kernels are held against more baselines; what the journal says of it."""
    policy = Policy(rounds=1, branches=3, seeds=3, review="manual")
    began = time.time()
    give_up = began + seconds
    with optimize(subject, policy, device, folder=folder) as live:
        live.wait(seconds)
        while not _followed(folder) and time.time() < give_up:
            time.sleep(0.2)
        time.sleep(AFTER_S)
    return told(folder, began)


def _followed(folder: Path) -> bool:
    return any(event.kind == "baselines_followed" for event in read_journal(folder / "journal.jsonl")[0])


def told(folder: Path, began: float) -> Json:
    """Seconds from the start to each verdict and to each kernel's longer list of baselines."""
    path = folder / "journal.jsonl"
    events, times = read_journal(path)[0], read_times(path)
    found: Json = {"judged": [], "followed": []}
    for at, event in zip(times, events, strict=True):
        at_s = round(at - began, 2) if at is not None else None
        if event.kind == "kernel_judged":
            own = _baselines(event.evaluation.times)
            found["judged"].append({"branch": event.branch, "at_s": at_s, "baselines": own})
        elif event.kind == "baselines_followed":
            row = {"branch": event.branch, "at_s": at_s, "baselines": _baselines(event.times)}
            found["followed"].append(row | {"fastest": [_fastest(one) for one in event.times]})
    return found


def _baselines(times: Any) -> list[str]:
    """Names that every case is held against."""
    held = [{name for name, _ in one.baselines} for one in times]
    return sorted(set.intersection(*held)) if held else []


def _fastest(time_: Any) -> str:
    name, us = min(time_.baselines, key=lambda pair: pair[1])
    return f"{time_.case}: {time_.time_us:.1f} us, {name} {us:.1f} us"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*", default=["layer_norm"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=90.0, help="most seconds an op")
    options = parser.parse_args()
    rows, failed = {}, []
    with tempfile.TemporaryDirectory(prefix="followed-") as scratch:
        for op in options.ops:
            capture = read_file(ROOT / "sample_ops" / f"{op}.py")
            device = open_device_named(options.device)
            rows[op] = found = watched(capture, device, Path(scratch) / op, options.seconds)
            for kind in ("judged", "followed"):
                for row in found[kind]:
                    print(op, kind, json.dumps(row), flush=True)
            failed += [] if found["followed"] else [op]
    if where := os.environ.get("WORKBENCH_RECEIPTS"):
        Path(where, "baselines_followed.json").write_text(json.dumps(rows, indent=1) + "\n")
    if failed:
        raise SystemExit(f"no baselines followed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
