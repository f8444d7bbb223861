"""CUDA and C++ text of an exported file: the kernels as they are, and a function that starts each of them.

Owns the host side. Kernels are compiled once for every set of macros the plan gives them, each set in a
namespace of its own. Never writes device code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import UsageError
from workbench.plan.region import plan_region
from workbench.plan.signature import KernelTable
from workbench.plan.steps import BufferArg, Launch

STREAM = "torch_stream"
Consts = tuple[tuple[str, str], ...]

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*\n?", re.MULTILINE)
_PRELUDE = ("<cuda_runtime.h>", "<cfloat>", "<climits>", "<cmath>", "<cstdint>", "<stdexcept>")
_DEFAULT_SHARED_BYTES = 48 * 1024
_PORTABLE_CLUSTER = 8
"""Blocks of a cluster that any card has room for; a kernel has to be allowed more."""


@dataclass(frozen=True)
class Launcher:
    """A host function that starts one kernel with one geometry."""

    name: str
    step: Launch
    space: str
    """Namespace of the kernel's macros."""

    parameters: tuple[str, ...]
    """What it calls the addresses it takes, one for every distinct buffer."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """Buffers of the plan behind its addresses, each once."""
        return tuple(dict.fromkeys(a.buffer for a in self.step.args if isinstance(a, BufferArg)))

    @property
    def declaration(self) -> str:
        """As C++ declares it; an address is a plain number there."""
        taken = ", ".join(f"uintptr_t {name}" for name in (*self.parameters, STREAM))
        return f"void {self.name}({taken})"


def device_text(source: str) -> tuple[str, tuple[str, ...]]:
    """The kernels without plan and includes, and the headers they include. Raises ``PlanError``."""
    first, last = plan_region(source)
    lines = source.splitlines()
    behind = lines[last - 1].partition("*/")[2]
    kernels = "\n".join([*lines[: first - 1], behind, *lines[last:]])
    headers = tuple(line.split("include", 1)[1].strip() for line in _INCLUDE.findall(kernels))
    return _INCLUDE.sub("", kernels).strip(), headers


def launchers_of(launches: Sequence[Launch], kernels: KernelTable) -> tuple[Launcher, ...]:
    """One for every different launch, named after its kernel; the same launch twice shares one."""
    distinct = list(dict.fromkeys(_geometry(step) for step in launches))
    spaces = {
        consts: f"sizes{number}" for number, consts in enumerate(dict.fromkeys(s.consts for s in distinct))
    }
    taken: dict[str, int] = {}
    found = []
    for step in distinct:
        stem = "launch_" + re.sub(r"\W+", "_", step.kernel.partition("<")[0]).strip("_")
        taken[stem] = taken.get(stem, 0) + 1
        name = stem if taken[stem] == 1 else f"{stem}_{taken[stem]}"
        found.append(Launcher(name, step, spaces[step.consts], _parameters(step, kernels)))
    return tuple(found)


def _parameters(step: Launch, kernels: KernelTable) -> tuple[str, ...]:
    """The kernel's own names for its pointers; numbered ones where they cannot be read."""
    name = step.kernel.partition("<")[0].strip()
    own = next((_names(s.parameters) for s in kernels.signatures if s.name == name), ())
    given: dict[str, str] = {}
    for position, arg in enumerate(step.args):
        if isinstance(arg, BufferArg):
            known = own[position] if len(own) == len(step.args) else f"pointer{position}"
            given.setdefault(arg.buffer, known)
    return tuple(given.values())


def _names(words: Sequence[str]) -> tuple[str, ...]:
    """The last word of each parameter, such as ``x`` in ``const float * x``."""
    found, depth = [""], 0
    for word in words:
        depth += (word in "<([{") - (word in ">)]}")
        if word == "," and depth == 0:
            found.append("")
        elif word.isidentifier():
            found[-1] = word
    return tuple(found) if all(found) and len(set(found)) == len(found) else ()


def _geometry(step: Launch) -> Launch:
    """The step without what does not change the launcher: its line and which buffers it is given."""
    order: dict[str, str] = {}
    args = tuple(
        BufferArg(buffer=order.setdefault(a.buffer, f"p{len(order)}")) if isinstance(a, BufferArg) else a
        for a in step.args
    )
    return step.model_copy(update={"args": args, "line": 0})


def launcher_of(step: Launch, launchers: Sequence[Launcher]) -> Launcher:
    """The launcher that starts a step."""
    return next(one for one in launchers if one.step == _geometry(step))


def spaces_of(launchers: Sequence[Launcher]) -> dict[str, Consts]:
    """Macros by namespace."""
    return {one.space: one.step.consts for one in launchers}


def headers_text(headers: Sequence[str]) -> str:
    """Includes of the CUDA file, each once."""
    return "\n".join(f"#include {name}" for name in dict.fromkeys((*_PRELUDE, *headers)))


def host_text(launchers: Sequence[Launcher]) -> str:
    """Everything behind the kernels: how an address becomes a pointer, and the launchers."""
    return "\n\n".join((_ADDRESS, *(_launcher_text(one) for one in launchers)))


def refuse_repeated_c_names(kernels: str, launchers: Sequence[Launcher]) -> None:
    """C names have no namespace. Raises ``UsageError`` where kernels with such names are compiled twice."""
    if len(spaces_of(launchers)) > 1 and 'extern "C"' in kernels:
        raise UsageError(
            'the kernels are extern "C" and compiled for several sizes, which one file cannot hold: '
            'leave out extern "C"'
        )


_ADDRESS = """\
// An address that Python passes as a number becomes whatever pointer a kernel takes.
struct Address {
    uintptr_t value;
    template <typename T>
    operator T*() const { return reinterpret_cast<T*>(value); }
};

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        throw std::runtime_error(cudaGetErrorString(status));
    }
}"""


def _launcher_text(one: Launcher) -> str:
    step = one.step
    kernel = f"{one.space}::{step.kernel}"
    names = dict(zip(one.buffers, one.parameters, strict=True))
    arguments = ", ".join(
        f"Address{{{names[a.buffer]}}}" if isinstance(a, BufferArg) else f"({a.ctype}){_literal(a.value)}"
        for a in step.args
    )
    lines = []
    if step.shared_bytes > _DEFAULT_SHARED_BYTES:
        lines += [
            "check(cudaFuncSetAttribute(",
            f"    {kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, {step.shared_bytes}));",
        ]
    if math.prod(step.cluster) > _PORTABLE_CLUSTER:
        lines += [
            "check(cudaFuncSetAttribute(",
            f"    {kernel}, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));",
        ]
    grid, block = f"dim3{_triple(step.grid)}", f"dim3{_triple(step.block)}"
    queue = f"reinterpret_cast<cudaStream_t>({STREAM})"
    if step.cluster == (1, 1, 1) and not step.cooperative:
        lines += [f"{kernel}<<<{grid}, {block}, {step.shared_bytes}, {queue}>>>(", f"    {arguments});"]
        lines.append("check(cudaGetLastError());")
    else:
        name, attribute = _attribute(step)
        lines += [
            *attribute,
            "cudaLaunchConfig_t config = {};",
            f"config.gridDim = {grid};",
            f"config.blockDim = {block};",
            f"config.dynamicSmemBytes = {step.shared_bytes};",
            f"config.stream = {queue};",
            f"config.attrs = &{name};",
            "config.numAttrs = 1;",
            f"check(cudaLaunchKernelEx(&config, {kernel}, {arguments}));",
        ]
    body = "\n".join(f"    {line}" for line in lines)
    return f"{one.declaration} {{\n{body}\n}}"


def _attribute(step: Launch) -> tuple[str, list[str]]:
    """What a launch has beyond a grid: its name, and the lines that set it."""
    if step.cooperative:
        return "together", [
            "cudaLaunchAttribute together = {};  // all blocks at the same time: they wait for one another",
            "together.id = cudaLaunchAttributeCooperative;",
            "together.val.cooperative = 1;",
        ]
    x, y, z = step.cluster
    return "cluster", [
        "cudaLaunchAttribute cluster = {};",
        "cluster.id = cudaLaunchAttributeClusterDimension;",
        f"cluster.val.clusterDim = {{{x}, {y}, {z}}};",
    ]


def _triple(size: tuple[int, int, int]) -> str:
    used = size if size[2] != 1 else size[:2] if size[1] != 1 else size[:1]
    return f"({', '.join(map(str, used))})"


def _literal(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}LL" if abs(value) >= 2**31 else str(value)
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)
