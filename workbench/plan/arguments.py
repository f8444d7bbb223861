"""Arguments of a launch held against the kernel's parameters, before anything runs.

Owns the choice of the overload and the rules for what fits: tensors to pointers of their dtype,
inputs to const pointers only, numbers to scalars whose range holds them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import nearest
from workbench.plan.binding import Parameter, parameters_of
from workbench.plan.cuda_types import CPP_NAMES, CudaType, holds, integer_range, largest_float
from workbench.plan.expression import KernelName
from workbench.plan.refusal import Refused
from workbench.plan.signature import KernelTable, Signature
from workbench.plan.steps import BufferArg, ScalarArg
from workbench.plan.templates import TemplateParameter
from workbench.plan.values import Tensor, describe

_SUGGESTED = 200
"""Characters of a name that is offered as the nearest one."""

Consts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """One argument that fits, and what the kernel may do with it."""

    argument: BufferArg | ScalarArg
    writable: bool = False
    """True when a tensor is passed to a pointer that is not const, or may not be."""
    certain: bool = False
    """True when the pointer is understood and certainly not const."""
    restrict: bool = False


def bind(
    table: KernelTable, kernel: KernelName, consts: Consts, arguments: Sequence[object]
) -> tuple[BoundArgument, ...]:
    """Fit the arguments to the kernel. Raises ``Refused`` at the argument that does not fit."""
    refusals: list[Refused] = []
    for signature in candidates(table, kernel):
        parameters = parameters_of(signature, kernel, table, consts)
        if parameters is None:
            break
        try:
            _check_template(signature, kernel)
            return _fit(kernel, parameters, arguments)
        except Refused as refused:
            refusals.append(refused)
    else:
        if refusals:
            # Of several overloads, the one that got furthest is the one that was meant.
            raise max(refusals, key=lambda r: len(r.at))
    return tuple(_unchecked(value, i) for i, value in enumerate(arguments))


def candidates(table: KernelTable, kernel: KernelName) -> tuple[Signature, ...]:
    """Kernels of that name; empty when only the compiler can tell. Raises ``Refused`` for an unknown one."""
    exact = tuple(s for s in table.signatures if s.name == kernel.name)
    if exact:
        return exact
    last = kernel.name.rpartition("::")[2]
    related = tuple(s for s in table.signatures if s.name.rpartition("::")[2] == last)
    if related and (table.loose or "::" in kernel.name):
        return related
    if table.open:
        return ()
    names = [n for n in dict.fromkeys(s.name for s in table.signatures) if len(n) < _SUGGESTED]
    if not names:
        message = (
            "there is no __global__ function in this file: only such a one can be launched, and it calls"
        )
        raise Refused(f"{message} the __device__ ones", ("kernel",))
    hint = f" Did you mean {related[0].name!r}?" if related else nearest(kernel.name, names)
    known = "" if hint else f" The file has: {', '.join(names[:8])}."
    raise Refused(f"unknown kernel {kernel.name!r}.{hint}{known}", ("kernel",))


def _check_template(signature: Signature, kernel: KernelName) -> None:
    """Template arguments given where there are parameters for them, and only there."""
    parameters, given = signature.template, kernel.arguments
    if parameters is None:
        if given is not None:
            message = f"{kernel.name} is not a template: leave out <{kernel.text.partition('<')[2]}"
            raise Refused(message, ("kernel",))
        return
    if any(p.pack for p in parameters):
        return
    named = ", ".join(p.name or p.kind for p in parameters)
    count = len(given or ())
    needed = sum(not p.default for p in parameters)
    if count < needed or count > len(parameters):
        example = f"{kernel.name}<{', '.join(map(_example, parameters))}>"
        message = (
            f"{kernel.name} is a template of {len(parameters)} ({named}), {count} given: "
            f'name it with values, as in launch("{example}", ...)'
        )
        raise Refused(message, ("kernel",))


def _example(parameter: TemplateParameter) -> str:
    """A value that such a template parameter may have."""
    return {"typename": "float", "class": "float", "bool": "true"}.get(parameter.kind, "4")


def _fit(
    kernel: KernelName, parameters: tuple[Parameter, ...], arguments: Sequence[object]
) -> tuple[BoundArgument, ...]:
    if len(parameters) != len(arguments):
        names = ", ".join(p.name or p.text for p in parameters)
        takes = f"{len(parameters)} argument{'s' * (len(parameters) != 1)}"
        message = f"{kernel.name} takes {takes} ({names}), {len(arguments)} given"
        raise Refused(message, ("args",))
    _refuse_swapped(kernel, parameters, arguments)
    pairs = enumerate(zip(arguments, parameters, strict=True))
    return tuple(_fit_one(value, parameter, i) for i, (value, parameter) in pairs)


def _refuse_swapped(
    kernel: KernelName, parameters: tuple[Parameter, ...], arguments: Sequence[object]
) -> None:
    """An input where the kernel writes beside an output where it only reads: one for the other, it seems."""
    tensors = [
        (i, value, parameter)
        for i, (value, parameter) in enumerate(zip(arguments, parameters, strict=True))
        if isinstance(value, Tensor)
        and parameter.pointer
        and parameter.kind is not None
        and holds(parameter.kind, value.meta.dtype)
    ]
    written = next(((i, v, p) for i, v, p in tensors if v.borrowed and not p.const), None)
    read = next(((i, p) for i, v, p in tensors if not v.borrowed and p.const), None)
    if written is None or read is None:
        return
    i, tensor, parameter = written
    names = ", ".join(p.name or p.text for p in parameters)
    raise Refused(
        f"argument {i + 1}, {parameter.name or parameter.text}: {tensor.origin} is an input, which no kernel "
        f"may write, while argument {read[0] + 1}, {read[1].name or read[1].text}, is only read and gets an "
        f"output: are the two swapped? {kernel.name} takes ({names})",
        ("args", i),
    )


def _fit_one(value: object, parameter: Parameter, i: int) -> BoundArgument:
    label = f"argument {i + 1}" + (f", {parameter.name}" if parameter.name else "")
    where = ("args", i)
    if isinstance(value, Tensor):
        if parameter.pointer is False:
            message = f"{label}: the kernel takes {parameter.text} by value; pass a number, not a tensor"
            raise Refused(message, where)
        return _fit_tensor(value, parameter, label, i)
    if not isinstance(value, int | float):
        raise Refused(f"{label} must be a tensor or a number, not {describe(value)}", where)
    if parameter.pointer:
        message = f"{label}: the kernel takes {parameter.text}*; pass a tensor, not {describe(value)}"
        raise Refused(message, where)
    if parameter.kind is None:
        return BoundArgument(ScalarArg(value=value, ctype=parameter.text or _guess(value)))
    return BoundArgument(_fit_number(value, parameter.kind, label, i))


def _fit_tensor(tensor: Tensor, parameter: Parameter, label: str, i: int) -> BoundArgument:
    dtype, where = tensor.meta.dtype, ("args", i)
    if parameter.kind is not None and not holds(parameter.kind, dtype):
        message = f"{label}: the kernel takes {parameter.text}*, the tensor is {dtype}: declare it"
        raise Refused(f"{message} {'const ' * parameter.const}{CPP_NAMES[dtype]}*", where)
    certain = parameter.kind is not None and not parameter.const
    if tensor.borrowed and certain:
        message = f"{label}: {tensor.origin} is an input, which no kernel may write: declare it const"
        raise Refused(f"{message} {parameter.text}*", where)
    writable = parameter.kind is None or not parameter.const
    return BoundArgument(BufferArg(buffer=tensor.buffer), writable, certain, parameter.restrict)


def _fit_number(value: bool | int | float, kind: CudaType, label: str, i: int) -> ScalarArg:
    where = ("args", i)
    if kind.family in ("vector", "void"):
        raise Refused(f"{label}: a plan cannot pass a {kind.text} by value; pass its numbers", where)
    if kind.family == "float":
        if _finite(value) and abs(value) > largest_float(kind):
            raise Refused(f"{label}: {value} is too large for {kind.text}", where)
        return ScalarArg(value=float(value), ctype=kind.text)
    if isinstance(value, float):
        message = f"{label}: the kernel takes {kind.text}, not {value}: use // for whole numbers"
        raise Refused(message, where)
    low, high = integer_range(kind)
    if not low <= value <= high:
        hint = "; declare it long long" if kind.bytes < 8 and kind.family != "bool" else ""
        raise Refused(f"{label}: {int(value)} does not fit {kind.text} ({low} to {high}){hint}", where)
    return ScalarArg(value=bool(value) if kind.family == "bool" else int(value), ctype=kind.text)


def _unchecked(value: object, i: int) -> BoundArgument:
    """An argument of a kernel whose parameters only the compiler knows."""
    if isinstance(value, Tensor):
        return BoundArgument(BufferArg(buffer=value.buffer), writable=True)
    if isinstance(value, int | float):
        return BoundArgument(ScalarArg(value=value, ctype=_guess(value)))
    raise Refused(f"argument {i + 1} must be a tensor or a number, not {describe(value)}", ("args", i))


def _guess(value: bool | int | float) -> str:
    """The type C++ gives a literal of that value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, float):
        return "float"
    return "int" if -(2**31) <= value < 2**31 else "long long"


def _finite(value: bool | int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)
