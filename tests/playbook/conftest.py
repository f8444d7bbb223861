"""A cache of their own, so that these tests compile what they test."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="package", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(folder))
        yield folder
