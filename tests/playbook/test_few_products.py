"""Matrix products of few terms: written out, in one kernel with what is around them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, run
from tests.problem.cells import opened
from workbench.playbook.generate import generate
from workbench.problem.reference import Reference

Tensors = dict[str, Tensor]


def turned(t: Tensors) -> Tensor:
    return torch.bmm(t["x"].sin(), t["matrix"].transpose(1, 2)) + t["x"][..., :1]


def shared(t: Tensors) -> Tensor:
    return torch.addmm(t["bias"], t["rows"], t["weight"]).relu()


def widened(t: Tensors) -> Tensor:
    return torch.sigmoid(t["rows"] @ t["weight"])


def tensors_of(dtype: torch.dtype, depth: int, many: int = 37) -> Tensors:
    return {
        "x": torch.randn(3, many, depth).to(dtype),
        "matrix": torch.randn(3, 4, depth).to(dtype),
        "rows": torch.randn(many, depth).to(dtype),
        "weight": torch.randn(40, depth).to(dtype).t(),
        "bias": torch.randn(40).to(dtype),
    }


USED = {turned: ("x", "matrix"), shared: ("rows", "weight", "bias"), widened: ("rows", "weight")}


def of(call: Call, tensors: Tensors) -> Tensors:
    return {name: tensors[name] for name in USED[call]}  # type: ignore[index]


@pytest.mark.many(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("call", [turned, shared, widened])
def test_products_of_few_terms_are_one_kernel(call: Call, dtype: torch.dtype) -> None:
    tensors = of(call, tensors_of(dtype, 3))
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, (("vector_width", "4"),)).kernel.source
    assert source.count("__global__") == 1 and "library(" not in source
    check(call, source, tensors, "checked")
    assert "library(" in generate(problem, (("few_terms", "off"),)).kernel.source


def test_products_of_more_terms_are_the_librarys() -> None:
    tensors = of(widened, tensors_of(torch.float32, 9))
    assert "library(" in generate(problem_of(widened, tensors, varying=False), ()).kernel.source


def test_what_is_computed_goes_into_few_results() -> None:
    """A sine for each of 40 results would be 40 sines an element."""

    def call(t: Tensors) -> Tensor:
        return t["rows"].sin() @ t["weight"]

    tensors = of(widened, tensors_of(torch.float32, 3))
    assert "library(" in generate(problem_of(call, tensors, varying=False), ()).kernel.source


def nearest(t: Tensors) -> Tensor:
    return torch.cdist(t["rows"] / 2, t["palette"], compute_mode="use_mm_for_euclid_dist").argmin(1)


def test_distances_from_a_palette_are_no_product_of_the_librarys() -> None:
    """Sixteen numbers for each colour, of which one place is wanted."""
    tensors = {"rows": torch.randn(300, 3), "palette": torch.randn(16, 3)}
    for threads in ("thread", "four", "warp"):
        vector = (("threads_per_row", threads), ("row_cache", "registers"))
        source = generate(problem_of(nearest, tensors, varying=False), vector).kernel.source
        assert source.count("__global__") == 1 and "library(" not in source
        check(nearest, source, tensors, "checked")

    def kept(t: Tensors) -> tuple[Tensor, Tensor]:
        apart = torch.cdist(t["rows"] / 2, t["palette"], compute_mode="use_mm_for_euclid_dist")
        return apart, apart.argmin(1)

    assert "library(" in generate(problem_of(kept, tensors, varying=False), ()).kernel.source


def rotated(t: Tensors) -> Tensor:
    c, s = torch.cos(t["angle"]), torch.sin(t["angle"])
    matrix = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
    return torch.einsum("ij,ajb->aib", matrix, t["pairs"]).reshape(-1, 2)[:, 0] - 1


def test_a_matrix_made_of_one_number_is_made_where_it_is_wanted() -> None:
    """A gate of a quantum computer: one read, one write, one sine, and no copy of what is looked at anew."""
    tensors = {"angle": torch.tensor(0.3), "pairs": torch.randn(6, 2, 8)}
    source = generate(problem_of(rotated, tensors, varying=False), (("vector_width", "4"),)).kernel.source
    assert source.count("__global__") == 1 and "library(" not in source
    assert source.count("sinf(") == source.count("cosf(") == 1
    check(rotated, source, tensors, "checked")


def test_a_small_matrix_that_takes_arithmetic_is_made_once() -> None:
    """Each element would make eight exponentials of its own."""

    def call(t: Tensors) -> Tensor:
        return t["rows"] @ t["logits"].softmax(0)

    tensors = {"rows": torch.randn(50, 8), "logits": torch.randn(8, 9)}
    assert "library(" in generate(problem_of(call, tensors, varying=False), ()).kernel.source


def test_terms_of_halves_are_added_in_32_bits() -> None:
    """2048 + 1 + 1 is 2048 where each addition rounds to 16 bits."""
    rows = torch.tensor([[2048.0, 1.0, 1.0]], dtype=torch.float16).expand(5, 3).contiguous()
    tensors = {"rows": rows, "weight": torch.ones(3, 4, dtype=torch.float16)}

    def call(t: Tensors) -> Tensor:
        return t["rows"] @ t["weight"]

    source = generate(problem_of(call, tensors, varying=False), ()).kernel.source
    assert (check(call, source, tensors, "checked").outputs[0] == 2050).all()


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(2, 8), st.integers(1, 7), st.integers(1, 33), st.integers(1, 3)]),
    turns=st.tuples(st.booleans(), st.booleans()),
    width=st.sampled_from(["1", "2", "4"]),
)
def test_any_product_of_few_terms_is_right(
    sizes: tuple[int, int, int, int], turns: tuple[bool, bool], width: str
) -> None:
    depth, rows, columns, batch = sizes
    left = torch.randn(batch, depth, rows).mT if turns[0] else torch.randn(batch, rows, depth)
    right = torch.randn(batch, columns, depth).mT if turns[1] else torch.randn(batch, depth, columns)

    def call(t: Tensors) -> Tensor:
        return torch.bmm(t["left"], t["right"]) * 0.5

    tensors = {"left": left, "right": right}
    source = generate(problem_of(call, tensors, varying=False), (("vector_width", width),)).kernel.source
    check(call, source, tensors, "checked")


RESIDUAL = """def residual(x, y):
    normal = x.transpose(1, 2) @ x + torch.eye(3, device=x.device)
    weights = torch.linalg.solve(normal, x.transpose(1, 2) @ y[..., None])
    return (y - (x @ weights).squeeze(-1)).square().sum(1)
inputs = [torch.randn(5, 40, 3), torch.randn(5, 40)]
"""


def test_what_a_row_is_summed_up_to_goes_into_all_of_the_row() -> None:
    """Each row has a line of its own fitted to its points."""
    problem = opened(RESIDUAL)
    source = generate(problem, (("threads_per_row", "warp"),)).kernel.source
    assert "library(" not in source and source.count("__global__") == 1
    x, y = torch.randn(7, 50, 3), torch.randn(7, 50)
    (right,) = Reference(problem).call({"x": x, "y": y})
    torch.testing.assert_close(run(source, {"x": x, "y": y}, "checked").outputs[0], right)
