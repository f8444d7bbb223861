"""What running a person's cell shows: the reference, its tensors, and what it must not do.

Owns the choice between fake tensors, which hold no data, and real ones. Runs in a worker child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from workbench.errors import ProblemError
from workbench.model import Sampler
from workbench.problem.capture import Capture
from workbench.problem.form import Form, bind
from workbench.problem.pairs import as_pairs
from workbench.problem.recurrent import Whole
from workbench.problem.reference import LARGEST_REAL, build, run
from workbench.problem.refusals import Watch, check_held, check_inputs, check_outputs
from workbench.problem.running import evaluate, quiet, run_source, telling, told, without_gpu
from workbench.problem.samplers import Origins, assumed, learn

READ_BYTES = 2**28
"""Larger inputs are not drawn when the call that makes them says what they hold."""


@dataclass(frozen=True)
class Seen:
    """What running the cell showed; tensors are fake, with the declared sizes."""

    form: Form
    inputs: Mapping[str, Tensor]
    held: Mapping[str, Tensor]
    samplers: Mapping[str, Sampler]
    shapes: Sequence[Any]
    total_bytes: int
    notes: tuple[str, ...]


def look(capture: Capture) -> Seen:
    """Run the cell with fake tensors, then for real unless it is too large for that to be wise."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with mode, quiet(), Origins() as origins:
            fake, shapes = _run(capture, "meta")
    except ProblemError:
        return _look_for_real(capture, {})
    on_meta = "cuda" if "cuda" in capture.source else "meta"
    check_inputs(fake.arguments, on_meta)
    check_held(fake.held, on_meta)
    given = {a.name: a.value for a in fake.arguments if a.is_tensor}
    known = {n: None if t.is_complex() else origins.sampler(t) for n, t in given.items()}
    with mode:
        inputs = {name: as_pairs(tensor) for name, tensor in given.items()}
        held = {name: as_pairs(held.value) for name, held in fake.held.items()}
    total = _bytes(inputs) + _bytes(held)
    if total <= (READ_BYTES if all(known.values()) else LARGEST_REAL):
        return _look_for_real(capture, known)
    notes = tuple(
        f"{name} is too large to look at: values are drawn as {assumed(tensor).kind}"
        for name, tensor in inputs.items()
        if not known[name]
    )
    samplers = {name: known.get(name) or assumed(tensor) for name, tensor in {**inputs, **held}.items()}
    form = fake
    if held and _bytes(held) <= READ_BYTES:
        form = Form(_target(capture), fake.arguments)
        samplers |= {name: learn(as_pairs(held.value)) for name, held in form.held.items()}
    with mode:
        inputs = {name: tensor.to("cpu") for name, tensor in inputs.items()}
    return Seen(form, inputs, held, samplers, shapes, total, notes)


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _target(capture: Capture) -> Callable[..., Any]:
    """The reference alone, with real parameters; the inputs are not drawn."""
    with without_gpu():
        roots = (capture.entry, capture.init.removesuffix("()"))
        return build(capture.entry, capture.init, _ran(capture, roots))


def _ran(capture: Capture, roots: tuple[str, ...]) -> dict[str, Any]:
    return run_source(capture.source, capture.payload, roots, text=capture.text)


def _look_for_real(capture: Capture, known: Mapping[str, Sampler | None]) -> Seen:
    """Run the cell with data; samplers that are not ``known`` are read off the tensors."""
    form, shapes = _run(capture, "cpu")
    check_inputs(form.arguments)
    check_held(form.held)
    inputs = {a.name: as_pairs(a.value.detach()) for a in form.arguments if a.is_tensor}
    held = {name: as_pairs(held.value.detach()) for name, held in form.held.items()}
    samplers = {name: known.get(name) or learn(tensor) for name, tensor in {**inputs, **held}.items()}
    return Seen(form, inputs, held, samplers, shapes, _bytes(inputs) + _bytes(held), ())


def _run(capture: Capture, stand_in: str) -> tuple[Form, Sequence[Any]]:
    expressions = (capture.inputs, capture.init, capture.shapes)
    roots = (capture.entry, *(text.removesuffix("()") for text in expressions if text))
    with without_gpu(stand_in):
        namespace = _ran(capture, roots)
        target = build(capture.entry, capture.init, namespace)
        inputs = evaluate(capture.inputs, namespace)
        shapes = evaluate(capture.shapes, namespace) if capture.shapes else ()
    return Form(target, bind(target, inputs)), shapes


def watched(seen: Seen) -> None:
    """Run once at the declared sizes, without data where that works, and refuse what a kernel cannot do.

    Where values decide a size, or are looked at, the export tells what may be returned.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    metas = {name: (t.shape, t.stride(), t.dtype) for name, t in {**seen.inputs, **seen.held}.items()}
    by_values = False
    try:
        with mode, quiet(), Whole():
            fakes = {n: torch.empty_strided(s, p, dtype=d) for n, (s, p, d) in metas.items()}
            check_outputs(_run_watched(seen.form, fakes))
            return
    except ProblemError:
        raise
    except (DataDependentOutputException, DynamicOutputShapeException):
        if seen.total_bytes > READ_BYTES:
            return
        by_values = True
    except Exception as error:
        if seen.total_bytes > READ_BYTES:
            raise ProblemError(told(error, "the reference")) from error
    # Fake tensors know fewer operations than real ones, and no values: only a real failure counts.
    with telling("the reference"):
        returned = _run_watched(seen.form, {n: t.clone() for n, t in {**seen.inputs, **seen.held}.items()})
    if not by_values:
        check_outputs(returned)


def _run_watched(form: Form, tensors: Mapping[str, Tensor]) -> Any:
    with Watch(tensors, {name: held.role for name, held in form.held.items()}):
        return run(form, tensors)
