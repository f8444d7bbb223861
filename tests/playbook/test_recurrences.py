"""Loops that were written out are loops again: found, written, held against float64."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.model import H100
from workbench.playbook.analysis.recurrences import Recurrence, recurrence_of
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.traits import program_of, traits_of

Tensors = dict[str, Tensor]


def decayed(t: Tensors) -> Tensor:
    state, found = torch.zeros_like(t["x"][:, 0]), []
    for step in range(t["x"].shape[1]):
        state = t["a"][:, step] * state + t["x"][:, step]
        found.append(state)
    return torch.stack(found, 1)


def last_state(t: Tensors) -> Tensor:
    state = t["x"][:, 0]
    for step in range(1, t["x"].shape[1]):
        state = torch.tanh(0.5 * state + t["a"][:, step])
    return state * 2


def from_the_end(t: Tensors) -> Tensor:
    """Generalised advantages: the next value is what the step before has read."""
    later = torch.cat((t["a"][:, 1:], torch.zeros_like(t["a"][:, :1])), 1)
    deltas = t["x"] + 0.99 * later - t["a"]
    found = [torch.zeros_like(deltas[:, 0])]
    for step in range(deltas.shape[1] - 1, -1, -1):
        found.append(deltas[:, step] + 0.94 * found[-1])
    return torch.stack(found[:0:-1], 1)


def two_states(t: Tensors) -> tuple[Tensor, Tensor]:
    speed, place, found = torch.zeros_like(t["x"][:, 0]), t["a"][:, 0], []
    for step in range(t["x"].shape[1]):
        speed = 0.9 * speed + t["x"][:, step]
        place = place - 0.1 * speed
        found.append(torch.relu(place))
    return torch.stack(found, 1), speed


def two_steps_back(t: Tensors) -> Tensor:
    """A recursive filter of second order, with the sample before."""
    x, found = t["x"], []
    once = twice = torch.zeros_like(x[:, 0])
    for step in range(x.shape[1]):
        now = x[:, step] - 0.5 * once + 0.2 * twice
        if step:
            now = now + 0.3 * x[:, step - 1]
        found.append(now)
        once, twice = now, once
    return torch.stack(found, 1)


def exchanged(t: Tensors) -> Tensor:
    """Two states, each made of both."""
    one, other, found = t["x"][:, 0], t["a"][:, 0], []
    for step in range(1, t["x"].shape[1]):
        one, other = 0.6 * one - 0.8 * other + t["x"][:, step], 0.8 * one + 0.6 * other
        found.append(one * other)
    return torch.stack(found, 1)


def masked(t: Tensors) -> Tensor:
    """What a weight shares with all steps is read once; a state is kept where a mask says so."""
    state, found = torch.zeros_like(t["x"][:, 0]), []
    for step in range(t["x"].shape[1]):
        state = torch.where(t["a"][:, step] > 0.5, state, torch.sigmoid(t["w"]) * state + t["x"][:, step])
        found.append(state)
    return torch.stack(found, 1)


def one_behind(t: Tensors) -> Tensor:
    """Paths of a price whose variance is made a step before: nothing but the last price is wanted."""
    price, variance = t["w"].exp(), t["w"].square()
    for step in range(t["x"].shape[1]):
        inside = variance.clamp(min=0)
        root = (inside * 0.25).sqrt()
        price = price - 0.5 * inside * 0.25 + root * t["x"][:, step]
        variance = variance + 0.3 * (0.04 - inside) + 0.2 * root * t["a"][:, step]
    return price


LOOPS: dict[Call, tuple[str, int, int]] = {
    decayed: ("ax", 24, 1),
    last_state: ("ax", 23, 1),
    from_the_end: ("ax", 23, 2),
    two_states: ("ax", 23, 2),
    two_steps_back: ("x", 23, 3),
    exchanged: ("ax", 23, 2),
    masked: ("axw", 24, 1),
    one_behind: ("axw", 23, 4),
}
"""Inputs, steps of the loop, and how many values one hands on."""


def tensors_of(call: Call, steps: int = 24, inner: int = 7, dtype: torch.dtype = torch.float32) -> Tensors:
    made: dict[str, Callable[[], Tensor]] = {
        "x": lambda: torch.randn(3, steps, inner),
        "a": lambda: torch.rand(3, steps, inner),
        "w": lambda: torch.randn(inner),
    }
    return {name: made[name]().to(dtype) for name in LOOPS[call][0]}


DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def found_in(call: Call, tensors: Tensors) -> Recurrence | None:
    (kernel,) = program_of(problem_of(call, tensors, varying=False), True).steps
    assert isinstance(kernel, Kernel)
    return recurrence_of(kernel)


@pytest.mark.many(9)
@pytest.mark.parametrize("call", LOOPS)
def test_steps_that_are_alike_are_found(call: Call) -> None:
    found = found_in(call, tensors_of(call))
    assert found is not None
    assert (found.steps, len(found.carried)) == LOOPS[call][1:]


@pytest.mark.many(9)
@pytest.mark.parametrize(("call", "ahead"), crossed(LOOPS, ["8", "16", "32"]))
def test_a_loop_computes_what_its_steps_did(call: Call, ahead: str) -> None:
    tensors = tensors_of(call)
    problem = problem_of(call, tensors, varying=False)
    source = generate(problem, (("rolled_steps", ahead), ("index_width", "32"))).kernel.source
    assert source.count("for (int first = 0;") == 1 and source.count("tanhf(") <= 1
    check(call, source, tensors, "checked")


@pytest.mark.slow
@pytest.mark.parametrize("call", [from_the_end, masked])
def test_of_16_bits(call: Call) -> None:
    tensors = tensors_of(call, dtype=torch.bfloat16)
    problem = problem_of(call, tensors, varying=False)
    check(call, generate(problem, (("rolled_steps", "8"),)).kernel.source, tensors, "checked")


@pytest.mark.many(41)
@pytest.mark.parametrize(("call", "inner"), crossed(LOOPS, [8, 12, 6, 7]))
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_thread_has_neighbours(call: Call, dtype: torch.dtype, inner: int) -> None:
    """Vectors where rows are multiples of them, narrower ones or none where they are not."""
    tensors = tensors_of(call, inner=inner, dtype=dtype)
    problem = problem_of(call, tensors, varying=False)
    for width in ("2", "4", *(("8",) if dtype.itemsize == 2 else ())):
        vector = (("rolled_steps", "8"), ("vector_width", width))
        source = generate(problem, vector).kernel.source
        assert ("template <int VEC>" in source) == (inner % max(2, int(width) // 2) == 0)
        check(call, source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("inner", [8, 10, 33])
def test_sizes_that_vary_get_the_widths_they_allow(inner: int) -> None:
    tensors = tensors_of(decayed, 19, inner)
    vector = (("rolled_steps", "8"), ("vector_width", "4"))
    check(decayed, generate(problem_of(decayed, tensors), vector).kernel.source, tensors, "checked")


@pytest.mark.slow
def test_vectors_wait_in_registers_and_leave_as_vectors() -> None:
    tensors = tensors_of(decayed, 64, 96, torch.bfloat16)
    vector = (("index_width", "32"), ("rolled_steps", "16"), ("vector_width", "2"))
    source = generate(
        problem_of(decayed, tensors, varying=False), (*vector, ("stores", "streamed"))
    ).kernel.source
    body = source[source.index("float total[VEC]") :]
    assert VECTORS_AHEAD in body, body


VECTORS_AHEAD = """\
    // 64 steps that are alike. What 16 of them read is on its way before these begin.
#pragma unroll 1
    for (int first = 0; first < 64; first += 16) {
        Pack<__nv_bfloat16, VEC> x_ahead[16], a_ahead[16];
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            const int step = first + n;
            x_ahead[n] = load<VEC>(x + (row_at * 6144 + _96_at + step * 96));
            a_ahead[n] = load<VEC>(a + (row_at * 6144 + _96_at + step * 96));
        }
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            const int step = first + n;
            Pack<__nv_bfloat16, VEC> cat_pack;
#pragma unroll
            for (int k = 0; k < VEC; ++k) {
                const float x_value = __bfloat162float(x_ahead[n].at[k]);
                const float a_value = __bfloat162float(a_ahead[n].at[k]);
                total[k] = a_value * total[k] + x_value;
                cat_pack.at[k] = __float2bfloat16(total[k]);
            }
            store_once(cat + (row_at * 6144 + _96_at + step * 96), cat_pack);
        }
    }
"""


def factors_beside(t: Tensors) -> Tensor:
    """A factor of each step that neighbours share, and one of a channel that all steps do."""
    state, found = torch.zeros_like(t["x"][:, 0]), []
    for step in range(t["x"].shape[1]):
        state = torch.exp(-t["w"]) * t["a"][:, step, :1] * state + t["x"][:, step]
        found.append(state + t["w"])
    return torch.stack(found, 1)


def as_rows(t: Tensors) -> Tensor:
    """Time is the last axis: neighbours in a step lie apart, in no vector."""
    state, found = torch.zeros_like(t["x"][:, :, 0]), []
    for step in range(t["x"].shape[2]):
        state = 0.9 * state + t["x"][:, :, step]
        found.append(state)
    return torch.stack(found, 2)


@pytest.mark.slow
def test_what_is_no_vector_is_read_by_the_element() -> None:
    tensors = {"x": torch.randn(3, 20, 12), "a": torch.rand(3, 20, 12), "w": torch.rand(12)}
    vector = (("rolled_steps", "8"), ("vector_width", "4"))
    problem = problem_of(factors_beside, tensors, varying=False)
    source = generate(problem, vector).kernel.source
    assert "a_ahead[5][VEC]" in source or "a_ahead[4][VEC]" in source or "a_ahead[8][VEC]" in source
    check(factors_beside, source, tensors, "checked")
    tensors = {"x": torch.randn(3, 12, 20)}
    source = generate(problem_of(as_rows, tensors, varying=False), vector).kernel.source
    assert "template <int VEC>" not in source
    check(as_rows, source, tensors, "checked")


@pytest.mark.many(9)
@pytest.mark.parametrize("steps", [8, 9, 19])
@pytest.mark.parametrize("call", [decayed, two_steps_back])
def test_any_number_of_steps(call: Call, steps: int) -> None:
    tensors = tensors_of(call, steps, inner=33)
    problem = problem_of(call, tensors)  # sizes vary, the steps do not
    assert not problem.symbols or traits_of(problem).recurrences == (steps > 8 or call is decayed)
    check(call, generate(problem, (("rolled_steps", "8"),)).kernel.source, tensors, "checked")


def test_few_steps_stay_below_one_another() -> None:
    assert found_in(decayed, tensors_of(decayed, steps=7)) is None


def uneven(t: Tensors) -> Tensor:
    """Each step has another factor."""
    state, found = torch.zeros_like(t["x"][:, 0]), []
    for step in range(t["x"].shape[1]):
        state = 0.9**step * state + t["x"][:, step]
        found.append(state)
    return torch.stack(found, 1)


def in_between(t: Tensors) -> tuple[Tensor, Tensor]:
    """A state in the middle is wanted too, behind the loop."""
    state, states, found = torch.zeros_like(t["x"][:, 0]), [], []
    for step in range(t["x"].shape[1]):
        state = t["a"][:, step] * state + t["x"][:, step]
        states.append(state)
        found.append(torch.tanh(state))
    return torch.stack(found, 1), states[11] * 2


def moving_sum(t: Tensors) -> Tensor:
    """Neighbours read the same elements."""
    total = t["x"][:, :, 0:10]
    for place in range(1, 20):
        total = total + t["x"][:, :, place : place + 10]
    return total


def skipping(t: Tensors) -> Tensor:
    """Every third step reads elsewhere."""
    state, found = torch.zeros_like(t["x"][:, 0]), []
    for step in range(t["x"].shape[1]):
        state = 0.5 * state + t["x"][:, step if step % 3 else 0]
        found.append(state)
    return torch.stack(found, 1)


@pytest.mark.many(5)
@pytest.mark.parametrize("call", [uneven, in_between, skipping, moving_sum])
def test_steps_that_differ_stay_as_they_are(call: Call) -> None:
    inner = 32 if call is moving_sum else 7
    tensors = tensors_of(decayed, inner=inner)
    tensors = tensors if call is in_between else {"x": tensors["x"]}
    problem = problem_of(call, tensors, varying=False)
    kernels = [step for step in program_of(problem, True).steps if isinstance(step, Kernel)]
    assert all(recurrence_of(kernel) is None for kernel in kernels)
    check(call, generate(problem, (("rolled_steps", "16"),)).kernel.source, tensors, "checked")


@pytest.mark.slow
def test_loads_are_on_their_way_together() -> None:
    tensors = tensors_of(decayed, 16, 96)
    source = generate(problem_of(decayed, tensors), (("rolled_steps", "16"),)).kernel.source
    assert "float a_ahead[16], x_ahead[16];" in source or "float x_ahead[16], a_ahead[16];" in source
    assert "__launch_bounds__(THREADS, 1)" in source


@pytest.mark.slow
def test_seeds_have_it_and_it_is_not_expected_to_lose() -> None:
    tensors = {"x": torch.randn(16, 64, 4096, device="meta"), "a": torch.rand(16, 64, 4096, device="meta")}
    problem = problem_of(decayed, tensors, varying=False)
    seeds = [dict(card.vector or ()) for card in seed_vectors(problem, H100, 4)]
    assert any(seed.get("rolled_steps", "off") != "off" for seed in seeds)
    sizes = problem.cases[0].size_map
    on, off = ((("index_width", "32"), ("rolled_steps", steps)) for steps in ("16", "off"))
    assert estimate(problem, on, H100, sizes).us <= estimate(problem, off, H100, sizes).us


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda one, other: one + other,
    lambda one, other: one - other,
    lambda one, other: one * torch.sigmoid(other),
    torch.maximum,
    lambda one, other: torch.where(other > 0, one, other),
)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(
    states=st.integers(1, 3),
    lines=st.lists(
        st.tuples(st.sampled_from(range(len(OPERATIONS))), st.integers(0, 5), st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    steps=st.integers(9, 19),
    backwards=st.booleans(),
    kept=st.booleans(),
    width=st.sampled_from(["1", "2", "4"]),
    inner=st.sampled_from([5, 6, 8]),
)
def test_drawn_steps(
    states: int,
    lines: list[tuple[int, int, int]],
    steps: int,
    backwards: bool,
    kept: bool,
    width: str,
    inner: int,
) -> None:
    """Steps of drawn operations on states and inputs, whether or not they are found to be a loop."""

    def looped(t: Tensors) -> Tensor | tuple[Tensor, ...]:
        held = [t["x"][:, 0] * 0.5] * states
        found = []
        for step in range(steps)[::-1] if backwards else range(steps):
            values = [*held, t["x"][:, step], t["a"][:, step], t["w"].expand(2, inner)]
            for chosen, one, other in lines:
                made = OPERATIONS[chosen](values[one % len(values)], values[other % len(values)])
                values.append(torch.tanh(made))
            held = [*held[1:], values[-1]]
            found.append(values[-1] + values[0])
        return torch.stack(found, 1) if kept else tuple(held)

    tensors = {"x": torch.randn(2, steps, inner), "a": torch.rand(2, steps, inner), "w": torch.randn(inner)}
    problem = problem_of(looped, tensors, varying=False)
    vector = (("rolled_steps", "8"), ("vector_width", width))
    source = generate(problem, vector).kernel.source
    check(looped, source, tensors, "checked")
