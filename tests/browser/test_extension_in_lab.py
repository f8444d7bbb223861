"""The extension in a real JupyterLab: cells that read as CUDA, commands that write cells, a kernel judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_browser import HERE, LIMIT_S, environment, missing, served

OPERATION = """\
import torch
def double(x):
    return x * 2.0
inputs = [torch.randn(8, 16)]
"""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
FINDINGS = 14


@pytest.mark.browser
@pytest.mark.xdist_group("dark")
def test_a_kernel_by_hand_from_a_command_to_its_verdict(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    import nbformat  # four seconds of a processor, and every process of a run imports every test

    with served(tmp_path, sys.executable, "jupyterlab") as url:
        cell = nbformat.v4.new_code_cell(OPERATION)  # type: ignore[no-untyped-call]
        made = nbformat.v4.new_notebook(cells=[cell], metadata=KERNEL)  # type: ignore[no-untyped-call]
        nbformat.write(made, tmp_path / "root" / "kernel.ipynb")  # type: ignore[no-untyped-call]
        shots = os.environ.get("WORKBENCH_SHOTS", str(tmp_path))
        command = ["node", str(HERE / "extension.js"), url, shots]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == FINDINGS
