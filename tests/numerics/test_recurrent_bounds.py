"""What recurrent layers may be off by: honest arithmetic in any order, and no coarser one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workbench.numerics.recurrences import recurrent
from workbench.numerics.tracked import Tracked, exact

CELLS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
STEPS, BATCH, INPUTS, HIDDEN, LAYERS = 60, 4, 24, 32, 2


def given(cell: str, scale: float = 1.0) -> list[object]:
    """Arguments of an operation, in float32."""
    torch.manual_seed(5)
    states = [torch.randn(LAYERS, BATCH, HIDDEN) for _ in range(2 if cell == "lstm" else 1)]
    params = []
    for layer in range(LAYERS):
        read = INPUTS if layer == 0 else HIDDEN
        shapes = [(CELLS[cell] * HIDDEN, read), (CELLS[cell] * HIDDEN, HIDDEN)]
        params += [torch.randn(shape) / HIDDEN**0.5 for shape in shapes]
        params += [torch.randn(CELLS[cell] * HIDDEN) / HIDDEN**0.5 for _ in range(2)]
    x = scale * torch.randn(STEPS, BATCH, INPUTS)
    return [x, states if len(states) > 1 else states[0], params, True, LAYERS, 0.0, False, False, False]


def tracked(args: list[object]) -> list[object]:
    def one(arg: object) -> object:
        if isinstance(arg, list):
            return [one(each) for each in arg]
        return exact(arg.double(), "f32") if isinstance(arg, Tensor) else arg

    return [one(arg) for arg in args]


def ran(cell: str, args: list[object], change: object = lambda t: t) -> tuple[Tensor, ...]:
    def one(arg: object) -> object:
        if isinstance(arg, list):
            return [one(each) for each in arg]
        return change(arg) if isinstance(arg, Tensor) else arg  # type: ignore[operator]

    made: tuple[Tensor, ...] = getattr(torch.ops.aten, cell).input(*[one(arg) for arg in args])
    return made


def bounds(cell: str, args: list[object]) -> tuple[Tracked, ...]:
    found = recurrent(getattr(torch.ops.aten, cell).input, tracked(args), "f32")
    assert found is not None
    return found


def coarse(t: Tensor) -> Tensor:
    """Eleven bits, as TF32 keeps of a factor."""
    fraction, exponent = torch.frexp(t)
    return torch.ldexp((fraction * 2**11).round() / 2**11, exponent)


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("cell", CELLS)
def test_float32_is_within_and_eleven_bits_are_not(cell: str, scale: float) -> None:
    args = given(cell, scale)
    allowed, right = bounds(cell, args), ran(cell, args, Tensor.double)
    honest, wrong = ran(cell, args), ran(cell, args, coarse)
    for one, wanted, near, far in zip(allowed, right, honest, wrong, strict=True):
        assert torch.equal(one.value, wanted)
        assert bool(((near.double() - wanted).abs() <= one.error).all()), "honest arithmetic"
        share = ((far.double() - wanted).abs() > one.error).double().mean()
        assert share > 0.01, f"eleven bits: {share:.2%} beyond what is allowed"


def test_terms_may_be_added_in_any_order() -> None:
    args = given("lstm")
    order = torch.randperm(INPUTS)
    shuffled = list(args)
    x, params = args[0], args[2]
    assert isinstance(x, Tensor) and isinstance(params, list)
    shuffled[0], shuffled[2] = x[..., order], [params[0][:, order], *params[1:]]
    for one, other in zip(bounds("lstm", args), ran("lstm", shuffled), strict=True):
        assert bool(((other.double() - one.value).abs() <= one.error).all())


def test_a_lost_step_is_found() -> None:
    args = given("gru")
    x = args[0]
    assert isinstance(x, Tensor)
    late = x.clone()
    late[30] = x[29]
    (allowed, _), (got, _) = bounds("gru", args), ran("gru", [late, *args[1:]])
    assert bool(((got.double() - allowed.value).abs() > allowed.error)[30].any())


def test_errors_of_operands_go_on() -> None:
    args = tracked(given("rnn_tanh"))
    off = args[0]
    assert isinstance(off, Tracked)
    by = torch.full_like(off.value, 1e-3)
    args[0] = Tracked(off.value, torch.zeros_like(by), by, "f32")
    found = recurrent(torch.ops.aten.rnn_tanh.input, args, "f32")
    assert found is not None and float(found[0].error.median()) > 1e-4


def test_where_there_is_no_number_nothing_is_asked() -> None:
    args = given("gru")
    x = args[0]
    assert isinstance(x, Tensor)
    x[3, 0, 0] = torch.nan
    error = bounds("gru", args)[0].error
    assert bool(torch.isfinite(error[:3]).all()) and bool(error[3:, 0].isinf().any())


def test_of_states_of_another_width_nothing_is_known() -> None:
    args = given("lstm")
    params = args[2]
    assert isinstance(params, list)
    args[2] = [*params, *params[:2]]
    assert recurrent(torch.ops.aten.lstm.input, tracked(args), "f32") is None
