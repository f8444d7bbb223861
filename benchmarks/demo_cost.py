"""What ``make demo`` costs once everything is installed: seconds, and memory of all its processes.

Runs ``workbench demo`` with an empty cache of its own, as on a machine that has just been set up, and adds
up the proportional set size of the whole process tree twice a second. Usage:
``python benchmarks/demo_cost.py``; prints a table and writes a receipt to ``$WORKBENCH_RECEIPTS``. The wall
time means something only on an idle machine, so the receipt names the load it was taken under.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workbench.workers.keeping import kept

EVERY_S = 0.5
MOST_SECONDS, MOST_BYTES = 180.0, 3 * 2**30


def tree_of(root: int) -> set[int]:
    """A process and everything below it that still runs, by number."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def memory_of(pids: set[int]) -> int:
    """Proportional set size of some processes, bytes: a page that two share counts half for each."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
        total += int(found[1]) * 1024 if found else 0
    return total


def main() -> None:
    """Run the demo once and say what it took."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="demo-cost-") as folder:
        environment = {**os.environ, "WORKBENCH_CACHE": f"{folder}/cache"}
        command = [
            sys.executable,
            "-m",
            "workbench",
            "demo",
            "--device",
            "emulator",
            "--out",
            f"{folder}/out",
        ]
        started, peak, most = time.monotonic(), 0, 0
        with subprocess.Popen(kept(command), env=environment) as process:
            while process.poll() is None:
                pids = tree_of(process.pid) - {process.pid}  # without the keeper
                peak, most = max(peak, memory_of(pids)), max(most, len(pids))
                time.sleep(EVERY_S)
        seconds = time.monotonic() - started
        page = Path(folder, "out", "demo.html").stat().st_size if process.returncode == 0 else 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    receipt = {
        "exit_code": process.returncode,
        "wall_s": round(seconds, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_pss_bytes": peak,
        "most_processes": most,
        "page_bytes": page,
        "cores": os.cpu_count(),
        "load_before": round(load, 2),
        "python": platform.python_version(),
        "limits": {"wall_s": MOST_SECONDS, "peak_pss_bytes": MOST_BYTES},
    }
    print(f"\nexit code {process.returncode}, {seconds:.0f} s wall, {receipt['cpu_s']} s of processor time")
    print(
        f"peak memory {peak / 2**30:.2f} GB in {most} processes; "
        f"load before {load:.1f}, {os.cpu_count()} cores"
    )
    if where := os.environ.get("WORKBENCH_RECEIPTS"):
        (Path(where) / "demo_cost.json").write_text(json.dumps(receipt, indent=1) + "\n")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
