"""Which line of the person's own source an operation or an exception comes from.

Owns the rule that tells the person's files from torch's, Python's and the workbench's; needs no torch.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import workbench

_OURS = str(Path(workbench.__file__).parent)
_LIBRARIES = ("/lib/python3", "/site-packages/", "<frozen", "<eval_with_key>", "<string>")


def is_persons(file: str) -> bool:
    """True for a file that is neither a library's nor the workbench's."""
    return not file.startswith(_OURS) and not any(mark in file for mark in _LIBRARIES)


def line_of_traceback(traceback: TracebackType | None) -> int | None:
    """Line of the innermost frame that is the person's."""
    line: int | None = None
    while traceback is not None:
        if is_persons(traceback.tb_frame.f_code.co_filename):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def line_of_stack(stack: str) -> int | None:
    """The same, from a printed stack, innermost frame last; files as ``File "x", line 3`` name them."""
    line: int | None = None
    for file, number in re.findall(r'File "([^"]+)", line (\d+)', stack):
        if is_persons(file) and not file.startswith("torch/"):
            line = int(number)
    return line


@cache
def _stand_in(file: str, line: int) -> Callable[..., Any]:
    """A function that calls its argument from a frame named ``forward`` at the person's file and line."""
    code = "\n" * (line - 1) + "def forward(call, args, kwargs): return call(*args, **kwargs)"
    names: dict[str, Any] = {}
    exec(compile(code, file, "exec"), names)
    stand_in: Callable[..., Any] = names["forward"]
    return stand_in


def call_from_persons_frame(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call with the nearest frame of the person's on the stack again, under the name ``forward``.

    torch.export records the frames of ``forward`` methods only, which would lose every line of a
    plain function.
    """
    return call_at(place_of(persons_frame()), call, args, kwargs)


Place = tuple[str, int]
"""A file and a line."""


def place_of(frame: FrameType | None) -> Place | None:
    """Where a frame is."""
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def call_at(
    place: Place | None, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call as if from there."""
    return call(*args, **kwargs) if place is None else _stand_in(*place)(call, args, kwargs)


def persons_frame() -> FrameType | None:
    """The nearest frame of the person's on the stack; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_persons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
