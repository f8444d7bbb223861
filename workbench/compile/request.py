"""One NVRTC program: what is asked of the compiler and what it answered, as values."""

from __future__ import annotations

import re
from functools import cached_property

from pydantic import ConfigDict

from workbench.model import Value
from workbench.plan.signature import kernel_table

FILE = "kernel.cu"
"""What the compiler calls the person's text."""


class Request(Value):
    """A source under one set of macros, with every kernel wanted from it."""

    source: str
    consts: tuple[tuple[str, str], ...] = ()
    kernels: tuple[str, ...] = ()
    """Name expressions, sorted: ``softmax_rows<256>``."""
    arch: str
    lineinfo: bool = False
    """Have the machine code say which line it came from, for tools that watch it run."""

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The text by lines, as the compiler counts them."""
        return tuple(self.source.split("\n"))

    @cached_property
    def defined(self) -> dict[str, int]:
        """Kernels the text defines, by name without namespace, with the line of each."""
        return {base_name(found.name): found.line for found in kernel_table(self.source).signatures}

    def line_of(self, kernel: str) -> int:
        """Line that launches a kernel, else the line that defines it, else 1."""
        name = re.escape(base_name(kernel))
        launch = re.search(rf"launch\(\s*f?[\"'][\w:]*{name}\b", self.source)
        if launch:
            return self.source.count("\n", 0, launch.start()) + 1
        return self.defined.get(base_name(kernel), 1)


class Answer(Value):
    """What the compiler said; ``image`` is empty when it refused."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    log: str
    image: bytes = b""
    """A cubin for the request's architecture."""
    names: tuple[tuple[str, str], ...] = ()
    """Name expression and mangled name, one for each kernel wanted."""


def base_name(kernel: str) -> str:
    """``ns::softmax_rows<256>`` -> ``softmax_rows``."""
    return kernel.partition("<")[0].strip().rpartition("::")[2]
