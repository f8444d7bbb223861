"""Shared memory of a block: the compiler's part and the launch's."""

from __future__ import annotations

from workbench.model import Resources
from workbench.plan.steps import Launch
from workbench.views.launches import shared_bytes


def test_what_a_launch_asks_for_is_shared_memory_too() -> None:
    launch = Launch(kernel="k<1>", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=4096, args=(), line=1)
    entry = Resources(
        kernel="k<1>", registers=8, shared_bytes=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0
    )
    assert shared_bytes((launch,), entry) == 4096 + 32
    assert shared_bytes((), entry) == 32
    assert shared_bytes((launch,), entry.model_copy(update={"kernel": "k<2>"})) == 32
