"""Kernels in one launch, plane by plane: what was read of a plane is in L2 when it is read again.

Owns the text. Blocks take the jobs of all kernels in one order, in which a plane's last jobs follow its first
ones by a few planes; a job waits until those that it needs are done, which blocks have begun before it. So no
barrier stands between the kernels, and nobody needs to be on the card at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.analysis.plane_turns import MOST_PLANES
from workbench.playbook.kernels.joint_calls import Call
from workbench.playbook.kernels.kernel_text import JointPart, block

SCALARS = ("groups", "lag")
"""Numbers of the launch beside those of its kernels: planes, and how many lie between first and last jobs."""


def words_of(parts: Sequence[JointPart]) -> list[str]:
    """Names that the launch has for itself."""
    return [*SCALARS, "plane", "job", "in_turn", *(f"{part.stem}_each" for part in parts)]


def counters(name: str, kernels: int) -> list[str]:
    """What blocks tell one another."""
    return [
        "// Blocks that have begun, last jobs that need not wait any more, jobs that are done by plane and",
        "// kernel; all zero between launches, of which one may run at a time.",
        f"__device__ unsigned int {name}_begun, {name}_passed;",
        f"__device__ unsigned int {name}_done[{MOST_PLANES}][{kernels - 1}];",
        "",
    ]


def in_turns(name: str, calls: Sequence[Call]) -> list[str]:
    """The body of the launch."""
    each = [f"{call.part.stem}_each" for call in calls]
    lines = [
        "// Numbers in the order in which blocks begin: a job only ever waits for blocks that run.",
        "__shared__ unsigned int ticket;",
        *block("if (threadIdx.x == 0)", [f"ticket = atomicInc(&{name}_begun, gridDim.x - 1);"]),
        "__syncthreads();",
        "// Jobs of a plane, by kernel. A turn has as many: the first ones of the next plane, and the last",
        "// ones of an earlier plane, whose sums are known by now and whose elements L2 still has.",
        *(f"const int {one} = {call.count} / groups;" for one, call in zip(each, calls, strict=True)),
        f"const int in_turn = {' + '.join(each)};",
        "const int turn = int(ticket) / in_turn;",
        "int job = int(ticket) % in_turn;",
    ]
    for number, call in enumerate(calls[:-1]):
        behind = f"turn - {number}" if number else "turn"
        done = f"&{name}_done[plane][{number}]"
        waits = [f"wait_for(&{name}_done[plane][{number - 1}], {each[number - 1]});"] if number else []
        inside = [*waits, *_job(call, each[number]), f"arrive_at({done});"]
        there = f"0 <= job && job < {each[number]} && 0 <= plane && plane < groups"
        lines += block(f"if (const int plane = {behind}; {there})", inside)
        lines.append(f"job -= {each[number]};")
    inside = [
        f"wait_for(&{name}_done[plane][{len(calls) - 2}], {each[-2]});",
        f"pass_by({name}_done[0], groups * {len(calls) - 1}, &{name}_passed, {calls[-1].count});",
        *_job(calls[-1], each[-1]),
    ]
    there = "0 <= job && 0 <= plane && plane < groups"
    return [*lines, *block(f"if (const int plane = turn - lag; {there})", inside)]


def _job(call: Call, each: str) -> list[str]:
    return [f"const int i = plane * {each} + job;", *call.at("i")]
