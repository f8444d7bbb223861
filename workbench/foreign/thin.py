"""Extensions built with thin.h and called through ctypes: the quickest rung of the ladder.

Owns the text that is compiled and the conversion of arguments. Runs inside the sandbox.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

HEADER = Path(__file__).with_name("thin.h")
NOTHING, TENSOR, WHOLE, REAL, TENSORS = range(5)
MESSAGE_BYTES = 2048
_INCLUDES = re.compile(r'^\s*#\s*include\s*[<"](torch|ATen|c10|pybind11)/[^>"]*[>"]', re.MULTILINE)
_BINDINGS = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY|py::)\b")


class _Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("whole", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("tensors", ctypes.POINTER(ctypes.c_void_p)),
    ]


class _Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("count", ctypes.c_int32), ("of", _Union)]


class Unfit(Exception):
    """The text needs more than thin.h has."""


def source(cpp: Sequence[str], cuda: Sequence[str], functions: Sequence[str]) -> str:
    """One translation unit: the header, the solution's text, an entry for each function.

    Raises ``Unfit`` for texts that make bindings of their own.
    """
    text = "\n".join([*cuda, *cpp])
    if _BINDINGS.search(text) or not functions:
        raise Unfit("it makes its own bindings")
    entries = "\n".join(f"THIN_EXPORT({name})" for name in functions)
    runtime = "#define USE_CUDA 1\n#include <cuda_runtime.h>\n" if cuda else ""
    return f'{runtime}#include "{HEADER}"\n{_INCLUDES.sub("", text)}\n{entries}\n'


def module(name: str, library: str, functions: Sequence[str], note: Callable[[str], None]) -> ModuleType:
    """A module whose functions call the library; ``note`` hears the name of each that is called."""
    loaded = ctypes.CDLL(library)
    made = ModuleType(name)
    for function in functions:
        setattr(made, function, _callable(getattr(loaded, f"thin_{function}"), f"{name}.{function}", note))
    return made


def _callable(entry: Any, name: str, note: Callable[[str], None]) -> Callable[..., Any]:
    entry.restype = ctypes.c_int

    def call(*arguments: Any) -> Any:
        note(name)
        values = (_Value * max(len(arguments), 1))(*map(_value, arguments))
        result, message = _Value(), ctypes.create_string_buffer(MESSAGE_BYTES)
        if entry(values, len(arguments), ctypes.byref(result), message, MESSAGE_BYTES):
            raise RuntimeError(message.value.decode(errors="replace"))
        return _result(result)

    return call


def _value(argument: Any) -> _Value:
    value = _Value()
    if isinstance(argument, Tensor):
        # A new handle, which the called side owns and frees.
        capsule = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(argument)
        value.kind, value.of.tensor = TENSOR, _address(capsule)
    elif isinstance(argument, bool | int):
        value.kind, value.of.whole = WHOLE, int(argument)
    elif isinstance(argument, float):
        value.kind, value.of.real = REAL, argument
    else:
        raise TypeError(f"an extension's arguments are tensors and numbers, not {type(argument).__name__}")
    return value


def _result(value: _Value) -> Any:
    match value.kind:
        case 1:
            return _tensor(value.of.tensor)
        case 2:
            return value.of.whole
        case 3:
            return value.of.real
        case 4:
            return [_tensor(value.of.tensors[index]) for index in range(value.count)]
        case _:
            return None


def _address(capsule: Any) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, None) or 0)


def _tensor(address: int) -> Tensor:
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    wrapped = capsule(address, None, None)
    made: Tensor = torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(wrapped)
    return made
