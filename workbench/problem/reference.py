"""The reference, rebuilt from a problem: call it, or run it in float64.

Runs in a worker child. Executes only the definitions the reference needs, so that a declared input
of gigabytes is not drawn again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from workbench.errors import ProblemError
from workbench.model import Problem
from workbench.problem.capture import init_expression, inputs_expression
from workbench.problem.form import Form, bind, rebind
from workbench.problem.oracle import in_float64, own_dtype, widened
from workbench.problem.pairs import as_pairs
from workbench.problem.refusals import check_outputs
from workbench.problem.running import evaluate, run_source, telling, without_gpu

LARGEST_REAL = 2**31
"""Bytes; a problem larger than this is never built with data in it."""


class Reference:
    """A problem's reference as a function from a dict of all its tensors to a tuple of tensors."""

    def __init__(self, problem: Problem, form: Form | None = None) -> None:
        """``form`` spares the rebuilding when it is at hand.

        Raises ``ProblemError`` when the source no longer runs.
        """
        self.problem = problem
        self.form = form or self._rebuilt()

    def call(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """What the reference returns for ``tensors``, on their device, as a tuple.

        Raises ``ProblemError`` with the person's line when it fails.
        """
        with telling("the reference"):
            return check_outputs(run(self.form, tensors))

    def oracle(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """The same in float64, from the same (unwidened) ``tensors``; integer outputs stay integers.

        Code that cannot run in float64 (the intake leaves a note) is run as it is. Float results are
        float64 in any case.
        """
        try:
            results = check_outputs(run_in_float64(self.form, tensors))
        except torch.OutOfMemoryError:
            raise
        except Exception:
            results = self.call(tensors)
        return tuple(r.double() if r.dtype.is_floating_point else r for r in results)

    def own_tensors(self) -> dict[str, Tensor] | None:
        """The tensors the person gave, at the first declared case; None unless ``problem.own_inputs``."""
        if not self.problem.own_inputs:
            return None
        problem = self.problem
        roots = (problem.entry, "init_inputs", "get_init_inputs", "inputs", "get_inputs")
        with without_gpu():
            namespace = run_source(problem.source, problem.payload, roots)
            inputs = evaluate(inputs_expression(problem.source) or "inputs", namespace)
        given = {a.name: as_pairs(a.value) for a in bind(self.form.target, inputs) if a.is_tensor}
        held = {name: as_pairs(held.value.detach()) for name, held in self.form.held.items()}
        known = {spec.name for spec in problem.tensors}
        return {name: tensor for name, tensor in {**held, **given}.items() if name in known}

    def _rebuilt(self) -> Form:
        target = rebuilt(self.problem)
        return Form(target, rebind(target, self.problem))


def rebuilt(problem: Problem, largest: int = LARGEST_REAL) -> Callable[..., Any]:
    """The function or module as it was when the problem was read, in new objects.

    Parameters of more than ``largest`` bytes have no data. Raises ``ProblemError`` when the source no longer
    runs.
    """
    init = init_expression(problem.source) if problem.kind in ("module_class", "kernelbench") else ""
    metas = problem.metas(problem.cases[0])
    held = sum(metas[s.name].nbytes for s in problem.tensors if s.role != "input")
    roots = (problem.entry, init.removesuffix("()"))
    with without_gpu():
        if held <= largest:
            return build(problem.entry, init, run_source(problem.source, problem.payload, roots))
        with FakeTensorMode(allow_non_fake_inputs=True):
            return build(problem.entry, init, run_source(problem.source, problem.payload, roots))


def build(entry: str, init: str, namespace: Mapping[str, Any]) -> Callable[..., Any]:
    """The callable named ``entry``: a function, or a module in evaluation mode.

    A module class is constructed with the value of the expression ``init``.
    """
    target = namespace.get(entry)
    if inspect.isclass(target):
        arguments = evaluate(init, namespace) if init else []
        with telling(f"{entry}(...)"):
            target = target(**arguments) if isinstance(arguments, dict) else target(*arguments)
    if isinstance(target, nn.Module):
        return target.eval()
    if not callable(target):
        raise ProblemError(f"{entry} is {type(target).__name__}, not a function or an nn.Module")
    function: Callable[..., Any] = getattr(target, "_torchdynamo_orig_callable", target)
    return function


def run_in_float64(form: Form, tensors: Mapping[str, Tensor]) -> Any:
    """What ``run`` does, with everything as float64, from (unwidened) ``tensors``."""
    with in_float64(own_dtype(tensors.values())):
        return _again_with_all(form, tensors, lambda: _run(form, widened(form.complete(tensors))))


def run(form: Form, tensors: Mapping[str, Tensor]) -> Any:
    """Call without gradients, where the tensors lie; what it returns is not checked.

    On the CPU, code that names ``cuda`` runs all the same; on a GPU, new tensors are made there.
    """
    return _again_with_all(form, tensors, lambda: _run(form, tensors))


def _again_with_all(form: Form, tensors: Mapping[str, Tensor], call: Callable[[], Any]) -> Any:
    """Once more with all that the reference holds, where it fails with what the problem knows of."""
    try:
        return call()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        if form.wants_all or form.held.keys() <= tensors.keys():
            raise
        form.wants_all = True
        try:
            return call()
        except Exception:
            form.wants_all = False
            raise


def _run(form: Form, tensors: Mapping[str, Tensor]) -> Any:
    on_gpu = next((t.device for t in tensors.values() if t.is_cuda), None)
    if on_gpu is None:
        with torch.no_grad(), without_gpu():
            return form(tensors)
    with torch.no_grad(), on_gpu, without_gpu(str(on_gpu)):
        return form(tensors)
