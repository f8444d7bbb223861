"""Blocks that wait for one another must all be on the card: judged from the registers the compiler gave."""

from workbench.model import H100, CompileReport, Resources, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.referee.occupancy import not_together

SOURCE = """/* plan
def plan(x):
    y = empty_like(x)
    launch("meet", grid=264, block=512, args=[x, y], cooperative=True)
    return y
*/
__global__ void meet(const float* x, float* y) {}
"""
PLAN = interpret(parse(SOURCE), {"x": TensorMeta(dtype="f32", shape=(8,), strides=(1,))}, H100)


def report(registers: int, shared_bytes: int = 0) -> CompileReport:
    entry = Resources(
        kernel="meet", registers=registers, shared_bytes=shared_bytes, spill_store_bytes=0,
        spill_load_bytes=0, stack_bytes=0,
    )  # fmt: skip
    return CompileReport(arch="sm_90a", kernels=(entry,), seconds=0.0, cached=False, nvrtc="13.0")


def test_blocks_that_fit_are_let_through() -> None:
    assert not_together(H100, PLAN, report(64)) is None


def test_too_many_registers_are_told_with_the_line() -> None:
    told = not_together(H100, PLAN, report(72))
    assert told is not None and told.line == 4
    assert told.message == (
        "meet: 264 blocks that wait for one another, cooperative=True; with 72 registers a thread, "
        "0 bytes of shared memory, 132 fit on this card at once"
    )


def test_shared_memory_counts_too() -> None:
    assert not_together(H100, PLAN, report(32, 48 * 1024)) is None
    assert not_together(H100, PLAN, report(32, 130 * 1024)) is not None
