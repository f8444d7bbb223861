from __future__ import annotations

import pytest
import torch

from workbench.model import Case, DType, Graph, Problem, Sampler, TensorMeta, TensorSpec
from workbench.numerics import inputs
from workbench.numerics.inputs import OFFSET, draw, place
from workbench.numerics.kinds import KINDS

CASE = Case(label="3x40", sizes=(("n", 40),))


def problem(*tensors: TensorSpec) -> Problem:
    return Problem(
        name="p",
        source="",
        entry="p",
        kind="function",
        tensors=tensors,
        symbols=("n",),
        outputs=(),
        cases=(CASE,),
        graph=Graph(nodes=(), outputs=()),
    )


def spec(sampler: Sampler, role: str = "input", dtype: DType = "f32", name: str = "x") -> TensorSpec:
    return TensorSpec(name=name, role=role, dtype=dtype, dims=(300, "n"), sampler=sampler)  # type: ignore[arg-type]


NORMAL = Sampler(kind="normal")


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_tensor_and_another_seed_another(kind: str) -> None:
    p = problem(spec(NORMAL))
    one, again, other = (draw(p, CASE, kind, seed)["x"] for seed in (1, 1, 2))  # type: ignore[arg-type]
    assert torch.equal(one.nan_to_num(7), again.nan_to_num(7))
    assert not torch.equal(one.nan_to_num(7), other.nan_to_num(7))
    assert one.shape == (300, 40)
    assert one.dtype == torch.float32


def test_kinds_shape_the_values() -> None:
    p = problem(spec(NORMAL))
    x = {kind: draw(p, CASE, kind, 0)["x"] for kind in KINDS}
    assert 0.9 < x["normal"].std() < 1.1
    assert x["scale 1e-3"].abs().max() < 0.01
    assert x["scale 64"].std() > 50
    assert abs(x["offset"].mean() - OFFSET) < 0.1
    assert x["far negative"].max() < -128 and x["far negative"].std() > 50
    assert x["heavy-tailed"].abs().max() > 20
    assert 0.8 < (x["sparse"] == 0).float().mean() < 0.97
    assert set(x["zero-one"].unique().tolist()) == {0.0, 1.0}
    assert x["special values"].isnan().any()
    assert (x["special values"] == -torch.inf).any()
    assert torch.isfinite(x["special values"]).all(dim=1).any(), "some rows stay ordinary"


@pytest.mark.parametrize("shape", [(2, 40), (5, 1, 40), (3, 4, 5)])
def test_one_row_and_one_column_of_sparse_inputs_are_zeros(shape: tuple[int, ...]) -> None:
    boxed = TensorSpec(name="x", role="input", dtype="f32", dims=shape, sampler=NORMAL)
    x = draw(problem(boxed), CASE, "sparse", 0)["x"]
    for axis, size in enumerate(shape):
        others = [other for other in range(len(shape)) if other != axis]
        assert size == 1 or (x == 0).all(dim=tuple(others)).any()


@pytest.mark.parametrize("first", [0, 1, 1002, 77])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_few_rows_meet_every_special_value_within_three_seeds(rows: int, first: int) -> None:
    few = TensorSpec(name="x", role="input", dtype="f32", dims=(rows, 40), sampler=NORMAL)
    drawn = [draw(problem(few), CASE, "special values", seed)["x"] for seed in range(first, first + 3)]
    assert any(x.isnan().any() for x in drawn)
    assert any((x == torch.inf).any() for x in drawn)
    assert any((x == -torch.inf).any() for x in drawn)
    assert rows == 1 or all(torch.isfinite(x).all(dim=1).any() for x in drawn), "some rows stay ordinary"


def test_a_single_number_is_special_at_every_second_seed() -> None:
    """A scale that is NaN makes everything NaN: an overflow beside an ordinary one is to be seen too."""
    scale = TensorSpec(name="scale", role="input", dtype="f32", dims=(), sampler=NORMAL)
    drawn = [draw(problem(scale), CASE, "special values", seed)["scale"] for seed in range(6)]
    assert [bool(x.isfinite()) for x in drawn] in ([True, False] * 3, [False, True] * 3)
    assert {str(float(x)) for x in drawn if not x.isfinite()} == {"nan", "inf", "-inf"}


def test_a_special_value_of_one_tensor_meets_ordinary_ones_of_another() -> None:
    tensors = [TensorSpec(name=n, role="input", dtype="f32", dims=(6, 8), sampler=NORMAL) for n in "abcdef"]
    drawn = draw(problem(*tensors), CASE, "special values", 0)
    assert len({tuple(x.isnan().any(dim=1).tolist()) for x in drawn.values()}) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_unscalable_tensors_stay_in_their_range(kind: str) -> None:
    probability = Sampler(kind="uniform", low=0.2, high=0.4, scalable=False)
    labels = Sampler(kind="integers", low=0, high=10, scalable=False)
    p = problem(
        spec(probability),
        spec(labels, dtype="i64", name="t"),
        spec(Sampler(kind="bools"), dtype="bool", name="b"),
    )
    tensors = draw(p, CASE, kind, 3)  # type: ignore[arg-type]
    assert tensors["x"].min() >= 0.2
    assert tensors["x"].max() < 0.4
    assert set(tensors["t"].unique().tolist()) <= set(range(10))
    assert tensors["b"].dtype == torch.bool


def test_parameters_keep_their_own_scale() -> None:
    weight = Sampler(kind="normal", low=1.0, high=0.02)
    running = Sampler(kind="uniform", low=0.5, high=1.5, scalable=False)
    p = problem(spec(NORMAL), spec(weight, "parameter", name="w"), spec(running, "buffer", name="v"))
    tensors = draw(p, CASE, "scale 64", 0)
    assert 0.9 < tensors["w"].mean() < 1.1
    assert tensors["w"].std() > 0.01, "a parameter is never left at its initial constant"
    assert tensors["v"].min() >= 0.5
    assert set(draw(p, CASE, "zero-one", 0)["w"].unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64"])
def test_dtypes_are_honoured(dtype: DType) -> None:
    x = draw(problem(spec(NORMAL, dtype=dtype)), CASE, "scale 64", 0)["x"]
    assert x.dtype == {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}[dtype]
    assert torch.isfinite(x).all()


def test_strides_are_honoured_and_gaps_are_poison() -> None:
    values = torch.arange(12.0).reshape(3, 4)
    meta = TensorMeta(dtype="f32", shape=(3, 4), strides=(10, 2))
    x = place(values, meta)
    assert x.stride() == (10, 2)
    assert torch.equal(x, values)
    assert x.as_strided((1,), (1,), 1).isnan().all()
    expanded = place(values, TensorMeta(dtype="f32", shape=(3, 4), strides=(0, 1)))
    assert torch.equal(expanded, values[:1].expand(3, 4))


def test_covariances_are_whole_however_they_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tensor is drawn piece by piece, of which none ends within a matrix."""
    monkeypatch.setattr(inputs, "PIECE", 20)
    sampler = Sampler(kind="covariances", high=2.0, scalable=False)
    p = problem(TensorSpec(name="x", role="input", dtype="f32", dims=(7, 3, 3), sampler=sampler))
    pieces = torch.empty(7, 3, 3)
    inputs.draw_on("cpu", p, CASE, "normal", 0, {"x": pieces})
    for found in (draw(p, CASE, "scale 64", 0)["x"], pieces):
        assert torch.equal(found, found.mT) and found.abs().max() < 64
        assert not torch.linalg.cholesky_ex(found)[1].any()
