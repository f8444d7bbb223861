"""Warming up is no notebook's business: benchmarks do it on machines without IPython."""

from __future__ import annotations

import subprocess
import sys

import pytest

from workbench.errors import DeviceError
from workbench.live import warming


def test_it_needs_no_ipython_and_imports_no_torch() -> None:
    program = (
        "import sys; sys.modules['IPython'] = None\n"
        "import workbench.live.warming\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_fails_is_told_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def broken() -> None:
        raise DeviceError("no worker starts")

    monkeypatch.setattr(warming, "probed", lambda: asked.append("driver"))
    monkeypatch.setattr(warming, "torch_ready", broken)
    monkeypatch.setattr(warming, "warm_up_intake", lambda: asked.append("intake"))
    warming.warm_up()
    assert "intake" not in asked
