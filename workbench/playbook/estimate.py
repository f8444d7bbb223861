"""A rough model of time, good enough to rank techniques before anything is compiled.

Owns the arithmetic behind predicted factors: bytes over bandwidth, bytes in flight against bandwidth
times latency (Little's law), launches. The referee's model, which sees counts and registers, is the
one that a card is judged by; neither is a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES, Problem, Target, Vector
from workbench.playbook.expr import Expr, Load, walk
from workbench.playbook.fitting import by_length, lanes_of
from workbench.playbook.program import Kernel, LibraryArgument, LibraryCall, Program, ProgramStep, Scan
from workbench.playbook.row_passes import RowSpace, passes_of, waiting_loads
from workbench.playbook.scan_kernel import in_rows
from workbench.playbook.schedule import Schedule, Team, pieces_of, schedule_of, split_team
from workbench.playbook.sizes import ONE, Size, product
from workbench.playbook.techniques import settled
from workbench.playbook.traits import program_of, scheduled_shape, traits_of
from workbench.playbook.views import View, split

_L2_SPEED = 1.85
"""L2 bandwidth over DRAM bandwidth, as the referee's model has it."""
_BARRIER_US = 0.03
_PHASE_US = 0.6
"""One dependent trip to memory."""
_WARP_INSTRUCTIONS = 50
"""Of every warp for itself and for each reduction, however little it loads."""
_CLOCK_MHZ = 1.7e3
_APART = 4.0
"""Cost of reads whose neighbours in a warp lie far apart, after what L1 saves."""


@dataclass(frozen=True)
class Estimate:
    """Microseconds at one case, and what they consist of."""

    us: float
    dram_bytes: float
    launches: int
    library_us: float
    flight_share: float
    """Part of the bandwidth that the bytes in flight can draw, worst kernel."""


def estimate(problem: Problem, vector: Vector, target: Target, sizes: Mapping[str, int]) -> Estimate:
    """Model a vector at one assignment of sizes."""
    schedule = schedule_of(settled(problem, vector))
    program = program_of(problem, schedule.fuse, schedule.linear_rowsum and traits_of(problem).linear_rowsum)
    model = _Model(program, schedule, target, sizes)
    total = Estimate(0.0, 0.0, 0, 0.0, 1.0)
    for step in program.steps:
        part = model.step(step)
        total = Estimate(
            total.us + part.us,
            total.dram_bytes + part.dram_bytes,
            total.launches + part.launches,
            total.library_us + part.library_us,
            min(total.flight_share, part.flight_share),
        )
    return total


def predicted_factor(problem: Problem, before: Vector, after: Vector, target: Target) -> float:
    """Expected old time over new time: geometric mean over the declared cases."""
    ratios = []
    for case in problem.cases:
        old = estimate(problem, before, target, case.size_map)
        new = estimate(problem, after, target, case.size_map)
        ratios.append(math.log(old.us / new.us))
    return math.exp(sum(ratios) / len(ratios)) if ratios else 1.0


class _Model:
    def __init__(
        self, program: Program, schedule: Schedule, target: Target, sizes: Mapping[str, int]
    ) -> None:
        self.program = program
        self.schedule = schedule
        self.target = target
        self.sizes = sizes

    def at(self, size: Size) -> int:
        return size.at(self.sizes)

    def step(self, step: ProgramStep) -> Estimate:
        """One step of the program."""
        match step:
            case LibraryCall():
                return self.library(step)
            case Scan():
                return self.scan(step)
            case Kernel():
                return self.kernel(step)

    def scan(self, scan: Scan) -> Estimate:
        """A block or a thread walks along each row: few rows leave most of the card idle."""
        loads = _loads([scan.value])
        count = self.at(scan.rows) * self.at(scan.columns)
        stored = count * DTYPE_BYTES[self.program.buffers[scan.buffer].dtype]
        moved = stored + sum(self._read(load) for load in loads)
        width = self._width(scan.columns)
        threads = self.at(scan.rows) * (self.schedule.threads if in_rows(scan) else 1)
        flight = width * 4 * max(len(loads), 1)
        return self._timed(moved, 0.0, threads, flight, self._issue(count * (6 + len(loads)), width))

    # -------------------------------------------------------------------------------- library

    def library(self, call: LibraryCall) -> Estimate:
        moved = 0.0
        shapes = []
        for arg in call.args:
            if isinstance(arg, LibraryArgument):
                buffer = self.program.buffers[arg.buffer]
                shape = arg.shape or buffer.shape
                shapes.append([self.at(size) for size in shape])
                moved += math.prod(shapes[-1]) * DTYPE_BYTES[buffer.dtype]
        for name in call.results:
            moved += self.bytes_of(name)
        operations = 0.0
        if call.op.split(".")[1] in ("mm", "bmm", "addmm") and len(shapes) > 1:
            operations = 2.0 * math.prod(shapes[-2]) * shapes[-1][-1]
        us = 1e6 * max(moved / self.target.dram_bytes_per_s, operations / self.target.fp32_flops_per_s)
        us += self.target.launch_us
        return Estimate(us, moved, 1, us, 1.0)

    def bytes_of(self, name: str) -> float:
        buffer = self.program.buffers[name]
        return float(self.at(product(buffer.shape)) * DTYPE_BYTES[buffer.dtype])

    # -------------------------------------------------------------------------------- kernels

    def kernel(self, kernel: Kernel) -> Estimate:
        stored = sum(
            self.at(store.view.size) * DTYPE_BYTES[self.program.buffers[store.buffer].dtype]
            for store in kernel.stores
        )
        if kernel.stores[0].level == "flat":
            return self._flat(kernel, stored)
        return self._row(kernel, stored)

    def _flat(self, kernel: Kernel, stored: float) -> Estimate:
        count = self.at(kernel.stores[0].columns)
        loads = _loads(store.value for store in kernel.stores)
        moved = stored + self._read_once(loads)
        width = self._width(kernel.stores[0].columns)
        threads = math.ceil(count / width / (1 if self.schedule.persistent else self.schedule.items))
        streams = max(len(loads), 1)
        flight = width * 4 * self.schedule.items * streams
        return self._timed(moved, 0.0, threads, flight, self._issue(count * (1 + len(loads)), width))

    def _row(self, kernel: Kernel, stored: float) -> Estimate:
        space = RowSpace(self.program.pool, kernel)
        rows, columns = self.at(space.rows), self.at(space.columns)
        short, long = by_length(self.schedule, scheduled_shape(space, kernel, self.schedule), [self.sizes])
        fit = short or long
        assert fit is not None
        pieces = pieces_of(fit, self.target, rows, columns)
        if pieces > 1:
            single = self.schedule.single_pass
            fit = replace(fit, cache="reread", team=split_team(fit), persistent=False, single_pass=single)
        return self._row_as(kernel, stored, fit, pieces)

    def _row_as(self, kernel: Kernel, stored: float, schedule: Schedule, pieces: int) -> Estimate:
        space = RowSpace(self.program.pool, kernel)
        passes = passes_of(space, kernel, schedule.single_pass)
        keeps = schedule.cache != "reread"
        waits = {wait.load.serial for wait in waiting_loads(space, passes)} if keeps else set[int]()
        rows, columns = self.at(space.rows), self.at(space.columns)
        first, again = stored, 0.0
        seen: set[int] = set()
        for step in passes:
            for load in space.column_loads(step.roots):
                size = self._read(load) * self._row_apart(space, load, schedule.team)
                if load.serial not in seen:
                    first += size
                elif load.serial not in waits:
                    again += size
                seen.add(load.serial)
        others = _loads(store.value for store in kernel.stores)
        first += sum(self._read(load) for load in others if load.serial not in seen)
        lanes = lanes_of(schedule)
        width = self._width(space.columns)
        vectors = columns / pieces / width
        busy = rows * pieces * min(lanes, math.ceil(vectors))
        unrolled = waits and schedule.cache == "registers"
        deep = min(8, max(1, vectors / lanes)) if unrolled else schedule.items
        warps = rows * pieces * max(lanes, 1) / 32
        issue = self._issue(float(rows * columns * len(passes)), width)
        issue += warps * _WARP_INSTRUCTIONS * (1 + len(passes)) / (4 * self.target.sm_count * _CLOCK_MHZ)
        held = len(waits) * (columns / pieces)
        resident = self._resident(schedule, held / lanes, held)
        timed = self._timed(first, again, min(busy, resident), width * 4 * deep, issue)
        walks = 1 if keeps else len(passes)
        floor, barriers = self._latency(schedule, rows * pieces / (resident / lanes), lanes, vectors, walks)
        launches = 1 if pieces == 1 else sum(bool(step.accumulators) for step in passes) + 1
        us = max(timed.us, floor + self.target.launch_us) + barriers * len(passes) * 0.25
        us += (launches - 1) * self.target.launch_us
        return Estimate(us, timed.dram_bytes, launches, 0.0, timed.flight_share)

    def _resident(self, schedule: Schedule, kept_a_thread: float, kept_a_team: float) -> float:
        """Threads on all multiprocessors at once, as registers or shared memory allow."""
        target = self.target
        threads = float(target.threads_per_sm)
        if schedule.cache == "registers" and kept_a_thread:
            threads = min(threads, target.registers_per_sm / (24 + kept_a_thread))
        if schedule.cache == "shared" and kept_a_team:
            teams = target.shared_bytes_per_sm / (4 * kept_a_team)
            threads = min(threads, teams * lanes_of(schedule))
        blocks = max(1, threads // schedule.threads)
        return blocks * schedule.threads * target.sm_count

    def _latency(
        self, schedule: Schedule, waves: float, lanes: int, vectors: float, walks: int
    ) -> tuple[float, float]:
        """A team that walks its row trip by trip takes at least that many round trips; barriers."""
        waves = math.ceil(waves)
        deep = max(schedule.items, 4 if schedule.cache == "registers" else 1)
        trips = max(1.0, vectors / lanes / deep)
        barriers = 0.0
        if schedule.team == "block":
            rounds = math.log2(schedule.threads) + 2 if schedule.tree else 2
            barriers = rounds * _BARRIER_US * waves
        return 0.5 * waves * trips * walks * _PHASE_US, barriers

    def _timed(self, first: float, again: float, threads: float, flight: float, issue_us: float) -> Estimate:
        target = self.target
        resident = min(threads, target.sm_count * target.threads_per_sm)
        needed = target.dram_bytes_per_s * target.dram_latency_ns * 1e-9
        share = min(1.0, resident * flight / needed)
        fits = first <= 0.8 * target.l2_bytes
        dram = first + (0.0 if fits else again)
        us = dram / target.dram_bytes_per_s * 1e6 / share
        if fits:
            us += again / (_L2_SPEED * target.dram_bytes_per_s) * 1e6 / share
        us = (us**4 + issue_us**4) ** 0.25
        if self.schedule.stream:
            us *= 0.995
        if self.schedule.persistent:
            us *= 0.998 if threads > 4 * resident else 1.004
        return Estimate(us + target.launch_us, dram, 1, 0.0, share)

    def _issue(self, accesses: float, width: int) -> float:
        """Microseconds the multiprocessors need for the instructions around memory."""
        per_access = (6.0 / width + (4.0 if self.schedule.fast_math else 6.0)) / 128
        return accesses * per_access / (self.target.sm_count * _CLOCK_MHZ)

    def _width(self, columns: Size) -> int:
        width = self.schedule.width
        return width if self.at(columns) % width == 0 else 1

    def _read(self, load: Load) -> float:
        touched = 1
        for axis in load.view.axes:
            touched *= 1 if axis.stride.is_zero else self.at(axis.size)
        return float(touched * DTYPE_BYTES[self.program.buffers[load.buffer].dtype])

    def _read_once(self, loads: Iterable[Load]) -> float:
        """Bytes of memory behind the loads: the windows of a pool overlap, and L1 serves what they share."""
        by_buffer: dict[str, float] = {}
        for load in loads:
            part = self._read(load) * self._apart(load.view)
            by_buffer[load.buffer] = by_buffer.get(load.buffer, 0.0) + part
        return sum(min(part, self.bytes_of(name) * _APART) for name, part in by_buffer.items())

    def _apart(self, view: View) -> float:
        last = view.axes[-1].stride if view.axes else ONE
        return 1.0 if last.is_one or last.is_zero else _APART

    def _row_apart(self, space: RowSpace, load: Load, team: Team) -> float:
        """Neighbouring threads should read neighbouring elements, whichever axis they run along."""
        row, column = split(load.view, space.rows, space.columns)
        along = row if team == "thread" else column
        if not along.axes or along.axes[-1].stride.is_one or along.axes[-1].stride.is_zero:
            return 1.0
        return _APART


def _loads(roots: Iterable[Expr]) -> list[Load]:
    found: dict[int, Load] = {}
    for root in roots:
        for expr in walk(root, into_reductions=True):
            if isinstance(expr, Load):
                found[expr.serial] = expr
    return list(found.values())
