"""Recurrent layers in one launch: blocks keep their units' weights, and hand their states on step by step.

Owns the text of such a kernel; recurrent_tiling.py has its numbers. All blocks are on the card at the same
time. Those of a layer wait for one another at each step, and for the layer below, which is a few steps ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.playbook.ir.program import Buffer, RecurrentLayers
from workbench.playbook.ir.sizes import Size, number
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Limits, Site, block
from workbench.playbook.kernels.recurrent_tiling import LANES, RecurrentTiling, widest_of
from workbench.playbook.text.names import Names

_WORDS = """
LAYERS WAYS HIDDEN INPUTS WIDEST GATES TEAM WARPS UNITS ROWS SUMS SIZE ROW EACH ALIKE AT_ONCE
weights mine lane warp way member layer stage inputs unit step now first batch sums parts bias
before row r u g q k j at total here cell state value given kept own next_cell handed next_step next_row given_step given_row given_now before_row of_layer
of_inputs of_states input_bias state_bias forget output reset update candidate
""".split()  # noqa: SIM905
_WIDTH = 4
_LSTM = """
const float input = logistic(total[0]), forget = logistic(total[1]), output = logistic(total[3]);
const float next_cell = forget * cell + input * tanhf(total[2]);
const float state = output * tanhf(next_cell);
"""
_GRU = """
const float reset = logistic(total[0]), update = logistic(total[1]);
const float candidate = tanhf(total[2] + reset * total[3]);
const float state = (1.0f - update) * candidate + update * kept;
"""
_STATES = {
    "lstm": _LSTM,
    "gru": _GRU,
    "rnn_tanh": "\nconst float state = tanhf(total[0]);\n",
    "rnn_relu": "\nconst float state = fmaxf(total[0], 0.0f);\n",
}
"""A unit's new state of its sums: torch's order of gates."""


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
        self.between = self._between() if made.layers > 1 else ""
        written = (*((self.between,) if self.between else ()), *made.results)
        self.frame = Frame(site, Names(_WORDS), written, vector=True)
        self.frame.own_threads = LANES * self.tiling.warps
        self.frame.own_width = _WIDTH
        self.frame.least_blocks = 1
        helpers = {"load", "sum", "join_lanes", "plane_turns"}
        self.frame.helpers |= helpers | ({"logistic"} if made.gates > 1 else set())
        for buffer in (made.source, made.states[0], made.results[0], *made.states[1:], *written):
            self.frame.pointer(buffer)
        row = {made.offset, *made.steps, number(made.inputs), number(made.hidden)}
        self.frame.divisors |= {size for size in row if not size.is_zero and not size.is_one}
        self.frame.vectors |= {made.source, made.states[0]}
        if not self.tiling.on_chip:
            self.frame.vectors |= {name for pair in made.weights for name in pair}
        site.macros.name(made.length, "LENGTH")
        site.macros.name(made.batch, "BATCH")
        self.length, self.batch = self._size(made.length), self._size(made.batch)

    def _between(self) -> str:
        """A buffer for what each layer but the last hands on."""
        made, site = self.made, self.site
        name = Names([*site.program.buffers, *site.partials]).new("between")
        shape = (number(made.layers - 1), made.length, made.batch, number(made.hidden * made.ways))
        site.program.buffers[name] = Buffer(name, "f32", shape, "made")
        return name

    def _size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    def text(self) -> KernelText:
        """The whole function, with its counters."""
        tiling = self.tiling
        body = [*self._numbers(), *self._tables(), *self._place()]
        ahead = f"for (int layer = {self._first_layer()}; layer < LAYERS; layer += AT_ONCE)"
        body += block(ahead, self._layer())
        body += [
            "// The last block to end leaves all counters at zero, as it found them.",
            f"pass_by({self.name}_done, LAYERS * WAYS, &{self.name}_passed, gridDim.x);",
        ]
        fits = f"gpu.sm_count >= {tiling.blocks(self.made)}"
        limits = Limits(
            shared=str(tiling.shared_bytes) if tiling.on_chip else "",
            fits=fits,
            otherwise=f"all {tiling.blocks(self.made)} blocks must be on the card at the same time",
        )
        found = self.frame.finish(self.name, body, str(tiling.blocks(self.made)), limits)
        stages = self.made.layers * self.made.ways
        counters = [
            "// Blocks that have done a step, counted over all steps, for each layer and way; and blocks that have",
            "// ended. All zero between launches, of which one may run at a time.",
            f"__device__ unsigned int {self.name}_done[{stages}], {self.name}_passed;",
            "",
        ]
        return replace(found, code="\n".join([*counters, found.code]), cooperative=True)

    # ------------------------------------------------------------------------ before the steps

    def _numbers(self) -> list[str]:
        made, tiling = self.made, self.tiling
        return [
            "// A team of TEAM blocks has a layer, in one of WAYS directions. A warp has UNITS of the layer's units",
            "// through all steps: a step adds up, for ROWS rows of the batch at a time, what the units' weights",
            "// give with the row that the layer reads and with its states of the step before.",
            f"constexpr int LAYERS = {made.layers}, WAYS = {made.ways}, AT_ONCE = {tiling.at_once};",
            f"constexpr int INPUTS = {made.inputs}, HIDDEN = {made.hidden}, GATES = {made.gates};",
            f"constexpr int TEAM = {tiling.team}, WARPS = {tiling.warps}, UNITS = {tiling.units};",
            f"constexpr int ROWS = {tiling.rows}, SUMS = {tiling.sums}, SIZE = {tiling.size};",
        ]

    def _tables(self) -> list[str]:
        """Arrays of pointers, by layer and way."""
        made = self.made
        lines = []
        for word, at, pairs in (
            ("of_inputs", 0, made.weights),
            ("of_states", 1, made.weights),
            ("input_bias", 0, made.biases),
            ("state_bias", 1, made.biases),
        ):
            if pairs:
                pointers = ", ".join(self.frame.pointer(pair[at]) for pair in pairs)
                lines.append(f"const float* const {word}[] = {{{pointers}}};")
        return lines

    def _place(self) -> list[str]:
        tiling = self.tiling
        lines = [
            f"const int lane = threadIdx.x % {LANES}, warp = threadIdx.x / {LANES};",
            "const int unit = (blockIdx.x % TEAM * WARPS + warp) * UNITS;",
        ]
        if self.made.ways == 2:
            lines.append("const int way = blockIdx.x / TEAM;")
        if tiling.on_chip:
            lines += [
                f"constexpr int WIDEST = {widest_of(self.made)}, ROW = WIDEST + HIDDEN;",
                "extern __shared__ __align__(16) float weights[];",
                "float* const mine = weights + warp * UNITS * GATES * ROW;",
            ]
        lines.append("__shared__ float parts[WARPS][SIZE];")
        return lines

    def _first_layer(self) -> str:
        return "0" if self.made.ways == 2 or self.tiling.at_once == 1 else "int(blockIdx.x) / TEAM"

    def _layer(self) -> list[str]:
        made = self.made
        lines = ["const int stage = layer * WAYS + way;" if made.ways == 2 else "const int stage = layer;"]
        inputs = "layer == 0 ? INPUTS : WAYS * HIDDEN" if made.layers > 1 else "INPUTS"
        lines.append(f"const int inputs = {inputs};")
        lines += self._kept() if self.tiling.on_chip else []
        lines += [*self._biases(), *self._handed()]
        step = [*self._now(), *self._rows(), f"arrive_at(&{self.name}_done[stage]);"]
        return [*lines, *block(f"for (int step = 0; step < {self.length}; ++step)", step)]

    def _handed(self) -> list[str]:
        """Where the layer's states go and what it reads lies, with elements between steps and between rows."""
        made = self.made
        time, row = (self._size(size) for size in made.made_steps)
        x_time, x_row = (self._size(size) for size in made.steps)
        x = self.frame.pointer(made.source)
        if not made.offset.is_zero:
            x += f" + {self._size(made.offset)}"
        out = self.frame.pointer(made.results[0])
        lines = [f"const size_t next_step = {time}, next_row = {row};  // of states that are handed on"]
        if made.layers == 1:
            return [
                *lines,
                f"float* const handed = {out};",
                f"const float* const given = {x};",
                f"const size_t given_step = {x_time}, given_row = {x_row};",
            ]
        between = self.frame.pointer(self.between)
        return [
            *lines,
            f"const size_t of_layer = size_t({self.length}) * {self.batch} * WAYS * HIDDEN;",
            f"float* const handed = layer == LAYERS - 1 ? {out} : {between} + layer * of_layer;",
            f"const float* const given = layer == 0 ? {x} : {between} + (layer - 1) * of_layer;",
            f"const size_t given_step = layer == 0 ? {x_time} : next_step;",
            f"const size_t given_row = layer == 0 ? {x_row} : next_row;",
        ]

    def _kept(self) -> list[str]:
        """Weights of the warp's units, brought once a layer."""
        copies = [
            "const int of = row % GATES * HIDDEN + min(unit + row / GATES, HIDDEN - 1);",
            *block(
                f"for (int k = lane; k < inputs; k += {LANES})",
                ["mine[row * ROW + k] = of_inputs[stage][size_t(of) * inputs + k];"],
            ),
            *block(
                f"for (int k = lane; k < HIDDEN; k += {LANES})",
                ["mine[row * ROW + WIDEST + k] = of_states[stage][size_t(of) * HIDDEN + k];"],
            ),
        ]
        return [
            "// The weights of a warp's units wait in shared memory through all steps: of each gate a row.",
            *block("for (int row = 0; row < UNITS * GATES; ++row)", copies),
            "__syncthreads();",
        ]

    def _biases(self) -> list[str]:
        """A lane finishes one unit for one row of the batch: what is added to its sums."""
        lines = [
            "// In the end a lane has the sums of one unit, in one row of the batch.",
            "const int own = unit + lane / ROWS;",
            "float bias[SUMS] = {};",
        ]
        if not self.made.biases:
            return lines
        adds = []
        for gate in range(self.made.gates):
            first, second = (f"{word}[stage][{gate} * HIDDEN + own]" for word in ("input_bias", "state_bias"))
            if self.made.cell == "gru" and gate == 2:
                adds += [f"bias[2] = {first};", f"bias[3] = {second};"]
            else:
                adds.append(f"bias[{gate}] = {first} + {second};")
        return [*lines, *block("if (own < HIDDEN)", adds)]

    # ------------------------------------------------------------------------ a step

    def _now(self) -> list[str]:
        if self.made.ways == 1:
            return ["const int now = step;"]
        return [f"const int now = way == 0 ? step : {self.length} - 1 - step;"]

    def _rows(self) -> list[str]:
        """Some rows of the batch after the others."""
        body = [*self._before(), "float sums[SIZE] = {};"]
        body += [
            "// What the layer reads: of the layer below, which has to have come so far.",
            *self._source(),
            *self._added("of_inputs", "inputs", "", (0, 1, 2, 3)),
            "// Its own states of the step before, from all of its blocks.",
            *self._state(),
            *self._added("of_states", "HIDDEN", "WIDEST + ", (0, 1, 3) if self.made.cell == "gru" else (0, 1, 2, 3)),
            *self._joined(),
        ]
        return block(f"for (int first = 0; first < {self.batch}; first += ROWS)", body)

    def _before(self) -> list[str]:
        """What does not depend on others is asked for before anybody is waited for."""
        lines = [
            f"const int batch = first + lane % ROWS;",
            f"const bool here = lane < UNITS * ROWS && own < HIDDEN && batch < {self.batch};",
            f"const size_t place = (size_t(stage) * {self.batch} + batch) * HIDDEN + own;",
        ]
        if self.made.cell == "lstm":
            begins, cells = self.frame.pointer(self.made.states[1]), self.frame.pointer(self.made.results[2])
            lines.append(f"const float cell = here ? (step == 0 ? {begins} : {cells})[place] : 0.0f;")
        return lines

    def _source(self) -> list[str]:
        """A row of what the layer reads, when it is there."""
        made, done = self.made, f"{self.name}_done"
        waits = [f"wait_for(&{done}[layer - 1], TEAM * (now + 1));"]
        if made.ways == 2:
            waits = [
                f"wait_for(&{done}[(layer - 1) * WAYS], TEAM * (now + 1));",
                f"wait_for(&{done}[(layer - 1) * WAYS + 1], TEAM * ({self.length} - now));",
            ]
        lines = block("if (first == 0 && layer > 0)", waits) if made.layers > 1 else []
        return [*lines, "const float* const given_now = given + now * given_step;"]

    def _state(self) -> list[str]:
        """States of the step before: what the layer began with, or what it has handed on."""
        made = self.made
        begins = f"{self.frame.pointer(made.states[0])} + size_t(stage) * {self.batch} * HIDDEN"
        last = "now - 1" if made.ways == 1 else "way == 0 ? now - 1 : now + 1"
        shift = " + way * HIDDEN" if made.ways == 2 else ""
        return [
            *block(
                "if (first == 0 && step > 0)", [f"wait_for(&{self.name}_done[stage], TEAM * step);"]
            ),
            f"const float* before = {begins};",
            *block("if (step > 0)", [f"before = handed + ({last}) * next_step{shift};"]),
            "const size_t before_row = step == 0 ? HIDDEN : next_row;",
        ]

    def _added(self, table: str, count: str, shift: str, gates: Sequence[int]) -> list[str]:
        """Products of the units' weights with some rows, a vector of both at a time."""
        rows, apart = ("given_now", "given_row") if table == "of_inputs" else ("before", "before_row")
        if self.tiling.on_chip:
            place = f"&mine[(u * GATES + g) * ROW + {shift}k]"
        else:
            of = "size_t(g * HIDDEN + min(unit + u, HIDDEN - 1))"
            place = f"{table}[stage] + {of} * {count} + k"
        loads = block(
            "for (int g = 0; g < GATES; ++g)",
            [f"weight[u][g] = load<VEC>({place});"],
        )
        products = [
            f"sums[(u * ROWS + r) * SUMS + {to}] += weight[u][{gate}].at[q] * value.at[q];"
            for gate, to in enumerate(gates[: self.made.gates])
        ]
        each = ["#pragma unroll", *block("for (int u = 0; u < UNITS; ++u)", products)]
        row = [
            f"const size_t row = min(first + r, {self.batch} - 1);",
            f"const Pack<float, VEC> value = load<VEC>({rows} + row * {apart} + k);",
            "#pragma unroll",
            *block("for (int q = 0; q < VEC; ++q)", each),
        ]
        body = [
            "Pack<float, VEC> weight[UNITS][GATES];",
            "#pragma unroll",
            *block("for (int u = 0; u < UNITS; ++u)", ["#pragma unroll", *loads]),
            "#pragma unroll",
            *block("for (int r = 0; r < ROWS; ++r)", row),
        ]
        return block(f"for (int k = lane * VEC; k < {count}; k += {LANES} * VEC)", body)

    def _joined(self) -> list[str]:
        """Sums of all lanes, and what the unit's new state is of them."""
        made = self.made
        lines = [
            "// Each lane gives away half of its sums and takes the same half of another's; then they lie as",
            "// sums of one unit and row after the other.",
            "join_lanes<Sum, SIZE>(sums);",
            f"constexpr int EACH = SIZE < {LANES} ? 1 : SIZE / {LANES}, ALIKE = SIZE < {LANES} ? {LANES} / SIZE : 1;",
        ]
        keep = ["#pragma unroll", *block("for (int j = 0; j < EACH; ++j)", ["parts[warp][lane / ALIKE * EACH + j] = sums[j];"])]
        lines += [*block("if (lane % ALIKE == 0)", keep), "__syncwarp();"]
        inside = ["float total[SUMS];", "#pragma unroll"]
        inside += block("for (int g = 0; g < SUMS; ++g)", ["total[g] = parts[warp][lane * SUMS + g] + bias[g];"])
        if made.cell == "gru":
            inside.append("const float kept = before[batch * before_row + own];")
        inside += _STATES[made.cell].strip().split("\n")
        inside += self._handed_on()
        return [*lines, *block("if (here)", inside), "__syncwarp();"]

    def _handed_on(self) -> list[str]:
        made = self.made
        shift = " + way * HIDDEN" if made.ways == 2 else ""
        lines = [f"handed[now * next_step + batch * next_row{shift} + own] = state;"]
        last = [f"{self.frame.pointer(made.results[1])}[place] = state;"]
        lines += block(f"if (step == {self.length} - 1)", last)
        if made.cell == "lstm":
            lines.append(f"{self.frame.pointer(made.results[2])}[place] = next_cell;")
        return lines
