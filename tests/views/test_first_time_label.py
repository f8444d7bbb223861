"""A branch that is still being judged shows its first time, and says how little it is worth."""

from __future__ import annotations

from toy import judged, opened, proposed, written

from workbench.events import CaseTimed
from workbench.model import BranchId, CaseTime
from workbench.tree import fold
from workbench.views.project import project

B1 = BranchId("b1")


def label(*baselines: tuple[str, float], verdict: bool = False) -> str:
    time = CaseTime(case="8", source="measured", time_us=20.0, baselines=baselines, floor_us=10.0)
    tree = fold([opened(), proposed("b1"), written("b1", "// us 50"), CaseTimed(branch=B1, time=time)])
    if verdict:
        tree = tree.apply(judged("b1", "// us 50"))
    (row,) = project(tree)["rows"]
    return str(row["label"])


def test_a_first_time_is_labelled_until_the_verdict() -> None:
    assert label(("eager", 28.0)) == "1.40x eager so far (measured)"
    assert label(("eager", 28.0), verdict=True) == "2.00x (model)"


def test_a_first_time_against_nobody_is_not_shown() -> None:
    assert label() == ""
