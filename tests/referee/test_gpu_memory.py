"""Guarded inputs and fingerprints, and the bounds of a large case slice by slice; on the CPU."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from softmax_problem import PROBLEM, case
from torch import Tensor

from workbench.model import DType, Problem, TensorMeta
from workbench.numerics.kinds import InputKind
from workbench.plan.steps import Plan
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee import gpu_expectation, gpu_trial
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.gpu_memory import fingerprint, guarded
from workbench.referee.matrix import PlannedCheck
from workbench.referee.protocol import Trial


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64", "bool"])
@pytest.mark.parametrize("alignment", [256, 16, 8])
def test_an_address_has_its_alignment_and_no_larger_one(dtype: DType, alignment: int) -> None:
    meta = TensorMeta(dtype=dtype, shape=(3, 5), strides=(5, 1), alignment=alignment)
    one = guarded("x", meta, "cpu")
    assert one.tensor.data_ptr() % alignment == 0
    assert alignment == 256 or one.tensor.data_ptr() % (2 * alignment) != 0
    assert one.tensor.shape == (3, 5) and not one.broken_guard()


@pytest.mark.parametrize("offset", [-1, 15, 300])
def test_a_write_beside_the_tensor_is_seen(offset: int) -> None:
    one = guarded("x", TensorMeta(dtype="f32", shape=(3, 5), strides=(5, 1)), "cpu")
    one.tensor.zero_()
    before = int(one.fingerprint())
    one.raw.view(torch.float32)[one.start // 4 + offset] = 1.0
    assert one.broken_guard() and int(one.fingerprint()) != before


def test_a_read_beside_the_tensor_gives_nan() -> None:
    one = guarded("x", TensorMeta(dtype="f32", shape=(4,), strides=(1,)), "cpu")
    assert one.raw.view(torch.float32)[one.start // 4 + 4].isnan()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.__setitem__(3, 7.0),
        lambda t: t.copy_(t.flip(0)),
        lambda t: t.__setitem__(0, -0.0),
        lambda t: t.zero_(),
    ],
)
def test_a_fingerprint_sees_every_bit_and_place(change: object) -> None:
    values = torch.arange(0.0, 1000.0)
    before = int(fingerprint(values))
    assert int(fingerprint(values.clone())) == before
    change(values)  # type: ignore[operator]
    assert int(fingerprint(values)) != before


def test_a_zero_that_stands_for_all_elements_has_a_fingerprint() -> None:
    """Errors of what is exact are one number in memory, which has no stride."""
    for shape in ((), (1,), (1, 1), (3, 5)):
        zeros = torch.zeros((), dtype=torch.float64).expand(shape)
        assert int(fingerprint(zeros)) == int(fingerprint(torch.zeros(shape, dtype=torch.float64)))


def test_bounds_of_one_index_are_kept() -> None:
    problem = open_problem(read_cell(LARGEST))
    trial = Trial(
        case=problem.cases[0],
        plan=Plan(arguments=tuple(problem.metas(problem.cases[0]).items()), steps=(), outputs=()),
    )
    expectations = Expectations(problem, "cpu")
    prepared = expectations.prepare(PlannedCheck(trial, "normal", 5, "plain"))
    assert prepared is not None and prepared.bounds
    assert expectations.prepare(PlannedCheck(trial, "normal", 5, "plain")) is prepared


def test_fingerprints_go_on_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(1000)
    whole = int(fingerprint(values))
    monkeypatch.setattr("workbench.referee.gpu_memory.PIECE", 64)
    assert int(fingerprint(values)) == whole


LARGEST = """
import torch

def largest(x: torch.Tensor) -> torch.Tensor:
    return x.argmax(1)

inputs = [torch.randn(1, 33)]
"""


# ------------------------------------------------------------------------------------ slices


def check(rows: int, columns: int, kind: InputKind = "normal") -> PlannedCheck:
    wide = case(rows, columns, declared=True)
    plan = Plan(arguments=tuple(PROBLEM.metas(wide).items()), steps=(), outputs=())
    return PlannedCheck(Trial(case=wide, plan=plan), kind, 5, "plain")


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_expectation, "SLICE_ELEMENTS", 500)
    monkeypatch.setattr(gpu_expectation, "DRAWN_ON_CPU", 100)


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=1)


@pytest.mark.usefixtures("small_slices")
def test_slices_together_judge_as_the_whole_does() -> None:
    expectations = Expectations(PROBLEM, "cpu")
    prepared = expectations.prepare(check(50, 64))
    assert prepared is not None and prepared.bounds == ()
    (right,) = expectations.differences(prepared, (softmax(prepared.tensors["x"]),))
    assert 0 < right.max_ratio < 1 and right.wrong_fraction == 0
    spoilt = softmax(prepared.tensors["x"])
    spoilt[37, 3] += 0.1
    (wrong,) = expectations.differences(prepared, (spoilt,))
    assert wrong.max_ratio > 1 and wrong.worst[0].index == (37, 3)
    assert wrong.wrong_fraction == pytest.approx(1 / (50 * 64))
    assert "rows 35 to 41" in wrong.pattern


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("kind", ["normal", "offset", "heavy-tailed"])
def test_drawing_on_a_device_is_repeatable(kind: InputKind) -> None:
    first = Expectations(PROBLEM, "cpu").prepare(check(50, 64, kind))
    again = Expectations(PROBLEM, "cpu").prepare(check(50, 64, kind))
    assert first is not None and again is not None
    assert torch.equal(first.tensors["x"], again.tensors["x"])
    assert first.tensors["x"].std() > 0.5


def test_too_large_for_float64_is_held_to_the_reference_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_expectation, "SLICE_ELEMENTS", 10)
    monkeypatch.setattr(gpu_expectation, "WHOLE_ELEMENTS", 20)
    problem = PROBLEM.model_copy(update={"source": PROBLEM.source.replace("dim=1", "dim=0")})
    expectations = Expectations(problem, "cpu")
    prepared = expectations.prepare(check(50, 64))
    assert prepared is not None and "own" in prepared.note
    x = prepared.tensors["x"]
    (right,) = expectations.differences(prepared, (torch.softmax(x, dim=0),))
    (wrong,) = expectations.differences(prepared, (torch.softmax(x.half(), dim=0).float(),))
    assert right.max_ratio <= 1 < wrong.max_ratio
    monkeypatch.setattr(gpu_expectation, "PART_ELEMENTS", 64 * 7)
    spoilt = torch.softmax(x, dim=0)
    assert expectations.differences(prepared, (spoilt,))[0].max_ratio == right.max_ratio
    spoilt[37, 3] += 0.1
    (told,) = expectations.differences(prepared, (spoilt,))
    assert told.worst[0].index == (37, 3) and "rows 35 to 41" in told.pattern
    assert told.wrong_fraction == pytest.approx(1 / (50 * 64))


def _layers(dtype: str) -> Problem:
    """Two tokens, and weights that are most of all numbers; the result is a sum of two that are alike."""
    return open_problem(
        read_cell(
            "import torch\nfrom torch.nn import functional as F\n"
            "def f(x, up, down):\n    return x - F.linear(F.silu(F.linear(x, up)), down)\n"
            f"inputs = [torch.randn(*s, dtype=torch.{dtype}) for s in ((2, 64), (128, 64), (64, 128))]\n"
        )
    )


def test_weights_that_little_is_computed_with_are_bounded_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a card has room for them: of two tokens there is little to bound."""
    monkeypatch.setattr(gpu_expectation, "WHOLE_ELEMENTS", 8000)
    problem = _layers("float32")
    for memory, whole in ((0, False), (2**20, False), (2**22, True)):
        expectations = Expectations(problem, "cpu")
        monkeypatch.setattr(expectations, "_memory", memory)
        case = problem.cases[0]
        assert expectations._can_be_whole(2 * 64 + 2 * 64 * 128, case) == whole
    assert not expectations._can_be_whole(2**31, case)
    monkeypatch.setattr(gpu_expectation, "WHOLE_ELEMENTS", 400)
    assert not expectations._can_be_whole(2 * 64 + 2 * 64 * 128, case)  # what is computed is too much


def test_steps_that_are_stored_in_16_bits_need_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held to the reference's own result: that is rounded where a kernel has all in registers."""
    monkeypatch.setattr(gpu_expectation, "WHOLE_ELEMENTS", 0)
    problem = _layers("bfloat16")
    expectations = Expectations(problem, "cpu")
    places = [
        guarded(spec.name, meta, "cpu")
        for spec, meta in zip(problem.tensors, problem.metas(problem.cases[0]).values(), strict=True)
    ]
    generator = torch.Generator().manual_seed(3)
    for place in places:
        drawn = torch.randn(place.tensor.shape, generator=generator)
        place.tensor.copy_(drawn * (1.0 if place.name == "x" else 0.3))
    prepared = expectations.held(problem.cases[0], tuple(places))
    assert "own" in prepared.note
    x, up, down = (place.tensor.float() for place in places)
    exact = x - torch.nn.functional.silu(x @ up.t()) @ down.t()
    (right,) = expectations.differences(prepared, (exact.bfloat16(),))
    assert right.max_ratio <= 1
    scaled = x - torch.nn.functional.silu(x @ up.t() * 1.05) @ down.t()
    (wrong,) = expectations.differences(prepared, (scaled.bfloat16(),))
    assert wrong.max_ratio > 1
    (idle,) = expectations.differences(prepared, (torch.zeros_like(exact).bfloat16(),))
    assert idle.wrong_fraction > 0.5


@pytest.mark.usefixtures("small_slices")
def test_slices_that_are_as_the_reference_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expectations = Expectations(PROBLEM, "cpu")
    prepared = expectations.prepare(check(50, 64))
    assert prepared is not None
    looked: list[int] = []
    bound = expectations._expected

    def counted(sizes: dict[str, int], tensors: dict[str, Tensor]) -> object:
        looked.append(sizes["s0"])
        return bound(sizes, tensors)

    monkeypatch.setattr(expectations, "_expected", counted)
    x = prepared.tensors["x"]
    expectations.differences(prepared, (softmax(x),))
    assert len(looked) == 2  # of eight
    looked.clear()
    (coarse,) = expectations.differences(prepared, (softmax(x.bfloat16()).float(),))
    assert len(looked) == 6 and coarse.max_ratio > 1  # the bounds of two are known


@pytest.mark.parametrize("rows", [slice(0, 1), slice(49, 50), slice(20, 30)])
@pytest.mark.usefixtures("small_slices")
def test_no_row_escapes(rows: slice) -> None:
    expectations = Expectations(PROBLEM, "cpu")
    prepared = expectations.prepare(check(50, 64))
    assert prepared is not None
    for spoil in (0.0, torch.nan, torch.inf):
        got = softmax(prepared.tensors["x"])
        got[rows, 5] = spoil
        (wrong,) = expectations.differences(prepared, (got,))
        assert wrong.max_ratio > 1


NARROW = """
import torch

def narrow(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + torch.nn.functional.gelu(x @ up) @ down

inputs = [torch.randn(*size, dtype=torch.bfloat16) for size in ((64, 32), (32, 64), (64, 32))]
"""


def narrow(tensors: Mapping[str, Tensor]) -> Tensor:
    """Rounded once, at the end: as near to float64 as the reference is, and not near to the reference."""
    x, up, down = (tensors[name].float() for name in ("x", "up", "down"))
    return (x + torch.nn.functional.gelu(x @ up) @ down).to(torch.bfloat16)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[Expectations, list[int], Prepared]:
    """A 16-bit problem in eight slices, and the rows of each that gets bounds of its own."""
    monkeypatch.setattr(gpu_expectation, "SLICE_ELEMENTS", 8 * 32 + 8 * 128)
    monkeypatch.setattr(gpu_expectation, "DRAWN_ON_CPU", 100)
    problem = open_problem(read_cell(NARROW))
    first = problem.cases[0]
    plan = Plan(arguments=tuple(problem.metas(first).items()), steps=(), outputs=())
    expectations = Expectations(problem, "cpu")
    prepared = expectations.prepare(PlannedCheck(Trial(case=first, plan=plan), "normal", 5, "plain"))
    assert prepared is not None and prepared.bounds == ()
    bound, rows = expectations._expected, list[int]()

    def counting(sizes: dict[str, int], tensors: dict[str, Tensor]) -> object:
        rows.append(tensors["x"].shape[0])
        return bound(sizes, tensors)

    monkeypatch.setattr(expectations, "_expected", counting)
    return expectations, rows, prepared


def test_slices_near_float64_need_no_bounds_of_their_own(
    counted: tuple[Expectations, list[int], Prepared],
) -> None:
    """A 16-bit reference is further from a kernel than a few units, which is nobody's fault."""
    expectations, rows, prepared = counted
    outputs = (narrow(prepared.tensors),)
    assert not expectations._as_reference(prepared.tensors, outputs, slice(0, 64))
    (right,) = expectations.differences(prepared, outputs)
    assert 0 < right.max_ratio < 0.6 and len(rows) == gpu_expectation.ALWAYS
    (again,) = expectations.differences(prepared, outputs)
    assert again == right and len(rows) == gpu_expectation.ALWAYS, "bounds are kept from kernel to kernel"


def test_what_is_wrong_in_any_one_slice_is_found(counted: tuple[Expectations, list[int], Prepared]) -> None:
    expectations, _, prepared = counted
    for row in range(3, 64, 8):
        spoilt = narrow(prepared.tensors)
        spoilt[row] = prepared.tensors["x"][row]
        (wrong,) = expectations.differences(prepared, (spoilt,))
        assert wrong.max_ratio > 1 and wrong.worst[0].index[0] == row


# ------------------------------------------------------------------------------------ what is kept


def test_what_is_kept_stays_where_there_is_no_room_for_more() -> None:
    """Kernels meet the same checks in the same order: the eldest to go would be the next that is wanted."""
    expectations = Expectations(PROBLEM, "cpu")
    first = expectations.prepare(check(50, 64))
    assert first is not None and first.bounds
    expectations._kept.room = first.nbytes
    second = expectations.prepare(check(50, 64, "offset"))
    assert expectations.prepare(check(50, 64)) is first
    assert expectations.prepare(check(50, 64, "offset")) is not second


def test_what_no_other_kernel_meets_is_not_kept() -> None:
    expectations = Expectations(PROBLEM, "cpu")
    own = replace(check(50, 64), own=True)
    assert expectations.prepare(own) is not expectations.prepare(own)
    assert not expectations.forget()


@pytest.mark.usefixtures("small_slices")
def test_bounds_of_slices_are_kept_for_the_next_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    expectations = Expectations(PROBLEM, "cpu")
    prepared = expectations.prepare(check(50, 64))
    assert prepared is not None
    coarse = (softmax(prepared.tensors["x"].bfloat16()).float(),)
    told = expectations.differences(prepared, coarse)
    monkeypatch.setattr(expectations, "_expected", None)  # eight slices, all of which are known
    assert expectations.differences(prepared, coarse) == told
    assert expectations.forget()


def test_memory_of_what_is_kept_is_given_back_before_bounds_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expectations = Expectations(PROBLEM, "cpu")
    kept = expectations.prepare(check(50, 64))
    bound, calls = expectations._expected, list[bool]()

    def crowded(*given: object, **named: object) -> object:
        calls.append(False)
        raise torch.OutOfMemoryError

    monkeypatch.setattr(expectations, "_expected", crowded)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    lost = expectations.prepare(check(50, 64, "offset"))
    assert lost is not None and not lost.bounds and lost.native and len(calls) == 2
    monkeypatch.setattr(expectations, "_expected", bound)
    assert expectations.prepare(check(50, 64)) is not kept
    left = iter((True, False))

    def once(*given: object, **named: object) -> object:
        if next(left):
            raise torch.OutOfMemoryError
        return bound(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(expectations, "_expected", once)
    found = expectations.prepare(check(50, 64, "offset"))
    assert found is not None and found.bounds and not found.native


def test_a_kernel_that_finds_no_room_beside_what_is_kept_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expectations = Expectations(PROBLEM, "cpu")
    expectations.prepare(check(50, 64))
    monkeypatch.setattr(gpu_trial, "_KNOWN", OrderedDict({("one", "cpu"): expectations}))
    released: list[bool] = []
    hardware = SimpleNamespace(release=lambda: released.append(True))

    def call() -> str:
        if not released:
            raise torch.OutOfMemoryError
        return "ran"

    assert gpu_trial.with_room(call, hardware) == "ran"  # type: ignore[arg-type]
    released.clear()
    with pytest.raises(torch.OutOfMemoryError):
        gpu_trial.with_room(call, hardware)  # type: ignore[arg-type]
    assert not released
