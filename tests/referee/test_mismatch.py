"""What is said of elements that are wrong, and of those that a kernel never writes."""

from workbench.model import Difference, WorstEntry
from workbench.referee.mismatch import mismatch, never_written


def told(shape: tuple[int, ...], elements: int, first: tuple[int, ...]) -> str:
    return never_written("c", [shape], 0, elements, first).message


def test_a_tail_is_called_one() -> None:
    assert told((4, 5), 2, (3, 3)).endswith(
        "the first at (3, 3): the last 2 of 20, a rest that the kernel leaves out"
    )
    assert told((4, 5), 1, (3, 4)).endswith("at (3, 4): the last 1 of 20, a rest that the kernel leaves out")


def test_others_are_not() -> None:
    assert told((4, 5), 2, (3, 2)) == "2 elements of the output are never written, the first at (3, 2)"
    assert told((4, 5), 20, (0, 0)).endswith(": none of its 20 is")
    assert told((1, 1), 1, (0, 0)).endswith(": it has no other")
    assert told((), 1, ()).endswith(": it has no other")


def wrong(output: int, ratio: float) -> Difference:
    worst = WorstEntry(index=(0,), expected=1.0, got=2.0)
    return Difference(
        output=output, max_abs=1.0, max_ratio=ratio, wrong_fraction=0.5, worst=(worst,), pattern="all"
    )


def test_which_of_several_outputs_is_wrong_is_said() -> None:
    both = mismatch("c", "normal", [wrong(0, 9.0), wrong(1, 0.5)])
    alone = mismatch("c", "normal", [wrong(0, 9.0)])
    assert both is not None and both.message.startswith("output 0: 50% of the elements are wrong on normal")
    assert alone is not None and alone.message.startswith("50% of the elements are wrong on normal inputs")
