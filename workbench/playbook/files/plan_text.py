"""The plan of a generated file: shapes, requirements, allocations, launches, library calls.

Owns the text between ``/* plan`` and ``*/``. Never writes CUDA.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.model import DTYPE_BYTES, Problem, Sym, base_name
from workbench.plan.vocabulary import DTYPES, RESERVED
from workbench.playbook.analysis.plane_turns import LAG_BYTES, MOST_PLANES
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.files.same_kernels import Repeats
from workbench.playbook.ir.agreements import (
    agreements,
    exact_quotients,
    in_order_of_reading,
    least_sizes,
    most_sizes,
    sizes_of,
)
from workbench.playbook.ir.program import LibraryArgument, LibraryCall, Output, Program
from workbench.playbook.ir.sizes import Size, product, solved
from workbench.playbook.kernels.kernel_text import (
    InTurns,
    JointPart,
    JointText,
    KernelText,
    MaybeText,
    PreparedText,
    ShapedText,
    SplitText,
    StackedText,
    Step,
    TiledText,
    filled,
    kernels_of,
    threads_of,
)
from workbench.playbook.kernels.stacked import STRETCH, stacked_text
from workbench.playbook.kernels.together_rows import GROUPS, beside_piece, blocks_of
from workbench.playbook.schedules.schedule import (
    FEW_WAVES,
    LONG_PIECE,
    MOST_LONG,
    MOST_TOLD,
    RESIDENT,
    most_told,
)
from workbench.playbook.text.indexing import WidthRule
from workbench.playbook.text.names import Names, axis_names
from workbench.playbook.text.plan_lines import (
    LONGEST,
    atom,
    axes,
    branch,
    called,
    plainest,
    row_major,
    width_text,
)

_WORDS = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_CONTIGUOUS_RESULTS = frozenset(
    ["mm", "bmm", "addmm", "_addmm_activation", "baddbmm", "mv", "dot", "embedding", "stack", "cat"]
)


class PlanText:
    """Writes one plan. ``locals`` name the size symbols; ``macros`` are added to those of every launch."""

    def __init__(self, problem: Problem, macros: Sequence[str] = ()) -> None:
        self.problem = problem
        self.sizes = sizes_of(problem)
        self._names = Names([*RESERVED, *(spec.name for spec in problem.tensors)])
        self._buffers: dict[str, str] = {spec.name: spec.name for spec in problem.tensors}
        self._used: set[str] = set()
        self._widths: dict[str, str] = {}
        self._consts = ""
        self._macros: list[str] = []
        self._added = tuple(macros)
        self._tells_threads = False
        self._blocks: dict[str, str] = {}
        self._shapes: list[str] = []
        self._repeats = Repeats({})
        self.locals: dict[str, str] = {}
        self.canonical = plainest(self.sizes.shape(d for spec in problem.tensors for d in spec.dims))
        """Sizes of the arguments, and products of two, by value: how a size is best spelt."""
        self._read_shapes()

    # -------------------------------------------------------------------------------- arguments

    def _read_shapes(self) -> None:
        """Bind every symbol to the axis of an argument, and require what the kernels rely on."""
        for spec in in_order_of_reading(self.problem.tensors, self.sizes):
            shape = self.sizes.shape(spec.dims)
            new = [dim for dim in spec.dims if isinstance(dim, str) and dim not in self.locals]
            direct = [dim for dim in new if dim in self.problem.symbols]
            layout = f"{spec.name}.is_contiguous" if spec.strides is None else ""
            kind = f"{spec.name}.dtype == {spec.dtype}"
            words = f"{'contiguous ' if layout else ''}{_WORDS[spec.dtype]}"
            if direct or any(set(self.sizes.read(dim).symbols) - set(self.locals) for dim in new):
                checks = [f"{spec.name}.ndim == {len(shape)}", kind, layout]
                self._require(checks, f"{spec.name} must be {words} with {axes(len(shape))}")
                self._bind(spec.name, shape, len(set(direct)) == len(shape))
                if len(set(direct)) < len(shape):
                    text = self.shape(shape)
                    self._require([f"{spec.name}.shape == {text}"], f"{spec.name} must be of shape {text}")
            else:
                text = self.shape(shape)
                checks = [f"{spec.name}.shape == {text}", kind, layout]
                self._require(checks, f"{spec.name} must be {words} of shape {text}")
            if spec.strides is not None:
                strides = self.shape(self.sizes.shape(spec.strides))
                self._require(
                    [f"{spec.name}.strides == {strides}"], f"{spec.name} must have strides {strides}"
                )

        for one, other in agreements(self.problem, self.locals):
            self._require([f"{one} == {other}"], f"sizes that meet must be equal: {one} and {other}")
        for whole, part in exact_quotients(self.problem, self.locals):
            self._require([f"{whole} % {part} == 0"], f"nothing may be left over: {part} divides {whole}")
        for one, other in most_sizes(self.problem, self.locals):
            self._require([f"{one} <= {other}"], f"an index has no more elements than values: {one}, {other}")
        for size, least in least_sizes(self.problem, self.locals):
            self._require([f"{size} >= {least}"], f"what is taken lies inside: {size} is {least} or more")

    def _bind(self, tensor: str, shape: tuple[Size, ...], all_new: bool) -> None:
        stems = axis_names(tensor, len(shape), set(self.locals.values()))
        fresh: list[str] = []
        for axis, size in enumerate(shape):
            unknown = [symbol for symbol in size.symbols if symbol not in self.locals]
            if len(unknown) != 1:
                continue
            name = self._names.new(stems[axis])
            self.locals[unknown[0]] = name
            fresh.append(name)
            if not all_new:
                self._shapes.append(f"{name} = {solved(size, f'{tensor}.shape[{axis}]')}")
        if all_new:
            comma = "," if len(fresh) == 1 else ""
            self._shapes.append(f"{', '.join(fresh)}{comma} = {tensor}.shape")

    def _require(self, checks: Sequence[str], words: str) -> None:
        condition = " and ".join(check for check in checks if check)
        self._shapes += called("require", [condition, f'"{words}"'])

    def size(self, size: Size) -> str:
        """A size over the plan's local names."""
        return self.canonical.get(size, size).spell(lambda symbol: self.locals[symbol])

    def shape(self, shape: Sequence[Size]) -> str:
        """A tuple."""
        comma = "," if len(shape) == 1 else ""
        return f"({', '.join(self.size(size) for size in shape)}{comma})"

    # -------------------------------------------------------------------------------- steps

    def text(
        self, program: Program, steps: Sequence[Step], macros: Mapping[str, Size], repeats: Repeats
    ) -> str:
        """The whole comment. Every launch gets all ``macros``, so that one compilation serves them all."""
        return self.comment(self.body(program, steps, macros, repeats))

    def body(
        self, program: Program, steps: Sequence[Step], macros: Mapping[str, Size], repeats: Repeats
    ) -> list[str]:
        """What follows the sizes: constants, allocations, launches, and the return."""
        self._repeats = repeats
        lines = self._constants(steps, macros)
        self._used = {name for step in program.steps for name in buffers_read(step)}
        self._used |= {output.buffer for output in program.outputs}
        for step in steps:
            lines += self._step(program, step)
        returned = f"return {', '.join(self._output(output) for output in program.outputs)}"
        return [*lines, returned]

    def comment(self, body: Sequence[str]) -> str:
        """The whole comment with a given body."""
        parameters = ", ".join(spec.name for spec in self.problem.tensors)
        text = "\n".join(f"    {line}" for line in (*self._shapes, *body))
        return f"/* plan\ndef plan({parameters}):\n{text}\n*/"

    def _step(self, program: Program, step: Step) -> list[str]:
        match step:
            case LibraryCall():
                return self._library(program, step)
            case SplitText():
                return self._split(program, step)
            case ShapedText():
                return self._shaped(program, step)
            case TiledText():
                return self._tiled(program, step)
            case StackedText():
                return self._stacked(program, step)
            case JointText():
                return self._joint(program, step)
            case PreparedText():
                return self._in_two(program, step)
            case MaybeText():
                return self._maybe(program, step)
            case KernelText():
                return [*self._prepared(program, step), *self._launch(step)]

    def _in_two(self, program: Program, step: PreparedText) -> list[str]:
        """What a kernel needs is made before it."""
        self._buffers[step.buffer] = self._names.new(step.buffer)
        lines = [*self._prepared(program, step.first), *self._prepared(program, step.kernel)]
        made = f"{self._buffers[step.buffer]} = empty(({self.size(step.elements)},), {step.dtype})"
        return [*lines, made, *self._launch(step.first), *self._launch(step.kernel)]

    def _maybe(self, program: Program, maybe: MaybeText) -> list[str]:
        """The launches of a step where there is something to do; its results exist anyhow."""
        prepared = [line for kernel in kernels_of(maybe) for line in self._prepared(program, kernel)]
        condition = " and ".join(f"{self.size(size)} > 0" for size in maybe.work)
        return [*prepared, f"if {condition}:", *(f"    {line}" for line in self._step(program, maybe.step))]

    def _shaped(self, program: Program, shaped: ShapedText) -> list[str]:
        """A branch on the length of a row."""
        prepared = [line for kernel in kernels_of(shaped) for line in self._prepared(program, kernel)]
        condition = f"{self.size(shaped.columns)} <= {shaped.most}"
        return [
            *prepared,
            *branch(condition, self._step(program, shaped.short), self._step(program, shaped.long)),
        ]

    def _tiled(self, program: Program, scan: TiledText) -> list[str]:
        """Few rows: a block a tile; many rows, or short ones: a block a row."""
        lines = [line for kernel in kernels_of(scan) for line in self._prepared(program, kernel)]
        width = "" if scan.tiled.width is None else f" * {self._wide(scan.tiled.width)}"
        rows = self.size(scan.rows)
        lines.append(f"tiles = cdiv({self.size(scan.columns)}, {scan.tile}{width})")
        count = "tiles" if scan.rows.is_one else f"{atom(rows)} * tiles"
        few = f"{atom(rows)} < gpu.sm_count * (gpu.threads_per_sm // {scan.tiled.threads})"
        if scan.most:
            few += f" and {count} <= {scan.most}"
            body = self._launch(scan.tiled)
        else:
            flags, sums = (self._names.new(name) for name in (scan.flags, scan.sums))
            self._buffers.update({scan.flags: flags, scan.sums: sums})
            scratch = [
                f"{flags} = zeros(({count} + 1,), i32)",
                f"{sums} = empty((2, {count}), {scan.dtype})",
            ]
            body = [*scratch, *self._launch(scan.tiled)]
        return [*lines, *branch(f"tiles > 1 and {few}", body, self._launch(scan.plain))]

    def _stacked(self, program: Program, scan: StackedText) -> list[str]:
        """Long columns: a block for each piece of a bundle; short ones, or very many: a block a bundle."""
        lines = [line for kernel in kernels_of(scan) for line in self._prepared(program, kernel)]
        rows, columns = self.size(scan.rows), self.size(scan.columns)
        width = "" if scan.pieces.width is None else f" * {self._wide(scan.pieces.width)}"
        bundle, bundles = self._names.new("bundle"), self._names.new("bundles")
        each = bundle if scan.words == 1 else f"{scan.words} * {bundle}"
        lines += [
            f"{bundle} = {stacked_text(rows)}",
            f"{bundles} = cdiv({rows}, {bundle})",
            f"pieces = cdiv({columns}, {scan.tile}{width} // {bundle})",
        ]
        whole = self._launch(replace(scan.whole, grid=bundles))
        many = self._launch(replace(scan.pieces, grid=f"{bundles} * pieces"))
        told = f"(pieces + pieces // {STRETCH}) * {bundles} * {each} <= {scan.most}"
        return [*lines, *branch(f"pieces > 1 and {told}", many, whole)]

    def _constants(self, steps: Sequence[Step], macros: Mapping[str, Size]) -> list[str]:
        """The macros: one value for all launches, unless each has its own number of threads."""
        sized = [f'"{name}": {self.size(size)}' for name, size in sorted(macros.items())]
        self._macros = [*self._added, *sized]
        kernels = [kernel for step in steps for kernel in kernels_of(step)]
        self._tells_threads = threads_of(kernels, 1) is None
        launches = len(kernels)
        text = f"{{{', '.join(self._macros)}}}"
        if self._tells_threads or not self._macros or (launches < 2 and len(text) < LONGEST - 20):
            return []
        self._consts = self._names.new("sizes")
        line = f"{self._consts} = {text}"
        if len(line) <= LONGEST:
            return [line]
        return [f"{self._consts} = {{", *(f"    {macro}," for macro in self._macros), "}"]

    def _const_text(self, block: str) -> str:
        if self._consts:
            return self._consts
        threads = [f'"THREADS": {block}'] if self._tells_threads else []
        entries = [*self._macros, *threads]
        return f"{{{', '.join(entries)}}}" if entries else ""

    def _prepared(self, program: Program, kernel: KernelText) -> list[str]:
        """Allocations and the vector width that a launch refers to."""
        names = [name for name in kernel.buffers if name not in self._buffers and name in program.buffers]
        lines = [self._allocation(program, name) for name in names]
        for scratch in kernel.zeroed:
            local = self._buffers[scratch.name] = self._names.new(scratch.name)
            lines.append(f"{local} = zeros({self.shape(scratch.shape)}, {scratch.dtype})")
        if kernel.width is not None:
            self._width(kernel.width, lines)
        if kernel.fit and kernel.fit not in self._blocks:
            self._blocks[kernel.fit] = self._names.new("block")
            lines.append(f"{self._blocks[kernel.fit]} = {kernel.fit}")
        return lines

    def _launch(self, kernel: KernelText) -> list[str]:
        lines = []
        block = self._blocks[kernel.fit] if kernel.fit else str(kernel.threads)
        lines += _required(kernel)
        width = "" if kernel.width is None else self._wide(kernel.width)
        grid, most = kernel.grid.replace(" * {width}", f" * {width}" if width else ""), kernel.most
        if kernel.resident:
            resident = self._names.new("resident")
            lines.append(f"{resident} = {kernel.resident.replace('{threads}', block)}")
            grid, most = (text.replace("{resident}", resident) for text in (grid, most))
        if most:
            most_blocks = self._names.new("most_blocks")
            lines.append(f"{most_blocks} = {most.replace('{threads}', block)}")
            grid = grid.replace("{most}", most_blocks)
        grid = grid.replace("{threads}", block)
        if kernel.a_block:
            grid = self._scratch(kernel, grid, lines)
        given = [part for part in (f"{{{width}}}" if width else "", kernel.template) if part]
        called_as = self._repeats.launched(kernel.name)
        parts = [f'f"{called_as}<{", ".join(given)}>"' if given else f'"{called_as}"']
        parts += [f"grid={grid}", f"block={block}"]
        arguments = [*(self._buffers[name] for name in kernel.buffers), *kernel.scalars]
        parts.append(f"args=[{', '.join(arguments)}]")
        if consts := self._const_text(block):
            parts.append(f"const={consts}")
        if kernel.cluster > 1:
            parts.append(f"cluster={kernel.cluster}")
        if kernel.cooperative:
            parts.append("cooperative=True")
        if kernel.limits.shared:
            parts.append(f"smem={kernel.limits.shared}")
        return lines + called("launch", parts)

    def _scratch(self, kernel: KernelText, grid: str, lines: list[str]) -> str:
        """One element a block; how many blocks there are gets a name."""
        in_grid = self._names.new("in_grid")
        lines.append(f"{in_grid} = {grid}")
        for name, dtype in kernel.a_block:
            self._buffers[name] = self._names.new(name)
            lines.append(f"{self._buffers[name]} = empty(({in_grid},), {dtype})")
        return in_grid

    def _split(self, program: Program, split: SplitText) -> list[str]:
        """Few rows: as many pieces as fill the GPU; many rows: the plain kernel."""
        lines = [line for kernel in kernels_of(split) for line in self._prepared(program, kernel)]
        if split.bundle:
            split = self._bundled(split, lines)
        if split.in_turns is not None:
            return [*lines, *self._in_turns(program, split, split.in_turns)]
        return [*lines, *self._at_once(program, split)]

    def _in_turns(self, program: Program, split: SplitText, in_turns: InTurns) -> list[str]:
        """More rows than the card holds at a time, by teams; fewer, or on a small card, all at once."""
        rows, columns = self.size(split.rows), self.size(split.columns)
        at_once, groups = self._names.new("at_once"), self._names.new("groups")
        most, beside = self._names.new("most_columns"), blocks_of(split.threads)
        blocks = f"gpu.sm_count * {beside}"
        bytes_each, kept = 8 * in_turns.bytes_a_column, beside_piece(split.threads)
        share = f"cdiv({columns}, {most})" if split.columns.number else f"max(1, cdiv({columns}, {most}))"
        room = f"gpu.threads_per_sm >= {beside * split.threads}"
        arrived = self._buffers[in_turns.arrived] = self._names.new(in_turns.arrived)
        count = rows if in_turns.meetings == 1 else f"{in_turns.meetings} * {atom(rows)}"
        launch = replace(in_turns.text, grid=in_turns.text.grid.replace(GROUPS, groups))
        body = [
            f"{groups} = cdiv({rows}, cdiv({rows}, {at_once}))",
            f"pieces = {blocks} // {groups}",
            f"chunk = cdiv({columns}, 8 * pieces) * 8",
            f"{arrived} = zeros(({count},), i32)",
            *self._partials(split, in_turns.partials),
            *self._launch(launch),
        ]
        long = f"{columns} > {split.longest_whole} and " if split.columns.number is None else ""
        return [
            f"{most} = (gpu.shared_bytes_per_sm // {beside} - {kept}) // {bytes_each} * 8",
            f"{at_once} = {blocks} // {share}",
            *branch(f"{long}{room} and 1 < {at_once} < {rows}", body, self._at_once(program, split)),
        ]

    def _at_once(self, program: Program, split: SplitText) -> list[str]:
        """All rows at the same time."""
        columns = self.size(split.columns)
        lines = [f"pieces = {self._count_of_pieces(split)}"]
        body = [f"chunk = cdiv({columns}, 8 * pieces) * 8"] if split.in_stretches else []
        body += self._pieces(split)
        if split.plain is None:
            return lines + body
        conditions = [] if split.columns.number else [f"{columns} > {split.longest_whole}"]
        if not split.alone:
            conditions.append("pieces > 1")
        if split.told and split.teams != "1":  # one block of each waits: the others must find room
            conditions.append(f"{atom(split.teams)} < gpu.sm_count")
        if split.most_teams and not split.teams.isdecimal():
            conditions.append(f"{atom(split.teams)} <= {split.most_teams}")
        return [*lines, *branch(" and ".join(conditions), body, self._step(program, split.plain))]

    def _count_of_pieces(self, split: SplitText) -> str:
        """As many as fill the GPU, once it is known how many rows a block bundles."""
        if split.told:  # a block ends when it has told its part: one step of its walk is enough
            most = str(most_told(split.threads))
            if split.teams != "1":
                most = f"{most}, {MOST_TOLD} // {atom(split.teams)}"
            return f"max(1, min(cdiv({self.size(split.columns)}, {split.told}), {most}))"
        fill = f"gpu.sm_count * (gpu.threads_per_sm // {2 * split.threads})"
        share = fill if split.teams == "1" else f"cdiv({fill}, {split.teams})"
        if split.together and split.teams != "1":  # one block too many would not be there with the others
            share = f"{fill} // {atom(split.teams)}"
        if split.bundle:  # one block too many would keep a multiprocessor busy when all others are done
            share = f"{fill} // {atom(split.teams)}"
        columns = self.size(split.columns)
        if split.few_waves:  # the last long rows would leave most of the card idle
            most = f"{FEW_WAVES} * {fill}" if split.teams == "1" else str(MOST_LONG)
            share = f"max({share}, min({most}, {atom(columns)} // {LONG_PIECE}))"
        return f"max(1, min({share}, cdiv({columns}, {split.least})))"

    def _joint(self, program: Program, joint: JointText) -> list[str]:
        """Kernels that share a launch: as many blocks as the largest stage has jobs."""
        lines: list[str] = []
        widths, numbers, counts = [], list[str](), []
        for part in joint.parts:
            lines += self._prepared(program, part.text)
            if part.text.width is not None:
                widths.append(f"{{{self._wide(part.text.width)}}}")
            own = self._jobs(part, lines)
            numbers += [number for number in own if not number.isdecimal()]
            counts.append(" * ".join(own[:2]))
        kernel = joint.kernel
        lines += dict.fromkeys(line for part in joint.parts for line in _required(part.text))
        if joint.planes is not None:
            return [*lines, *self._by_planes(program, joint, widths, (numbers, counts))]
        grid = " + ".join(counts)
        if kernel.cooperative:
            most = [count for count in dict.fromkeys(counts) if count != "1"] or ["1"]
            grid = most[0] if len(most) == 1 else f"max({', '.join(most)})"
            grid = f"min({grid}, gpu.sm_count * max(1, {RESIDENT} // {kernel.threads}))"
        return [*lines, *self._joint_launch(kernel, grid, widths, numbers)]

    def _by_planes(
        self, program: Program, joint: JointText, widths: list[str], found: tuple[list[str], list[str]]
    ) -> list[str]:
        """Jobs of one plane after the other, where each is of one plane; else all are of the same group."""
        numbers, counts = found
        split, planes = joint.parts[0].split, joint.planes
        assert split is not None and planes is not None
        rule = split.kernels[0].width
        bundle = split.bundle.replace("{width}", "1" if rule is None else self._wide(rule))
        groups, lag = self._names.new("groups"), self._names.new("lag")
        count, places = self.size(planes.planes), self.size(planes.places)
        of_one = f"{numbers[1]} == 1 and {atom(places)} % ({bundle}) == 0 and {count} <= {MOST_PLANES}"
        made = program.buffers[joint.parts[-1].stem]
        elements = LAG_BYTES // DTYPE_BYTES[made.dtype]
        least = len(joint.parts) - 1
        of_plane = self.size(product((planes.lines, planes.places)))
        in_turns = f"max({least}, min({groups}, cdiv({elements}, {of_plane})))"
        grid = f"({' + '.join(counts)}) // {groups} * ({groups} + {lag})"
        return [
            f"{groups} = {count} if {of_one} else 1",
            f"{lag} = {in_turns} if {groups} > 1 else {least}",
            *self._joint_launch(joint.kernel, grid, widths, [*numbers, groups, lag]),
        ]

    def _joint_launch(
        self, kernel: KernelText, grid: str, widths: list[str], numbers: list[str]
    ) -> list[str]:
        called_as = self._repeats.launched(kernel.name)
        name = f'f"{called_as}<{", ".join(widths)}>"' if widths else f'"{called_as}"'
        arguments = [*(self._buffers[buffer] for buffer in kernel.buffers), *numbers]
        rows = filled(arguments, LONGEST - 20)
        given = (
            f"[{rows[0]}]" if len(rows) == 1 else "\n".join(["[", *(f"        {r}" for r in rows), "    ]"])
        )
        parts = [name, f"grid={grid}", f"block={kernel.threads}", f"args={given}"]
        if consts := self._const_text(str(kernel.threads)):
            parts.append(f"const={consts}")
        if kernel.cooperative:
            parts.append("cooperative=True")
        return "\n".join(called("launch", parts)).split("\n")

    def _jobs(self, part: JointPart, lines: list[str]) -> list[str]:
        """What would be the grid of a kernel of its own: jobs, pieces of a row, columns of a piece."""
        grid, split = part.text.grid, part.split
        if split is not None and split.bundle:
            split = self._bundled(split, lines)
            grid = split.kernels[0].grid
        elif part.text.width is not None:
            grid = grid.replace("{width}", self._wide(part.text.width))
        jobs = grid if grid.isdecimal() else self._names.new(f"{part.stem}_jobs")
        if split is None:
            lines += [] if grid.isdecimal() else [f"{jobs} = {grid.replace(' * {width}', '')}"]
            return [jobs]
        lines.append(f"{jobs} = {grid.removeprefix('(').removesuffix(', pieces)')}")
        pieces = self._names.new(f"{part.stem}_pieces")
        few = split if split.teams == "1" else replace(split, teams=jobs)
        lines.append(f"{pieces} = {self._count_of_pieces(few)}")
        numbers = [jobs, pieces]
        if "chunk" in part.text.scalars:
            numbers.append(self._names.new(f"{part.stem}_chunk"))
            lines.append(f"{numbers[-1]} = cdiv({self.size(split.columns)}, 8 * {pieces}) * 8")
        lines += self._partials(split, split.partials, pieces)
        return numbers

    def _pieces(self, split: SplitText) -> list[str]:
        """Partial results and launches: blocks that wait for one another where their pieces fit."""
        apart = self._partials(split, split.partials)
        for kernel in split.kernels:
            apart += self._launch(kernel)
        if split.together is None:
            return apart
        meet = [*self._partials(split, split.together.partials), *self._launch(split.together.text)]
        fits = f"chunk <= {split.together.most}"
        if split.kernels:
            return branch(fits, meet, apart)
        return [f'require({fits}, "all pieces must fit in registers at the same time")', *meet]

    def _partials(
        self, split: SplitText, partials: Sequence[tuple[str, str]], pieces: str = "pieces"
    ) -> list[str]:
        shape = f"({pieces},)" if split.rows.is_one else f"({pieces}, {self.size(split.rows)})"
        lines = []
        for name, dtype in partials:
            self._buffers[name] = self._names.new(name)
            lines.append(f"{self._buffers[name]} = empty({shape}, {dtype})")
        return lines

    def _bundled(self, split: SplitText, lines: list[str]) -> SplitText:
        """The split with the name of what a block bundles."""
        rule = split.kernels[0].width
        width = "1" if rule is None else self._wide(rule)
        name = self._names.new("bundle")
        lines.append(f"{name} = {split.bundle.replace('{width}', width)}")
        kernels = tuple(
            replace(kernel, grid=kernel.grid.replace("{bundle}", name)) for kernel in split.kernels
        )
        return replace(split, kernels=kernels, teams=split.teams.replace("{bundle}", name))

    def _allocation(self, program: Program, name: str) -> str:
        buffer = program.buffers[name]
        local = self._buffers[name] = self._names.new(name)
        for spec in self.problem.tensors:
            like = program.buffers[spec.name]
            if like.strides is None and (like.dtype, like.shape) == (buffer.dtype, buffer.shape):
                return f"{local} = empty_like({spec.name})"
        return f"{local} = empty({self.shape(buffer.shape)}, {buffer.dtype})"

    def _wide(self, rule: WidthRule) -> str:
        """The local that holds a kernel's vector width."""
        return self._widths[width_text(rule, self.size)]

    def _width(self, rule: WidthRule, lines: list[str]) -> None:
        text = width_text(rule, self.size)
        if text not in self._widths:
            name = self._widths[text] = self._names.new("vec")
            line = f"{name} = {text}"
            if len(line) > LONGEST:
                first, *rest = text.split(" else ")
                lines += [f"{name} = (", f"    {first}", *(f"    else {part}" for part in rest), ")"]
            else:
                lines.append(line)

    def _library(self, program: Program, call: LibraryCall) -> list[str]:
        args = [self._argument(arg) for arg in call.args]
        args += [f"{name}={self._argument(value)}" for name, value in call.kwargs]
        names = []
        for result in call.results:
            names.append(self._names.new(result))
            self._buffers[result] = names[-1]
        op = call.op.removesuffix(".default")
        lines = called("library", [f'"{op}"', *args], prefix=f"{', '.join(names)} = ")
        known = base_name(call.op) in _CONTIGUOUS_RESULTS
        for result, name, order in zip(call.results, names, call.orders, strict=True):
            if result in self._used and not (known and order is None):
                self._buffers[result] = rows = self._names.new(result)
                lines += row_major(rows, name, program.buffers[result].shape, order, self.shape)
        return lines

    def _argument(self, arg: object) -> str:
        if isinstance(arg, LibraryArgument):
            name = self._buffers[arg.buffer]
            if arg.shape is None:
                return name
            parts = [name, self.shape(arg.shape)]
            if arg.strides:
                parts.append(self.shape(arg.strides))
            if arg.offset is not None and not arg.offset.is_zero:
                parts.append(f"offset={self.size(arg.offset)}")
            return f"view({', '.join(parts)})"
        if isinstance(arg, tuple):
            comma = "," if len(arg) == 1 else ""
            return f"({', '.join(self._argument(item) for item in arg)}{comma})"
        return self._plain(arg)

    def _plain(self, arg: object) -> str:
        if isinstance(arg, Sym):
            return self.size(self.sizes.read(arg))
        if isinstance(arg, str):
            return arg if arg in DTYPES else f'"{arg}"'
        if isinstance(arg, float) and not math.isfinite(arg):
            return "nan" if math.isnan(arg) else "inf" if arg > 0 else "-inf"
        if isinstance(arg, tuple):
            return self._argument(arg)
        return repr(arg)

    def _output(self, output: Output) -> str:
        name = self._buffers[output.buffer]
        if output.shape is None:
            return name
        strides = "" if output.strides is None else f", {self.shape(output.strides)}"
        return f"view({name}, {self.shape(output.shape)}{strides})"


def _required(kernel: KernelText) -> list[str]:
    """What must be so for it to work."""
    limits = kernel.limits
    return [f'require({limits.fits}, "{limits.otherwise}")'] if limits.fits else []
