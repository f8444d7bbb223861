"""A plan's steps as lines of Python: torch allocates, views and calls the library, launchers do the rest.

Owns the body of the exported ``forward``. Sizes are the plan's at one case: literal numbers.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from workbench.errors import UsageError
from workbench.export.launchers import Launcher, launcher_of
from workbench.model import DType, Problem, Returned, TensorMeta, TensorSpec, base_name
from workbench.plan.parse import Program
from workbench.plan.spectra import TAKES_COMPLEX
from workbench.plan.steps import Allocate, BufferArg, Launch, Library, LibraryArg, Plan, View
from workbench.problem.statements import read_statements

DTYPES: Mapping[DType, str] = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_WIDTH = 100


@dataclass
class StepText:
    """Writes one plan; ``names`` maps its buffers to Python names."""

    problem: Problem
    program: Program
    launchers: Sequence[Launcher]
    parameters: Sequence[str]
    """What the reference's ``forward`` calls its inputs, in order."""
    names: dict[str, str] = field(default_factory=dict)
    metas: dict[str, TensorMeta] = field(default_factory=dict)

    # -------------------------------------------------------------------------------- arguments

    def bindings(self) -> list[str]:
        """Lines that give every tensor and static of the problem its name in the plan."""
        lines = []
        inputs = dict(zip(self.problem.signature, self.parameters, strict=False))
        for spec in self.problem.tensors:
            held = inputs[spec.name] if spec.role == "input" else f"self{_attributes(spec)}"
            if spec.in_pairs:
                held = f"torch.view_as_real({held}.resolve_conj()) if {held}.is_complex() else {held}"
            self.names[spec.name] = _safe(spec.name)
            if held != self.names[spec.name]:
                lines.append(f"{self.names[spec.name]} = {held}")
        return lines

    def covered(self, plan: Plan) -> list[str]:
        """Conditions under which the plan may be carried out, one expression each."""
        inputs = dict(zip(self.problem.signature, self.parameters, strict=False))
        found = [f"_is({inputs[s.name]}, {s.value!r})" for s in self.problem.statics]
        for name, meta in plan.arguments:
            strides = "" if meta.is_contiguous else f", {meta.strides}"
            found.append(f"_fits({self.names[name]}, torch.{DTYPES[meta.dtype]}, {meta.shape}{strides})")
        return found

    # -------------------------------------------------------------------------------- steps

    def lines(self, plan: Plan) -> list[str]:
        """The body, ``return`` included."""
        self.metas = dict(plan.arguments)
        found = []
        for step in plan.steps:
            match step:
                case Allocate():
                    found += self._allocate(step)
                case View():
                    found += self._view(step)
                case Library():
                    found += self._library(step)
                case Launch():
                    found += self._launch(step)
        returned = zip(plan.outputs, self.problem.outputs, strict=True)
        outputs = [
            f"torch.view_as_complex({self.names[name]})" if spec.in_pairs else self.names[name]
            for name, spec in returned
        ]
        return [*found, f"return {self._together(outputs)}"]

    def _together(self, outputs: Sequence[str]) -> str:
        """Results as the reference returns them. Raises ``UsageError`` where the file has no such type."""
        how = self.problem.returned
        if how is None:
            listed = ", ".join(outputs)
            return f"{listed}," if self.problem.returns_tuple and len(outputs) == 1 else listed
        if how.parts:
            return self._held(how, iter(outputs))
        return self._spelled(how, outputs)

    def _held(self, how: Returned, outputs: Iterator[str]) -> str:
        if how.kind == "builtins:NoneType":
            return "None"
        parts = [next(outputs) if part is None else self._held(part, outputs) for part in how.parts]
        return self._spelled(how, parts)

    def _spelled(self, how: Returned, parts: Sequence[str]) -> str:
        """With what is in it."""
        module, _, kind = how.kind.partition(":")
        listed = ", ".join(parts)
        pairs = list(zip(how.names, parts, strict=False))  # torch's own have no names
        match how.kind:
            case "builtins:list":
                return f"[{listed}]"
            case "builtins:tuple":
                return f"({listed},)" if len(parts) == 1 else f"({listed})"
            case "builtins:dict":
                return f"{{{', '.join(f'{name!r}: {one}' for name, one in pairs)}}}"
        if module == "torch.return_types":
            return f"{module}.{kind}(({listed},))"
        if not any(kind.split(".")[0] in one.binds for one in read_statements(self.problem.source)):
            raise UsageError(
                f"{self.problem.name} returns a {kind}, which its own text does not define: return a tuple "
                "or a dict for the exported file"
            )
        return f"{kind}({', '.join(f'{name}={one}' for name, one in pairs)})"

    def _new(self, buffer: str, meta: TensorMeta, place: tuple[int, str], index: int = 0) -> str:
        line, call = place
        name = _safe(_target(self.program.function, line, call, index) or f"{call.split('.')[-1]}_result")
        while name in self.names.values() or name in self.parameters:
            name += "_"
        self.names[buffer], self.metas[buffer] = name, meta
        return name

    def _allocate(self, step: Allocate) -> list[str]:
        meta, first = step.meta, self.names[self.problem.tensors[0].name]
        name = self._new(step.buffer, meta, (step.line, "buffer"))
        options = f"dtype=torch.{DTYPES[meta.dtype]}, device={first}.device"
        if meta.is_contiguous:
            made = f"torch.{'zeros' if step.zero else 'empty'}({meta.shape}, {options})"
        else:
            made = f"torch.empty_strided({meta.shape}, {meta.strides}, {options})"
            made += ".zero_()" if step.zero else ""
        return [f"{name} = {made}"]

    def _view(self, step: View) -> list[str]:
        of, base = self.names[step.of], self.metas[step.of]
        name = self._new(step.buffer, step.meta, (step.line, "view"))
        if (
            step.offset == 0
            and base.is_contiguous
            and step.meta.is_contiguous
            and base.numel == step.meta.numel
        ):
            return [f"{name} = {of}.view({step.meta.shape})"]
        start = f"{of}.storage_offset() + {step.offset}"
        return [f"{name} = {of}.as_strided({step.meta.shape}, {step.meta.strides}, {start})"]

    def _library(self, step: Library) -> list[str]:
        args = [self._value(a) for a in step.args]
        args += [f"{name}={self._value(value)}" for name, value in step.kwargs]
        op = step.op if step.op.count(".") > 1 else f"{step.op}.default"
        place = (step.line, ".".join(step.op.split(".")[:2]))
        made = [
            self._new(buffer, meta, place, index)
            for index, (buffer, meta) in enumerate(zip(step.results, step.metas, strict=True))
        ]
        function = f"torch.ops.{op}"
        if base_name(step.op) in TAKES_COMPLEX:
            return self._transform(step, made[0], function, args)
        head = f"{', '.join(made)} = {function}"
        lines = _call(head, args)
        for name, meta in zip(made, step.metas, strict=True):
            wanted = "" if meta.is_contiguous else f", {meta.strides}"
            lines.append(f"{name} = _laid_out({name}, {meta.shape}{wanted})")
        return lines

    def _transform(self, step: Library, made: str, function: str, args: Sequence[str]) -> list[str]:
        """A Fourier transform: pairs of numbers are complex ones to torch."""
        base = base_name(step.op)
        first = f"torch.view_as_complex({args[0]}.contiguous())" if TAKES_COMPLEX[base] else args[0]
        lines = _call(f"{made} = {function}", [first, *args[1:]])
        if base != "_fft_c2r":
            lines.append(f"{made} = torch.view_as_real({made})")
        return [*lines, f"{made} = {made}.contiguous()"]

    def _value(self, value: LibraryArg) -> str:
        if isinstance(value, BufferArg):
            return self.names[value.buffer]
        if isinstance(value, tuple):
            return f"[{', '.join(self._value(v) for v in value)}]"
        if isinstance(value, str) and value in DTYPES:
            return f"torch.{DTYPES[value]}"  # type: ignore[index]
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return f'float("{value}")'
        return repr(value)

    def _launch(self, step: Launch) -> list[str]:
        launcher = launcher_of(step, self.launchers)
        given = dict.fromkeys(a.buffer for a in step.args if isinstance(a, BufferArg))
        args = [f"{self.names[buffer]}.data_ptr()" for buffer in given]
        return _call(f"_kernels.{launcher.name}", [*args, "stream"])


def _call(head: str, args: Sequence[str]) -> list[str]:
    line = f"{head}({', '.join(args)})"
    return [line] if len(line) <= _WIDTH else [f"{head}(", *(f"    {a}," for a in args), ")"]


def _attributes(spec: TensorSpec) -> str:
    """``layers.0.weight`` as Python reads it from a module."""
    parts = []
    for part in spec.path.split("."):
        if part.isdigit():
            parts.append(f"[{part}]")
        else:
            parts.append(f".{part}")
    return "".join(parts)


def _safe(name: str) -> str:
    name = name.lstrip("%")
    return f"{name}_" if keyword.iskeyword(name) or name in ("self", "torch", "stream") else name


def _target(function: ast.FunctionDef, line: int, call: str, index: int) -> str:
    """The variable of the plan that a call on ``line`` is assigned to; empty for a call inside another."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if "." in call and f"library('{call}" not in ast.unparse(node.value)[: len(call) + 9]:
                return ""
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and index < len(target.elts):
                target = target.elts[index]
            return target.id if isinstance(target, ast.Name) else ""
    return ""
