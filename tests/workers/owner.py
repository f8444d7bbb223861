"""Stands for a program that is about to be killed, with something of each kind under it.

Usage: ``python owner.py KIND FOLDER``, where KIND is the name of a function below.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

TREE = "import subprocess, time; subprocess.Popen(['sleep', '300'], start_new_session=True); time.sleep(300)"
"""A program that has put another one into a session of its own, as pools of compilers do."""
ENDLESS = """/* plan
def plan(x):
    y = empty_like(x)
    launch("spin", grid=1, block=32, args=[y])
    return y
*/
__global__ void spin(float* y) {
    float v = y[0];
    while (!(v > 3.0f)) v = 0.5f * v + 1.0f;
    y[0] = v;
}
"""
SLEEPING = """
import subprocess, time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x):
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        while True:
            time.sleep(0.01)
"""


def kept(_: Path) -> None:
    from workbench.workers.keeping import wait_kept

    wait_kept([sys.executable, "-c", TREE], 300)


def sanitizer(_: Path) -> None:
    from workbench.profile.sanitizer import run_tool

    run_tool([sys.executable, "-c", TREE])


def profiler(_: Path) -> None:
    from workbench.profile.standby import Standby

    Standby(lambda folder, owner: [sys.executable, "-c", TREE])
    time.sleep(300)


def importing(folder: Path) -> None:
    from workbench.workers import ForkServer, Limits

    (folder / "slow_to_import.py").write_text("import time\ntime.sleep(300)\n")
    sys.path.insert(0, str(folder))
    ForkServer(("slow_to_import",)).call("os:getcwd", b"", Limits())


def emulator(_: Path) -> None:
    from softmax_problem import PROBLEM

    from workbench.model import H100, Kernel
    from workbench.referee.judge import judge
    from workbench.referee.options import JudgeOptions

    judge(PROBLEM, Kernel(source=ENDLESS), H100, JudgeOptions(wall_s=250.0), lambda stage: None)


def foreign(folder: Path) -> None:
    from softmax_problem import PROBLEM

    from workbench.foreign.judge import judge_solution
    from workbench.foreign.values import ForeignOptions

    judge_solution(PROBLEM, SLEEPING, ForeignOptions())


def test_runner(_: Path) -> None:
    code = "import os, time; from workbench.workers.keeping import end_with; end_with(os.getppid()); "
    subprocess.run([sys.executable, "-c", code + "print(flush=True); time.sleep(300)"], check=False)


def main() -> None:
    """Start it on a thread: whoever starts workers and tools in earnest is one."""
    work = globals()[sys.argv[1]]
    thread = threading.Thread(target=work, args=(Path(sys.argv[2]),))
    thread.start()
    thread.join()


if __name__ == "__main__":
    main()
