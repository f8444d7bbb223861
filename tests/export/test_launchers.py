"""The C++ that starts a kernel: what a launch beyond the usual has to ask for first."""

from __future__ import annotations

from workbench.export.launchers import Launcher, host_text
from workbench.plan.steps import Launch


def launched(blocks: int) -> str:
    step = Launch(
        kernel="meet",
        grid=(32, 1, 1),
        block=(64, 1, 1),
        cluster=(blocks, 1, 1),
        cooperative=False,
        shared_bytes=0,
        args=(),
        consts=(),
        line=1,
    )
    return host_text([Launcher("start", step, "sizes_0", ())])


def test_clusters_that_not_every_card_has_room_for_are_allowed_first() -> None:
    allowed = "cudaFuncAttributeNonPortableClusterSizeAllowed, 1)"
    assert launched(16).index(allowed) < launched(16).index("cudaLaunchKernelEx")
    assert allowed not in launched(8)
