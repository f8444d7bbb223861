"""A test means the same every time: one known seed, no cache and no archive of the person who runs it.

Judgements, torch's and Python's random numbers, and hypothesis all follow ``$WORKBENCH_SEED``, 0 unless it is
set; another number asks whether a test's claim holds for other numbers too. The seeds of the suite of
cheats, which is also run by a command, are fresh there. Tests of the archive name a folder.

All processes of a run share one cache, empty at first: tests build what they test, and build once what every
kernel of the emulator needs (ten seconds of a compiler). ``make test`` names one for all its runs in
``$WORKBENCH_SUITE_CACHE``.
"""

import gc
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Sizes in exports are sympy's, which keeps a thousand results a function: too few for a run of tests, and an
# eighth of each export. Read when sympy is imported, which torch does.
os.environ.setdefault("SYMPY_CACHE_SIZE", "20000")
# As in the workers: workers/environment.py. Read when torch is imported.
os.environ.setdefault("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "0")

import pytest

from workbench.workers.keeping import end_with

if "PYTEST_XDIST_WORKER" in os.environ:
    end_with(os.getppid())  # a test that hangs would otherwise outlive whoever ended the run
os.environ["WORKBENCH_ARCHIVE"] = "off"
SEED = int(os.environ.setdefault("WORKBENCH_SEED", "0"))
QUICK = (
    "acts", "agents", "archive", "every_kth_case", "extension", "layers", "live", "model", "orchestrator",
    "plan", "profile", "search", "session", "syntax", "tree", "views",
)  # fmt: skip
"""Folders and files whose tests are short: they come last, so that processes end at about the same time."""
# An export of torch's makes so much that looking at each 20 000 still took a tenth.
gc.set_threshold(100_000, 20, 20)


def pytest_configure(config: pytest.Config) -> None:
    """What tests need before they are imported: two seconds a process, which no browser needs, and nobody who
    only hands tests to others."""
    if config.option.markexpr == "browser" or (config.getoption("numprocesses", None) and not _is_worker()):
        return
    import torch
    from hypothesis import settings

    settings.register_profile("suite", derandomize=SEED == 0)
    settings.load_profile("suite")
    torch.manual_seed(SEED)  # for what a module draws while it is imported
    torch.set_num_threads(1)  # the processes of a run share the cores


def _is_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-case", action="store_true", help="all cases of tests that are marked many")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that is marked ``many(k)`` every k-th case; all with ``--every-case`` or where it is named.

    The first is among them; with another seed others are. Cases that ``-m`` leaves out are not counted: among
    pairs that are crossed, which are in the main for the sweep, it would be chance whether any is met.
    """
    if config.getoption("--every-case") or config.option.keyword or any("::" in arg for arg in config.args):
        return
    seen: Counter[str] = Counter()
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        mark = item.get_closest_marker("many")
        name = item.nodeid.partition("[")[0]
        (kept if mark is None or (seen[name] - SEED) % mark.args[0] == 0 else left).append(item)
        seen[name] += 1
    items[:] = sorted(kept, key=lambda item: _place(item) in QUICK)
    config.hook.pytest_deselected(items=left)


def _place(item: pytest.Item) -> str:
    """The folder in ``tests``, or the file without its ends where it lies in none."""
    parts = item.nodeid.partition("::")[0].removeprefix("tests/").split("/")
    return parts[0].removeprefix("test_").removesuffix(".py")


def pytest_collection_finish() -> None:
    """What the imports of all tests have left stays: half a second for each look through it for garbage.

    Tests and benchmarks each put their folders first: once is enough for whoever looks for a module there.
    """
    sys.path[:] = dict.fromkeys(sys.path)
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _left_by_earlier_files() -> None:
    """What a file of tests keeps is not looked through while later ones run."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    random.seed(SEED)
    # torch.manual_seed also keeps the stack for a CUDA that is not there: for ever, and half a millisecond.
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(SEED)


@pytest.fixture(scope="session", autouse=True)
def cache_of_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that all processes of this run build into."""
    base = tmp_path_factory.getbasetemp()
    own = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder = Path(os.environ.get("WORKBENCH_SUITE_CACHE") or own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(folder))
        yield folder


@pytest.fixture
def own_cache(cache_of_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache where nothing is remembered, but for the kernels that the emulator has built."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (cache_of_run / "emulator").mkdir(parents=True, exist_ok=True)
    (folder / "emulator").symlink_to(cache_of_run / "emulator")
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder))
    return folder
