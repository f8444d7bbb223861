"""The servers the process shares, and torch in their children."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.workers import ForkServer, Limits, Raised, Returned, torch_ready


@pytest.fixture(autouse=True)
def tasks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children get the caller's module path."""
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """The shared server, closed again so that it does not burden the next tests."""
    yield torch_ready()
    torch_ready().close()


def test_is_shared(server: ForkServer) -> None:
    assert torch_ready() is server


def test_child_has_torch_and_one_thread(server: ForkServer) -> None:
    seen = server.call("misbehaviour:facts", b"", Limits())
    assert isinstance(seen, Returned)
    facts = json.loads(seen.payload)
    assert "torch" in facts["modules"] and facts["threads"] == 1


def test_parallel_operations_work_after_a_fork(server: ForkServer) -> None:
    for _ in range(2):
        assert server.call("misbehaviour:torch_sum", b"512", Limits(wall_s=60)) == Returned(
            payload=b"134217728"
        )


def test_memory_limit_counts_from_the_loaded_child(server: ForkServer) -> None:
    small = Limits(memory_bytes=2**27)
    assert server.call("misbehaviour:torch_allocate", str(2**26).encode(), small) == Returned(
        payload=b"67108864"
    )
    result = server.call("misbehaviour:torch_allocate", str(2**28).encode(), small)
    assert isinstance(result, Raised) and "allocate" in result.message
