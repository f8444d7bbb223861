"""How long a person waits from running the cell to the first measured branch, and what for.

Every operation is searched in a process of its own, through the product: capture, session, journal. The
journal says when everything happened. Usage:

    python benchmarks/first_branch.py [OP ...] [--device auto] [--rounds 1] [--seconds 60] [--cold]

An OP is a file of ``sample_ops``; ``OP:ROUNDS`` gives it more rounds. The workers are warm, as they are
some seconds after ``%load_ext workbench``; with ``--cold`` they are not. Prints a table; writes
``first_branch.json`` and the journals (``first_branch.tgz``) to the folder ``$WORKBENCH_RECEIPTS`` names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from workbench.workers.keeping import kept  # noqa: E402

OPS = ("softmax", "layer_norm", "linear_rowsum")
REACH_S = 10.0
"""What issue and documentation promise for the first measured branch."""
Json = dict[str, Any]


# ------------------------------------------------------------------------------------ in the child


def search(op: str, options: argparse.Namespace) -> None:
    """Run one search and say on the last line of standard output when it began and what it was told."""
    from workbench.live import optimize
    from workbench.live.start import open_device_named
    from workbench.live.warming import warm_up
    from workbench.policy import Policy
    from workbench.problem.capture import read_file

    if not options.cold:
        warm_up()
        time.sleep(2.0)  # the driver is asked beside it, and nobody runs a cell the moment it is loaded
    capture = read_file(ROOT / "sample_ops" / f"{op}.py")
    notes: list[tuple[float, str]] = []
    began = time.time()
    device = open_device_named(options.device)
    policy = Policy(rounds=options.rounds, branches=options.branches, seeds=3)
    with optimize(capture, policy, device, folder=Path(options.folder)) as live:
        live.at_note(lambda text: notes.append((time.time() - began, text)))
        over = live.finished(options.seconds)
        told = {"op": op, "began": began, "notes": notes, "finished": over, "device": device.name}
        for name in ("warm_s", "prepared"):
            value = getattr(device, name, None)
            told[name] = value.model_dump() if hasattr(value, "model_dump") else value
        print(json.dumps(told), flush=True)


# ------------------------------------------------------------------------------------ the timeline


def timeline(folder: Path, told: Json) -> Json:
    """When each step was reached, in seconds from running the cell, out of the journal."""
    from workbench.session.journal import read_journal, read_times

    path = folder / "journal.jsonl"
    events, times = read_journal(path)[0], read_times(path)
    happened = [
        (at - told["began"], event) for at, event in zip(times, events, strict=True) if at is not None
    ]
    steps: dict[str, float] = {}
    for note_s, text in told["notes"]:
        steps.setdefault(f"opening: {text}", round(note_s, 2))
    for at, event in happened:
        steps.setdefault(_name_of(event), round(at, 2))
    return {
        **told,
        "steps": steps,
        "measured_s": min((v for k, v in steps.items() if k in MEASURED), default=None),
        "judged_s": steps.get("first verdict"),
        "branches": [_branch(at, event) for at, event in happened if event.kind == "kernel_judged"],
        "profiles": [(e.branch, round(at, 2)) for at, e in happened if e.kind == "kernel_profiled"],
        "rounds": [(e.round, round(at, 2)) for at, e in happened if e.kind == "round_ended"],
    }


MEASURED = ("first time, against eager", "first verdict")
NAMES = {
    "session_opened": "problem is open",
    "branch_proposed": "first card",
    "kernel_written": "first kernel written",
    "compiling": "first kernel compiling",
    "running": "first kernel on the device",
    "case_timed": MEASURED[0],
    "kernel_judged": MEASURED[1],
    "round_ended": "first round over",
    "kernel_profiled": "first profile",
    "search_stopped": "search over",
}


def _name_of(event: Any) -> str:
    kind = event.stage if event.kind == "stage_entered" else event.kind
    return NAMES.get(kind, kind.replace("_", " "))


def _branch(at: float, event: Any) -> Json:
    found = event.evaluation
    return {
        "branch": event.branch,
        "at_s": round(at, 2),
        "outcome": found.outcome.kind,
        "score": round(found.score, 3),
        "seconds": dict(found.seconds),
    }


# ------------------------------------------------------------------------------------ the parent


def run(op: str, options: argparse.Namespace, folder: Path) -> Json:
    """Search one operation in a fresh process; whatever it came to is read from its journal."""
    name, _, rounds = op.partition(":")
    words = ["--child", name, "--folder", str(folder / name), "--device", options.device]
    words += ["--rounds", rounds or str(options.rounds), "--seconds", str(options.seconds)]
    words += [
        "--branches",
        str(options.branches if not rounds else 24),
        *(["--cold"] if options.cold else []),
    ]
    started = time.time()
    limit_s = options.seconds + 60
    command = kept([sys.executable, __file__, *words])
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"op": name, "failed": f"the search took longer than {limit_s:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"op": name, "failed": f"the search ended with code {done.returncode}"}
    told = json.loads(lines[-1]) | {"process_s": round(time.time() - started, 2)}
    return timeline(folder / name, told)


def report(row: Json) -> str:
    """One operation: every step, then every branch."""
    if "failed" in row:
        return f"{row['op']}: {row['failed']}"
    first = f"{row['measured_s']:.1f} s" if row["measured_s"] is not None else "none"
    lines = [f"{row['op']} on {row['device']}: first measured branch after {first} (reach: {REACH_S:g} s)"]
    lines += [f"  {at:7.2f} s  {step}" for step, at in sorted(row["steps"].items(), key=lambda one: one[1])]
    if row["prepared"]:
        lines.append(
            f"  process warm after {row['warm_s']:.2f} s, prepared in {row['prepared']['seconds']:.2f} s"
        )
    for one in row["branches"]:
        took = ", ".join(f"{name} {s:.2f}" for name, s in one["seconds"].items() if s >= 0.05)
        lines.append(f"  {one['at_s']:7.2f} s  {one['branch']} {one['outcome']} {one['score']:.2f}x: {took}")
    lines += [f"  {at:7.2f} s  {branch} profiled" for branch, at in row["profiles"]]
    return "\n".join([*lines, f"  {row['process_s']:7.2f} s  whole process"])


def main() -> None:
    """Search every operation, print and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*", default=OPS)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--branches", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="most seconds of one search")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--child", default="")
    parser.add_argument("--folder", default="")
    options = parser.parse_args()
    if options.child:
        return search(options.child, options)
    with tempfile.TemporaryDirectory(prefix="first-branch-") as scratch:
        rows = []
        for op in options.ops:
            rows.append(run(op, options, Path(scratch)))
            print(report(rows[-1]), flush=True)
        if where := os.environ.get("WORKBENCH_RECEIPTS"):
            receipt = {"warm_server": not options.cold, "python": platform.python_version(), "ops": rows}
            Path(where, "first_branch.json").write_text(json.dumps(receipt, indent=1) + "\n")
            with tarfile.open(Path(where, "first_branch.tgz"), "w:gz") as packed:
                packed.add(scratch, "first_branch")
    if failed := [row["op"] for row in rows if row.get("measured_s") is None]:
        raise SystemExit(f"no measured branch: {', '.join(failed)}")


if __name__ == "__main__":
    main()
