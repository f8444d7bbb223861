"""The reference rebuilt from a problem: same values, float64 oracle, the person's own tensors."""

import pytest
import torch
from problem.cells import opened

from workbench.model import Problem
from workbench.numerics.inputs import draw
from workbench.problem.reference import Reference


def drawn(problem: Problem) -> dict[str, torch.Tensor]:
    return draw(problem, problem.proofs[-2], "normal", 0)


def rebuilt(source: str) -> tuple[Problem, Reference]:
    problem = opened(source)
    return problem, Reference(Problem.model_validate_json(problem.model_dump_json()))


def test_function_with_statics_and_keywords() -> None:
    problem, reference = rebuilt(
        "def f(x, scale, *, shift): return x * scale + shift\n"
        "inputs = {'x': torch.randn(8, 9), 'scale': 3, 'shift': 0.5}"
    )
    tensors = drawn(problem)
    (result,) = reference.call(tensors)
    assert torch.equal(result, tensors["x"] * 3 + 0.5)
    assert [static.value for static in problem.statics] == [3, 0.5]


def test_defaults_before_given_keywords() -> None:
    problem, reference = rebuilt(
        "def f(x, a=2.0, b=3.0): return x * a + b\ninputs = {'x': torch.randn(8, 9), 'b': 1.0}"
    )
    tensors = drawn(problem)
    assert torch.equal(reference.call(tensors)[0], tensors["x"] * 2 + 1)


def test_star_arguments() -> None:
    problem, reference = rebuilt(
        "def f(*xs): return torch.cat(xs) * 2\ninputs = [torch.randn(3, 4), torch.randn(3, 4)]"
    )
    assert problem.signature == ("xs0", "xs1")
    tensors = drawn(problem)
    assert torch.equal(reference.call(tensors)[0], torch.cat([tensors["xs0"], tensors["xs1"]]) * 2)


def test_names_that_a_plan_or_cuda_would_misread_are_changed() -> None:
    problem, reference = rebuilt(
        "def f(target, double): return target * double\ninputs = [torch.randn(5), torch.randn(5)]"
    )
    assert problem.signature == ("target_", "double_")
    tensors = drawn(problem)
    assert torch.equal(reference.call(tensors)[0], tensors["target_"] * tensors["double_"])


MODULE = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, 3)
        self.register_buffer("offset", torch.ones(3))
        self.gain = torch.tensor(2.0)
        self.drop = nn.Dropout()
    def forward(self, x):
        return self.drop(self.linear(x)) * self.gain + self.offset
init_inputs = [7]
inputs = [torch.randn(5, 7)]
"""


def test_every_tensor_of_a_module_is_an_argument() -> None:
    problem, reference = rebuilt(MODULE)
    assert [(s.name, s.role) for s in problem.tensors] == [
        ("x", "input"),
        ("linear_weight", "parameter"),
        ("linear_bias", "parameter"),
        ("offset", "buffer"),
        ("gain", "buffer"),
    ]
    t = drawn(problem)
    expected = (
        torch.nn.functional.linear(t["x"], t["linear_weight"], t["linear_bias"]) * t["gain"] + t["offset"]
    )
    assert torch.equal(reference.call(t)[0], expected)
    twice = reference.call({**t, "gain": t["gain"] * 2})[0]
    assert torch.allclose(twice - t["offset"], 2 * (expected - t["offset"]))


def test_globals_and_modules_a_function_uses_are_arguments() -> None:
    problem, reference = rebuilt(
        "table = torch.randn(4)\nnorm = nn.LayerNorm(4)\ndef scale(x): return x * table\n"
        "def f(x): return norm(scale(x))\ninputs = [torch.randn(6, 4)]"
    )
    assert {s.name for s in problem.tensors} == {"x", "table", "norm_weight", "norm_bias"}
    t = drawn(problem)
    expected = torch.nn.functional.layer_norm(t["x"] * t["table"], (4,), t["norm_weight"], t["norm_bias"])
    assert torch.equal(reference.call(t)[0], expected)


def test_held_tensors_are_put_back() -> None:
    problem, reference = rebuilt(
        "table = torch.full((4,), 3.0)\ndef f(x): return x * table\ninputs = [torch.randn(6, 4)]"
    )
    reference.call(drawn(problem))
    assert torch.equal(reference.form.held["table"].value, torch.full((4,), 3.0))
    assert torch.equal(reference.form.target(torch.ones(4)), torch.full((4,), 3.0))


def test_inputs_are_not_drawn_again() -> None:
    problem = opened("def f(x): return x * 2\ninputs = [torch.randn(3, 4)]")
    broken = problem.model_copy(update={"source": problem.source.replace("torch.randn(3, 4)", "1 / 0")})
    assert Reference(broken).call({"x": torch.ones(2, 2)})[0].sum() == 8


def test_own_tensors_are_the_persons() -> None:
    _, reference = rebuilt(
        "def f(x, w): return x * w\ninputs = [torch.arange(6.0) - 2, torch.full((6,), 0.5)]"
    )
    own = reference.own_tensors()
    assert (
        own is not None
        and torch.equal(own["x"], torch.arange(6.0) - 2)
        and torch.equal(own["w"], torch.full((6,), 0.5))
    )


def test_large_problems_have_no_own_tensors() -> None:
    _, reference = rebuilt("def f(x): return x * 2\ninputs = [torch.randn(1024, 1024)]")
    assert reference.own_tensors() is None


# ------------------------------------------------------------------------------------ the oracle


@pytest.mark.many(6)
@pytest.mark.parametrize(
    "body",
    [
        "x.float() / 3",
        "x.to(torch.float32) / 3",
        "x.to(dtype=torch.float32) / 3",
        "x / torch.full((1,), 3.0, dtype=torch.float32)",
        "x / torch.tensor(3.0)",
        "torch.softmax(x, -1, dtype=torch.float32) / 3",
        "x.bfloat16() / 3",
        "x.type(torch.float32) / 3",
        "x / torch.arange(1.0, x.shape[-1] + 1)",
    ],
)
def test_oracle_is_float64_throughout(body: str) -> None:
    problem, reference = rebuilt(f"def f(x): return {body}\ninputs = [torch.randn(5, 6)]")
    tensors = drawn(problem)
    (result,) = reference.oracle(tensors)
    names = {"torch": torch, "x": tensors["x"].double()}
    wide = body.replace("float32", "float64").replace(".float()", "").replace(".bfloat16()", "")
    torch.set_default_dtype(torch.float64)
    try:
        expected = eval(wide, names)
    finally:
        torch.set_default_dtype(torch.float32)
    assert result.dtype == torch.float64 and torch.equal(result, expected)


@pytest.mark.slow
def test_attention_of_nan_is_nan_as_on_a_gpu() -> None:
    problem, reference = rebuilt(
        "def f(q, k, v): return F.scaled_dot_product_attention(q, k, v)\n"
        "inputs = [torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)]"
    )
    tensors = drawn(problem)
    tensors["q"][0, 0, 1, 0] = torch.nan
    (found,) = reference.oracle(tensors)
    assert found[0, 0, 1].isnan().all() and found.isnan().sum() == found.shape[-1]


def test_the_limits_of_a_type_stay_its_own_in_float64() -> None:
    """What a mask puts where nothing may be chosen is a result, for those that process scores."""
    problem, reference = rebuilt(
        "def f(x): return x.masked_fill(x < 0, torch.finfo(x.dtype).min)\ninputs = [torch.randn(8, 9)]"
    )
    tensors = drawn(problem)
    (wide,), (own,) = reference.oracle(tensors), reference.call(tensors)
    assert wide.dtype == torch.float64 and torch.equal(wide, own.double())
    assert torch.finfo(torch.float64).min < -1e308


def test_oracle_keeps_integers() -> None:
    problem, reference = rebuilt("def f(x): return x.argmax(-1), x.amax(-1)\ninputs = [torch.randn(5, 6)]")
    index, value = reference.oracle(drawn(problem))
    assert index.dtype == torch.int64 and value.dtype == torch.float64 and problem.returns_tuple


def test_code_that_cannot_run_in_float64_gets_a_note() -> None:
    problem, reference = rebuilt(
        "def f(x): return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)\n"
        "inputs = [torch.randn(5, 6)]"
    )
    assert any("no float64 oracle" in note for note in problem.notes)
    assert reference.oracle(drawn(problem))[0].dtype == torch.float64


def test_sizes_that_are_checked_are_not_called_unchecked() -> None:
    """Of bits of a rounded value nothing is known; kernels are held against the reference all the same."""
    problem, _ = rebuilt("def f(x): return x.half().view(torch.int16) & 0x7FFF\ninputs = [torch.randn(5, 6)]")
    assert len(problem.proofs) > 3
    assert any("against the reference alone" in note for note in problem.notes)
    assert not any("not checked" in note for note in problem.notes)


UNREAD = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.head = nn.Linear(7, 5), nn.Linear(5, 3)
    def forward(self, x):
        hidden = self.linear(x)
        self.head(hidden)
        return hidden
inputs = [torch.randn(4, 7)]
"""


def test_a_layer_whose_output_nobody_uses_runs_too() -> None:
    """Its weights are no tensors of the problem, and still lie and are typed as the others are."""
    problem, reference = rebuilt(UNREAD)
    assert [spec.name for spec in problem.tensors] == ["x", "linear_weight", "linear_bias"]
    tensors = drawn(problem)
    exact = tensors["x"].double() @ tensors["linear_weight"].double().T + tensors["linear_bias"].double()
    assert (reference.oracle(tensors)[0] - exact).abs().max() < 1e-12
    elsewhere = {name: tensor.to("meta") for name, tensor in tensors.items()}
    assert reference.call(elsewhere)[0].device.type == "meta"
    assert torch.allclose(reference.call(tensors)[0], exact.float(), atol=1e-5)


def test_what_is_only_mentioned_goes_nowhere() -> None:
    """A table of gigabytes that another branch would look at is not copied beside the others."""
    problem, reference = rebuilt(
        "table = torch.randn(3, 4)\nflag = False\n"
        "def f(x):\n    if flag:\n        return x + table\n    return x * 2.0\n"
        "inputs = [torch.randn(3, 4)]"
    )
    tensors = drawn(problem)
    reference.call({name: tensor.to("meta") for name, tensor in tensors.items()})
    reference.oracle(tensors)
    assert not reference.form.wants_all and set(reference.form.complete(tensors)) == {"x"}


def test_the_intake_does_not_say_that_float64_cannot_be_had() -> None:
    assert not [note for note in opened(UNREAD).notes if "float64" in note]
