"""Every test compiles into a cache folder of its own, so that nothing is remembered from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.workers import light


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("WORKBENCH_CACHE", str(folder))
    return folder


@pytest.fixture(scope="module", autouse=True)
def end_server() -> Iterator[None]:
    """Close the shared server after each module, so that it does not burden other tests."""
    yield
    light().close()
