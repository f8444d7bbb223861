"""From what was seen to an outcome; which calls are asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from softmax_problem import PROBLEM

from workbench.foreign import cases, tripwires, verdicts
from workbench.foreign.protocol import Called, OutputFacts, RaisedInside, Weighed
from workbench.foreign.values import Provenance, Share

SLOT: dict[str, Any] = {"dtype": "f32", "torch": "torch.float32", "shape": [2, 3], "offset": 0}
GOOD = OutputFacts(type="torch.Tensor", dtype="torch.float32", shape=(2, 3), strides=(3, 1), device="cpu")


def told(facts: OutputFacts) -> str:
    found = verdicts.form(Called(outputs=(facts,)), [SLOT], "2x3", "cpu")
    return found.message if found else ""


def test_a_plain_output_is_fine() -> None:
    assert told(GOOD) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "lazy.Tensor"}, "not a plain torch.Tensor"),
        ({"shape": (3, 2)}, "has shape (3, 2)"),
        ({"dtype": "torch.float64"}, "is torch.float64, not torch.float32"),
        ({"device": "cuda"}, "lies on cuda"),
        ({"view_of": "input x"}, "shares the memory of input x"),
        ({"overlaps": True}, "share memory"),
    ],
)
def test_forms(change: dict[str, Any], message: str) -> None:
    assert message in told(GOOD.model_copy(update=change))


def test_number_of_outputs() -> None:
    found = verdicts.form(Called(outputs=(GOOD, GOOD)), [SLOT], "2x3", "cpu")
    assert found is not None and "returns 2 outputs, the reference 1" in found.message


def test_wires() -> None:
    assert verdicts.wires(Called(settings=("threads",))) is None
    assert "replaced torch.equal" in str(verdicts.wires(Called(replaced=("torch.equal",))))
    assert "global setting" in str(verdicts.wires(Called(precision=("allow_tf32 from False to True",))))


def test_remarks() -> None:
    padded = GOOD.model_copy(update={"strides": (8, 1)})
    assert list(verdicts.remarks(Called(outputs=(GOOD,)))) == []
    assert list(verdicts.remarks(Called(outputs=(padded,)))) == ["an output is not contiguous"]


def test_inputs_that_come_back() -> None:
    sent = torch.tensor([1.0, float("nan")])
    assert verdicts.inputs_back("x", "2", sent.clone(), sent) is None
    changed = verdicts.inputs_back("x", "2", torch.zeros(2), sent)
    assert changed is not None and changed.kind == "hazard"
    nothing = torch.full((8,), verdicts.POISON, dtype=torch.uint8).view(torch.float32)
    forged = verdicts.inputs_back("x", "2", nothing, sent)
    assert forged is not None and forged.kind == "suspect"


def test_weights() -> None:
    assert verdicts.weights(Weighed(more=("table",)), "2x3") is None
    missing = verdicts.weights(Weighed(missing=("linear.weight",)), "2x3")
    assert missing is not None and "ModelNew has no linear.weight" in str(missing)
    assert "differ" in str(verdicts.weights(Weighed(unlike=("gain is (3,), not (4,)",)), "2x3"))


def test_the_error_line_of_a_build_is_shown() -> None:
    raised = RaisedInside(
        type="RuntimeError", message="ninja: building\nmain.cpp:3: error: no x\nmore", line=7
    )
    (found,) = verdicts.diagnostics(raised)
    assert (found.line, found.message) == (7, "RuntimeError: main.cpp:3: error: no x")


def test_nothing_acts_on_the_terminal() -> None:
    raised = RaisedInside(type="E", message="\x1b[2Jpassed\r" + "x" * 5000, line=1)
    assert raised.message.startswith("?[2Jpassed?") and len(raised.message) == 2000


def test_ghosts() -> None:
    softmax = (Share(name="aten::softmax", percent=100, kind="library"),)
    assert verdicts.ghost(Provenance(shares=softmax)) is None
    assert verdicts.ghost(Provenance(shares=softmax, claims=("jit",), own_calls=("k",))) is None
    found = verdicts.ghost(Provenance(shares=softmax, claims=("load_inline",)))
    assert found is not None and "aten::softmax does 100% of the time" in found.message


@pytest.mark.parametrize(
    ("shape", "strides", "overlap"),
    [((2, 3), (3, 1), False), ((2, 3), (0, 1), True), ((2, 3), (8, 1), False), ((4, 4), (2, 1), True),
     ((1, 3), (0, 1), False), ((2, 3), (1, 2), False)],
)  # fmt: skip
def test_overlap(shape: tuple[int, ...], strides: tuple[int, ...], overlap: bool) -> None:
    assert tripwires.overlaps(torch.zeros(64).as_strided(shape, strides)) is overlap


def test_flags_are_seen_to_change() -> None:
    before = tripwires.flags()
    torch.set_default_dtype(torch.float64)
    try:
        assert tripwires.changed(before, tripwires.flags()) == [
            "torch.get_default_dtype() from torch.float32 to torch.float64"
        ]
    finally:
        torch.set_default_dtype(torch.float32)
    assert tripwires.replaced() == []


def test_seeds_follow_the_base_only() -> None:
    assert cases.seed(1, 2) == cases.seed(1, 2) != cases.seed(2, 2)


def test_long_runs_fit_memory() -> None:

    assert cases.run_length(100, 1000) == 1000
    assert cases.run_length(cases.LARGEST_RUN_BYTES // 10, 1000) == 10
    assert cases.run_length(2 * cases.LARGEST_RUN_BYTES, 1000) > cases.POOL


def test_every_kind_of_input_meets_the_main_case() -> None:

    tried = cases.cases_of(PROBLEM, 2**20)
    calls = cases.calls_of(PROBLEM, tried, 7)
    kinds = [call.inputs for call in calls if call.case == tried[0]]
    assert len(set(kinds)) == len(kinds) >= 8
    assert {call.case for call in calls} == set(tried)
    assert len({call.seed for call in calls}) == len(calls)
