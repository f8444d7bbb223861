"""An applied kernel's way to a GPU, against a driver that records: CPU tensors stand for a GPU's."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import doubles
import pytest
import torch
from recorded_driver import RecordedDriver
from test_applied import DOUBLE, Scale, doubled, scale_problem
from torch import Tensor, nn

from workbench.gpu import program
from workbench.live import gpu_calls
from workbench.live.applied import Applied
from workbench.live.binding import Binding
from workbench.model import H100, Problem, Static
from workbench.problem.form import Form, rebind

TWO = """/* plan
def plan(weight, x):
    require(x.shape[0] > 1, "more than one row")
    s = library("aten.mul.Tensor", x, weight)
    y = empty_like(s)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[s, y, x.numel], const={"COLS": x.shape[1]})
    return y
*/
__global__ void twice(const float* x, float* y, int count) {}
"""


class Twofold(Scale):
    """``2 * x * weight``."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x * self.weight


@pytest.fixture
def driver() -> RecordedDriver:
    return RecordedDriver()


@pytest.fixture
def applied(driver: RecordedDriver) -> Applied:
    return Applied(doubled, doubles.problem(), DOUBLE, H100, driver)


@pytest.fixture
def module(driver: RecordedDriver) -> Applied:
    return Applied(Twofold(4), scale_problem(), TWO, H100, driver)


def test_the_second_call_of_a_kind_is_a_look_up(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(5, 7)
    assert torch.equal(applied(x), 2 * x)

    def again(*_: object) -> None:
        raise AssertionError("decided twice")

    monkeypatch.setattr(applied._gpu, "decide", again)
    x.fill_(3.0)  # other numbers at the same place: a new tensor may be aligned otherwise
    for _ in range(4):
        assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (5, 0)


def test_a_kind_seen_twice_in_a_row_is_recognised_without_its_key(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(5, 7)
    for _ in range(3):
        applied(x)

    def made(*_: object) -> None:
        raise AssertionError("a key was made")

    monkeypatch.setattr(applied, "_key_of", made)
    assert torch.equal(applied(x), 2 * x)


def test_kinds_in_turn_are_each_learnt_once(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = []
    own = gpu_calls.likeness
    monkeypatch.setattr(gpu_calls, "likeness", lambda values: learnt.append(values) or own(values))
    kinds = (torch.randn(5, 7), torch.randn(7, 5))
    for _ in range(3):
        for x in (kinds[0], kinds[0], kinds[0], kinds[1], kinds[1], kinds[1]):
            assert torch.equal(applied(x), 2 * x)
    assert len(learnt) == 2
    assert (applied.kernel_calls, applied.fallback_calls) == (18, 0)


def test_without_torchs_own_check_the_key_decides(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C._dynamo.guards, "TensorGuards")
    x = torch.randn(5, 7)
    for _ in range(4):
        assert torch.equal(applied(x), 2 * x)
    assert applied.kernel_calls == 4 and applied._recent is None


def test_every_kind_of_tensor_is_decided_by_itself(applied: Applied) -> None:
    x = torch.randn(6, 8)
    for given in (x, x[:3], x[1:, :], x.t(), torch.randn(8, 8).t(), x.t()):
        assert torch.equal(applied(given), 2 * given)
    assert applied.kernel_calls == 3  # the transposed ones are turned away by the plan
    assert applied.fallback_calls == 3
    assert applied.last_fallback.endswith("contiguous only")
    assert len(applied._gpu.refused) == 2


def test_a_layout_that_was_never_judged_is_refused_once(driver: RecordedDriver) -> None:
    asks_nothing = DOUBLE.replace('    require(x.is_contiguous, "contiguous only")\n', "")
    applied = Applied(doubled, doubles.problem(), asks_nothing, H100, driver)
    spaced = torch.randn(4, 10)[:, ::2]
    for _ in range(2):
        assert torch.equal(applied(spaced), 2 * spaced)
    assert (applied.kernel_calls, len(applied._gpu.refused)) == (0, 1)
    assert applied.last_fallback.endswith("never judged on tensors that lie so")


def test_alignment_is_part_of_the_kind(applied: Applied) -> None:
    storage = torch.randn(100)
    for offset in range(3):
        x = storage[offset : offset + 20].view(4, 5)
        for _ in range(4):
            assert torch.equal(applied(x), 2 * x)
    assert len(applied._runs) == 3


def test_grad_mode_is_part_of_the_kind(applied: Applied) -> None:
    x = torch.randn(2, 3, requires_grad=True)
    assert applied(x).requires_grad
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(applied(x), 2 * x)
    assert applied(x).requires_grad
    assert applied(x.detach()).requires_grad is False
    assert (applied.kernel_calls, applied.fallback_calls) == (5, 2)
    assert "gradient" in applied.last_fallback


class Marked(Tensor):
    """A tensor with a class of its own."""


MEMORY = torch.randn(256)
FIRST = -MEMORY.data_ptr() % 256 // 4
FAMILIAR = MEMORY[FIRST : FIRST + 4].view(2, 2)
"""As aligned as an address of zero: a tensor without memory must not be taken for it."""


@pytest.mark.parametrize("recognised", [False, True])
@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.randn(2, 2).as_subclass(Marked), "Marked"),
        (torch.randn(2, 2).to_sparse(), "sparse"),
        (torch.randn(2, 2, dtype=torch.complex64).conj().imag, "negated"),
        (torch.ones(2, 2, dtype=torch.int32), "i32"),
        (torch.ones(2, 2, device="meta"), "meta"),
    ],
)
def test_what_is_no_plain_tensor_goes_to_the_original(
    applied: Applied, recognised: bool, x: Tensor, reason: str
) -> None:
    known = 4 * recognised
    for _ in range(known):
        applied(FAMILIAR)
    for count in (1, 2):
        applied(x)
        assert (applied.kernel_calls, applied.fallback_calls) == (known, count)
    assert reason in applied.last_fallback


@pytest.mark.parametrize("recognised", [False, True])
def test_transforms_and_modes_see_the_original(applied: Applied, recognised: bool) -> None:
    x = torch.randn(3, 2, 2)
    for _ in range(4 * recognised):
        applied(x[0])
    assert torch.equal(torch.vmap(applied)(x), 2 * x)
    assert torch.equal(torch.func.grad(lambda t: applied(t).sum())(x[0]), torch.full((2, 2), 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, in what jvp loads first
        _, tangent = torch.func.jvp(applied, (x[0],), (x[1],))
    assert torch.equal(tangent, 2 * x[1])
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        applied(x[0])
    assert "dispatch mode" in applied.last_fallback
    assert applied.kernel_calls == 4 * recognised


def test_autocast_sends_calls_to_the_original(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.gpu import guard

    monkeypatch.setattr(guard, "_autocast_enabled", lambda: True)
    applied(torch.ones(2, 2))
    assert "autocast" in applied.last_fallback
    monkeypatch.undo()
    applied(torch.ones(2, 2))
    assert applied.kernel_calls == 1


def test_a_module_reads_its_parameters_at_every_call(module: Applied) -> None:
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(module(x), 2 * x * torch.arange(4.0))
        module.original.weight = nn.Parameter(torch.full((4,), 5.0))
        assert torch.equal(module(x), 10 * x)
        assert torch.equal(module(x=x), 10 * x)
    assert module.kernel_calls == 6


def test_new_shapes_load_what_is_missing_only(module: Applied, driver: RecordedDriver) -> None:
    with torch.no_grad():
        for rows in (2, 3, 4):
            module(torch.randn(rows, 4))
        module(torch.randn(1, 4))
    assert len(driver.functions) == 1
    assert (module.kernel_calls, module.fallback_calls) == (3, 1)
    assert "more than one row" in module.last_fallback


class Dropping(nn.Module):
    """Doubles; drops elements while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(1.0)

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.drop(x)


def test_training_mode_matters_where_code_asks_for_it(driver: RecordedDriver) -> None:
    target = Dropping()
    applied = Applied(target, doubles.problem(), DOUBLE, H100, driver)
    x = torch.ones(2, 2)
    assert not applied(x).any()
    assert "training mode" in applied.last_fallback
    target.eval()
    assert torch.equal(applied(x), 2 * x)


def test_a_refused_launch_is_not_tried_again(applied: Applied, driver: RecordedDriver) -> None:
    driver.refuse_next(701)
    x = torch.ones(2, 2)
    for _ in range(2):
        assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (0, 2)
    assert "registers" in applied.last_fallback


def test_nothing_is_loaded_while_a_graph_is_captured(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    capturing = True
    monkeypatch.setattr(gpu_calls, "capturing", lambda device: capturing)
    x = torch.ones(2, 2)
    applied(x)
    assert "before capturing" in applied.last_fallback
    capturing = False
    applied(x)
    capturing = True
    applied(x)
    applied(torch.ones(3, 2))  # another kind for the same code
    assert (applied.kernel_calls, applied.fallback_calls) == (3, 1)


def test_a_preloaded_kernel_may_be_captured_at_its_first_call(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied.preload(-1)
    monkeypatch.setattr(gpu_calls, "capturing", lambda device: True)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x), 2 * x)
    assert applied.kernel_calls == 1


def test_a_call_that_cannot_wait_for_its_turn_goes_to_the_original(
    driver: RecordedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, captures = 7, {0: 0}
    monkeypatch.setattr(program, "_no_stream", lambda device: stream)
    monkeypatch.setattr(driver, "capture_of", lambda stream, device: captures.get(stream, 0), raising=False)
    monkeypatch.setattr(driver, "event", lambda device: None, raising=False)
    monkeypatch.setattr(driver, "follow", lambda *_: None, raising=False)
    source = DOUBLE.replace("__global__", "__device__ int done;\n__global__").replace(
        "{\n    int", "{\n    done = 0;\n    int"
    )
    applied = Applied(doubled, doubles.problem(), source, H100, driver)
    x = torch.randn(5, 7)
    for _ in range(3):
        assert torch.equal(applied(x), 2 * x)
    stream, captures = 9, {7: 1}
    for _ in range(2):
        assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (3, 2)
    assert "until the capture ends" in applied.last_fallback
    captures = {}
    for _ in range(2):
        assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (5, 2)


def test_many_kinds_do_not_fill_the_memory(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_calls, "MOST_KINDS", 4)
    for rows in range(1, 10):
        applied(torch.ones(rows, 3))
    assert len(applied._runs) <= 4
    assert applied.kernel_calls == 9


def test_threads_decide_once_and_count_every_call(applied: Applied, driver: RecordedDriver) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            x = torch.full((4, 4), float(number))
            if not torch.equal(applied(x), 2 * x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert applied.kernel_calls == 300
    assert applied.kernel_calls == 300  # looking does not count
    assert len(driver.functions) == 1


# ------------------------------------------------------------------------------------ arguments


def binding_of(target: Any, problem: Problem, names: tuple[str, ...]) -> Binding:
    return Binding(Form(target, rebind(target, problem)), problem, names)


def test_patterns_of_calls_are_learnt_one_by_one() -> None:
    def scaled(x: Tensor, factor: float = 2.0, *, shift: int = 1) -> Tensor:
        return x * factor + shift

    statics = (Static(name="factor", value=2.0), Static(name="shift", value=1))
    update = {"signature": ("x", "factor", "shift"), "statics": statics}
    binding = binding_of(scaled, doubles.problem().model_copy(update=update), ("x",))
    x = torch.ones(2)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((x, 2.0), {}),
        ((), {"x": x}),
        ((), {"shift": 1, "x": x, "factor": 2.0}),
        ((x,), {"shift": 1}),
    ]
    for args, kwargs in calls * 2:
        assert binding(args, kwargs)[0] is x
    for args, kwargs in [((x, 3.0), {}), ((x,), {"shift": True}), ((x, x), {}), ((), {})]:
        with pytest.raises(gpu_calls.NotRun):
            binding(args, kwargs)
