"""The worker's side of the intake: run the cell, look at its tensors, trace it, choose its proofs.

Owns the order of the steps; each step is another module's. Runs in a worker child.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from workbench.errors import ProblemError
from workbench.model import Case, Dim, OutputSpec, Problem, Static, TensorSpec, size_of
from workbench.numerics.dtypes import NAMES, TORCH
from workbench.numerics.selftest import SelfTest
from workbench.problem.candidates import Kind
from workbench.problem.capture import Capture
from workbench.problem.components import components
from workbench.problem.cost import fixed_elements
from workbench.problem.declared import Entry, entries, with_equal_ones, with_more_than_one
from workbench.problem.equal_windows import equal_windows
from workbench.problem.few_axes import few_axes
from workbench.problem.fixed_sizes import channels, fixed_sizes
from workbench.problem.form import Form
from workbench.problem.fresh import runnable, where_it_runs, with_own_buffers
from workbench.problem.halving import halved
from workbench.problem.layout import strides_of
from workbench.problem.looking import Seen, look, watched
from workbench.problem.meeting_sizes import Axis
from workbench.problem.needless import needless_work
from workbench.problem.patience import Patience, TookTooLong
from workbench.problem.proofs import (
    LARGE_FIXED,
    Accept,
    declared_case,
    label,
    proofs,
    proportions,
)
from workbench.problem.recurrent import Whole
from workbench.problem.reference import Reference, run
from workbench.problem.refusals import check_outputs
from workbench.problem.running import quiet, told, without_gpu
from workbench.problem.samplers import of_few_values
from workbench.problem.statements import needed, read_statements
from workbench.problem.tied_sizes import Tie, tied_sizes
from workbench.problem.trace import Traced, trace
from workbench.problem.trials import Asks, OnlyAsDeclared, examine
from workbench.problem.unrolled import unrolled

OWN_BYTES = 2**20
"""Largest total of the person's tensors that are kept as an input of their own."""
_MOST_ALONE = 6
"""Axes that are tried as the one whose size a number is made of: each is a trace more."""

Tell = Callable[[str], None]


def open_in_child(payload: bytes, send: Callable[[bytes], None]) -> bytes:
    """Worker function: a ``Capture`` in, ``{"problem": ...}`` or ``{"error": sentence}`` out.

    Nothing in, nothing out: only what the first problem would have to wait for is imported.
    """
    if not payload:
        _import_all()
        return b""
    capture = Capture.model_validate_json(payload)
    # The tensors are small: a second thread costs more than it brings, above all on a busy machine.
    torch.set_num_threads(1)
    try:
        with Patience(lambda note: send(note.encode())) as patience:
            problem = open_capture(capture, patience.tell)
    except (ProblemError, TookTooLong) as error:
        return json.dumps({"error": str(error)}).encode()
    return json.dumps({"problem": problem.model_dump(mode="json")}).encode()


def warm_up() -> None:
    """The same once for all problems, in the server that workers are forked from: 1.6 s less for each.

    Only where torch is built without a GPU. Elsewhere its compiler may ask for one, which starts a thread of
    the driver, and then no process may be forked.
    """
    if torch.version.cuda is None and torch.version.hip is None:
        _import_all()


def _import_all() -> None:
    """Tracing imports most of torch's compiler at its first use."""
    import torch._dynamo

    with torch.no_grad():
        trace(lambda tensors: tensors["x"].softmax(-1), {"x": torch.ones(3, 5)}, varying=True)


def open_capture(capture: Capture, tell: Tell) -> Problem:
    """Open a problem in this process. Raises ``ProblemError``."""
    tell(f"reading the {capture.text}")
    seen = look(capture)
    watched(seen)
    tell("tracing the reference")
    axes: tuple[Axis, ...] = tuple(unrolled(seen.form, seen.inputs, seen.held))
    traced, problem = _described(capture, seen, axes)
    why = _fixed(problem)
    ties = tied_sizes(problem)
    if ties or any(why.values()):
        axes = (*axes, *dict.fromkeys(axis for found in why.values() for axis in found))
        traced, problem = _described(capture, seen, axes, ties)
        if more := tuple(tie for tie in tied_sizes(problem) if tie not in ties):  # of what is fixed now
            ties = (*ties, *more)
            traced, problem = _described(capture, seen, axes, ties)
    told_of = (*_idle_notes(capture), *_mode_notes(seen.form, capture.source))
    told_of = (*told_of, *_fixed_notes(why, seen), *_tied_notes(ties))
    try:
        return _tried(problem, seen, traced, told_of, tell)
    except OnlyAsDeclared as only:
        every = [(name, at) for name, tensor in seen.inputs.items() for at in range(tensor.dim())]
        free = [axis for axis in every if axis not in axes]
        made_of = "the reference computes with a number that it makes of"
        for name, at in free[:_MOST_ALONE]:
            with suppress(OnlyAsDeclared, ProblemError):
                one, alone = _described(capture, seen, (*axes, (name, at)), ties)
                size = seen.inputs[name].shape[at]
                note = f"fixed, as {made_of} it: {size} along axis {at} of {name}"
                return _tried(alone, seen, one, (*told_of, note), tell, asks="everywhere")
        if not only.is_known:
            return _tried(problem, seen, traced, told_of, tell, asks="know")
        traced, problem = _described(capture, seen, every, ties)
        note = f"all sizes are fixed: at others {made_of} them"
        return _tried(problem, seen, traced, (*told_of, note), tell)


def _tried(
    problem: Problem, seen: Seen, traced: Traced, told_of: Sequence[str], tell: Tell, asks: Asks = "guess"
) -> Problem:
    """The problem with small sizes to check on, at which the reference has run; with its own buffers where it
    fails with others. Raises ``ProblemError``."""
    try:
        return _tried_with(problem, seen, traced, told_of, tell, asks)
    except ProblemError:
        own = with_own_buffers(problem, seen.form)
        if own is not None:
            with suppress(ProblemError):
                return _tried_with(own, seen, traced, (*told_of, *own.notes), tell, asks)
        raise


def _tried_with(
    problem: Problem, seen: Seen, traced: Traced, told_of: Sequence[str], tell: Tell, asks: Asks
) -> Problem:
    """The same with buffers as they are drawn."""
    tell("choosing small sizes to check on")
    least = {symbol: low for symbol, low, _ in traced.ranges}
    small = small_sizes(problem, _accepting(problem, seen.form, traced), least)
    notes = (*seen.notes, *told_of, *traced.notes)
    problem = problem.model_copy(update={"proofs": small, "notes": (*notes, *needless_work(problem))})
    tell("running the reference")
    if not runnable(problem):
        note = "no small sizes exist and the declared ones are too large to run here: nothing was tried"
        return problem.model_copy(update={"notes": (*problem.notes, note)})
    problem = _examined(problem, seen, traced, asks)
    if fixed_elements(problem) > LARGE_FIXED:
        note = "large parameters: only a few small batches are checked, and the problem did not test itself"
        return problem.model_copy(update={"notes": (*problem.notes, note)})
    tell("testing whether wrong answers would be noticed")
    return _self_tested_somehow(problem, seen)


def small_sizes(problem: Problem, accept: Accept, least: Mapping[str, int]) -> tuple[Case, ...]:
    """Sizes that vary each alone; where there are none, as equal as they are declared, in proportion to one
    another, or from ``least`` on.

    A loop of thirty steps takes the thirtieth slice of all that it goes along: all of them are as long.
    Batches and heads that are one axis in a product are told apart by nobody.
    """
    ways: tuple[Callable[[], tuple[Case, ...]], ...] = (
        partial(proofs, problem, accept),
        partial(proofs, problem, accept, tied=True),
        *(partial(proofs, problem, accept, like=like) for like in proportions(problem)),
        partial(proofs, problem, accept, least=least),
    )
    small = next((small for way in ways if (small := way())), ())
    return small or halved(problem, accept, least)


def _described(
    capture: Capture,
    seen: Seen,
    fixed: Collection[Axis] = (),
    ties: Collection[Tie] = (),
) -> tuple[Traced, Problem]:
    """The reference's graph, its tensors and its declared cases; ``fixed`` axes keep their sizes, axes in
    ``ties`` are as long as they say."""
    several = with_more_than_one(seen.inputs, _entries(seen))
    as_they_are = all(several[name] is own for name, own in seen.inputs.items())
    refusals = []
    for inputs in (seen.inputs,) if as_they_are else (several, seen.inputs):
        try:
            traced = _traced(seen, inputs, fixed, ties)
            return traced, _with_cases(_problem(capture, seen, traced), seen, traced)
        except ProblemError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _traced(
    seen: Seen, inputs: Mapping[str, Tensor], fixed: Collection[Axis], ties: Collection[Tie]
) -> Traced:
    def call(tensors: dict[str, Tensor]) -> Any:
        for tie in ties:
            (one, at), (other, place) = tie.long, tie.short
            if tensors[one].shape[at] != tie.times * tensors[other].shape[place]:
                raise ValueError(f"{one} is not {tie.times} times as long as {other}")
        with without_gpu():
            return seen.form(tensors)

    # Gradients are switched off outside: inside, the export would lose the person's lines.
    with torch.no_grad():
        return trace(call, {**inputs, **seen.held}, varying=True, fixed=tuple(seen.held), axes=fixed)


def _idle_notes(capture: Capture) -> tuple[str, ...]:
    """Say which lines that would have done something were not run: nothing the problem needs is there."""
    statements = read_statements(capture.source)
    expressions = (capture.inputs, capture.init, capture.shapes)
    kept = needed(statements, (capture.entry, *(text.removesuffix("()") for text in expressions if text)))
    idle = [str(s.line) for s in statements if s not in kept and s.acts]
    if not idle or capture.kind == "pickled":
        return ()
    lines = f"line {idle[0]} was" if len(idle) == 1 else f"lines {', '.join(idle)} were"
    return (f"{lines} not run: neither the reference nor its inputs need it",)


def _mode_notes(form: Form, source: str) -> tuple[str, ...]:
    """Say so where evaluation mode changes what a module computes."""
    if not isinstance(form.target, nn.Module):
        return ()
    parts = [part for part in form.target.modules() if type(part).__module__.startswith("torch.")]
    told_of = sorted({type(part).__name__ for part in parts if _has_modes(part)})
    told_of += ["self.training is False"] if re.search(r"\bself\.training\b", source) else []
    if not told_of:
        return ()
    return (f"the module runs in evaluation mode ({', '.join(told_of)})",)


def _has_modes(part: nn.Module) -> bool:
    """An instance norm is one of those only where it keeps statistics."""
    name = type(part).__name__
    return "Dropout" in name or "BatchNorm" in name or getattr(part, "running_mean", None) is not None


def _fixed(problem: Problem) -> dict[str, tuple[Axis, ...]]:
    """Axes whose sizes are no sizes any more, by the reason that a person is told."""
    return {
        "as components that are summed up inside another reduction": components(problem),
        "so that an adaptive pool has windows of one size": equal_windows(problem),
        "so that what is made of few elements can be written out": few_axes(problem),
        "as what they meet has that size": fixed_sizes(problem),
        "as a convolution's weights have so many channels": channels(problem),
    }


def _fixed_notes(why: Mapping[str, Collection[Axis]], seen: Seen) -> tuple[str, ...]:
    """Say which sizes are no sizes any more, each once; those of parameters and buffers never were any."""
    notes, told_of = [], set[Axis]()
    for reason, fixed in why.items():
        new = [axis for axis in fixed if axis not in told_of and axis[0] in seen.inputs]
        told_of.update(new)
        axes = [f"{seen.inputs[name].shape[axis]} along axis {axis} of {name}" for name, axis in new]
        notes += [f"fixed, {reason}: {', '.join(axes)}"] if axes else []
    return tuple(notes)


def _tied_notes(ties: Collection[Tie]) -> tuple[str, ...]:
    """Say which sizes are one size now."""
    same = [f"{_axis(tie.long)} and {_axis(tie.short)}" for tie in ties if tie.times == 1]
    more = [f"{_axis(tie.long)} is {tie.times} times {_axis(tie.short)}" for tie in ties if tie.times > 1]
    notes = [f"kept as long as each other, as in the inputs: {', '.join(same)}"] if same else []
    return (*notes, *([f"kept as in the inputs: {', '.join(more)}"] if more else []))


def _axis(axis: Axis) -> str:
    return f"axis {axis[1]} of {axis[0]}"


def _examined(problem: Problem, seen: Seen, traced: Traced, asks: Asks) -> Problem:
    """Run the reference; where only its data shows that sizes must agree, as a loss's do, they agree.

    Where that is not it, the sizes are left out at which it fails.
    """
    try:
        return examine(problem, seen.form, asks)
    except ProblemError:
        accept = _accepting(problem, seen.form, traced)
        tied = proofs(problem, accept, tied=True)
        if tied not in ((), problem.proofs):
            note = (
                "sizes that are equal in the inputs are kept equal: the reference refuses others as it runs"
            )
            changes = {"proofs": tied, "notes": (*problem.notes, note)}
            with suppress(ProblemError):
                return examine(problem.model_copy(update=changes), seen.form, asks)
        chosen = where_it_runs(problem, seen.form, accept)
        if chosen is None:
            raise
        return examine(chosen, seen.form, asks)


def _self_tested_somehow(problem: Problem, seen: Seen) -> Problem:
    """With ordinary inputs, with inputs of few values, and only then with a look at rarer values too."""
    of_few = _with_few_values(problem, seen)
    variants = (problem,) if of_few == problem else (problem, of_few)
    references = [Reference(one, seen.form) for one in variants]
    tests = [(ref.problem, SelfTest(ref.problem, ref.call, ref.oracle)) for ref in references]
    refusals = []
    for rarer in (False, True):
        for one, test in tests:
            try:
                return _self_tested(one, test, rarer)
            except ProblemError as refusal:
                refusals.append(refusal)
    raise refusals[0]


def _self_tested(problem: Problem, test: SelfTest, rarer: bool) -> Problem:
    findings = test.findings(rarer)
    for finding in findings:
        if finding.severity == "refuse":
            raise ProblemError(f"{problem.name}: {finding.message}")
    warnings = tuple(finding.message for finding in findings)
    return problem.model_copy(update={"notes": (*problem.notes, *warnings)})


def _with_few_values(problem: Problem, seen: Seen) -> Problem:
    """Inputs of few values: a loss may look for labels of just -1 and 1, and a mask of ones tells nothing."""
    specs = []
    for spec in problem.tensors:
        sampler = of_few_values(seen.inputs[spec.name]) if spec.role == "input" else None
        specs.append(spec.model_copy(update={"sampler": sampler}) if sampler else spec)
    return problem.model_copy(update={"tensors": tuple(specs)})


# ------------------------------------------------------------------------------------ the problem


def _problem(capture: Capture, seen: Seen, traced: Traced) -> Problem:
    dims = dict(traced.dims)
    used = _used(traced)
    unused = [name for name in seen.inputs if name not in used]
    if unused:
        raise ProblemError(
            f"the output does not depend on input {unused[0]!r}. Remove it from the function and the inputs; "
            "of a tensor that only gives its size, pass the size as a number."
        )
    keywords = {argument.name: argument.keyword for argument in seen.form.arguments}
    specs = [
        _spec(name, tensor, dims[name], seen, keywords.get(name, ""))
        for name, tensor in {**seen.inputs, **seen.held}.items()
        if name in used
    ]
    floats = {spec.dtype for spec in specs if spec.role == "input"}
    sixteen = bool(floats & {"f16", "bf16"})
    return Problem(
        name=capture.name,
        source=capture.source,
        entry=capture.entry,
        kind=_kind(capture, seen.form),
        payload=capture.payload,
        tensors=tuple(specs),
        statics=tuple(Static(name=a.name, value=a.value) for a in seen.form.arguments if not a.is_tensor),
        signature=tuple(argument.name for argument in seen.form.arguments),
        symbols=traced.symbols,
        outputs=_outputs(traced, seen.form),
        returns_tuple=traced.returns_tuple,
        returned=seen.form.returned,
        cases=(Case(label=label(specs, dict(traced.sizes)), sizes=traced.sizes),),
        graph=traced.graph,
        contract="16-bit io, fp32 accumulate" if sixteen else "ieee-fp32",
        own_inputs=seen.total_bytes <= OWN_BYTES and not _without_data(seen.form),
    )


def _outputs(traced: Traced, form: Form) -> tuple[OutputSpec, ...]:
    """The results, and which of them are complex to the person."""
    return tuple(
        spec.model_copy(update={"in_pairs": True}) if is_complex else spec
        for spec, is_complex in zip(traced.outputs, form.complex_results, strict=True)
    )


def _without_data(form: Form) -> bool:
    """True when the person gave shapes only, as tensors on the meta device."""
    return any(a.is_tensor and a.value.is_meta for a in form.arguments)


def _kind(capture: Capture, form: Form) -> Kind:
    if capture.kind == "function" and isinstance(form.target, nn.Module):
        return "module_instance"
    return capture.kind


def _used(traced: Traced) -> set[str]:
    """Tensor arguments that reach an output."""
    found: set[str] = {ref.ref for ref in traced.graph.outputs}
    stack: list[Any] = [(node.args, node.kwargs) for node in traced.graph.nodes]
    while stack:
        value = stack.pop()
        if isinstance(value, tuple):
            stack.extend(value)
        elif hasattr(value, "ref"):
            found.add(value.ref)
    return found


def _spec(name: str, tensor: Tensor, dims: tuple[Dim, ...], seen: Seen, keyword: str) -> TensorSpec:
    held = seen.form.held.get(name)
    path = held.path if held else keyword if keyword != name else ""
    return TensorSpec(
        name=name,
        role=held.role if held else "input",
        dtype=NAMES[tensor.dtype],
        dims=dims,
        strides=strides_of(tensor.shape, tensor.stride(), dims),
        sampler=seen.samplers[name],
        path=path,
        in_pairs=name in seen.form.in_pairs,
    )


def _with_cases(problem: Problem, seen: Seen, traced: Traced) -> Problem:
    """The inputs' own sizes first, then every entry of ``shapes``."""
    own = [tuple(seen.inputs[spec.name].shape) for spec in problem.tensors if spec.role == "input"]
    base = declared_case(problem.tensors, own, dict(traced.sizes))
    first = _case(problem, base)
    found = {first.sizes: first}
    for entry in _entries(seen):
        try:
            sizes = declared_case(problem.tensors, entry, base)
        except ProblemError as error:
            raise ProblemError("\n".join((str(error), *(f"({note})" for note in traced.notes[:1])))) from None
        unfit = _unfit(problem, seen.form, traced, sizes)
        if unfit:
            along = declared_case(problem.tensors, entry, with_equal_ones(sizes, base))
            if along == sizes or _unfit(problem, seen.form, traced, along):
                raise ProblemError(
                    f"shapes: {label(problem.tensors, sizes)} cannot be part of the same problem as "
                    f"{first.label}: {unfit}"
                )
            sizes = along
        case = _case(problem, sizes)
        found.setdefault(case.sizes, case)
    return problem.model_copy(update={"cases": tuple(found.values())})


def _entries(seen: Seen) -> list[Entry]:
    """What ``shapes`` declares; a complex input has an axis more here than the person sees."""
    pairs = [name in seen.form.in_pairs for name in seen.inputs]
    return [
        tuple(
            (*shape, 2) if place < len(pairs) and pairs[place] else shape for place, shape in enumerate(entry)
        )
        for entry in entries(seen.shapes)
    ]


def _case(problem: Problem, sizes: Mapping[str, int]) -> Case:
    return Case(label=label(problem.tensors, sizes), sizes=tuple(sizes.items()))


def _in_range(sizes: Mapping[str, int], traced: Traced) -> bool:
    """The export always says 2 or more, because it keeps 1 apart; running the reference tells."""
    return all(
        (low <= 2 or sizes[symbol] >= low) and (high is None or sizes[symbol] <= high)
        for symbol, low, high in traced.ranges
    )


def _accepting(problem: Problem, form: Form, traced: Traced) -> Accept:
    """Whether the traced graph describes the reference at some sizes. Several ways to choose them come to the
    same, and a loop of many steps is not run through once more for those."""

    @cache
    def fits(sizes: tuple[tuple[str, int], ...]) -> bool:
        return not _unfit(problem, form, traced, dict(sizes))

    return lambda sizes: fits(tuple(sizes.items()))


def _unfit(problem: Problem, form: Form, traced: Traced, sizes: Mapping[str, int]) -> str:
    """Why the traced graph does not describe the reference at these sizes; empty when it does.

    The sizes are in range, nothing fails, and the outputs have the shapes expected. Needs no data.
    """
    if not _in_range(sizes, traced):
        return "the reference takes another path there"
    metas = problem.metas(Case(label="", sizes=tuple(sizes.items())))
    with FakeTensorMode(allow_non_fake_inputs=True), quiet(), Whole():
        try:
            fakes = {
                name: torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype])
                for name, meta in metas.items()
            }
            results = check_outputs(run(form, fakes))
        except (DataDependentOutputException, DynamicOutputShapeException):
            return ""
        except Exception as error:
            return told(error, "the reference")
    try:
        expected = [tuple(size_of(dim, sizes) for dim in spec.dims) for spec in problem.outputs]
    except ZeroDivisionError:
        return "its outputs have no shape there"
    if [tuple(result.shape) for result in results] != expected:
        return "its outputs have other shapes there"
    return ""
