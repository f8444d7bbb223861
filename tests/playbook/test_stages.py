"""Which kernels wait for which: for what they read, and for nobody who writes beside them."""

from workbench.playbook.analysis.stages import stages_of
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import ONE, Size, Sizes
from workbench.playbook.ir.views import Axis, View

SIZES = Sizes(("n",))
N = SIZES.read("n")


def copied(pool: Pool, source: str, target: str, start: Size) -> Kernel:
    """A line of one buffer put into another from ``start`` on."""
    line = View((Axis(N, ONE),))
    value = pool.load(source, "f32", line)
    return Kernel([Store(target, value, View(line.axes, start), ONE, N, "flat")])


def test_pieces_of_one_buffer_are_written_in_any_order() -> None:
    pool = Pool(SIZES)
    start = N + -N
    kernels = [
        copied(pool, "x", "mean", start),
        copied(pool, "mean", "both", start),
        copied(pool, "mean", "both", N),
        copied(pool, "both", "out", start),
    ]
    assert stages_of(kernels) == [[0], [1, 2], [3]]


def test_what_is_read_is_not_written_before_it_was() -> None:
    pool = Pool(SIZES)
    start = N + -N
    assert stages_of([copied(pool, "x", "y", start), copied(pool, "z", "x", start)]) == [[0], [1]]
