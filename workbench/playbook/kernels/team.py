"""Who computes a row: one thread, one warp or one block; the text that differs between them.

Owns row numbers, column strides and the joining of partial results.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.playbook.schedules.schedule import Schedule


@dataclass(frozen=True)
class TeamText:
    """Fragments of CUDA for one kind of team."""

    kind: str
    threads: int
    lanes_of_warp: int = field(default=32, kw_only=True)
    """Of a warp that has a row, or shares itself among several."""

    @property
    def rows_per_block(self) -> int:
        """Rows a block computes at a time."""
        return {"thread": self.threads, "warp": self.threads // self.lanes_of_warp, "block": 1, "bundle": 32}[
            self.kind
        ]

    @property
    def may_lack_row(self) -> bool:
        """True when a thread that has no row comes as far as the stores: it must load nothing for them."""
        return False

    @property
    def lane(self) -> str:
        """Position of a thread in its team."""
        return {"thread": "0", "warp": "lane", "block": "threadIdx.x", "bundle": "group"}[self.kind]

    @property
    def lanes(self) -> str:
        """Threads of a team."""
        return {"thread": "1", "warp": str(self.lanes_of_warp), "block": "THREADS", "bundle": "GROUPS"}[
            self.kind
        ]

    @property
    def first_row(self) -> str:
        """Row of a thread's team in the first round."""
        match self.kind:
            case "thread":
                return "blockIdx.x * THREADS + threadIdx.x"
            case "warp":
                return f"blockIdx.x * {self.rows_per_block} + threadIdx.x / {self.lanes_of_warp}"
            case _:
                return "blockIdx.x"

    @property
    def prologue(self) -> list[str]:
        """Statements before the row is known."""
        return [f"const int lane = threadIdx.x % {self.lanes_of_warp};"] if self.kind == "warp" else []

    @property
    def comment(self) -> str:
        """What the choice means."""
        match self.kind:
            case "thread":
                return "// One thread a row."
            case "warp" if self.lanes_of_warp < 32:
                rows = 32 // self.lanes_of_warp
                few = "a row gives a whole warp little to load and much to join"
                return f"// {self.lanes_of_warp} lanes a row, {rows} rows a warp: {few}."
            case "warp":
                return "// One warp a row: partial results are joined by shuffles, without shared memory."
            case _:
                return "// One block a row."

    def join(self, op: str, value: str) -> str:
        """The result of the whole team, known to each of its threads."""
        match self.kind:
            case "thread":
                return value
            case "warp":
                lanes = "" if self.lanes_of_warp == 32 else f", {self.lanes_of_warp}"
                return f"warp_reduce<{op}{lanes}>({value})"
            case _:
                return f"block_reduce<{op}>({value})"

    def join_both(self, ops: tuple[str, str], values: tuple[str, str]) -> str:
        """The statement that joins two values at once; empty where it would be no better than two."""
        if self.kind != "block":
            return ""
        return f"block_reduce_both<{', '.join(ops)}>({', '.join(values)});"

    def helper(self, tree: bool) -> str:
        """Helper function that ``join`` calls; empty for none."""
        match self.kind:
            case "thread":
                return ""
            case "warp":
                return "warp_reduce"
            case _:
                return "block_tree" if tree else "block_reduce"

    @property
    def leads(self) -> str:
        """Condition of the one thread that stores a value a row; empty when every thread does."""
        return {"thread": "", "warp": "lane == 0", "block": "threadIdx.x == 0"}[self.kind]


def team_of(schedule: Schedule) -> TeamText:
    """The team a schedule asks for."""
    return TeamText(schedule.team, schedule.threads, lanes_of_warp=schedule.lanes)
