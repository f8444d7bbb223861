"""Operations that PyTorch's own list of operators brought to light, on the emulator."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.generate import generate

WHOLES = [7.0, -7.0, 6.0, 0.0, -0.0, 0.5, -0.1, 1e30, 1e-42, torch.inf, -torch.inf, torch.nan, 4194305.0]
PAIRS: dict[str, Call] = {
    "floor_divide": lambda t: torch.div(t["x"], t["y"], rounding_mode="floor"),
    "fmax": lambda t: torch.fmax(t["x"], t["y"]),
    "fmin": lambda t: torch.fmin(t["x"], t["y"]),
    "signbit": lambda t: torch.signbit(t["x"]) ^ torch.signbit(t["y"]),
}
VECTORS: tuple[Vector, ...] = ((), (("vector_width", "4"),))


def every_pair(dtype: torch.dtype) -> dict[str, Tensor]:
    one = torch.tensor(WHOLES, dtype=dtype)
    return {"x": one.repeat_interleave(len(WHOLES)).reshape(13, 13), "y": one.repeat(13).reshape(13, 13)}


@pytest.mark.many(23)
@pytest.mark.parametrize("vector", VECTORS, ids=["plain", "vectors"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_special_values_are_as_in_eager(name: str, dtype: torch.dtype, vector: Vector) -> None:
    call, tensors = PAIRS[name], every_pair(dtype)
    draft = generate(problem_of(call, tensors, name), vector)
    assert "library(" not in draft.kernel.source
    (got,) = run(draft.kernel.source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), equal_nan=True, rtol=0, atol=0)
    if name == "floor_divide":
        assert torch.equal(torch.signbit(got[~got.isnan()]), torch.signbit(call(tensors)[~got.isnan()]))


def test_a_quotient_is_not_rounded_up_to_a_whole_number() -> None:
    tensors = {"x": torch.tensor([[0.3, 0.6, 1.0, 0.7]]), "y": torch.tensor([[0.1, 0.2, 0.1, 0.1]])}
    call = PAIRS["floor_divide"]
    (got,) = run(generate(problem_of(call, tensors), ()).kernel.source, tensors).outputs
    assert torch.equal(got, call(tensors))
    assert not torch.equal(got, (tensors["x"] / tensors["y"]).floor())


def test_a_double_is_tested_as_a_double() -> None:
    """1e300 is finite; INFINITY is a float, and is told to be a double where it meets one."""

    def call(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
        return t["x"].isinf(), t["x"].isfinite(), t["x"].clamp(-torch.inf, torch.inf)

    tensors = {"x": torch.tensor([*WHOLES, 1e300, -1e300], dtype=torch.float64)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    for got, want in zip(run(source, tensors).outputs, call(tensors), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_integers_have_the_larger_and_the_smaller(name: str) -> None:
    tensors = {"x": torch.randint(-9, 9, (3, 7)), "y": torch.randint(-9, 9, (3, 7))}
    check(PAIRS[name], generate(problem_of(PAIRS[name], tensors), ()).kernel.source, tensors)


@pytest.mark.many(2)
@pytest.mark.parametrize("name", ["amin", "amax"])
def test_places_are_reduced_like_numbers(name: str) -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        places = torch.arange(t["x"].shape[1]).expand(t["x"].shape)
        found: Tensor = getattr(torch.where(t["x"] > 0, places, t["x"].shape[1]), name)(1)
        return found

    tensors = {"x": torch.randn(5, 37)}
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors)
    check(call, generate(problem_of(call, tensors), (("threads_per_row", "warp"),)).kernel.source, tensors)


def test_a_library_call_has_its_argument_alone() -> None:
    """What is stepped through as it lies begins at its first element; what is copied whole is small."""

    def call(t: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return torch.as_strided_copy(t["x"], (2, 2), (1, 2), 0), torch.diagonal_scatter(t["x"], t["y"])

    tensors = {"x": torch.randn(5, 5), "y": torch.randn(5)}
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors)


@pytest.mark.parametrize("decimals", [3, -1, 0])
def test_rounding_is_to_so_many_decimals(decimals: int) -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.round(t["x"], decimals=decimals)

    tensors = {"x": torch.cat([torch.randn(60) * 20, torch.tensor([0.5, 2.5, -1.5, torch.inf, torch.nan])])}
    (got,) = run(generate(problem_of(call, tensors), ()).kernel.source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), equal_nan=True, rtol=0, atol=0)


def test_a_library_call_takes_tensors_by_name() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.linalg.pinv(t["x"], rtol=t["y"].exp() * 1e-3)

    tensors = {"x": torch.randn(2, 4, 3), "y": torch.randn(2)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert "rtol=mul" in source
    check(call, source, tensors)


SINGLE: dict[str, Call] = {
    "erfcx": lambda t: torch.special.erfcx(t["x"]),
    "ndtri": lambda t: torch.special.ndtri(t["x"]),
    "angle": lambda t: torch.angle(t["x"]),
    "ldexp": lambda t: torch.ldexp(t["x"], t["x"]),
    "permute_copy": lambda t: torch.permute_copy(t["x"], (1, 0)) * 2,
    "narrow_copy": lambda t: torch.narrow_copy(t["x"], 1, 1, 2),
    "unbind_copy": lambda t: torch.unbind_copy(t["x"], 0),
}


@pytest.mark.many(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", SINGLE)
def test_what_was_a_library_call_is_a_kernel(name: str, dtype: torch.dtype) -> None:
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 5e-42, 3.0, -3.0, -9.0, 80.0, -80.0]
    special = [torch.inf, -torch.inf, torch.nan, 1 - 1e-6, 0.02, 0.97]
    tensors = {"x": torch.tensor([values, [*special, *torch.rand(6).tolist()]], dtype=dtype)}
    source = generate(problem_of(SINGLE[name], tensors, name), ()).kernel.source
    assert "library(" not in source
    check(SINGLE[name], source, tensors)


@pytest.mark.slow
def test_slopes_are_found_at_any_size() -> None:
    def call(t: dict[str, Tensor]) -> tuple[Tensor, ...]:
        curved = torch.gradient(t["x"], dim=1, edge_order=2)
        return *torch.gradient(t["x"], spacing=[0.5, 2.0]), *curved, *torch.gradient(t["x"], spacing=3)

    source = generate(problem_of(call, {"x": torch.randn(5, 7)}), ()).kernel.source
    for shape in ((5, 7), (9, 4), (3, 3)):
        check(call, source, {"x": torch.randn(shape)})


def test_the_angle_of_an_integer_is_a_float() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.angle(t["x"])

    tensors = {"x": torch.randint(-3, 3, (40,))}
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors)


def test_singular_values_alone_are_asked_for_no_vectors() -> None:
    """Of a matrix with an infinity in it the library finds no vectors, and raises."""

    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.linalg.svdvals(t["x"] * 2).sum()

    tensors = {"x": torch.randn(5, 4)}
    source = generate(problem_of(call, tensors), ()).kernel.source
    check(call, source, tensors)
    tensors["x"][1, 2] = torch.inf
    (got,) = run(source, tensors).outputs
    assert got.isnan()


def test_classes_are_counted_out_without_a_look_at_the_labels() -> None:
    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.nn.functional.one_hot(t["y"], 7) * t["x"].unsqueeze(-1)

    tensors = {"x": torch.randn(4, 9), "y": torch.randint(0, 7, (4, 9))}
    source = generate(problem_of(call, tensors), ()).kernel.source
    assert "library(" not in source
    check(call, source, tensors)


COVARIANCES: dict[str, Call] = {
    "of rows": lambda t: torch.cov(t["x"]),
    "of one row": lambda t: t["x"][0].cov(correction=0),
    "weighted": lambda t: torch.cov(t["x"], aweights=t["w"]),
    "counted": lambda t: torch.cov(t["x"], correction=0, fweights=t["n"]),
    "counted and weighted": lambda t: torch.cov(t["x"], fweights=t["n"], aweights=t["w"]),
    "correlations": lambda t: torch.corrcoef(t["x"]),
}


@pytest.mark.many(6)
@pytest.mark.parametrize("name", COVARIANCES)
def test_covariances_are_traced_without_a_look_at_the_weights(name: str) -> None:
    tensors = {"x": torch.randn(6, 33), "w": torch.rand(33), "n": torch.randint(1, 9, (33,))}
    call = COVARIANCES[name]
    used = {"x"} | ({"w"} if "weighted" in name else set()) | ({"n"} if "counted" in name else set())
    given = {name: tensor for name, tensor in tensors.items() if name in used}
    check(call, generate(problem_of(call, given), ()).kernel.source, given)


def test_a_product_of_sizes_is_read_after_its_factors() -> None:
    """The last axis of the first argument is as long as all of the second."""

    def call(t: dict[str, Tensor]) -> Tensor:
        return torch.linalg.tensorsolve(t["x"], t["y"])

    tensors = {"x": torch.randn(2, 3, 6), "y": torch.randn(2, 3)}
    check(call, generate(problem_of(call, tensors), ()).kernel.source, tensors)
