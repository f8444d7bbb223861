"""Counters read and put into words: a recorded page in the profiler's format, and every way to have none."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from softmax_problem import PROBLEM

from workbench.model import H100
from workbench.profile import nsight
from workbench.profile.metrics import BY_COUNTER, METRICS
from workbench.profile.nsight import NoCounters, command_line, kernel_names, profile_kernel
from workbench.profile.raw_page import read_page
from workbench.profile.request import ProfileRequest
from workbench.profile.sentences import bound_of, sentences

PAGE = Path(__file__).with_name("raw_page.csv").read_text(encoding="utf-8")
SOURCE = """/* plan
def plan(x):
    y = empty_like(x)
    launch("kernels::twice<float>", grid=1, block=32, args=[x, y])
    return y
*/
namespace kernels {
template <class T> __global__ void twice(const T* x, T* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
}
__global__ void other(float* y) { y[0] = 0.0f; }
"""


def request() -> ProfileRequest:
    return ProfileRequest(problem=PROBLEM, source=SOURCE, case=PROBLEM.cases[0], target=H100)


def test_a_page_becomes_one_profile_a_launch_in_our_units() -> None:
    first, second = read_page(PAGE)
    assert first.kernel == "softmax_partial"
    metrics = dict(second.metrics)
    assert metrics["time_us"] == pytest.approx(512.345)
    assert metrics["dram_read_bytes"] == 536_870_912
    assert metrics["registers"] == 44
    assert "tensor_pipe_percent" not in metrics  # n/a on the page
    assert "local_loads" not in metrics  # no such column


def test_units_that_are_not_the_base_are_converted() -> None:
    page = PAGE.replace('"nsecond"', '"usecond"').replace('"byte","byte"', '"Mbyte","Kbyte"')
    metrics = dict(read_page(page)[0].metrics)
    assert metrics["time_us"] == 6400
    assert metrics["dram_read_bytes"] == 1_048_576e6
    assert metrics["dram_write_bytes"] == 4_096e3


def test_golden_sentences() -> None:
    assert sentences(read_page(PAGE)) == (
        "softmax_rows takes 99% of the 519 us of 2 launches; the rest is about it.",
        "68% of DRAM peak: 537 MB read, 537 MB written in 512 us. Memory is the limit.",
        "Global loads move 8.4 sectors per request where 2.1 would do: 8 of 32 bytes of each are used.",
        "Instructions issue in 22% of cycles.",
        "Occupancy is 59%; 62% is possible, limited by 44 registers a thread to 5 blocks an SM.",
        "69% of the time that warps wait, they wait for global memory (long_scoreboard), "
        "23% at __syncthreads for other warps (barrier).",
        "15% of shared-memory wavefronts are bank conflicts.",
        "27.5 of 32 threads of a warp are active on average: branches or tails differ.",
        "50% of L2 sectors hit, 2% of L1's.",
    )


def test_a_small_grid_is_said() -> None:
    told = sentences(read_page(PAGE)[:1])
    assert "The grid fills 2% of the GPU once: more blocks would run at the same time." in told
    assert told[0].startswith("2% of DRAM peak")


@pytest.mark.parametrize(
    ("metrics", "bound"),
    [
        ({"dram_percent": 91.0, "sm_percent": 30.0}, "memory"),
        ({"dram_percent": 20.0, "l2_percent": 75.0, "sm_percent": 30.0}, "memory"),
        ({"dram_percent": 20.0, "sm_percent": 80.0}, "compute"),
        ({"dram_percent": 20.0, "sm_percent": 30.0, "time_us": 50.0}, "latency"),
        ({"dram_percent": 2.0, "sm_percent": 3.0, "time_us": 2.5}, "launch"),
        ({"sm_percent": 3.0}, None),
    ],
)
def test_what_limits_a_launch(metrics: dict[str, float], bound: str | None) -> None:
    assert bound_of(metrics) == bound


def test_every_metric_is_known_by_one_name() -> None:
    assert len(BY_COUNTER) == len(METRICS) == len({metric.name for metric in METRICS})


def test_the_command_asks_for_our_counters_of_our_kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsight, "find_ncu", lambda: "/bin/ncu")
    command = command_line(request(), Path("request.json"))
    assert kernel_names(SOURCE) == ["twice", "other"]
    assert command[command.index("--kernel-name") + 1] == "regex:^(other|twice)$"
    assert set(command[command.index("--metrics") + 1].split(",")) == set(BY_COUNTER)
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[-3:] == ["-m", "workbench.profile.child", "request.json"]


def answering(stdout: str = "", stderr: str = "", code: int = 0) -> nsight.Run:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, code, stdout, stderr)

    return run


def test_a_profile_has_counters_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsight, "find_ncu", lambda: "/bin/ncu")
    profile = profile_kernel(request(), answering(PAGE))
    assert (profile.source, profile.bound, profile.note) == ("counters", "memory", "")
    assert len(profile.kernels) == 2
    assert profile.sentences[1].startswith("68% of DRAM peak")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==ERROR== The application returned an error code (1).", "returned an error code"),
        ("Traceback\nRuntimeError: no kernel image", "no kernel image"),
        ("", "said nothing"),
    ],
)
def test_why_there_are_no_counters(monkeypatch: pytest.MonkeyPatch, output: str, reason: str) -> None:
    monkeypatch.setattr(nsight, "find_ncu", lambda: "/bin/ncu")
    with pytest.raises(NoCounters, match=reason):
        profile_kernel(request(), answering(output, code=1))


def test_a_machine_without_the_profiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nsight, "PLACES", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoCounters, match="not installed"):
        profile_kernel(request())
    tool = tmp_path / "2025.3" / "ncu"
    tool.parent.mkdir()
    tool.write_text("")
    assert nsight.find_ncu() == str(tool)


def test_a_profiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsight, "find_ncu", lambda: "/bin/ncu")

    def hang(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(list(command), 1)

    with pytest.raises(NoCounters, match="did not end"):
        profile_kernel(request(), hang)
