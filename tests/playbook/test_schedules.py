"""Schedules are changed as dataclasses are, only sooner."""

from dataclasses import replace

import pytest

from workbench.playbook.schedules.schedule import Schedule


def test_a_schedule_with_other_values_is_what_a_dataclass_would_be() -> None:
    plain = Schedule(threads=512)
    changed = plain.but(team="warp", cache="shared")
    assert changed == replace(plain, team="warp", cache="shared") and hash(changed) != hash(plain)
    assert plain == Schedule(threads=512), "the first is as it was"


def test_a_schedule_has_no_other_names() -> None:
    with pytest.raises(TypeError, match="a schedule has no thread"):
        Schedule().but(thread=1)
