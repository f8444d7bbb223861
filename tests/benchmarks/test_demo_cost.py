"""The sampler of processes and memory sees what a process starts."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import demo_cost


def test_a_tree_has_its_children_and_their_memory() -> None:
    code = "import sys; held = bytearray(b'1') * 50_000_000; print('held', flush=True); sys.stdin.read()"
    shell = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])",
    ]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        pids = demo_cost.tree_of(process.pid)
        assert process.pid in pids and len(pids) == 2
        assert demo_cost.memory_of(pids) > 50_000_000
        process.stdin.close()
    assert demo_cost.memory_of({process.pid}) == 0
