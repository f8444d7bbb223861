"""Recurrent layers in one launch: blocks keep their units' weights, and tell one another their states.

Owns the text of such a kernel; recurrent_tiling.py has its numbers. All blocks are on the card at the same
time, each with some units of a layer. No barrier stands between them: a block asks for states until they are
there. Half of its warps multiply what the layer reads, a step ahead of those that wait for its states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workbench.playbook.ir.program import Buffer, RecurrentLayers
from workbench.playbook.ir.sizes import Size, number
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Limits, Site, block
from workbench.playbook.kernels.recurrent_tiling import LANES, RecurrentTiling, widest_of
from workbench.playbook.text.names import Names

_WORDS = """
LAYERS WAYS HIDDEN INPUTS WIDEST GATES TEAM WARPS UNITS AT_A_TIME SIZE GATE_ROW EACH ALIKE AT_ONCE GROUP
WIDE VEC STEPS ALL_ROWS
weights mine lane warp way layer stage inputs unit step now first batch sums given_parts
own_parts bias row r u g q k j at total here cell state value weight given kept own next_cell told told_step
before rows read_rows state_rows of of_inputs of_states input_bias state_bias enters forgets leaves reset
update candidate place there below on_chip reads thread pieces turn turns piece count ready mine_now own_sums
""".split()  # noqa: SIM905
_WIDTH = 4
_STATES = {
    "lstm": (
        "const float enters = logistic(total(0)), forgets = logistic(total(1)), leaves = logistic(total(3));",
        "const float next_cell = forgets * cell + enters * tanhf(total(2));",
        "const float state = leaves * tanhf(next_cell);",
    ),
    "gru": (
        "const float reset = logistic(total(0)), update = logistic(total(1));",
        "const float candidate = tanhf(given[2] + bias[2] + reset * (own_sums[2] + bias[3]));",
        "const float state = (1.0f - update) * candidate + update * kept;",
    ),
    "rnn_tanh": ("const float state = tanhf(total(0));",),
    "rnn_relu": ("const float state = total(0) < 0.0f ? 0.0f : total(0);",),
}
"""A unit's new state of its sums, in torch's order of gates. A GRU's third gate takes what its state gives
times another gate: those two sums have a bias each."""


def recurrent_kernel(site: Site, made: RecurrentLayers, name: str, tiling: RecurrentTiling) -> KernelText:
    """Write the kernel of all layers and steps."""
    return _Recurrent(site, made, name, tiling).text()


@dataclass
class _Recurrent:
    """The kernel being written."""

    site: Site
    made: RecurrentLayers
    name: str
    tiling: RecurrentTiling

    def __post_init__(self) -> None:
        made, site = self.made, self.site
        self.told = self._told()
        self.frame = Frame(site, Names(_WORDS), (self.told, *made.results), vector=not self.tiling.on_chip)
        self.frame.own_threads, self.frame.least_blocks = 2 * LANES * self.tiling.warps, 1
        self.frame.helpers |= {"load", "sum", "join_lanes", "hear_rows"}
        self.frame.helpers |= {"logistic"} if made.gates > 1 else set()
        for buffer in (made.source, *made.states, self.told, *made.results):
            self.frame.pointer(buffer)
        self.width = math.gcd(_WIDTH, made.inputs, made.hidden)
        if not self.tiling.on_chip:
            self.frame.own_width = _WIDTH
            self.frame.divisors |= {number(made.inputs), number(made.hidden)}
            self.frame.vectors |= {name for pair in made.weights for name in pair}
        self.length, self.batch = "STEPS", "ALL_ROWS"

    def _told(self) -> str:
        """A buffer for the states of all layers and steps, zero at first."""
        made, site = self.made, self.site
        name = Names([*site.program.buffers, *site.partials]).new("told_states")
        shape = (number(made.layers), made.length, made.batch, number(made.hidden * made.ways))
        site.partials[name] = Buffer(name, "f32", shape, "partial")
        return name

    def _size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    @property
    def _is_stacked(self) -> bool:
        """True where layers read what others have told."""
        return self.made.layers > 1

    def text(self) -> KernelText:
        """The whole function."""
        tiling, blocks = self.tiling, self.tiling.blocks(self.made)
        ahead = f"for (int layer = {self._first_layer()}; layer < LAYERS; layer += AT_ONCE)"
        body = [*self._numbers(), *self._tables(), *self._place(), *block(ahead, self._layer())]
        limits = Limits(
            shared=str(tiling.shared_bytes),
            fits=f"gpu.sm_count >= {blocks}",
            otherwise=f"all {blocks} blocks must be on the card at the same time",
        )
        found = self.frame.finish(self.name, body, str(blocks), limits)
        return replace(found, cooperative=True, zeroed=(self.site.partials[self.told],))

    # ------------------------------------------------------------------------ before the steps

    def _numbers(self) -> list[str]:
        made, tiling = self.made, self.tiling
        lines = [
            "// TEAM blocks have a layer, in one of WAYS directions, and a warp UNITS of its units, through",
            "// all steps. A step adds up, for AT_A_TIME rows of the batch, what the units' weights give",
            "// with the row that the layer reads, and with its states of the step before.",
            f"constexpr int STEPS = {self._size(made.length)}, ALL_ROWS = {self._size(made.batch)};",
            f"constexpr int LAYERS = {made.layers}, WAYS = {made.ways}, AT_ONCE = {tiling.at_once};",
            f"constexpr int INPUTS = {made.inputs}, HIDDEN = {made.hidden}, GATES = {made.gates};",
            f"constexpr int WIDEST = {widest_of(made)}, GATE_ROW = WIDEST + HIDDEN;",
            f"constexpr int TEAM = {tiling.team}, WARPS = {tiling.warps}, UNITS = {tiling.units};",
            f"constexpr int GROUP = {LANES} * WARPS, AT_A_TIME = {tiling.rows}, SIZE = {tiling.size};",
            f"constexpr int WIDE = {math.gcd(_WIDTH, made.hidden)};",
        ]
        return [*lines, f"constexpr int VEC = {self.width};"] if tiling.on_chip else lines

    def _tables(self) -> list[str]:
        """Arrays of pointers, by layer and way."""
        made, lines = self.made, list[str]()
        tables = (
            ("of_inputs", 0, made.weights),
            ("of_states", 1, made.weights),
            ("input_bias", 0, made.biases),
            ("state_bias", 1, made.biases),
        )
        for word, at, pairs in tables:
            pointers = [self.frame.pointer(pair[at]) for pair in pairs]
            if pointers:
                begin = f"const float* const {word}[] = {{"
                rows = [f"    {pointer}," for pointer in pointers]
                joined = f"{begin}{', '.join(pointers)}}};"
                lines += [joined] if len(joined) < 100 else [begin, *rows, "};"]
        return lines

    def _place(self) -> list[str]:
        lines = [
            "// Half of the warps multiply what the layer reads, the others its states, a turn later.",
            f"const int lane = threadIdx.x % {LANES}, warp = threadIdx.x / {LANES} % WARPS;",
            "const int thread = threadIdx.x % GROUP;",
            "const bool reads = threadIdx.x >= GROUP;",
            "const int unit = (blockIdx.x % TEAM * WARPS + warp) * UNITS;",
        ]
        if self.made.ways == 2:
            lines.append("const int way = blockIdx.x / TEAM;")
        lines += [
            "extern __shared__ __align__(16) float on_chip[];",
            "float* const read_rows = on_chip;  // rows of this turn, and of the next",
            "float* const state_rows = read_rows + 2 * AT_A_TIME * WIDEST;",
        ]
        if self.tiling.on_chip:
            lines += [
                "float* const weights = state_rows + 2 * AT_A_TIME * HIDDEN;",
                "float* const mine = weights + warp * UNITS * GATES * GATE_ROW;",
            ]
        return [
            *lines,
            "__shared__ float given_parts[2][WARPS][SIZE], own_parts[WARPS][SIZE];",
            f"const int pieces = ({self.batch} + AT_A_TIME - 1) / AT_A_TIME, turns = {self.length} * pieces;",
        ]

    def _first_layer(self) -> str:
        return "0" if self.tiling.at_once == 1 else "int(blockIdx.x) / TEAM"

    def _layer(self) -> list[str]:
        made = self.made
        lines = ["const int stage = layer * WAYS + way;" if made.ways == 2 else "const int stage = layer;"]
        inputs = "layer == 0 ? INPUTS : WAYS * HIDDEN" if self._is_stacked else "INPUTS"
        lines.append(f"const int inputs = {inputs}, count = reads ? inputs : HIDDEN;")
        lines += self._kept() if self.tiling.on_chip else []
        told, shift = self.frame.pointer(self.told), " + way * HIDDEN" if made.ways == 2 else ""
        lines += [
            *self._biases(),
            "// What the layer tells of a step, and elements from there to the next step.",
            f"const size_t told_step = {self.batch} * WAYS * HIDDEN;",
            f"float* const told = {told} + layer * {self.length} * told_step{shift};",
        ]
        return [*lines, *block("for (int turn = 0; turn <= turns; ++turn)", self._turn())]

    def _kept(self) -> list[str]:
        """Weights of the warp's units, brought once a layer: each half of the warps has its own."""
        first = "const int of = row % GATES * HIDDEN + min(unit + row / GATES, HIDDEN - 1);"
        copies = [
            first,
            "const float* const from = reads ? of_inputs[stage] + size_t(of) * inputs",
            "                                : of_states[stage] + size_t(of) * HIDDEN;",
            *block(
                f"for (int k = lane; k < count; k += {LANES})",
                ["mine[row * GATE_ROW + (reads ? 0 : WIDEST) + k] = from[k];"],
            ),
        ]
        return [
            "// The weights of a warp's units wait in shared memory through all steps: a row for each gate.",
            *block("for (int row = 0; row < UNITS * GATES; ++row)", copies),
            "__syncthreads();",
        ]

    def _biases(self) -> list[str]:
        """A lane finishes one unit for one row of the batch: what is added to its sums."""
        cell, gates = self.made.cell, self.made.gates
        lines = [
            "// In the end a lane has the sums of one unit, in one row of the batch.",
            "const int own = unit + lane / AT_A_TIME;",
            f"float bias[{gates + 1 if cell == 'gru' else gates}] = {{}};",
        ]
        if not self.made.biases:
            return lines
        adds = []
        for gate in range(gates):
            first, second = (f"{word}[stage][{gate} * HIDDEN + own]" for word in ("input_bias", "state_bias"))
            apart = cell == "gru" and gate == gates - 1
            adds += [f"bias[{gate}] = {first};"] if apart else [f"bias[{gate}] = {first} + {second};"]
            adds += [f"bias[{gate + 1}] = {second};"] if apart else []
        return [*lines, *block("if (own < HIDDEN)", adds)]

    # ------------------------------------------------------------------------ a step

    def _turn(self) -> list[str]:
        """Some rows of the batch at a step; of the half that reads, of the turn after."""
        made = self.made
        now = f"way == 0 ? step : {self.length} - 1 - step" if made.ways == 2 else "step"
        place = [
            "const int piece = reads ? turn : turn - 1;",
            "const bool ready = piece >= 0 && piece < turns;",
            "const int step = piece / pieces, first = piece % pieces * AT_A_TIME;",
            f"const int now = {now};",
            f"const int there = min(AT_A_TIME, {self.batch} - first);",
            "float* const rows = reads ? read_rows + turn % 2 * AT_A_TIME * WIDEST",
            "                          : state_rows + turn % 2 * AT_A_TIME * HIDDEN;",
        ]
        work = [*self._added(), *self._joined()]
        return [
            *place,
            *self._before(),
            *block("if (ready && reads)", self._read()),
            *block("if (ready && !reads)", self._states()),
            "__syncthreads();",
            *block("if (ready)", work),
        ]

    def _before(self) -> list[str]:
        """What does not depend on others is asked for before anybody is waited for."""
        lines = [
            "const int batch = first + lane % AT_A_TIME;",
            f"const bool here = !reads && lane < UNITS * AT_A_TIME && own < HIDDEN && batch < {self.batch};",
            f"const size_t place = (size_t(stage) * {self.batch} + batch) * HIDDEN + own;",
        ]
        if self.made.cell == "lstm":
            begins, cells = self.frame.pointer(self.made.states[1]), self.frame.pointer(self.made.results[2])
            cell = f"ready && here ? (step == 0 ? {begins} : {cells})[place] : 0.0f"
            lines.append(f"const float cell = {cell};")
        return lines

    def _read(self) -> list[str]:
        """Rows of what the layer reads: of the argument, or as the layer below tells them."""
        made = self.made
        time, row = (self._size(size) for size in made.steps)
        x = self.frame.pointer(made.source)
        start = f"{x} + {self._size(made.offset)} + " if not made.offset.is_zero else f"{x} + "
        given = [
            f"const float* const given = {start}size_t(now) * {time};",
            *self._copied("INPUTS", "given", row),
        ]
        if not self._is_stacked:
            return given
        below = f"{self.frame.pointer(self.told)} + ((layer - 1) * {self.length} + now) * told_step"
        heard = [
            f"const float* const below = {below} + first * WAYS * HIDDEN;",
            "hear_rows<AT_A_TIME, WAYS * HIDDEN, GROUP, WIDE>(rows, below, WAYS * HIDDEN, there);",
        ]
        return _either("layer == 0", given, heard)

    def _states(self) -> list[str]:
        """States of the step before: what the layer began with, or what all of its blocks have told."""
        begins = f"{self.frame.pointer(self.made.states[0])} + size_t(stage) * {self.batch} * HIDDEN"
        last = "now - 1" if self.made.ways == 1 else "way == 0 ? now - 1 : now + 1"
        given = [
            f"const float* const given = {begins};",
            *self._copied("HIDDEN", "given", "HIDDEN"),
        ]
        heard = [
            f"const float* const before = told + ({last}) * told_step + first * WAYS * HIDDEN;",
            "hear_rows<AT_A_TIME, HIDDEN, GROUP, WIDE>(rows, before, WAYS * HIDDEN, there);",
        ]
        return _either("step == 0", given, heard)

    def _copied(self, count: str, source: str, apart: str) -> list[str]:
        """Rows of an argument, as they are; those beyond the batch are its last one again."""
        copy = [
            f"const size_t row = first + min(at / {count}, there - 1);",
            f"rows[at] = {source}[row * {apart} + at % {count}];",
        ]
        return block(f"for (int at = thread; at < AT_A_TIME * {count}; at += GROUP)", copy)

    def _added(self) -> list[str]:
        """Products of the units' weights with some rows, a vector of both at a time."""
        place = "mine_now + (u * GATES + g) * GATE_ROW + k"
        head = ["const float* const mine_now = mine + (reads ? 0 : WIDEST);"]
        if not self.tiling.on_chip:
            place = "mine_now + size_t(g * HIDDEN + min(unit + u, HIDDEN - 1)) * count + k"
            head = ["const float* const mine_now = reads ? of_inputs[stage] : of_states[stage];"]
        loads = block("for (int g = 0; g < GATES; ++g)", [f"weight[u][g] = load<VEC>({place});"])
        product = "sums[(u * AT_A_TIME + r) * GATES + g] += weight[u][g].at[q] * value.at[q];"
        each = ["#pragma unroll", *block("for (int g = 0; g < GATES; ++g)", [product])]
        units = ["#pragma unroll", *block("for (int u = 0; u < UNITS; ++u)", each)]
        row = [
            "const Pack<float, VEC> value = load<VEC>(rows + r * count + k);",
            "#pragma unroll",
            *block("for (int q = 0; q < VEC; ++q)", units),
        ]
        body = [
            "Pack<float, VEC> weight[UNITS][GATES];",
            "#pragma unroll",
            *block("for (int u = 0; u < UNITS; ++u)", ["#pragma unroll", *loads]),
            "#pragma unroll",
            *block("for (int r = 0; r < AT_A_TIME; ++r)", row),
        ]
        loop = block(f"for (int k = lane * VEC; k < count; k += {LANES} * VEC)", body)
        return [*head, "float sums[SIZE] = {};", *loop]

    def _joined(self) -> list[str]:
        """Sums of all lanes, and what the unit's new state is of them."""
        keep = block("for (int j = 0; j < EACH; ++j)", ["parts[lane / ALIKE * EACH + j] = sums[j];"])
        inside = [
            "const float* const given = given_parts[piece % 2][warp] + lane * GATES;",
            "const float* const own_sums = own_parts[warp] + lane * GATES;",
        ]
        total = "return given[g] + own_sums[g] + bias[g];"
        inside.append(f"const auto total = [&](int g) {{ {total} }};")
        if self.made.cell == "gru":
            inside.append("const float kept = rows[lane % AT_A_TIME * HIDDEN + own];")
        inside += [*_STATES[self.made.cell], *self._handed_on()]
        return [
            "// Each lane gives away half of its sums and takes the same half of another's; then those of",
            "// one unit and row lie side by side.",
            "join_lanes<Sum, SIZE>(sums);",
            f"constexpr int EACH = SIZE < {LANES} ? 1 : SIZE / {LANES};",
            f"constexpr int ALIKE = SIZE < {LANES} ? {LANES} / SIZE : 1;",
            "float* const parts = reads ? given_parts[piece % 2][warp] : own_parts[warp];",
            *block("if (lane % ALIKE == 0)", ["#pragma unroll", *keep]),
            "__syncwarp();",
            *block("if (here)", inside),
        ]

    def _handed_on(self) -> list[str]:
        made, out = self.made, self.frame.pointer(self.made.results[0])
        time, row = (self._size(size) for size in made.made_steps)
        shift = " + way * HIDDEN" if made.ways == 2 else ""
        stored = [f"{out}[size_t(now) * {time} + size_t(batch) * {row}{shift} + own] = state;"]
        lines = ["tell_state(told + now * told_step + size_t(batch) * WAYS * HIDDEN + own, state);"]
        lines += block("if (layer == LAYERS - 1)", stored) if self._is_stacked else stored
        last = [f"{self.frame.pointer(made.results[1])}[place] = state;"]
        lines += block(f"if (step == {self.length} - 1)", last)
        if made.cell == "lstm":
            lines.append(f"{self.frame.pointer(made.results[2])}[place] = next_cell;")
        return lines


def _either(condition: str, one: list[str], other: list[str]) -> list[str]:
    """One of two, by a condition."""
    first = block(f"if ({condition})", one)
    return [*first[:-1], *block("} else", other)]
