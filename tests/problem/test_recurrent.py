"""Recurrent layers are one operation of the graph, which a library makes; what follows them is fused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from tests.problem.cells import opened
from workbench.model import H100, Kernel
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.problem.recurrent import WHOLE, whole
from workbench.problem.trace import Traced, trace
from workbench.referee.judge import judge
from workbench.referee.options import JudgeOptions

LAYERS = {
    "gru": lambda **how: nn.GRU(5, 6, 2, **how),
    "lstm": lambda **how: nn.LSTM(5, 6, 2, **how),
    "lstm of other width": lambda **how: nn.LSTM(5, 6, 2, proj_size=3, **how),
    "rnn": lambda **how: nn.RNN(5, 6, 2, **how),
    "rnn with relu": lambda **how: nn.RNN(5, 6, 2, nonlinearity="relu", **how),
}
"""The layer, by what it is called here."""


def traced(layer: nn.Module, x: Tensor) -> Traced:
    held = {name: p.detach() for name, p in layer.named_parameters()}

    def call(tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
        params = {name: tensors[name] for name in held}
        output, last = torch.func.functional_call(layer, params, (tensors["x"],))
        return (output, *([last] if isinstance(last, Tensor) else last))

    return trace(call, {"x": x, **held}, True, fixed=held)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.many(10)
@pytest.mark.parametrize("first", [False, True], ids=["steps first", "batch first"])
@pytest.mark.parametrize("both", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_operation_whose_results_are_as_large_as_torchs(
    name: str, both: bool, first: bool
) -> None:
    layer = LAYERS[name](bidirectional=both, batch_first=first).eval()
    x = torch.randn(7, 4, 5)
    found = traced(layer, x)
    recurrent = [node for node in found.graph.nodes if node.op in WHOLE]
    assert len(recurrent) == 1 and len(found.symbols) == 2
    output, last = layer(x)
    wanted = (output, *([last] if isinstance(last, Tensor) else last))
    made = WHOLE[recurrent[0].op]
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        states = [torch.empty(one.shape) for one in wanted[1:]]
        given = states if len(states) > 1 else states[0]
        how = (True, 2, 0.0, False, both, first)
        imitated = made(torch.empty(x.shape), given, [torch.empty(1)], *how)
    assert [(one.shape, one.stride()) for one in imitated] == [(one.shape, one.stride()) for one in wanted]


def test_packed_sequences_and_dropout_are_torchs_own() -> None:
    seen = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.gru:
                seen.append(whole(func, args) is func)
            return func(*args, **(kwargs or {}))

    layer = nn.GRU(5, 6, 2, dropout=0.5)
    with Seen():
        layer.eval()(torch.randn(7, 4, 5))
        layer.eval()(pack_sequence([torch.randn(3, 5), torch.randn(2, 5)]))
        layer.train()(torch.randn(7, 4, 5))
    assert seen == [False, True, True]


TAGGER = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 20)

    def forward(self, x):
        x = x.view(3, 9, 8)  # of no other size: the referee's longest would be a thousand steps
        return torch.log_softmax(torch.relu(self.head(self.rnn(x)[0])), dim=-1)

model = Tagger()
inputs = [torch.randn(3, 9, 8)]
"""


def test_what_follows_a_layer_is_a_kernel_and_is_judged() -> None:
    problem = opened(TAGGER)
    vector = next(c.vector for c in seed_vectors(problem, H100, count=4) if ("fusion", "all") in c.vector)
    source = generate(problem, vector).kernel.source
    assert source.count('"aten.lstm.input"') == 1 and "__global__" in source
    options = JudgeOptions(seed=1, kinds=("normal",), races=False)
    right = judge(problem, Kernel(source=source), H100, options, lambda stage: None)
    assert right.passed, right.outcome
    assert 0.0 < (right.worst_ratio or 0.0) < 0.5
    assert not any("by probing" in check.note for check in right.checks)
    other = source.replace("rnn_weight_hh_l0,", "rnn_weight_hh_l0_reverse,", 1)
    assert other != source
    wrong = judge(problem, Kernel(source=other), H100, options, lambda stage: None)
    assert wrong.outcome.kind in ("mismatch", "compile_failed", "suspect"), wrong.outcome
