"""A problem that no card of this kind has room for is refused once, before any kernel is written."""

import pytest
from softmax_problem import PROBLEM

from workbench.errors import ProblemError
from workbench.live.room import check_room
from workbench.model import H100


def test_a_problem_larger_than_the_card_is_refused_with_both_sizes() -> None:
    check_room(PROBLEM, H100)
    small = H100.model_copy(update={"dram_bytes": 10**9})
    with pytest.raises(ProblemError, match=r"at 4096x32768 the inputs need 0.5369 GB and the outputs 0.5369"):
        check_room(PROBLEM, small)
