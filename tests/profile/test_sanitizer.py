"""What compute-sanitizer prints becomes a verdict: recorded reports, and every way to have none."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from softmax_problem import PROBLEM, RIGHT

from workbench.devices.emulator import EmulatorDevice
from workbench.devices.select import look_for_hazards
from workbench.errors import UsageError
from workbench.model import H100, Kernel, TensorMeta
from workbench.profile import sanitizer
from workbench.profile.sanitizer import NotLooked, buffers_of, hazard_of, sanitized, told_of

SOURCE = "__global__ void astray(const float* x, float* y) { y[n] = x[0]; }"
META = TensorMeta(dtype="f32", shape=(2, 64), strides=(64, 1))
BUFFERS = "\n".join((told_of("x", 0x7F0000, META), told_of("output", 0x7F0800, META)))
PAST = """
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at astray(float const*, float*)+0x160 in kernel.cu:12
=========     by thread (3,0,0) in block (1,0,0)
=========     Access to 0x7f0a00 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0800 of size 512 bytes
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure"
========= ERROR SUMMARY: 2 errors
"""
RACE = """
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at astray(float const*, float*)+0x1f0 in kernel.cu:21
=========     and Read access at astray(float const*, float*)+0x210 in kernel.cu:23 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNINITIALISED = """
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void astray<(int)4>(const float *, float *)+0xb0
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f0804
"""
LIBRARY = PAST.replace("astray(", "at::native::copy_kernel(")
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
BARRIER = """
========= Barrier error detected. Divergent thread(s) in block.
=========     at astray(float const*, float*)+0x50 in kernel.cu:9
=========     by thread (0,0,0) in block (0,0,0)
"""


@pytest.mark.parametrize(
    ("output", "kind", "line", "words"),
    [
        (
            PAST,
            "out_of_bounds",
            12,
            ("thread (3,0,0) of block (1,0,0)", "1 bytes after the memory of output"),
        ),
        (RACE, "race", 21, ("Race reported", "line 21")),
        (UNINITIALISED, "uninitialised", None, ("output, element 1", "astray")),
        (BARRIER, "barrier", 9, ("Divergent",)),
        (PAST.replace("Invalid __global__", "Misaligned __global__"), "misaligned", 12, ()),
    ],
)
def test_reports(output: str, kind: str, line: int | None, words: Sequence[str]) -> None:
    found = hazard_of(f"{BUFFERS}\n{output}", "2x64", SOURCE)
    assert found is not None and (found.hazard, found.line, found.case) == (kind, line, "2x64")
    assert all(word in found.message for word in (*words, "(compute-sanitizer)"))


@pytest.mark.parametrize("output", [CLEAN, LIBRARY, "nothing at all"])
def test_what_is_not_the_kernels(output: str) -> None:
    assert hazard_of(f"{BUFFERS}\n{output}", "2x64", SOURCE) is None


def test_each_report_belongs_to_the_call_it_followed() -> None:
    output = f"{sanitizer.CASE} 2x64\n{CLEAN}\n{sanitizer.CASE} 3x7 unaligned\n{BUFFERS}\n{PAST}"
    found = hazard_of(output, "2x64", SOURCE)
    assert found is not None and found.case == "3x7 unaligned" and "the memory of output" in found.message


def test_a_few_sizes_are_looked_at_an_odd_and_an_unaligned_one_among_them() -> None:
    request = sanitizer.request_of(PROBLEM, Kernel(source=RIGHT), H100, 0)
    labels = [call.case.label for call in request.calls]
    elements = [sum(meta.numel for _, meta in call.plan.arguments) for call in request.calls]
    assert len(labels) == len(set(labels)) >= 3 and elements[0] == max(elements)
    assert [call.unaligned for call in request.calls].count(True) == 1
    assert any(call.case.sizes[-1][1] % 2 and call.case.sizes[-1][1] > 1 for call in request.calls)


def test_buffers_are_read_back() -> None:
    assert [(one.name, one.address) for one in buffers_of(BUFFERS)] == [("x", 0x7F0000), ("output", 0x7F0800)]


def answering(outputs: dict[str, str], code: int = 0, seen: list[str] | None = None) -> sanitizer.Run:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        tool = command[command.index("--tool") + 1]
        if seen is not None:
            seen.append(tool)
        return subprocess.CompletedProcess(command, code, stdout=outputs.get(tool, CLEAN), stderr="")

    return run


def test_all_tools_look_until_one_finds_something() -> None:
    seen: list[str] = []
    assert sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({}, seen=seen)) is None
    assert seen == list(sanitizer.TOOLS)
    seen.clear()
    name = sanitizer.parse(RIGHT).kernels.signatures[0].name
    race = RACE.replace("astray", name)
    found = sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({"racecheck": race}, 86, seen))
    assert found is not None and found.hazard == "race" and seen[-1] == "racecheck"


def test_a_tool_that_cannot_look_says_why() -> None:
    told = "========= Error: Device not supported\n"
    with pytest.raises(NotLooked, match=r"memcheck: .*Device not supported"):
        sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({"memcheck": told}, 1))


def test_only_a_gpu_is_looked_at() -> None:
    look_for_hazards(EmulatorDevice(H100), "auto")
    with pytest.raises(UsageError, match="emulator looks at every access"):
        look_for_hazards(EmulatorDevice(H100), "sanitizer")
    with pytest.raises(UsageError, match="there are auto, sanitizer"):
        look_for_hazards(EmulatorDevice(H100), "everything")
