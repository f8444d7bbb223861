"""What compute-sanitizer prints becomes a verdict: recorded reports, and every way to have none."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from recorded_driver import RecordedDriver, kernels_of
from softmax_problem import PROBLEM, RIGHT

from workbench.devices.emulator import EmulatorDevice
from workbench.devices.select import look_for_hazards
from workbench.errors import UsageError
from workbench.model import H100, Kernel, TensorMeta
from workbench.profile import sanitized as watched
from workbench.profile import sanitizer
from workbench.profile.sanitizer import NotLooked, sanitized
from workbench.profile.sanitizer_reports import CASE, buffers_of, hazard_of, parts_of, told_of

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
MISALIGNED = """
========= Invalid __global__ read of size 16 bytes
=========     at astray(float const*, float*)+0x160 in kernel.cu:12
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f0004 is misaligned
"""
DROWNED = """
========= COMPUTE-SANITIZER
========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument" on CUDA API call
=========
========= Error: process didn't terminate successfully
========= Target application returned an error
========= ERROR SUMMARY: 40 errors
========= ERROR SUMMARY: 30 errors were not printed. Use --print-limit option to adjust
"""
"""Of an H100: the reports of calls the driver refused, as many as are printed, and then the kernel's own."""
STOPPED = """
========= COMPUTE-SANITIZER
WORKBENCH CASE 2x4096
WORKBENCH CASE 4x128 unaligned
========= Error: process didn't terminate successfully
========= ERROR SUMMARY: 0 errors
Traceback (most recent call last):
  File "sanitized.py", line 45, in called
torch.AcceleratorError: CUDA error: misaligned address
terminate called after throwing an instance of 'c10::AcceleratorError'
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
        (MISALIGNED, "misaligned", 12, ("x, element 1", "Invalid __global__ read of size 16 bytes")),
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
    output = f"{CASE} 2x64\n{CLEAN}\n{CASE} 3x7 unaligned\n{BUFFERS}\n{PAST}"
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


def answering(outputs: Mapping[str, str], code: int = 0, seen: list[str] | None = None) -> sanitizer.Run:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        tool = command[command.index("--tool") + 1]
        if seen is not None:
            seen.append(tool)
        return subprocess.CompletedProcess(
            command, code if tool in outputs else 0, stdout=outputs.get(tool, CLEAN), stderr=""
        )

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


def test_what_was_not_printed_is_not_taken_for_nothing() -> None:
    with pytest.raises(NotLooked, match=r"memcheck: 30 of its findings were not printed"):
        sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({"memcheck": DROWNED}, sanitizer.FOUND))


def test_findings_in_a_library_are_nobodys_fault_when_all_were_printed() -> None:
    told: dict[str, str] = dict.fromkeys(sanitizer.TOOLS, LIBRARY)
    assert sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering(told, sanitizer.FOUND)) is None


def test_a_kernel_that_the_gpu_stops_first_is_a_hazard_at_the_call_it_was_in() -> None:
    found = sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({"synccheck": STOPPED}, 6))
    assert found is not None and (found.hazard, found.case) == ("misaligned", "4x128 unaligned")
    assert "the GPU stopped the kernel: misaligned address" in found.message


def test_a_program_that_fails_is_quoted_not_the_tool() -> None:
    told = STOPPED.replace("CUDA error: misaligned address", "out of memory")
    with pytest.raises(NotLooked, match=r"initcheck: torch\.AcceleratorError: out of memory"):
        sanitized(PROBLEM, Kernel(source=RIGHT), H100, run=answering({"initcheck": told}, 1))


def test_memcheck_reports_the_kernel_and_not_the_libraries_questions_to_the_driver() -> None:
    for tool in sanitizer.TOOLS:
        command = sanitizer.command_line("compute-sanitizer", tool, Path("request.json"))
        options = dict(pairwise(command))
        assert int(options["--print-limit"]) >= 100
        assert options.get("--report-api-errors") == ("no" if tool == "memcheck" else None)
        assert options.get("--padding") == ("512" if tool == "memcheck" else None)


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (2, 1025)])
def test_an_allocation_ends_with_its_tensor(
    unaligned: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "CARD", "cpu")
    drawn = torch.randn(*shape, 4)[..., :3].mT if len(shape) == 2 else torch.randn(shape)
    copy = watched.on_gpu(drawn, unaligned)
    assert torch.equal(copy, drawn) and copy.stride() == drawn.stride()
    last = max(sum((size - 1) * step for size, step in zip(copy.shape, copy.stride(), strict=True)) + 1, 0)
    assert copy.untyped_storage().nbytes() == 4 * (copy.storage_offset() + last)
    assert copy.storage_offset() == unaligned


TWICE = """/* plan
def plan(x):
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
__global__ void twice(const float* x, float* y, int count) {}
"""
"""What the driver that records can run."""


def test_the_watched_program_tells_each_call_and_where_its_tensors_lie(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watched, "CARD", "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    request = sanitizer.request_of(PROBLEM, Kernel(source=TWICE), H100, 0)
    for call in request.calls:
        watched.called(request, call, kernels_of(call.plan, RecordedDriver()))
    said = list(parts_of(capsys.readouterr().out, ""))[1:]
    assert [label for label, _ in said] == [call.case.label for call in request.calls]
    for call, (_, part) in zip(request.calls, said, strict=True):
        x, output = buffers_of(part)
        assert (x.name, output.name) == ("x", "output") and x.meta == dict(call.plan.arguments)["x"]
        assert (x.address % 8 == 4) == call.unaligned


def test_only_a_gpu_is_looked_at() -> None:
    look_for_hazards(EmulatorDevice(H100), "auto")
    with pytest.raises(UsageError, match="emulator looks at every access"):
        look_for_hazards(EmulatorDevice(H100), "sanitizer")
    with pytest.raises(UsageError, match="there are auto, sanitizer"):
        look_for_hazards(EmulatorDevice(H100), "everything")
