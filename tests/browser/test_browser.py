"""The panel in a real JupyterLab and browser, which ``tools.sh`` gets; where it cannot, it is said why."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from story_notebook import HERE, write_notebook

CONFIG = """
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = {port}
c.ServerApp.port_retries = 0
c.ServerApp.root_dir = {root!r}
c.ServerApp.allow_root = True
c.ServerApp.disable_check_xsrf = True
c.ServerApp.open_browser = False
c.IdentityProvider.token = ""
c.LabApp.expose_app_in_browser = True
c.JupyterNotebookApp.expose_app_in_browser = True
"""
START_S = 480
END_S = 2
"""A server whose kernel still has a session waits for it, and is killed: twenty seconds were never enough."""
LIMIT_S = 840
"""For a browser's whole part; below what any test may take, so that what was found until then is told."""
HOLD = "hold"
"""Beside the served folder, not in it: Lab asks about a file that goes while it lists them."""


def missing() -> str:
    """What this machine lacks for the test, or an empty string."""
    if shutil.which("node") is None:
        return "node is not installed"
    if shutil.which("npm") is None:
        return "npm is not installed"
    if _chromium() is None:
        return "chromium is not installed (Debian: apt-get install chromium)"
    driver = ["node", "-e", "require('playwright-core')"]
    found = subprocess.run(driver, cwd=HERE, env=environment(), capture_output=True)
    return "" if found.returncode == 0 else "playwright-core is not installed (run tests/browser/tools.sh)"


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def environment() -> dict[str, str]:
    """Variables with which node finds its driver and the browser."""
    root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True).stdout.strip()
    paths = [path for path in (os.environ.get("NODE_PATH"), root) if path]
    return {**os.environ, "NODE_PATH": os.pathsep.join(paths), "CHROMIUM": _chromium() or ""}


OLDER = "WORKBENCH_OLDER_JUPYTER"
"""Names a Python that has Notebook 7, ipykernel 6 and the workbench: ``make browser`` makes one."""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str, str], str]]:
    """Starts a server with a home of its own on the story's notebook; gives its address."""
    with ExitStack() as running:
        yield lambda python, app: running.enter_context(served(tmp_path, python, app))


@contextmanager
def served(tmp_path: Path, python: str, app: str) -> Iterator[str]:
    """A running server's address; it serves ``root`` below the path, where the story's notebook is."""
    root = tmp_path / "root"
    root.mkdir()
    write_notebook(root, tmp_path / HOLD)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "config.py"
    config.write_text(CONFIG.format(port=port, root=str(root)))
    home = {
        name: str(tmp_path / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    settings = {
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "spaces"),
    }
    # The other Python has no JupyterLab of its own: schemas and the widgets' scripts are those of this one.
    shared = Path(sys.prefix) / "share" / "jupyter"
    source = {
        "PYTHONPATH": str(HERE.parents[1]),
        "JUPYTERLAB_DIR": str(shared / "lab"),
        "JUPYTER_PATH": str(shared),
    }
    command = [python, "-m", app, "--config", str(config)]
    environment = {**os.environ, **home, **settings, **source}
    with (
        (tmp_path / "server.log").open("w") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            _await(f"http://127.0.0.1:{port}/api", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            try:
                server.wait(END_S)
            except subprocess.TimeoutExpired:
                server.kill()


def _await(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail("JupyterLab did not start")


def _steer(url: str, shots: Path, *how: str) -> None:
    """Click through a session; every finding must be good, and there must be many."""
    seen = os.environ.get("WORKBENCH_SHOTS", str(shots))
    command = ["node", str(HERE / "scenario.js"), url, seen, str(shots / HOLD), *how]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
    print(done.stdout, done.stderr)
    findings = done.stdout.splitlines()
    assert done.returncode == 0, "\n".join(line for line in findings if not line.startswith("ok "))
    assert sum(line.startswith("ok ") for line in findings) >= 50


@pytest.mark.many(2)
@pytest.mark.browser
@pytest.mark.parametrize(
    ("theme", "subshells"),
    [
        pytest.param("light", "perCommTarget", marks=pytest.mark.xdist_group("light")),
        pytest.param("dark", "disabled", marks=pytest.mark.xdist_group("dark")),
    ],
)
def test_a_person_steers_a_session(
    serve: Callable[[str, str], str], tmp_path: Path, theme: str, subshells: str
) -> None:
    if reason := missing():
        pytest.skip(reason)
    _steer(serve(sys.executable, "jupyterlab"), tmp_path, theme, subshells, "lab")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.xdist_group("notebook")
def test_notebook_7_with_ipykernel_6(serve: Callable[[str, str], str], tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    python = os.environ.get(OLDER)
    if not python:
        pytest.skip(f"{OLDER} names no Python with Notebook 7 and ipykernel 6 (make browser makes one)")
    _steer(serve(python, "notebook"), tmp_path, "light", "disabled", "notebook")
