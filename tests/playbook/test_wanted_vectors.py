"""Vectors that are looked up for some places alone, and conditions that are read before they are joined."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import CompileReport, Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]
VECTORS: tuple[Vector, ...] = (
    (("vector_width", "4"),),
    (("vector_width", "4"), ("index_width", "32")),
    (),
)


def drawn() -> Tensors:
    torch.manual_seed(0)
    corner = torch.randint(0, 12, (6, 2))
    return {
        "x": torch.randn(6, 2, 8, 16),
        "order": torch.randperm(6),
        "boxes": torch.cat([corner, corner + torch.randint(1, 6, (6, 2))], 1),
        "mask": torch.rand(6, 2, 8, 16) < 0.5,
        "rows": torch.rand(6) < 0.5,
    }


def inside(t: Tensors) -> Tensor:
    ys, xs = torch.arange(t["x"].shape[2])[:, None], torch.arange(t["x"].shape[3])
    x0, y0, x1, y1 = (edge.view(-1, 1, 1, 1) for edge in t["boxes"].unbind(1))
    return (ys >= y0) & (ys < y1) & (xs >= x0) & (xs < x1)


def boxed(t: Tensors) -> Tensor:
    return torch.where(inside(t), t["x"][t["order"]], t["x"])


def cut_out(t: Tensors) -> Tensor:
    """The other way round: what is looked up is wanted outside."""
    return torch.where(inside(t), 0.0, t["x"][t["order"]]) * 2


def both_ways(t: Tensors) -> Tensor:
    return torch.where(inside(t), t["x"][t["order"]], t["x"][t["order"].flip(0)] + 1)


def of_rows(t: Tensors) -> Tensor:
    return torch.where(t["rows"].view(-1, 1, 1, 1), t["x"][t["order"]], t["x"])


SOME: dict[str, tuple[Call, list[str]]] = {
    "boxed": (boxed, ["any_chosen |= chosen[k]", "if (any_chosen)"]),
    "cut out": (cut_out, ["any_other |= !chosen[k]", "if (any_other)"]),
    "both ways": (both_ways, ["if (any_chosen)", "if (any_other)"]),
    "of rows": (of_rows, ["if (any_chosen)"]),
}


@pytest.mark.many(23)
@pytest.mark.parametrize("vector", VECTORS, ids=["vectors", "narrow", "plain"])
@pytest.mark.parametrize("name", SOME)
def test_what_no_element_wants_is_not_looked_up(name: str, vector: Vector) -> None:
    (call, texts), tensors = SOME[name], drawn()
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert all((text in source) == bool(vector) for text in texts)
    check(call, source, tensors, "checked")
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings


def by_element(t: Tensors) -> Tensor:
    """Neighbours have nothing in common: most vectors have both."""
    return torch.where(t["mask"], t["x"][t["order"]], t["x"])


def by_what_is_looked_up(t: Tensors) -> Tensor:
    found = t["x"][t["order"]]
    return torch.where(found > 0, found, t["x"])


def used_elsewhere(t: Tensors) -> Tensor:
    found = t["x"][t["order"]]
    return torch.where(inside(t), found, t["x"]) + found


@pytest.mark.many(2)
@pytest.mark.parametrize("call", [by_element, by_what_is_looked_up, used_elsewhere])
def test_what_any_element_may_want_is_looked_up(call: Call) -> None:
    tensors = drawn()
    source = generate(problem_of(call, tensors), VECTORS[0]).kernel.source
    assert "any_chosen" not in source and "any_other" not in source
    assert "x_pack" in source
    check(call, source, tensors, "checked")


def test_less_is_read_where_little_is_wanted() -> None:
    tensors = drawn()
    tensors["boxes"] = torch.tensor([[4, 3, 6, 4]]).repeat(6, 1)
    source = generate(problem_of(boxed, tensors), VECTORS[0]).kernel.source
    (one,) = check(boxed, source, tensors, "checked").report.launches
    all_read = generate(problem_of(used_elsewhere, tensors), VECTORS[0]).kernel.source
    (other,) = check(used_elsewhere, all_read, tensors, "checked").report.launches
    assert one.load_bytes < 0.6 * other.load_bytes


def test_conditions_are_read_before_they_are_joined() -> None:
    """Behind ``&&`` each would be a branch, and a read for each element of a vector."""
    tensors = drawn()

    def call(t: Tensors) -> Tensor:
        return torch.where(inside(t), t["x"], 0.0)

    for vector in VECTORS:
        source = generate(problem_of(call, tensors), vector).kernel.source
        behind = [line.partition("&&")[2] for line in source.splitlines() if "&&" in line]
        assert behind and not any("boxes[" in line for line in behind)
        check(call, source, tensors, "checked")


def test_a_remainder_is_found_once_a_vector() -> None:
    tensors = drawn()
    source = generate(problem_of(boxed, tensors), VECTORS[0]).kernel.source
    line = next(line for line in source.splitlines() if "(i + k) %" in line)
    assert " % VEC ? (i + k) % " in line and line.endswith(" + k;")
