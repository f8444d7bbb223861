"""The baselines as acts: eager, torch.compile, and CUDA graphs of both. Runs in a worker child with a GPU.

Owns how the reference is called without any of the workbench's own overhead, and torch.compile's settings.
A baseline that cannot be had is missing, with a reason; it is never replaced by another.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor

from workbench.compile.cache import cache_folder
from workbench.problem.form import Form
from workbench.problem.pairs import as_pairs
from workbench.problem.refusals import check_outputs
from workbench.referee.clock.graphs import graphed
from workbench.referee.clock.lane import Act

EAGER, COMPILE, AUTOTUNED = "eager", "compile", "compile max-autotune"
GRAPH_OF_EAGER, GRAPH_OF_COMPILE = "graph of eager", "graph of compile"
AT_ONCE = (EAGER, COMPILE)
"""Baselines a person waits for."""
LATER = (AUTOTUNED, GRAPH_OF_EAGER, GRAPH_OF_COMPILE)
"""Baselines that follow."""
MODES: Mapping[str, str | None] = {COMPILE: None, AUTOTUNED: "max-autotune-no-cudagraphs"}
GRAPHS = 8
"""Most copies of the inputs a graphed baseline rotates over: every graph keeps memory of its own."""
ADVICE = (
    r"TensorFloat32 tensor cores",
    r"\s*Online softmax is disabled on the fly",
    r"TypedStorage is deprecated",
)
"""How the compiler's advice to the author of a program begins. Nobody here can follow it: the baseline is the
person's reference as it stands, in the contract's precision."""
RECOMPILES = 64
"""Shapes one reference may be compiled for; beyond torch's own limit it would silently run eagerly."""


class Baselines:
    """All baselines of one reference; one object a process, because held tensors are swapped in place."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._held: Mapping[str, Tensor] | None = None
        self._stack = ExitStack()
        self._compiled: dict[str, Callable[..., Any]] = {}

    def acts(
        self, names: Iterable[str], sets: Sequence[Mapping[str, Tensor]]
    ) -> tuple[dict[str, Act], tuple[tuple[str, str], ...]]:
        """Acts over copies of the inputs, each called once, and the baselines that are missing and why.

        Call under the precision contract and without gradients: torch.compile remembers both.
        """
        found: dict[str, Act] = {}
        missing = []
        for name in names:
            try:
                found[name] = self._act(name, sets)
                found[name](0)
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
            except Exception as error:  # the person's code under a compiler it was not written for
                found.pop(name, None)
                missing.append((name, told(error)))
        return found, tuple(missing)

    def close(self) -> None:
        """Put the reference's own tensors back."""
        self._stack.close()
        self._stack, self._held = ExitStack(), None

    def _act(self, name: str, sets: Sequence[Mapping[str, Tensor]]) -> Act:
        if name == GRAPH_OF_EAGER:
            return graphed(self._plain(self._form.target, sets), min(len(sets), GRAPHS))
        if name == GRAPH_OF_COMPILE:
            return graphed(self._plain(self._compile(COMPILE), sets), min(len(sets), GRAPHS))
        target = self._form.target if name == EAGER else self._compile(name)
        return self._plain(target, sets)

    def _plain(self, target: Callable[..., Any], sets: Sequence[Mapping[str, Tensor]]) -> Act:
        calls = [self._form.spread(tensors) for tensors in sets]
        around = _surroundings(lambda: self._called(target, sets[0], calls[0]))

        def act(rotation: int) -> tuple[Tensor, ...]:
            turn = rotation % len(sets)
            self._hold(sets[turn])
            with around():
                result = target(*calls[turn][0], **calls[turn][1])
            return tuple(map(as_pairs, (result,) if isinstance(result, Tensor) else check_outputs(result)))

        return act

    def _called(
        self,
        target: Callable[..., Any],
        tensors: Mapping[str, Tensor],
        call: tuple[list[Any], dict[str, Any]],
    ) -> Any:
        self._hold(tensors)
        return target(*call[0], **call[1])

    def _hold(self, tensors: Mapping[str, Tensor]) -> None:
        """Have the reference hold these tensors; nothing to do when it holds them already."""
        if tensors is self._held or not self._form.held:
            return
        self.close()
        self._stack.enter_context(self._form.holding(tensors))
        self._held = tensors

    def _compile(self, name: str) -> Callable[..., Any]:
        if name not in self._compiled:
            prepare_inductor()
            compiled = torch.compile(self._form.target, dynamic=False, mode=MODES[name])
            self._compiled[name] = compiled
        return self._compiled[name]


def _surroundings(call: Callable[[], Any]) -> Callable[[], Any]:
    """What the reference must be called in: nothing, or a default device where it makes tensors of its own.

    The default device costs each of torch's calls a microsecond, so it is used only where it must be.
    """
    try:
        call()
    except RuntimeError as error:
        if "device" not in str(error):
            raise
        with torch.device("cuda"):
            call()
        return lambda: torch.device("cuda")
    return nullcontext


def prepare_inductor() -> None:
    """Compile in this process only, caches in the workbench's own folder, no advice. Idempotent."""
    folder = cache_folder()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    for beginning in ADVICE:
        warnings.filterwarnings("ignore", message=beginning, category=UserWarning)
    inductor.compile_threads = 1
    dynamo.recompile_limit = RECOMPILES
    dynamo.fail_on_recompile_limit_hit = True


def told(error: BaseException) -> str:
    """One line: the class and its first sentence."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {first[:200]}"
