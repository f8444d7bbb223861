"""What the views are given: golden files, and JSON that any reader takes."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import story
import torch

from tests.playbook.problems import problem_of
from workbench.events import BranchProposed, CaseTimed, RoundsRequested, RoundStarted, SearchStopped
from workbench.model import H100, Branch, BranchId
from workbench.policy import Policy
from workbench.tree import Tree, fold
from workbench.views.compare import compare
from workbench.views.detail import detail
from workbench.views.differences import differences
from workbench.views.numbers import heat_level
from workbench.views.progress import STAGES
from workbench.views.project import project
from workbench.views.teaching import teaching

GOLDEN = Path(__file__).parent / "golden"


def check_golden(name: str, value: Any) -> None:
    """Compare with the file; ``WORKBENCH_GOLDEN=write`` writes it anew, for a person to read the diff."""
    for technique in value.get("techniques", ()) if "detail" in name else ():
        # The paragraph is the playbook's to write: a better sentence there changes no view.
        assert technique["teaches"] == teaching(technique["name"]).paragraph
        technique["teaches"] = "..." if technique["teaches"] else ""
    path = GOLDEN / f"{name}.json"
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    if os.environ.get("WORKBENCH_GOLDEN") == "write":
        path.write_text(text)
    assert json.loads(text) == json.loads(path.read_text())


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rows_are_golden(rounds: int) -> None:
    check_golden(f"project-{rounds}", project(story.tree(rounds)))


@pytest.mark.parametrize("branch", ["b3", "b4", "b5", "b9"])
def test_details_are_golden(branch: str) -> None:
    check_golden(f"detail-{branch}", detail(story.tree(), branch))


def test_a_measured_branch_is_golden() -> None:
    check_golden("detail-measured-b3", detail(story.measured_tree(), BranchId("b3")))


def test_a_comparison_is_golden() -> None:
    check_golden("compare-b1-b4-b5", compare(story.tree(), tuple(map(BranchId, ("b1", "b4", "b5")))))


def test_a_difference_marks_the_words_that_changed() -> None:
    found = differences(story.tree(), BranchId("b4"), "b1")
    changed = {text(line)[a:b] for line in found["lines"] for a, b in line["marks"]}
    assert {"256", "512", "1", "4"} <= changed


def test_the_roofline_shows_the_way_of_a_branch() -> None:
    found = detail(story.tree(), "b4")["rooflines"][0]
    assert [point["id"] for point in found["points"]] == ["b3.1", "b4"]  # b3 never ran
    assert all(point["y"] <= found["ideal"]["y"] for point in found["points"])
    assert all(point["y"] <= point["x"] + found["bandwidth"] + 1e-3 for point in found["points"])


def test_products_have_the_roof_of_the_fastest_unit_of_their_contract() -> None:
    def peak(tree: Tree) -> float:
        return float(10 ** detail(tree, "b4")["rooflines"][0]["peak"])

    tree = story.tree()
    assert tree.opened is not None and peak(tree) == pytest.approx(H100.fp32_flops_per_s)
    made = problem_of(lambda t: t["x"] @ t["x"].mT, {"x": torch.empty(64, 64)}, varying=False)
    problem = made.model_copy(update={"cases": tree.opened.problem.cases})
    other = replace(tree, opened=tree.opened.model_copy(update={"problem": problem}))
    assert peak(other) == pytest.approx(3 * H100.fp32_flops_per_s)


def test_the_other_parents_lie_beside_the_way() -> None:
    found = detail(story.measured_tree(), BranchId("b3"))
    assert [parent["id"] for parent in found["parents"]] == ["b1", "b2"]
    roofline = found["rooflines"][0]
    assert [point["id"] for point in roofline["points"]] == ["b1", "b3"]
    assert [point["id"] for point in roofline["others"]] == ["b2"]


def test_what_was_seen_before_stands_apart_from_the_evidence() -> None:
    known = "seen before: 1.40x found where 1.20x was predicted (3 times)"
    first = story.events(0)[0]
    seed = story.card("Four floats", "vector_width", story.FLOAT4, 1.2)
    card = seed.model_copy(update={"evidence": ("1.6 GB planned", known)})
    branch = Branch(
        id=BranchId("b1"), parents=(), round=1, operator="seed", hypothesis=card, author="playbook"
    )  # fmt: skip
    found = detail(fold((first, RoundStarted(round=1), BranchProposed(branch=branch))), branch.id)[
        "hypothesis"
    ]
    assert found["evidence"] == ["1.6 GB planned"]
    assert found["seen"] == [known.removeprefix("seen before: ")]


def test_a_first_time_is_shown_before_the_verdict() -> None:
    tree = story.tree()
    measured = story.measured_tree().nodes[BranchId("b3")].evaluation
    assert measured
    early = detail(tree.apply(CaseTimed(branch=BranchId("b8"), time=measured.times[0])), BranchId("b8"))
    assert [time["case"] for time in early["times"]] == ["4096x32768"]
    assert early["speed"] is None and early["row"]["label"].endswith("so far (measured)")


def test_occupancy_says_what_limits_it() -> None:
    by_branch = {id: detail(story.tree(), id)["compile"]["kernels"][0]["occupancy"] for id in ("b1", "b4")}
    assert by_branch["b1"]["limit"] == "full"
    assert by_branch["b4"] is None  # its report is of another kernel than it launches


def test_every_detail_is_strict_json() -> None:
    tree = story.tree()
    for branch in tree.nodes:
        json.loads(json.dumps(detail(tree, branch), allow_nan=False))


def test_an_empty_tree_is_a_view_too() -> None:
    view = project(Tree())
    assert view["rows"] == []
    assert view["state"]["kind"] == "opening"


def test_parents_come_before_their_children() -> None:
    seen: set[str] = set()
    for row in project(story.tree())["rows"]:
        assert not row["parents"] or row["parents"][0] in seen
        seen.add(row["id"])


def test_shape_words_and_tone_differ_for_every_verdict() -> None:
    rows = project(story.tree())["rows"]
    looks = {row["verdict"] or row["stage"]: (row["shape"], row["words"]) for row in rows if not row["best"]}
    assert len({shape for shape, _ in looks.values()}) == len(looks)
    assert len({words for _, words in looks.values()}) == len(looks)


def test_a_modelled_score_says_so() -> None:
    labels = [row["label"] for row in project(story.tree())["rows"] if row["label"]]
    assert labels
    assert all(label.endswith("(model)") for label in labels)


def test_the_gate_is_told_in_words() -> None:
    events = story.events(2)
    manual = events[0].model_copy(update={"policy": Policy(review="manual", rounds=1)})
    asking = fold((manual, RoundsRequested(rounds=1, by="person"), *events[1:]))
    assert project(asking)["state"]["kind"] == "waiting"
    stopped = story.tree().apply(SearchStopped(reason="all 3 rounds are done"))
    assert project(stopped)["state"]["words"] == "stopped: all 3 rounds are done"
    progress = project(stopped)["progress"]
    busy = [node for node in stopped.nodes.values() if node.stage in STAGES and not node.settled]
    assert busy and progress["expected"] == progress["settled"] + len(busy)  # these are finished, no other


def test_progress_foresees_the_rounds_to_come() -> None:
    early = project(story.tree(1))["progress"]
    assert early["settled"] == 4
    assert early["expected"] == 4 + 2 * 4
    assert early["eta_s"] == 8 * 2.0 / 2


def text(entry: dict[str, Any]) -> str:
    """The line of a difference, from its runs."""
    return "".join(part for _, part in entry["runs"])


def test_the_diff_gives_the_child_back() -> None:
    tree = story.tree()
    node, parent = tree.nodes["b4"], tree.nodes["b3.1"]
    assert node.draft and parent.draft
    entries = detail(tree, "b4")["diff"]
    old = {e["old"]: text(e) for e in entries if e["tag"] in ("same", "removed")}
    new = {e["new"]: text(e) for e in entries if e["tag"] in ("same", "added")}
    assert all(parent.draft.kernel.source.split("\n")[n - 1] == text for n, text in old.items())
    assert all(node.draft.kernel.source.split("\n")[n - 1] == text for n, text in new.items())
    assert any(e["tag"] == "added" for e in entries)


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (0.0, 0),
        (1e-4, 1),
        (0.5, 4),
        (1.0, 4),
        (1.01, 5),
        (50.0, 6),
        (1e5, 7),
        (1e6, 8),
        (math.nan, 8),
        (math.inf, 8),
    ],
)
def test_the_heatmap_tells_within_from_beyond(ratio: float, level: int) -> None:
    assert heat_level(ratio) == level


def test_wasteful_lines_are_pointed_out() -> None:
    counted = detail(story.tree(), "b4")["line_counts"]
    assert counted == [
        {
            "line": 25,
            "label": "8 sectors a request",
            "words": "64 requests of a warp moved 512 sectors; 256 would do",
            "wasteful": True,
        }
    ]


def test_a_replay_names_its_recording_and_where_that_was_made() -> None:
    first = story.events(0)[0].model_copy(
        update={"brain": "replay:/some/where/softmax.jsonl", "device": "cuda"}
    )
    words = project(fold([first]))["subtitle"]
    assert words.startswith("replay of softmax.jsonl, recorded on NVIDIA H100")
    assert "times are measured" in words
