"""Baselines as acts: the reference called bare, with the tensors of each copy, on the CPU."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from softmax_problem import PROBLEM

from tests.playbook.problems import Call, problem_of
from workbench.model import H100, Case, Problem
from workbench.problem.form import Argument, Form
from workbench.problem.reference import Reference
from workbench.referee.clock import contestants
from workbench.referee.clock.contestants import EAGER, GRAPH_OF_EAGER, Baselines, told
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.physics import physics_of
from workbench.referee.clock.rotation import rotated, rotations
from workbench.referee.clock.sanity import PART, parts_of, unlike
from workbench.referee.clock.suspicion import beyond_physics


def argument(name: str) -> Argument:
    return Argument(name, "", None, is_tensor=True)


@torch.no_grad()
def test_weights_rotate_with_the_inputs_and_come_back() -> None:
    layer = torch.nn.Linear(8, 4).eval()
    own = layer.weight.detach().clone()
    form = Form(layer, (argument("x"),))
    baselines = Baselines(form)

    def fresh(scale: float) -> Mapping[str, torch.Tensor]:
        held = {name: torch.full_like(one.value.detach(), scale) for name, one in form.held.items()}
        return {"x": torch.ones(2, 8), **held}

    acts, missing = baselines.acts((EAGER,), [fresh(1.0), fresh(2.0)])
    assert missing == ()
    assert [float(acts[EAGER](turn)[0][0, 0]) for turn in (0, 1, 2)] == [9.0, 18.0, 9.0]
    baselines.close()
    assert torch.equal(layer.weight, own)


@torch.no_grad()
def test_a_baseline_that_cannot_be_had_is_missing_with_its_reason() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("only on Tuesdays\nand more")

    acts, missing = Baselines(Form(picky, (argument("x"),))).acts((EAGER,), [{"x": torch.ones(2)}])
    assert acts == {}
    assert missing == ((EAGER, "ValueError: only on Tuesdays"),)
    reference = Reference(PROBLEM)
    if not torch.cuda.is_available():
        acts, missing = Baselines(reference.form).acts((EAGER, GRAPH_OF_EAGER), [{"x": torch.randn(3, 4)}])
        assert list(acts) == [EAGER]
        assert missing[0][0] == GRAPH_OF_EAGER
    assert told(RuntimeError("")) == "RuntimeError: no message"


def test_the_compiler_keeps_to_the_workbenchs_own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_COMPILE_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path))
    contestants.prepare_inductor()
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
    assert inductor.compile_threads == 1
    assert dynamo.fail_on_recompile_limit_hit, "it would silently run eagerly"


@pytest.mark.parametrize(
    "advice",
    [
        "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled.",
        "\nOnline softmax is disabled on the fly since Inductor decides to\nsplit the reduction.",
        "TypedStorage is deprecated. It will be removed in the future",
    ],
)
def test_the_compilers_advice_is_nobodys_error(advice: str) -> None:
    """As seen on an H100, where the first of them ended a baseline in the tests."""
    with pytest.raises(UserWarning):
        warnings.warn(advice, stacklevel=1)
    contestants.prepare_inductor()
    warnings.warn(advice, stacklevel=1)
    with pytest.raises(UserWarning):
        warnings.warn("something else about the person's own code", stacklevel=1)


# ------------------------------------------------------------------------------------ copies of the inputs


def test_small_inputs_are_rotated_over_more_than_l2_and_large_ones_not_copied() -> None:
    options = ClockOptions()
    assert rotations(300_000_000, options) == 1
    assert rotations(64 * 2**20, options) == 5
    assert rotations(1000, options) == options.rotations
    assert rotations(0, options) == 1


def test_a_copy_lies_as_its_original_does() -> None:
    options = ClockOptions(rotate_bytes=4000)
    whole = torch.arange(400, dtype=torch.float32)
    odd = whole[3:203].reshape(10, 20).t()
    sets = rotated({"x": odd}, options)
    assert len(sets) == rotations(1600, options) > 2
    assert sets[0]["x"] is odd
    for one in sets[1:]:
        copy = one["x"]
        assert torch.equal(copy, odd)
        assert copy.stride() == odd.stride() and copy.storage_offset() == odd.storage_offset()
        assert copy.data_ptr() != odd.data_ptr()


# ------------------------------------------------------------------------------------ outputs after timing


def test_the_same_result_in_another_order_is_the_same_and_other_data_is_not() -> None:
    x = torch.randn(1000)
    assert unlike((x,), (x * (1 + 1e-3),)) == ""
    assert unlike((x,), (x, x)) == "1 outputs where there are 2"
    assert unlike((x,), (x.double(),)).startswith("output 0 is torch.float32")
    assert "off by" in unlike((x,), (x.flip(0),))
    assert "NaN" in unlike((torch.where(x > 2, torch.nan, x),), (x,))
    ties = torch.zeros(1000, dtype=torch.int64)
    ties[5] = 1
    assert unlike((ties,), (torch.zeros_like(ties),)) == ""
    assert "differs in 1000 of 1000" in unlike((ties + 7,), (torch.zeros_like(ties),))


def test_a_large_output_is_thinned_out_but_every_column_is_met() -> None:
    large = torch.zeros(4 * PART)
    (part,) = parts_of((large,))
    assert part.numel() <= PART
    large[::2] = 1.0
    (part,) = parts_of((large,))
    assert 0.4 < float(part.mean()) < 0.6


# ------------------------------------------------------------------------------------ physics


def test_physics_counts_what_must_be_moved_and_nothing_else() -> None:
    declared = PROBLEM.cases[0]
    found = physics_of(PROBLEM, declared, H100)
    nbytes = 4096 * 32768 * 4
    assert found.dram_bytes == nbytes + nbytes - H100.l2_bytes
    assert found.flops == 0.0
    assert 300.0 < found.least_us < 320.0
    gathered = _with_op("aten.gather.default")
    assert physics_of(gathered, declared, H100).dram_bytes == nbytes - H100.l2_bytes


def test_a_copy_measured_in_a_bad_moment_makes_no_kernel_suspect() -> None:
    declared, slow = PROBLEM.cases[0], H100.model_copy(update={"dram_bytes_per_s": 2.63e12})
    moved = physics_of(PROBLEM, declared, H100).dram_bytes
    honest_us = 1e6 * moved / 2.98e12  # a softmax of 12 GB, on a card whose bus has 3.35 TB/s
    assert "2.98 TB/s" in beyond_physics(honest_us, physics_of(PROBLEM, declared, slow))
    assert not beyond_physics(honest_us, physics_of(PROBLEM, declared, slow, 3.352e12))
    assert beyond_physics(1e6 * moved / 3.4e12, physics_of(PROBLEM, declared, slow, 3.352e12))


def test_what_a_mask_hides_need_not_be_read_however_it_is_scaled_before() -> None:
    def bytes_of(call: Call) -> float:
        problem = problem_of(call, {"x": torch.randn(64, 64)})
        return physics_of(problem, problem.cases[0], H100).dram_bytes

    def scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"] * 0.125

    assert bytes_of(lambda t: scaled(t).tril().softmax(1)) == 0.0
    assert bytes_of(lambda t: ((y := scaled(t)).tril().softmax(1), y)) == 64 * 64 * 4
    assert bytes_of(lambda t: scaled(t).softmax(1).tril().softmax(1)) == 64 * 64 * 4


def test_a_small_output_may_stay_in_l2() -> None:
    small = Case(label="8x8", sizes=(("s0", 8), ("s1", 8)))
    assert physics_of(PROBLEM, small, H100).dram_bytes == 256


def _with_op(op: str) -> Problem:
    """Every reader of the input replaced by one that may leave parts of it unread."""
    nodes = tuple(
        node.model_copy(update={"op": op})
        if any(getattr(arg, "ref", "") == "x" for arg in node.args)
        else node
        for node in PROBLEM.graph.nodes
    )
    return PROBLEM.model_copy(update={"graph": PROBLEM.graph.model_copy(update={"nodes": nodes})})
