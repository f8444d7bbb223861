"""From a cell, a file or notebook objects to a ``Capture``: text, what is the reference, what are inputs.

Runs in the notebook process: pure ``ast``, never imports torch and never runs the person's code.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from workbench import syntax
from workbench.errors import ProblemError, nearest
from workbench.model import Value
from workbench.problem.candidates import Kind, choose
from workbench.problem.payload import Payload, pack, split
from workbench.problem.statements import ALWAYS, CELL, Statement, free_names, needed, read_statements


class Capture(Value):
    """What a person asked for, as text and expressions that a worker will run."""

    source: str
    name: str
    """What the person calls it."""
    entry: str
    """Name of the function, module class or module instance in ``source`` or in the payload."""
    kind: Kind
    inputs: str
    """Expression for the inputs: ``inputs``, ``inputs()`` or ``get_inputs()``."""
    init: str = ""
    """Expression for a module class's constructor arguments; empty means none."""
    shapes: str = ""
    """Expression for further shapes; empty means only that of the inputs."""
    payload: str = ""
    """Notebook objects the source needs, see payload.py."""
    text: Literal["cell", "file"] = "cell"
    """What a person calls ``source``."""


def read_cell(
    source: str,
    entry: str | None = None,
    namespace: Mapping[str, Any] | None = None,
    text: Literal["cell", "file"] = "cell",
) -> Capture:
    """Read a cell's text. Line numbers in errors are those of ``source``: pass a cell magic's own
    line as an empty first line.

    ``entry`` chooses among several candidates. ``namespace`` is the notebook's; names the reference
    and its inputs need from it go into the payload. Raises ``ProblemError``.
    """
    statements = read_statements(source)
    candidate = choose(statements, entry, namespace or {}, text)
    inputs = _expression(statements, ("inputs", "get_inputs"))
    if not inputs and _binds(statements, "input"):
        raise ProblemError(
            f"the tensors for {candidate.name} are looked for in inputs: rename input to inputs"
        )
    if not inputs:
        raise ProblemError(
            f"there are no inputs for {candidate.name}: add a line such as\n"
            "inputs = [torch.randn(4096, 1024)]"
        )
    shapes = "shapes" if _binds(statements, "shapes") else ""
    init = _expression(statements, ("init_inputs", "get_init_inputs"))
    roots = (candidate.name, _root(inputs), _root(shapes), _root(init))
    return Capture(
        source=source,
        name=candidate.name,
        entry=candidate.name,
        kind=candidate.kind,
        inputs=inputs,
        init=init if candidate.kind in ("module_class", "kernelbench") else "",
        shapes=shapes,
        payload=_payload(needed(statements, roots), namespace),
        text=text,
    )


def read_file(path: Path | str, entry: str | None = None) -> Capture:
    """Read a problem file, such as those of KernelBench and ``sample_ops``. Raises ``ProblemError``."""
    file = Path(path)
    try:
        source = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ProblemError(f"cannot read {file}: {reason}") from error
    capture = read_cell(source, entry, text="file")
    beside = _own_folders(read_statements(source), (str(file.resolve().parent),))
    return capture.model_copy(update={"payload": pack(Payload(folders=beside))})


def from_objects(
    namespace: Mapping[str, Any], name: str, input_names: Sequence[str], shapes: Sequence[Any] = ()
) -> Capture:
    """Capture a function, module class or instance of the notebook, with tensors of the notebook.

    ``input_names`` are names in ``namespace`` or literals. Raises ``ProblemError``.
    """
    if name not in namespace:
        raise ProblemError(f"nothing named {name!r} is defined in the notebook.{nearest(name, namespace)}")
    if not input_names:
        raise ProblemError(f"there are no inputs for {name}: add --inputs with the names of its tensors")
    extra: dict[str, Any] = {"inputs": tuple(_value(namespace, text) for text in input_names)}
    _same_device(input_names, extra["inputs"])
    if shapes:
        extra["shapes"] = tuple(shapes)
    target = _unwrapped(namespace[name])
    found = _definition(target)
    kind, source = _how(target, found)
    if kind == "pickled":
        objects = {**extra, name: target}
        payload = pack(split(objects, _own_folders((), tuple(sys.path), objects)))
    else:
        payload = _payload(needed(read_statements(source), [target.__name__]), namespace, extra)
    return Capture(
        source=source,
        name=name,
        entry=name if kind == "pickled" else target.__name__,
        kind=kind,
        inputs="inputs",
        shapes="shapes" if shapes else "",
        payload=payload,
    )


# ------------------------------------------------------------------------------------ cells


def _binds(statements: tuple[Statement, ...], name: str) -> Statement | None:
    return next((s for s in reversed(statements) if name in s.binds), None)


def inputs_expression(source: str) -> str:
    """``inputs``, ``inputs()``, ``get_inputs()``, or empty when the text has none."""
    return _expression(read_statements(source), ("inputs", "get_inputs"))


def init_expression(source: str) -> str:
    """The same for a module class's constructor arguments."""
    return _expression(read_statements(source), ("init_inputs", "get_init_inputs"))


def _expression(statements: tuple[Statement, ...], names: tuple[str, ...]) -> str:
    for name in names:
        found = _binds(statements, name)
        if found is not None:
            return f"{name}()" if isinstance(found.node, ast.FunctionDef) else name
    return ""


def _root(expression: str) -> str:
    return expression.removesuffix("()")


def _payload(
    statements: tuple[Statement, ...],
    namespace: Mapping[str, Any] | None,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """Pack what the statements take from the notebook. Without a notebook nothing can be missing yet."""
    if namespace is None:
        return ""
    objects = dict(extra or {})
    for name, line in free_names(statements).items():
        if name in ALWAYS and getattr(namespace.get(name), "__name__", ALWAYS[name]) == ALWAYS[name]:
            continue
        if name in namespace:
            objects[name] = namespace[name]
        elif name not in objects:
            raise ProblemError(
                f"line {line}: {name!r} is not defined in the cell or in the notebook."
                f"{nearest(name, namespace)}"
            )
    return pack(split(objects, _own_folders(statements, tuple(sys.path), objects)))


def _own_folders(
    statements: tuple[Statement, ...], path: tuple[str, ...], objects: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Folders of ``path`` that hold modules of the person's own which the statements import."""
    wanted = set()
    for statement in statements:
        for node in ast.walk(statement.node):
            if isinstance(node, ast.Import):
                wanted |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                wanted.add(node.module.partition(".")[0])
    for value in (objects or {}).values():
        module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        wanted.add(str(module).partition(".")[0])
    own = []
    for folder in path:
        root = Path(folder or ".").resolve()
        if not _is_installed(root) and any(
            (root / n).is_dir() or (root / f"{n}.py").is_file() for n in wanted if n
        ):
            own.append(str(root))
    return tuple(own)


def _is_installed(folder: Path) -> bool:
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return any(folder.is_relative_to(Path(root).resolve()) for root in roots if root)


# ------------------------------------------------------------------------------------ objects


def _value(namespace: Mapping[str, Any], text: str) -> Any:
    if text in namespace:
        return namespace[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ProblemError(
            f"--inputs names {text!r}, which is not defined in the notebook.{nearest(text, namespace)}"
        ) from None


def _same_device(names: Sequence[str], values: Sequence[Any]) -> None:
    places = {n: str(v.device) for n, v in zip(names, values, strict=True) if hasattr(v, "device")}
    if len(set(places.values())) > 1:
        told = ", ".join(f"{name} on {device}" for name, device in places.items())
        raise ProblemError(f"the inputs are on different devices: {told}. Put them on one.")


def _unwrapped(target: Any) -> Any:
    """The function or module behind ``torch.compile``."""
    for attribute in ("_torchdynamo_orig_callable", "_orig_mod"):
        inner = getattr(target, attribute, None)
        if inner is not None:
            return inner
    return target


def _definition(target: Any) -> str:
    """Source text of a function or class, or of an instance's class, at its own line numbers; or ''."""
    thing = target if inspect.isclass(target) or inspect.isfunction(target) else type(target)
    if str(thing.__module__).partition(".")[0] in ("torch", "builtins"):
        return ""
    code = getattr(thing, "__code__", None) or getattr(getattr(thing, "forward", None), "__code__", None)
    if code is None:
        return ""
    lines = linecache.getlines(code.co_filename)
    try:
        body = syntax.module("".join(lines)).body
    except SyntaxError:
        return ""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == thing.__name__:
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if start <= code.co_firstlineno <= (node.end_lineno or start):
                return "\n" * (start - 1) + "".join(lines[start - 1 : node.end_lineno])
    return ""


def _how(target: Any, source: str) -> tuple[Kind, str]:
    """Run from source where possible, so that errors and lines are the person's; else as an object."""
    if inspect.isfunction(target) and source and not target.__closure__ and target.__module__ == "__main__":
        return "function", source
    if inspect.isclass(target) and source and target.__module__ == "__main__":
        return "module_class", source
    if not callable(target):
        raise ProblemError(f"{type(target).__name__} is not a function or an nn.Module")
    return "pickled", source or "\n".join(f"# {line}" for line in _shown(target).splitlines())


def _shown(target: Any) -> str:
    """Text for people when there is no definition that could run."""
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        return repr(target)


__all__ = ["CELL", "Capture", "from_objects", "read_cell", "read_file"]
