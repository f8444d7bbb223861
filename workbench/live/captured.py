"""What a reference reads besides its arguments and tensors: numbers, containers, helpers, attributes, modes.

Owns the walk from a function or module to everything Python its answer depends on, as facts that can be
compared with another copy's, and as checks that say whether this copy is as it was. Runs none of the
person's code. Tensors that a kernel is given are no facts: they are read anew at every call.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
from torch import Tensor, nn

from workbench.live.facts import PLAIN, Fact, array_fact, code_fact, long_fact, tensor_fact, thing_fact
from workbench.problem.lines import is_persons

MOST_ENTRIES = 128
"""A longer list or dict is not watched entry by entry."""
_MODULE_STATE = frozenset(vars(nn.Module()))
AT_WILL = frozenset({"getattr", "vars", "__dict__", "asdict", "astuple", "attrgetter"})
"""Where code mentions one of these, it may read attributes that it does not name."""
_NOT_ANSWERS = frozenset({"__init__", "__new__", "__repr__", "__str__", "__init_subclass__", "__post_init__"})
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class Check:
    """A condition in Python, with objects for its blanks: ``{}[{}] is {}``."""

    text: str
    objects: tuple[Any, ...]


@dataclass
class Captured:
    """What one copy of a reference reads."""

    facts: dict[str, Fact] = field(default_factory=dict)
    """By the person's own words for the place: ``cfg['eps']``, ``layers.0.p``."""
    checks: list[Check] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    """Places that no check can watch: what is in them is taken to stay."""
    own_code: set[str] = field(default_factory=set)
    """Which facts are of the reference's own code; the others are its helpers'."""
    settings: set[str] = field(default_factory=set)
    """Which are settings of torch's layers."""


def captured(target: Callable[..., Any]) -> Captured:
    """Walk from a function or module. Attributes count that some code on the way mentions."""
    mentioned: set[str] = set()
    for _ in range(_MOST_ROUNDS):  # more attributes may lead to more code, which mentions more
        walk = _Walk(mentioned)
        walk.value("", target)
        walk.found.own_code |= {getattr(target, "__name__", "")}
        if walk.names <= mentioned:
            break
        mentioned = mentioned | walk.names
    return walk.found


class _Walk:
    """One walk. ``value`` and what it calls add to ``found``; who leads to a value adds the check of it."""

    def __init__(self, mentioned: set[str]) -> None:
        self.found = Captured()
        self.names: set[str] = set()
        """What the code on the way mentions."""
        self._mentioned = mentioned
        self._seen: dict[int, Any] = {}
        """What was walked; kept, so that no other object gets its number."""

    def value(self, path: str, value: Any) -> None:
        """A value at a place."""
        if isinstance(value, PLAIN):
            return self._fact(path, Fact("value", repr(value)))
        if isinstance(value, Tensor):
            return self._fact(path, Fact("kind", "a tensor"))  # the kernel's argument: read at every call
        if id(value) in self._seen:
            return None
        self._seen[id(value)] = value
        match value:
            case nn.Module():
                self._module(path, value)
            case functools.partial():
                self._partial(path, value)
            case types.MethodType():
                self.value(path, value.__func__)
                self.value(_dotted(path, "self"), value.__self__)
            case types.FunctionType():
                self._function(path, value)
            case dict():
                self._entries(path, value)
            case list() | tuple():
                self._sequence(path, value)
            case set() | frozenset():
                self._check("{} == {}", value, frozenset(value))
                self._fact(path, Fact("set", repr(sorted(map(repr, value)))))
            case type() | types.ModuleType():
                self._attributes(path, value) if _is_own(value) else self._named(path, value)
            case _ if isinstance(value, types.SimpleNamespace) or _is_own(type(value)):
                self._fact(path, Fact("kind", type(value).__qualname__))
                self._attributes(path, value)
            case _ if callable(value) and hasattr(value, "__qualname__"):
                self._named(path, value)
            case numpy.ndarray():
                self._fact(path, array_fact(value))
                self.found.fixed.append(f"{path} (ndarray)")
            case _:
                self._fact(path, thing_fact(value))
                self.found.fixed.append(f"{path} ({type(value).__name__})")
        return None

    # ------------------------------------------------------------------------------ code

    def _function(self, path: str, function: types.FunctionType) -> None:
        if not _is_own_file(function.__code__.co_filename):
            compiled = getattr(function, "_torchdynamo_orig_callable", None)
            inner = getattr(function, "__wrapped__", compiled)
            return self._named(path, function) if inner is None else self.value(path, inner)
        name, code = path or function.__name__, function.__code__
        self.names |= _mentioned(code)
        self._fact(name, code_fact(function))
        self._check("{}.__code__ is {}", function, code)
        self._check("{}.__defaults__ is {}", function, function.__defaults__)
        for parameter, value in _defaults(function):
            self._inside(f"{name}'s default {parameter}", value)
        for parameter, value in (function.__kwdefaults__ or {}).items():
            self._check("{}.__kwdefaults__[{}] is {}", function, parameter, value)
            self._inside(f"{name}'s default {parameter}", value)
        for cell, free in zip(function.__closure__ or (), code.co_freevars, strict=True):
            value = _content(cell)
            self._check("{}.cell_contents is {}", cell, value, unless=isinstance(value, Tensor))
            self.value(free, value)
        self._globals(function.__globals__, _globals_read(code))
        return None

    def _globals(self, names: dict[str, Any], read: frozenset[str]) -> None:
        for name in sorted(read):
            if name not in names:  # of Python itself, until the notebook has one too
                self._check("{} not in {}", name, names)
                continue
            value = names[name]
            self._check("{}[{}] is {}", names, name, value, unless=isinstance(value, Tensor))
            self.value(name, value)

    def _partial(self, path: str, value: functools.partial[Any]) -> None:
        self.value(path, value.func)
        for index, given in enumerate(value.args):
            self._inside(f"{path or 'partial'}.args[{index}]", given)
        self._entries(f"{path or 'partial'}.keywords", value.keywords)

    # ------------------------------------------------------------------------------ containers

    def _entries(self, path: str, values: Mapping[Any, Any]) -> None:
        self._check("len({}) == {}", values, len(values))
        if len(values) > MOST_ENTRIES:
            return self._long(path, values)
        self._fact(path, Fact("kind", type(values).__name__))
        for key, value in values.items():
            self._check("{}[{}] is {}", values, key, value)
            self._inside(f"{path}[{key!r}]", value)
        return None

    def _sequence(self, path: str, values: list[Any] | tuple[Any, ...]) -> None:
        changeable = isinstance(values, list)
        self._check("len({}) == {}", values, len(values), unless=not changeable)
        if len(values) > MOST_ENTRIES:
            return self._long(path, values)
        self._fact(path, Fact("kind", type(values).__name__))
        fields = getattr(values, "_fields", None)
        for index, value in enumerate(values):
            self._check("{}[{}] is {}", values, index, value, unless=not changeable)
            self._inside(f"{path}.{fields[index]}" if fields else f"{path}[{index}]", value)
        return None

    def _long(self, path: str, values: Any) -> None:
        self._fact(path, long_fact(values))
        if not isinstance(values, tuple):
            self.found.fixed.append(f"{path} ({len(values):,} entries)")

    def _inside(self, path: str, value: Any) -> None:
        """A value in a container: a tensor there is not the kernel's argument but was built into it."""
        if isinstance(value, Tensor):
            self._fact(path, tensor_fact(value))
            if value.is_inference():
                self.found.fixed.append(f"{path} (an inference tensor)")
            else:
                self._check("{}._version == {}", value, value._version)
        else:
            self.value(path, value)

    # ------------------------------------------------------------------------------ objects

    def _attributes(self, path: str, owner: Any) -> None:
        """Attributes of an object, a class or a module of the person's own that some code mentions."""
        kind = owner if isinstance(owner, type) else type(owner)
        own = getattr(owner, "__dict__", {})
        slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ())]
        at_will = not isinstance(owner, type | types.ModuleType) and bool(self._mentioned & AT_WILL)
        names = [name for name in (*own, *slots) if at_will or name in self._mentioned]
        for name in dict.fromkeys([*names, *_class_names(kind, self._mentioned)]):
            if not (isinstance(owner, nn.Module) and name in _MODULE_STATE):
                self._attribute(path, owner, own, name)

    def _attribute(self, path: str, owner: Any, own: Mapping[str, Any], name: str) -> None:
        held = isinstance(owner, nn.Module)  # its loose tensors are the kernel's arguments
        if name in own:
            value = own[name]
            self._check("{}[{}] is {}", own, name, value, unless=held and isinstance(value, Tensor))
        else:
            value = inspect.getattr_static(owner, name, None)
            if isinstance(value, types.MemberDescriptorType):  # a slot
                value = getattr(owner, name, None)
                self._check("{}." + name + " is {}", owner, value)
            else:
                kind = owner if isinstance(owner, type) else type(owner)
                base = next((base for base in kind.__mro__ if name in vars(base)), kind)
                self._check("{}[{}] is {}", vars(base), name, value)
                if not isinstance(owner, type):  # one of the object's own would go before the class's
                    self._check("{} not in {}", name, own)
        if isinstance(value, property | functools.cached_property):
            value = value.fget if isinstance(value, property) else value.func
        elif isinstance(value, staticmethod | classmethod):
            value = value.__func__
        where = _dotted(path, name)
        if isinstance(value, types.FunctionType):
            self.found.own_code.add(where)
        self.value(where, value) if held else self._inside(where, value)

    def _module(self, path: str, module: nn.Module) -> None:
        if (inner := module.__dict__["_modules"].get("_orig_mod")) is not None:  # behind torch.compile
            return self.value(path, inner)
        kind = type(module)
        self._fact(path or "the module", Fact("kind", kind.__qualname__))
        for hooks in (module._forward_hooks, module._forward_pre_hooks):
            self._fact(f"hooks of {path or kind.__name__}", Fact("hooks", str(len(hooks))))
            self._check("len({}) == {}" if hooks else "not {}", *((hooks, len(hooks)) if hooks else (hooks,)))
        if _is_own(kind):
            self._attributes(path, module)
        self._library_attributes(path, module)
        if "training" in _read_by_forward(kind):
            self._check("{}['training'] is {}", module.__dict__, module.training)
            self._fact(_dotted(path, "training"), Fact("mode", str(module.training), kind.__name__))
        parts = module.__dict__["_modules"]
        self._check("len({}) == {}", parts, len(parts), unless=not parts)
        for name, part in parts.items():
            self._check("{}[{}] is {}", parts, name, part)
            self.value(_dotted(path, name), part)
        return None

    def _library_attributes(self, path: str, module: nn.Module) -> None:
        own = module.__dict__
        for name in sorted((_read_by_forward(type(module)) & own.keys()) - _MODULE_STATE):
            self._check("{}[{}] is {}", own, name, own[name], unless=isinstance(own[name], Tensor))
            known = len(self.found.facts)
            self.value(_dotted(path, name), own[name])
            self.found.settings.update(list(self.found.facts)[known:])

    # ------------------------------------------------------------------------------ what was found

    def _named(self, path: str, value: Any) -> None:
        """Something of a library: known by its name."""
        name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", repr(value)))
        module = getattr(value, "__module__", None)
        self._fact(path or "the function", Fact("named", f"{module}.{name}" if module else name))

    def _fact(self, path: str, fact: Fact) -> None:
        while self.found.facts.get(path, fact) != fact:
            path += "'"  # another of the same name, in another module
        self.found.facts[path] = fact

    def _check(self, text: str, *objects: Any, unless: bool = False) -> None:
        if not unless:
            self.found.checks.append(Check(text, objects))


# ------------------------------------------------------------------------------------ names


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _is_own(thing: Any) -> bool:
    """True for a class or module that the person wrote."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    if name in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or is_persons(file)  # the notebook's own module has no file


def _is_own_file(file: str) -> bool:
    return is_persons(file) or file == "<string>"  # text that was run by exec()


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@functools.lru_cache(1024)
def _mentioned(code: types.CodeType) -> frozenset[str]:
    return frozenset(name for one in _codes(code) for name in one.co_names)


@functools.lru_cache(1024)
def _globals_read(code: types.CodeType) -> frozenset[str]:
    """Names looked up in the globals; an attribute of the same name is none of them."""
    reads = ("LOAD_GLOBAL", "LOAD_NAME")
    return frozenset(
        str(step.argval) for one in _codes(code) for step in dis.get_instructions(one) if step.opname in reads
    )


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)


def _class_names(kind: type, mentioned: set[str]) -> Iterator[str]:
    """Names of the person's classes that count: those mentioned, and what operators call."""
    for base in kind.__mro__:
        if base is nn.Module or base is object or not _is_own(base):
            continue
        for name, value in vars(base).items():
            written = isinstance(value, types.FunctionType) and is_persons(value.__code__.co_filename)
            operator = written and name.startswith("__") and name not in _NOT_ANSWERS
            if name in mentioned or name == "forward" or operator:
                yield name


def _read_by_forward(kind: type) -> frozenset[str]:
    """What a module's ``forward``, and the methods it calls, mention; base classes' too."""
    names: set[str] = set()
    left = {"forward"}
    while left:
        name = left.pop()
        for base in kind.__mro__:
            code = getattr(vars(base).get(name), "__code__", None)
            if code is not None and base is not nn.Module:
                new = _mentioned(code) - names
                names |= new
                left |= new - {"__init__"}
    return frozenset(names)
