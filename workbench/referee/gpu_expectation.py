"""What a check's outputs must be, on the GPU: guarded inputs, and float64 bounds whole or slice by slice.

Owns the choice between the two and the memory of small checks, which is kept between candidates and looked
at again before each use. Runs in worker children only; works on any torch device.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from workbench.errors import ProblemError
from workbench.gpu.library_calls import aligned
from workbench.model import Case, Crossed, Difference, DType, Problem, TensorMeta, WorstEntry
from workbench.numerics.bounds import DIFFER, RMS_FLOOR, OutputBound, in_expected_order
from workbench.numerics.compare import compare
from workbench.numerics.dtypes import UNIT, accumulate_unit, is_float, name_of
from workbench.numerics.inputs import draw, draw_on
from workbench.numerics.kinds import KINDS
from workbench.problem.reference import Reference
from workbench.referee.expectation import Expectation, held_against, without_numbers
from workbench.referee.gpu_memory import Guarded, fingerprint, guarded
from workbench.referee.matrix import YOURS, PlannedCheck
from workbench.referee.slicing import Slices, separable, slices
from workbench.referee.work import FREE, sized

DRAWN_ON_CPU = 2**20
"""Cases up to this many elements get the very values the emulator's lane has under the same seed."""
SLICE_ELEMENTS, MOST_SLICE_ELEMENTS = 2**21, 2**23
"""Elements bounded at once: bounds take some 250 bytes an element, half a gigabyte. On a card with room for
more, more of them, up to four times: what is asked of the card one small operation after the other takes as
long for fewer."""
BYTES_OF_BOUNDS = 250
SLICE_SHARE = 1 / 40
"""Of a card's memory, for the bounds of a slice while they are made."""
WHOLE_ELEMENTS = 2**27
"""Where a problem does not fall apart, it is bounded whole up to this size."""
MOST_WHOLE_ELEMENTS, BYTES_OF_WEIGHTS = 2**30, 128
"""The same of weights that little is computed with, on a card with so many bytes for each: the two
layers behind a token of a language model are 135 million numbers, of which four rows are made."""
_NO_ARITHMETIC = FREE - {"convert_element_type"}
"""Operations whose results are other tensors' elements; one in another type has elements of its own."""
ALWAYS = 2
"""Slices that are held to their own bounds whatever they hold; of the others those that are neither as the
reference nor near float64."""
NEAR_SHARE = 0.5
"""Near: of what is allowed at the same place in the slices that have bounds, beside storing it."""
NEAR_UNITS = 8
KEPT_BYTES = 2**28
"""What is kept of checks, and of slices, where there is no card; of a card ``KEPT_SHARE`` each."""
KEPT_SHARE = 1 / 32
PART_ELEMENTS = 2**24
"""Elements held at once to the reference's own: some 60 bytes an element, a gigabyte."""
OWN_UNITS = 256
"""Bound where float64 is out of reach: this many units of the accumulation's precision."""
OWN_STORED_UNITS = 8
"""And as many of a dtype of 16 bits, of a usual element: the reference stores each step in it, a kernel need
not. A sum of two numbers that are nearly each other's opposites is as far off as these are."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """Inputs of one check in guarded memory, and what must come of them."""

    case: Case
    inputs: tuple[Guarded, ...]
    marks: tuple[int, ...]
    """Fingerprints of the inputs before any kernel saw them."""
    bounds: tuple[OutputBound, ...]
    """Empty where they are computed slice by slice, afterwards."""
    note: str = ""
    strides: tuple[tuple[int, ...], ...] = ()
    """Of the reference's own outputs; empty where they are computed slice by slice."""
    native: tuple[Tensor, ...] = ()
    """The reference's own outputs, where float64 is out of reach and they take its place."""
    unlike: bool = False
    """See ``Expectation.unlike``."""
    own: bool = False
    """See ``PlannedCheck.own``."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {one.name: one.tensor for one in self.inputs}

    @property
    def doubtful(self) -> bool:
        """See ``Expectation.doubtful``; unknown where bounds are computed slice by slice."""
        return self.unlike or any(bound.basis.startswith(DIFFER) for bound in self.bounds)

    @property
    def nbytes(self) -> int:
        """Memory of inputs and bounds."""
        held = sum(tensor.nbytes for b in self.bounds for tensor in b.tensors)
        held += sum(own.nbytes for own in self.native)
        return held + sum(one.raw.nbytes for one in self.inputs)

    def changed(self) -> tuple[Guarded, ...]:
        """Inputs that are not what they were."""
        now = [int(mark) for mark in [one.fingerprint() for one in self.inputs]]
        return tuple(one for one, was, is_ in zip(self.inputs, self.marks, now, strict=True) if was != is_)

    def fingerprints(self) -> tuple[int, ...]:
        """Of all that a kernel must not have written to."""
        return (*(int(mark) for mark in [one.fingerprint() for one in self.inputs]), *_marks_of(self.bounds))


class Expectations:
    """Makes them for one problem, on one device."""

    def __init__(self, problem: Problem, device: str) -> None:
        self.problem = problem
        self.device = device
        self.reference = Reference(problem)
        memory = 0 if device == "cpu" else int(torch.cuda.mem_get_info(device)[1])
        room = int(KEPT_SHARE * memory) or KEPT_BYTES
        there = int(SLICE_SHARE * memory / BYTES_OF_BOUNDS)
        self._memory = memory
        self._slice_elements = max(SLICE_ELEMENTS, min(there, MOST_SLICE_ELEMENTS))
        self._kept: _Kept[Prepared] = _Kept(room)
        self._sliced: _Kept[_Sliced] = _Kept(room)
        self._symbol: str | None = None

    def prepare(self, planned: PlannedCheck) -> Prepared | None:
        """Inputs on the device, and bounds where the case is small; None without inputs of that kind."""
        key = (planned.trial.case.label, planned.inputs, planned.seed)
        if kept := self._kept.find(key):
            return kept
        prepared = self._prepared(planned)
        if prepared is not None and prepared.bounds and not prepared.own:
            self._kept.keep(key, prepared)
        return prepared

    def rehearse(self, prepared: Prepared) -> None:
        """Run the reference as ``differences`` will, slice by slice, before a kernel can have done anything.

        Raises what it raises: then no kernel is to blame. Nothing where it has run already.
        """
        if prepared.bounds or prepared.native:
            return
        cut = slices(self.problem, prepared.case, self._separable_symbol(), self._slice_elements)
        for part in cut:
            for result in self.reference.call(_for_libraries(cut.of(prepared.tensors, part))):
                int(fingerprint(result))  # an error of the device shows where a number is waited for

    def forget(self) -> bool:
        """Give back the memory of what is kept; False where there is none."""
        kept = self._kept.clear(), self._sliced.clear()
        return any(kept)

    def differences(self, prepared: Prepared, outputs: tuple[Tensor, ...]) -> tuple[Difference, ...]:
        """Compare every output with its bound."""
        if prepared.bounds:
            where = prepared.bounds[0].expected.device
            near = tuple(output.to(where) for output in outputs)
            return tuple(compare(got, b, n) for n, (got, b) in enumerate(_paired(near, prepared)))
        if prepared.native:
            pairs = zip(outputs, prepared.native, strict=True)
            return tuple(_in_parts(got, own, number) for number, (got, own) in enumerate(pairs))
        return self._by_slices(prepared, outputs)

    # -------------------------------------------------------------------------------- inputs

    def _prepared(self, planned: PlannedCheck) -> Prepared | None:
        inputs = self._inputs(planned)
        if inputs is None:
            return None
        prepared = replace(self.held(planned.trial.case, inputs), own=planned.own)
        said = without_numbers(planned, prepared.tensors)
        return replace(prepared, note="; ".join(filter(None, (said, prepared.note)))) if said else prepared

    def held(self, case: Case, inputs: tuple[Guarded, ...]) -> Prepared:
        """What must come of inputs that hold their values already; remembered by nobody."""
        marks = tuple(int(one.fingerprint()) for one in inputs)
        prepared = Prepared(case, inputs, marks, ())
        elements = sum(one.tensor.numel() for one in inputs)
        if elements > self._slice_elements and self._can_be_cut(case, inputs):
            return prepared
        if self._can_be_whole(elements, case) and (held := self._whole(prepared)):
            return held
        native = self.reference.call(_for_libraries(prepared.tensors))
        strides = tuple(tuple(result.stride()) for result in native)
        note = "too large for float64: held to the reference's own"
        return Prepared(case, inputs, marks, (), note, strides, native)

    def _can_be_whole(self, elements: int, case: Case) -> bool:
        """Where little is computed of them, more elements than elsewhere."""
        if elements <= WHOLE_ELEMENTS:
            return True
        made = sum(
            math.prod(one.output) for one in sized(self.problem, case) if one.name not in _NO_ARITHMETIC
        )
        most = min(MOST_WHOLE_ELEMENTS, self._memory // BYTES_OF_WEIGHTS)
        return elements <= most and made <= WHOLE_ELEMENTS // 4

    def _whole(self, prepared: Prepared) -> Prepared | None:
        """With bounds of the whole; None where the memory does not suffice, all that is kept given back."""
        case = prepared.case
        for _ in range(2):
            try:
                declared = self._as_declared(case, prepared.tensors)
                expected = self._expected(case.size_map, prepared.tensors, declared, anywhere=True)
            except torch.OutOfMemoryError:
                had_kept = self.forget()
                torch.cuda.empty_cache()
                if not had_kept:
                    break
            else:
                held = replace(prepared, bounds=expected.bounds, note=expected.note)
                return replace(held, strides=expected.strides, unlike=expected.unlike)
        return None

    def _inputs(self, planned: PlannedCheck) -> tuple[Guarded, ...] | None:
        places = {n: guarded(n, meta, self.device) for n, meta in planned.trial.plan.arguments}
        case, metas = planned.trial.case, dict(planned.trial.plan.arguments)
        given: Mapping[str, Tensor] | None
        if planned.inputs == YOURS:
            given = self.reference.own_tensors()
            if given is None:
                return None
        else:
            kind = next(kind for kind in KINDS if kind == planned.inputs)
            if sum(meta.numel for meta in metas.values()) > DRAWN_ON_CPU:
                storage = {name: place.tensor for name, place in places.items()}
                draw_on(self.device, self.problem, case, kind, planned.seed, storage)
                return tuple(places.values())
            given = draw(self.problem, case, kind, planned.seed)
        for name, place in places.items():
            place.tensor.copy_(given[name])
        return tuple(places.values())

    # -------------------------------------------------------------------------------- bounds

    def _separable_symbol(self) -> str:
        if self._symbol is None:
            self._symbol = separable(self.problem, self.reference.oracle)
        return self._symbol

    def _can_be_cut(self, case: Case, inputs: tuple[Guarded, ...]) -> bool:
        """Not where nearly all are weights, which belong to every slice whole."""
        symbol = self._separable_symbol()
        if symbol not in case.size_map:
            return False
        cut = slices(self.problem, case, symbol, self._slice_elements).inputs
        return sum(one.tensor.numel() for one in inputs if one.name in cut) > self._slice_elements // 16

    def _expected(
        self,
        sizes: Mapping[str, int],
        tensors: Mapping[str, Tensor],
        declared: Mapping[str, Tensor] | None = None,
        *,
        anywhere: bool = False,
    ) -> Expectation:
        given = _for_libraries(tensors)
        usual = None if declared is None else _for_libraries(declared)
        return held_against(self.problem, self.reference, sizes, given, usual, anywhere=anywhere)

    def _as_declared(self, case: Case, tensors: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """The same values in the problem's own layouts; None where they lie so."""
        metas = self.problem.metas(case)
        if all(tensor.stride() == metas[name].strides for name, tensor in tensors.items()):
            return None
        return {name: _lying(tensors[name], meta) for name, meta in metas.items()}

    def _as_reference(self, tensors: Mapping[str, Tensor], outputs: tuple[Tensor, ...], part: slice) -> bool:
        """True where a slice is the reference's own result up to a few roundings: float64 adds nothing."""
        native = self.reference.call(_for_libraries(tensors))
        pairs = zip(outputs, native, strict=True)
        return not bool(torch.stack([_far(output[part], own) for output, own in pairs]).any())

    def _by_slices(self, prepared: Prepared, outputs: tuple[Tensor, ...]) -> tuple[Difference, ...]:
        cut = slices(self.problem, prepared.case, self._separable_symbol(), self._slice_elements)
        found: list[Difference] = [
            Difference(output=number, max_abs=0.0, max_ratio=0.0) for number in range(len(outputs))
        ]
        parts = list(cut)
        chosen = random.Random(prepared.marks[0]).sample(parts, min(ALWAYS, len(parts)))
        bounds = {part.start: self._bounds_of(prepared, cut, part) for part in chosen}
        usual = [_usual(limits) for limits in zip(*bounds.values(), strict=True)]
        for part in parts:
            limits = bounds.get(part.start) or self._known_bounds(prepared, part)
            if limits is None:
                tensors = cut.of(prepared.tensors, part)
                if self._as_reference(tensors, outputs, part) or self._near(tensors, outputs, part, usual):
                    continue
                limits = self._bounds_of(prepared, cut, part)
            cut_out = in_expected_order([output[part] for output in outputs], limits)
            for number, (output, limit) in enumerate(zip(cut_out, limits, strict=True)):
                one = compare(output, limit, number)
                found[number] = merged(found[number], one, part, cut.size)
        return tuple(found)

    def _bounds_of(self, prepared: Prepared, cut: Slices, part: slice) -> tuple[OutputBound, ...]:
        """Of one slice, kept between candidates: the same inputs choose the same slices."""
        if known := self._known_bounds(prepared, part):
            return known
        made = self._expected(cut.sizes(prepared.case, part), cut.of(prepared.tensors, part)).bounds
        if not prepared.own:
            self._sliced.keep(_place(prepared, part), _Sliced(made))
        return made

    def _known_bounds(self, prepared: Prepared, part: slice) -> tuple[OutputBound, ...] | None:
        kept = self._sliced.find(_place(prepared, part))
        return None if kept is None else kept.bounds

    def _near(
        self, tensors: Mapping[str, Tensor], outputs: tuple[Tensor, ...], part: slice, usual: list[Tensor]
    ) -> bool:
        """True where float64 says so without bounds of its own, which take a hundred times as long.

        A reference that rounds to 16 bits between its steps is seldom as near to a kernel as
        ``_as_reference`` asks, and neither is wrong.
        """
        try:
            expected = self.reference.oracle(_for_libraries(tensors))
        except ProblemError:
            return False
        threes = zip(outputs, expected, usual, strict=True)
        return all(_within(output[part], own, allowed) for output, own, allowed in threes)


def _place(prepared: Prepared, part: slice) -> Hashable:
    return prepared.case.label, prepared.marks, part.start


@dataclass(frozen=True, eq=False)
class _Sliced:
    """Bounds of one slice."""

    bounds: tuple[OutputBound, ...]

    @property
    def nbytes(self) -> int:
        """Memory on the device."""
        return sum(tensor.nbytes for bound in self.bounds for tensor in bound.tensors)

    def fingerprints(self) -> tuple[int, ...]:
        """Of all that a kernel must not have written to."""
        return _marks_of(self.bounds)


V = TypeVar("V", Prepared, _Sliced)


class _Kept(Generic[V]):
    """What the next kernel needs as well, up to so many bytes on the device.

    What is there stays, and what there is no room for is made anew: every kernel asks in the same order, and
    the eldest, if it went, would be the first that the next kernel asks for.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._held: dict[Hashable, tuple[V, tuple[int, ...]]] = {}

    def find(self, key: Hashable) -> V | None:
        """None where it is not known, or an earlier kernel wrote to it."""
        if key not in self._held:
            return None
        value, marks = self._held[key]
        if value.fingerprints() != marks:
            del self._held[key]
            return None
        return value

    def keep(self, key: Hashable, value: V) -> None:
        if sum(one.nbytes for one, _ in self._held.values()) + value.nbytes <= self.room:
            self._held[key] = (value, value.fingerprints())

    def clear(self) -> bool:
        """False where there was nothing."""
        had_any = bool(self._held)
        self._held.clear()
        return had_any


def _usual(limits: tuple[OutputBound, ...]) -> Tensor:
    """What is allowed at each place of a row beside storing it, the least of some slices; zero where an index
    must be right."""
    if any(one.tie is not None or one.step is not None or not is_float(one.dtype) for one in limits):
        return torch.zeros((), dtype=torch.float64, device=limits[0].allowed.device)
    beside = [(one.allowed - _stored(one.expected, one.dtype)).nan_to_num(0.0, 0.0) for one in limits]
    return torch.stack([one.clamp_min(0.0).mean(0, keepdim=True) for one in beside]).amin(0)


def _stored(value: Tensor, dtype: DType) -> Tensor:
    return UNIT[dtype] * value.abs().nan_to_num(0.0, 0.0)


def _within(got: Tensor, expected: Tensor, usual: Tensor) -> bool:
    if got.shape != expected.shape:
        return False
    wide = got.to(torch.float64)
    want = expected.to(torch.float64)
    alike = (wide == want) | (wide.isnan() & want.isnan())
    if not got.is_floating_point():
        return bool(alike.all())
    near = (wide - want).abs() <= NEAR_SHARE * usual + _stored(want, name_of(got.dtype))
    return bool(torch.where(torch.isfinite(want), near, alike).all())


def _lying(tensor: Tensor, meta: TensorMeta) -> Tensor:
    return torch.empty_strided(meta.shape, meta.strides, dtype=tensor.dtype, device=tensor.device).copy_(
        tensor
    )


def _for_libraries(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values for the reference, at addresses that every library kernel takes.

    torch's memory-efficient attention loads 16 bytes at once wherever its inputs begin: on inputs that begin
    inside of their storage the reference itself faults, with the context.
    """
    return {name: aligned(tensor) for name, tensor in tensors.items()}


def _far(got: Tensor, own: Tensor) -> Tensor:
    """Whether any element is further from the reference's own result than a few units in the last place."""
    if not own.is_floating_point():
        return (got != own).any()
    units = NEAR_UNITS * UNIT[name_of(own.dtype)]
    wide = own.to(torch.float32) if own.element_size() < 4 else own
    finite = torch.isfinite(wide)
    size = torch.where(finite, wide, 0.0)
    allowed = units * size.abs() + RMS_FLOOR * size.square().mean().sqrt()
    near = (got.to(wide.dtype) - wide).abs() <= allowed
    return ~(torch.where(finite, near, (got == own) | (got.isnan() & own.isnan()))).all()


def merged(so_far: Difference, one: Difference, part: slice, size: int) -> Difference:
    """Differences of all slices up to and with ``part``; where it is wrong is told of the first wrong one."""
    share = one.wrong_fraction * (part.stop - part.start) / size
    first_wrong = one.max_ratio > 1 and so_far.max_ratio <= 1
    told = one if first_wrong else so_far
    worst = tuple(_shifted(entry, part.start) for entry in one.worst) if first_wrong else so_far.worst
    where = f"first in rows {part.start} to {part.stop - 1}: {one.pattern}"
    return told.model_copy(
        update={
            "max_abs": max(so_far.max_abs, one.max_abs),
            "max_ratio": max(so_far.max_ratio, one.max_ratio),
            "crossed": _together(so_far.crossed, one.crossed),
            "wrong_fraction": so_far.wrong_fraction + share,
            "worst": worst,
            "pattern": where if first_wrong and size > part.stop - part.start else told.pattern,
        }
    )


def _together(so_far: Crossed | None, one: Crossed | None) -> Crossed | None:
    if so_far is None or one is None:
        return so_far or one
    distance = max(so_far.distance, one.distance)
    return Crossed(elements=so_far.elements + one.elements, of=so_far.of + one.of, distance=distance)


def _shifted(entry: WorstEntry, rows: int) -> WorstEntry:
    return entry.model_copy(update={"index": (entry.index[0] + rows, *entry.index[1:])})


def _paired(outputs: tuple[Tensor, ...], prepared: Prepared) -> zip[tuple[Tensor, OutputBound]]:
    return zip(in_expected_order(outputs, prepared.bounds), prepared.bounds, strict=True)


def _marks_of(bounds: tuple[OutputBound, ...]) -> tuple[int, ...]:
    marks = [fingerprint(t) for bound in bounds for t in bound.tensors]
    return tuple(int(mark) for mark in marks)


def _in_parts(got: Tensor, own: Tensor, number: int) -> Difference:
    """An output held to the reference's own, some rows at a time: in float64 it would fill a card."""
    found = Difference(output=number, max_abs=0.0, max_ratio=0.0)
    if not own.dim() or not own.numel():
        return compare(got, _own_bound(own, _mean_square([own])), number)
    step = max(1, PART_ELEMENTS * own.shape[0] // own.numel())
    parts = [slice(first, min(first + step, own.shape[0])) for first in range(0, own.shape[0], step)]
    mean = _mean_square([own[part] for part in parts])
    for part in parts:
        one = compare(got[part], _own_bound(own[part], mean), number)
        found = merged(found, one, part, own.shape[0])
    return found


def _mean_square(parts: list[Tensor]) -> float:
    """Of all elements of all parts that are finite, over the number of all."""
    sums = [part.to(torch.float64).nan_to_num(0.0, 0.0, 0.0).square().sum() for part in parts]
    return float(torch.stack(sums).sum()) / max(sum(part.numel() for part in parts), 1)


def _own_bound(result: Tensor, mean_square: float) -> OutputBound:
    dtype = name_of(result.dtype)
    basis = "the reference in its own precision"
    if not is_float(dtype):
        zero = torch.zeros(result.shape, dtype=torch.float64, device=result.device)
        return OutputBound(dtype, result, zero, None, basis)
    wide = result.to(torch.float64)
    size = wide.abs().nan_to_num(0.0, 0.0, 0.0)
    allowed = OWN_UNITS * (accumulate_unit(dtype) * size + RMS_FLOOR * mean_square**0.5)
    if UNIT[dtype] > accumulate_unit(dtype):
        allowed = allowed + OWN_STORED_UNITS * UNIT[dtype] * mean_square**0.5
    return OutputBound(dtype, wide, allowed, None, basis)
