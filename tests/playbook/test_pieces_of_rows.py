"""Rows that are put together of pieces of rows: each vector lies in one piece and is read as one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import Load, Pool
from workbench.playbook.ir.paths import paths_of
from workbench.playbook.ir.sizes import Sizes, number
from workbench.playbook.ir.views import contiguous

Tensors = dict[str, Tensor]
half, bfloat = torch.float16, torch.bfloat16


def normed(x: Tensor) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)


def turned(t: Tensors) -> Tensor:
    """RMS norm, then rotation: the second half, negated, before the first."""
    wide = normed(t["x"]) * t["w"]
    first, second = wide.chunk(2, -1)
    return (wide * t["cos"] + torch.cat((-second, first), -1) * t["sin"]).to(t["x"].dtype)


def thirds(t: Tensors) -> Tensor:
    """Each third by another rule, in another order."""
    a, b, c = normed(t["x"]).split(t["x"].shape[-1] // 3, -1)
    return torch.cat((torch.exp(c), a * 2, b - 1), -1)


def both_ways(t: Tensors) -> Tensor:
    """The same half is needed everywhere and, moved, in one piece: two ways to what is read."""
    wide = normed(t["x"])
    first, second = wide.chunk(2, -1)
    return torch.cat((second * first, first), -1) + wide


def two_tensors(t: Tensors) -> Tensor:
    first, second = t["x"].chunk(2, -1)
    whole = torch.cat((second, t["y"] + first), -1)
    return torch.softmax(whole, -1)


def data(*shape: int, dtype: torch.dtype = torch.float32) -> Tensors:
    columns = shape[-1]
    return {
        "x": torch.randn(shape).to(dtype),
        "w": torch.randn(columns),
        "cos": torch.randn(shape[-2], columns),
        "sin": torch.randn(shape[-2], columns),
        "y": torch.randn(*shape[:-1], columns // 2).to(dtype),
    }


def used(call: Call, tensors: Tensors) -> Tensors:
    names = {turned: ("x", "w", "cos", "sin"), two_tensors: ("x", "y")}.get(call, ("x",))
    return {name: tensors[name] for name in names}


CALLS = {
    "turned": (turned, data(3, 5, 64)),
    "turned bf16": (turned, data(2, 3, 128, dtype=bfloat)),
    "turned, halves of 9": (turned, data(3, 5, 18)),
    "thirds": (thirds, data(7, 48)),
    "thirds of 5": (thirds, data(7, 15)),
    "both ways": (both_ways, data(6, 32)),
    "two tensors": (two_tensors, data(6, 64)),
    "two tensors f16": (two_tensors, data(6, 80, dtype=half)),
}
VECTORS: tuple[Vector, ...] = (
    (("vector_width", "4"), ("threads_per_row", "warp")),
    (("vector_width", "4"), ("threads_per_row", "warp"), ("row_cache", "registers"), ("early_loads", "on")),
    (("vector_width", "8"), ("threads_per_row", "eight"), ("block_size", "128")),
    (("vector_width", "4"), ("threads_per_row", "block"), ("row_cache", "shared"), ("loads_in_flight", "4")),
    (("vector_width", "2"), ("threads_per_row", "block"), ("single_pass", "on")),
)


@pytest.mark.many(11)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_rows_of_pieces_are_right(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    tensors = used(call, tensors)
    check(call, generate(problem_of(call, tensors), vector).kernel.source, tensors, "checked")


@pytest.mark.parametrize("vector", VECTORS[:2])
def test_a_vector_of_a_piece_is_one_load(vector: Vector) -> None:
    """Of two places of one tensor one is meant: there is one load, and no choice for each element."""
    tensors = used(turned, data(3, 5, 64))
    source = generate(problem_of(turned, tensors), vector).kernel.source
    check(turned, source, tensors, "checked")
    assert "? x_row_2 : x_row_3" in source and "[col + k]" not in source


def test_what_is_in_no_piece_is_not_looked_at() -> None:
    """A NaN in one half stays where the reference has it."""
    tensors = used(two_tensors, data(4, 64))
    tensors["x"][1, 3] = torch.nan
    tensors["y"][2, 5] = torch.inf
    for vector in VECTORS:
        source = generate(problem_of(two_tensors, tensors), vector).kernel.source
        (got,), want = run(source, tensors).outputs, two_tensors(tensors)
        assert torch.equal(got.isnan(), want.isnan())


def test_every_way_to_a_load_is_told() -> None:
    pool = Pool(Sizes(("n",)))
    view = contiguous((number(8),))
    load, other = (pool.load(name, "f32", view, ()) for name in ("x", "y"))
    assert isinstance(load, Load) and isinstance(other, Load)
    place = pool.index(view, "i32")
    tests = [pool.apply("lt", "bool", (place, pool.const(bound, "i32"))) for bound in (2, 5)]
    inner = pool.apply("select", "f32", (tests[1], pool.apply("neg", "f32", (load,)), other))
    whole = pool.apply("select", "f32", (tests[0], other, inner))
    found = paths_of([whole])
    assert found[load] == {((tests[0], False), (tests[1], True))}
    assert found[other] == {((tests[0], True),), ((tests[0], False), (tests[1], False))}
    assert paths_of([whole, other])[other] == {*found[other], ()}


def test_ways_beyond_number_end_in_always() -> None:
    """Choices within choices of the same: 2^40 ways are not walked one by one."""
    pool = Pool(Sizes(("n",)))
    view = contiguous((number(8),))
    load, place = pool.load("x", "f32", view, ()), pool.index(view, "i32")
    value = load
    for bound in range(40):
        test = pool.apply("lt", "bool", (place, pool.const(bound, "i32")))
        value = pool.apply("select", "f32", (test, pool.apply("neg", "f32", (value,)), value))
    ((found, ways),) = paths_of([value]).items()
    assert found is load and () in ways
