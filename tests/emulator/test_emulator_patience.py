"""A launch that never ends is noticed soon, and a long one is not mistaken for it."""

from workbench.emulator.patience import FIRST_CPU_S, LEAST_CPU_S, STILL_CPU_S, Patience, Watch


def test_patience_is_learnt_from_launches_before() -> None:
    patience = Patience()
    assert patience.limit_s(1, 10**9) == FIRST_CPU_S
    patience.took(4096, 0.0)
    assert patience.limit_s(4096, 10) == LEAST_CPU_S
    patience.took(1000, 2.0)
    assert patience.limit_s(10, 10) == 8.0
    assert patience.limit_s(1000, 10) == 200.0
    patience.took(1000, 0.1)
    assert patience.limit_s(1000, 10) == 200.0


def test_few_threads_may_do_what_many_have_done() -> None:
    """A grid that fits a card goes round many times where the card has one multiprocessor."""
    patience = Patience()
    patience.took(256 * 128, 11.0)
    assert patience.limit_s(256, 10) == 44.0


def test_a_first_launch_gets_what_its_tensors_can_need() -> None:
    assert Patience().limit_s(32, 100) < STILL_CPU_S + 0.1
    assert STILL_CPU_S + 1 < Patience().limit_s(256, 4100) < FIRST_CPU_S
    assert Patience().limit_s(129 * 256, 2 * 129 * 128) == FIRST_CPU_S


def first_hopeless(watch: Watch, ended_at: list[float], step_s: float = 0.25) -> float:
    """When a launch is given up whose blocks end at these times."""
    time_s = 0.0
    while not watch.hopeless(time_s, sum(one <= time_s for one in ended_at)):
        time_s += step_s
    return time_s


def test_a_launch_of_many_blocks_of_which_none_ends_is_given_up_early() -> None:
    assert first_hopeless(Watch(15.0, 129, 2), []) == STILL_CPU_S
    assert first_hopeless(Watch(15.0, 5, 2), []) == 5.25  # three rounds of it
    assert first_hopeless(Watch(15.0, 2, 2), []) == 15.25  # they may well end together
    assert first_hopeless(Watch(15.0, 129, 129), []) == 15.25


def test_a_block_that_does_not_end_is_given_up_when_the_others_were_quick() -> None:
    quick = [0.001 * block for block in range(128)]
    assert first_hopeless(Watch(15.0, 129, 2), quick) == 4.25
    slow = [2.0 * block for block in range(1, 6)]  # ten seconds for five of them
    assert first_hopeless(Watch(15.0, 6, 2), slow) == 18.25  # twice as long as two of the others


def test_a_steady_launch_has_four_times_its_time() -> None:
    ends_s = 0.5 * 99
    assert first_hopeless(Watch(15.0, 100, 2), [0.5 * block for block in range(100)]) > ends_s
    assert first_hopeless(Watch(15.0, 100, 2), [float(block) for block in range(100)]) == 15.25
