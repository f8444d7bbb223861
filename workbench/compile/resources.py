"""Reads what ``ptxas -v`` reports of each kernel. Pure text to values."""

from __future__ import annotations

import re
from collections import defaultdict

from workbench.compile.request import Answer, Request
from workbench.model import Resources

ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(\S+)'")
PROPERTIES = re.compile(r"ptxas info\s*: Function properties for (\S+)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"ptxas info\s*: Used (\d+) registers(?:, used (\d+) barriers)?")
SHARED = re.compile(r"(\d+) bytes smem")


def read_resources(request: Request, answer: Answer) -> dict[str, Resources]:
    """Resources of every kernel of a successful answer, by the name it was asked for."""
    reported = _by_mangled_name(answer.log)
    return {
        kernel: Resources(kernel=kernel, consts=request.consts, **reported[mangled])
        for kernel, mangled in answer.names
    }


def _by_mangled_name(log: str) -> dict[str, dict[str, int]]:
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    entry = described = ""
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry = match[1]
        elif match := PROPERTIES.search(line):
            described = match[1]  # may be a device function that was not inlined
        elif match := STACK.search(line):
            stack, stores, loads = map(int, match.groups())
            found[described] |= {"stack_bytes": stack, "spill_store_bytes": stores, "spill_load_bytes": loads}
        elif match := USED.search(line):
            shared = SHARED.search(line)
            found[entry] |= {
                "registers": int(match[1]),
                "barriers": int(match[2] or 0),
                "shared_bytes": int(shared[1]) if shared else 0,
            }
    return found
