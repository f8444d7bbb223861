"""A launch that never ends is noticed soon, and a long one is not mistaken for it."""

from workbench.emulator.runner import FIRST_CPU_S, LEAST_CPU_S, Patience


def test_patience_is_learnt_from_launches_before() -> None:
    patience = Patience()
    assert patience.limit_s(1) == FIRST_CPU_S
    patience.took(4096, 0.0)
    assert patience.limit_s(4096) == LEAST_CPU_S
    patience.took(1000, 2.0)
    assert patience.limit_s(10) == LEAST_CPU_S
    assert patience.limit_s(1000) == 200.0
    patience.took(1000, 0.1)
    assert patience.limit_s(1000) == 200.0
