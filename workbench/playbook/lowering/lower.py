"""From the op graph to stores and library calls.

Owns the decision what is written to memory and what stays in registers: pointwise operations are
always computed where they are used; reductions stay with their consumer when ``placement`` allows;
what the tables do not know is a library call. With ``fuse=False`` every operation is written out,
which is the naive kernel chain that the first branch shows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Problem, Ref, Sym, base_name
from workbench.playbook.analysis.placement import (
    Placement,
    best_placement,
    fits,
    identity,
    matrix,
    placement_of,
)
from workbench.playbook.analysis.row_steps import LEAST_THREADS, has_room, with_row_steps
from workbench.playbook.analysis.scan_tail import with_tails
from workbench.playbook.graph.graph_edit import RECORD, RESULTS, WRITTEN
from workbench.playbook.graph.rewrites import JOINT_ROWS, LOWERED, MADE_ONCE, ROW_STEPS
from workbench.playbook.ir.agreements import sizes_of
from workbench.playbook.ir.branches import Branches
from workbench.playbook.ir.expr import Apply, Expr, Load, Pool, Reduction, leaves, walk
from workbench.playbook.ir.operations import Operand, compute_type, is_pointwise, pointwise, unrounded
from workbench.playbook.ir.program import (
    Buffer,
    Kernel,
    LibraryArgument,
    LibraryCall,
    Output,
    Program,
    Scan,
    Scatter,
    Store,
)
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.stencil import Stencil
from workbench.playbook.ir.views import (
    NotAView,
    Order,
    View,
    expanded,
    in_order,
    merged,
    permuted,
    put_back,
    runs,
    strides_in,
)
from workbench.playbook.lowering import (
    adaptive,
    bit_casts,
    depthwise,
    joint_rows,
    long_sums,
    movement,
    pieces,
    pools,
    products,
    reductions,
    replaced,
    scans,
    scattered_sums,
    windows,
)
from workbench.playbook.lowering.equal_pieces import with_equal_pieces
from workbench.playbook.lowering.grouping import Operation, absorbed, grouped
from workbench.playbook.lowering.interleaved import long_abreast
from workbench.playbook.lowering.kept_rows import KeptRows, kept_rows
from workbench.playbook.lowering.made_once import is_walked_twice, is_worth_a_table
from workbench.playbook.lowering.read_around import is_read_around
from workbench.playbook.lowering.shifted import shifted_slices
from workbench.playbook.lowering.stored_before import read_where_stored
from workbench.playbook.lowering.wider_rows import over_wider_rows


@dataclass(frozen=True)
class Value:
    """A tensor that need not exist in memory: an expression over the linear index of ``shape``."""

    shape: tuple[Size, ...]
    dtype: DType
    """Type in memory; the expression computes in ``compute_type(dtype)``."""
    expr: Expr


class Lowering:
    """Lowers one problem's nodes; see ``lower``."""

    def __init__(self, problem: Problem, fuse: bool, without: frozenset[str] = frozenset()) -> None:
        self.problem = problem
        self.sizes = sizes_of(problem)
        self.kept: KeptRows | None = None
        self.kept_here: dict[str, Buffer] = {}
        self.cases = tuple(case.size_map for case in problem.cases)
        self.pool = Pool(self.sizes)
        self._branches = Branches()
        self.fuse = fuse
        self.without = without if fuse else without | LOWERED
        self.applied: set[str] = set()
        self.stencils: list[Stencil] = []
        self.buffers: dict[str, Buffer] = {}
        self.operations: list[Operation] = []
        self.stems: dict[Size, str] = {}
        self.nodes = {node.name: node for node in problem.graph.nodes}
        self._returned = {ref.ref for ref in problem.graph.outputs}
        self._users: dict[str, list[OpNode]] = {}
        self.used = set(problem.graph.outputs)
        for node in problem.graph.nodes:
            refs = node.refs
            self.used.update(refs)
            for name in {ref.ref for ref in refs}:
                self._users.setdefault(name, []).append(node)
        self._values: dict[Ref, Value] = {}
        self._written: dict[tuple[int, tuple[Size, ...], DType], str] = {}
        self._read_from: dict[tuple[int, Size, DType], Expr] = {}
        """How tensors that a library call has been given are read from there on, by their expression: under
        another shape as well. A step of a recurrence would compute all steps before it once more. A number
        alone is the expression of tensors of any size, so that it counts too."""
        self._calls: set[str] = set()
        """Nodes that are library calls."""
        self._taken = {spec.name for spec in problem.tensors} | {node.name for node in problem.graph.nodes}
        for spec in problem.tensors:
            shape = self.sizes.shape(spec.dims)
            strides = None if spec.strides is None else self.sizes.shape(spec.strides)
            self.buffers[spec.name] = Buffer(spec.name, spec.dtype, shape, "argument", strides)
            self._values[Ref(ref=spec.name)] = self.loaded(spec.name)

    def only_user(self, name: str) -> OpNode | None:
        """The one node that reads a result, where nothing else does."""
        users = self.users(name)
        return users[0] if len(users) == 1 and name not in self._returned else None

    def users(self, name: str) -> list[OpNode]:
        """The nodes that read a result."""
        return self._users.get(name, [])

    # -------------------------------------------------------------------------------- values

    def value(self, ref: Arg) -> Value:
        """The tensor a reference names."""
        assert isinstance(ref, Ref), f"not a tensor: {ref}"
        value = self._values[ref]
        read = self._read_from.get(_contents(value))
        return value if read is None else Value(value.shape, value.dtype, read)

    def keep_view(self, node: OpNode, value: Value, item: int | None = None) -> None:
        """Remember a result that computes nothing."""
        self._values[Ref(ref=node.name, item=item)] = value
        if not item:  # the only result, or the first: a rewrite may leave one where there were two
            self._values[Ref(ref=node.name)] = self._values[Ref(ref=node.name, item=0)] = value

    def keep_expr(self, node: OpNode, expr: Expr, item: int | None = None) -> None:
        """Remember a computed result of the node's own shape; without fusion it is written out at once."""
        out = node.outs[item or 0]
        value = Value(self.sizes.shape(out.dims), out.dtype, expr)
        if not self.fuse and any(True for _ in leaves(expr)):
            value = self._written_out(value, node.name if item is None else f"{node.name}_{item}", out.order)
        self.keep_view(node, value, item)

    def loaded(self, name: str) -> Value:
        """A whole buffer."""
        buffer = self.buffers[name]
        expr = self.pool.load(name, compute_type(buffer.dtype), buffer.view)
        return Value(buffer.shape, buffer.dtype, expr)

    def cast(self, expr: Expr, dtype: DType) -> Expr:
        """An expression in another type."""
        return expr if expr.dtype == dtype else self.pool.apply("cast", dtype, (expr,))

    def converted(self, value: Value, shape: tuple[Size, ...], dtype: DType) -> Value:
        """The same elements in another shape and type."""
        return Value(shape, dtype, self.cast(value.expr, compute_type(dtype)))

    def through(
        self,
        value: Value,
        change: Callable[[View], View],
        shape: tuple[Size, ...],
        kind: Hashable = None,
    ) -> Value:
        """The tensor seen through a change of views, written out first where that is impossible; ``kind`` is
        ``Pool.through``'s."""
        try:
            return Value(shape, value.dtype, self.pool.through(value.expr, change, kind))
        except NotAView:
            name = self.write(value, "packed")
            plain = self.loaded(name)
            return Value(shape, value.dtype, self.pool.through(plain.expr, change, kind))

    def broadcast(self, value: Value, shape: tuple[Size, ...]) -> Value:
        """The tensor repeated to a wider shape."""
        if value.shape == shape:
            return value
        kind = ("expanded", value.shape, shape)
        return self.through(value, lambda view: expanded(view, value.shape, shape), shape, kind)

    # -------------------------------------------------------------------------------- writing

    def write(self, value: Value, name: str) -> str:
        """A buffer that holds the tensor, row-major; the same tensor is written once."""
        key = (value.expr.serial, value.shape, value.dtype)
        if key not in self._written:
            buffer = self.new_buffer(name, value.dtype, value.shape)
            self.store(buffer, value, identity(product(value.shape)))
            self._written[key] = buffer
        return self._written[key]

    def written_as(self, expr: Expr, shape: tuple[Size, ...]) -> str | None:
        """The buffer that has such values, in the type they are computed in; None where none has yet."""
        return self._written.get((expr.serial, shape, expr.dtype))

    def _written_out(self, value: Value, name: str, order: Order) -> Value:
        """The same tensor read from a buffer, whose axes are in ``order``."""
        laid = self._laid(value, order)
        return self._as_torch_has_it(self.loaded(self.write(laid or value, name)), order if laid else None)

    def _laid(self, value: Value, order: Order) -> Value | None:
        """The tensor with its axes in another order; None where that is no view of it, or no other order."""
        if order is None:
            return None
        try:
            expr = self.pool.through(value.expr, lambda view: permuted(view, value.shape, order))
        except NotAView:
            return None
        found = (one.laid(self.pool, value.expr, value.shape, order) for one in tuple(self.stencils))
        self.stencils += [one for one in found if one is not None]
        return Value(in_order(value.shape, order), value.dtype, expr)

    def _as_torch_has_it(self, laid: Value, order: Order) -> Value:
        """A tensor whose axes are in ``order``, with the axes that torch's has; undoes ``_laid``."""
        if order is None:
            return laid
        back = put_back(order)
        expr = self.pool.through(laid.expr, lambda view: permuted(view, laid.shape, back))
        return Value(in_order(laid.shape, back), laid.dtype, expr)

    def new_buffer(self, name: str, dtype: DType, shape: tuple[Size, ...], role: str = "made") -> str:
        """Reserve a buffer under a free name."""
        free = name
        number = 1
        while free in self.buffers or (free != name and free in self._taken):
            number += 1
            free = f"{name}_{number}"
        self.buffers[free] = Buffer(free, dtype, shape, role)
        return free

    def store(self, buffer: str, value: Value, where: View) -> None:
        """Ask for the tensor in ``buffer`` at ``where``; reductions that cannot stay are written first."""
        expr = self._shorter(unrounded(value.expr, self.buffers[buffer].dtype), buffer)
        if self.fuse:
            expr = with_equal_pieces(self.pool, over_wider_rows(self, expr))
        while True:
            best = best_placement(self.pool, expr, where)
            if best is None:
                stuck = self._first_reduction(expr, lambda leaf: True)
                if stuck is None:
                    self._ask(Store(buffer, expr, where, ONE, product(value.shape), "flat"))
                    return
                expr = self.lifted(expr, stuck)
                continue
            space, columns = best
            placed = self.pool.through(expr, space.place, ("place", space))
            abreast = not all(space.is_row) and long_abreast(self, placed, space.rows, columns)
            unwanted = partial(_any if abreast else _misfit, space, columns)
            stuck = self._first_reduction(placed, unwanted)
            if stuck is None:
                read = read_where_stored(self, placed)
                if read is not placed:
                    expr = self.pool.through(read, space.put_back)
                    continue
                level = "row" if all(space.is_row) else "full"
                self._ask(Store(buffer, placed, space.place(where), space.rows, columns, level))
                return
            expr = self.pool.through(self.lifted(placed, stuck), space.put_back)

    def _shorter(self, expr: Expr, buffer: str) -> Expr:
        """With error functions that may be approximated, where what they come to is stored in 16 bits."""
        narrow = self.buffers[buffer].dtype in ("f16", "bf16")
        if not narrow or not any(_is_erf(part) for part in walk(expr)):
            return expr
        return self.pool.respelt(expr, lambda part: "erf_of_16_bits" if _is_erf(part) else part.op)

    def scan(self, scan: Scan) -> None:
        """Ask for running totals."""
        self.operations.append(Operation(call=scan))

    def scatter(self, scatter: Scatter) -> None:
        """Ask for values to join what a buffer holds."""
        self.operations.append(Operation(call=scatter))

    def _ask(self, store: Store) -> None:
        self.operations.append(Operation(store=store))

    def _first_reduction(self, expr: Expr, wanted: Callable[[Reduction], bool]) -> Reduction | None:
        return next((leaf for leaf in leaves(expr) if isinstance(leaf, Reduction) and wanted(leaf)), None)

    def body(self, expr: Expr, rows: Size, columns: Size) -> Expr:
        """The body of a reduction over (rows, columns), with what cannot be computed there written first."""
        space, asked = matrix(rows, columns), expr
        while True:
            stuck = self._first_reduction(expr, partial(_misfit, space, columns))
            if stuck is None:
                break
            written = self._holder(expr, rows * columns, expr.dtype)
            there = None if written is None else self.pool.load(written, expr.dtype, identity(rows * columns))
            expr = there or self.lifted(expr, stuck)
        if expr is not asked and isinstance(expr, Load) and expr.view.is_linear and not expr.lookups:
            self._written.setdefault((asked.serial, (rows * columns,), expr.dtype), expr.buffer)
        return expr

    def _holder(self, expr: Expr, elements: Size, dtype: DType) -> str | None:
        """The buffer that has these elements in this order and type, whatever its shape, if any has."""
        for (serial, shape, of), name in self._written.items():
            if (serial, of) == (expr.serial, dtype) and product(shape) == elements:
                return name
        return None

    def without_reductions(self, expr: Expr) -> Expr:
        """``expr`` with all that is reduced in it written first."""
        while True:
            stuck = self._first_reduction(expr, lambda leaf: True)
            if stuck is None:
                return expr
            expr = self.lifted(expr, stuck)

    def lifted(self, expr: Expr, stuck: Reduction) -> Expr:
        """``expr`` with the reduction, and what is computed from it row by row, read from memory."""
        placement = placement_of(stuck)
        if placement is None:
            rows = stuck.rows.size
            alone = Value((rows,), stuck.dtype, self.pool.seen(stuck, stuck.rows))
            name = self.write(alone, f"row_{stuck.op}")
            load = self.pool.load(name, stuck.dtype, stuck.view)
            return self.pool.mapped(expr, lambda e: load if e is stuck else None)
        return self.read_by_row(expr, stuck, self.values_a_row(expr, stuck, placement))

    def values_a_row(self, expr: Expr, stuck: Reduction, placement: Placement) -> dict[int, Expr]:
        """Parts of ``expr`` that one kernel could store as a value for each of the reduction's rows."""
        rows = Placement((stuck.rows.size,), (True,))
        found: dict[int, Expr] = {}
        misfits: set[int] = set()
        for serial, form in self.pool.parts_through(
            expr, placement.rows_only, ("rows_only", placement)
        ).items():
            below = any(operand.serial in misfits for operand in form.operands)
            if below or (isinstance(form, Reduction) and _misfit(rows, stuck.columns.size, form)):
                misfits.add(form.serial)
            else:
                found[serial] = form
        return found

    def read_by_row(self, expr: Expr, stuck: Reduction, by_row: dict[int, Expr]) -> Expr:
        """Swap the largest parts in ``by_row`` that contain ``stuck`` for loads; write what is not yet."""
        contains = {stuck.serial}
        for part in walk(expr):
            if any(operand.serial in contains for operand in part.operands):
                contains.add(part.serial)
        inner: set[int] = set()
        for part in walk(expr):
            if part.serial in contains and part.serial in by_row:
                inner.update(operand.serial for operand in part.operands)
        outside = {one.serial for part in walk(expr) if part.serial not in by_row for one in part.operands}
        rows = stuck.rows.size
        swaps: dict[int, Expr] = {}
        for part in walk(expr):
            outermost = part.serial not in inner or part.serial in outside
            if part.serial in contains and part.serial in by_row and outermost:
                name = self.write(Value((rows,), part.dtype, by_row[part.serial]), f"row_{_label(part)}")
                swaps[part.serial] = self.pool.load(name, part.dtype, stuck.view)
        return self.pool.mapped(expr, lambda e: swaps.get(e.serial))

    # -------------------------------------------------------------------------------- nodes

    def node(self, node: OpNode) -> None:
        """Lower one node; one with a branch too long to spell is made of values in memory instead."""
        asked = len(self.operations)
        self._store_long_sums(node)
        self._node(node)
        self.keep(node.name)
        self._write_where_read_around(node)
        self._write_where_shared(node)
        if len(self.operations) > asked or not self._is_long(node) or movement.computed_in_slices(self, node):
            return
        computed = [ref for ref in node.refs if not isinstance(self.value(ref).expr, Load)]
        self._values.update((ref, self._written_out(self.value(ref), ref.ref, None)) for ref in computed)
        if computed:
            self._node(node)

    def on_the_way(self, node: OpNode, op: str, args: tuple[Arg, ...], dims: tuple[Dim, ...]) -> Ref:
        """Lower one more node, of the first result's type, whose result ``node`` is made of."""
        out = OutputSpec(dtype=node.outs[0].dtype, dims=dims)
        made = OpNode(name=f"{node.name}_{base_name(op)}", op=op, args=args, outs=(out,))
        self.node(made)
        return Ref(ref=made.name)

    def keep(self, name: str) -> None:
        """Write a value that later steps read elements of; one kernel may have it on the chip."""
        value = self._values.get(Ref(ref=name))
        if value is None or self.kept is None:
            return
        given = self.buffers.get(name)
        if (given is not None and name in self.kept.ways) or self.kept.wanted(
            self.pool, name, value.expr, product(value.shape)
        ):
            self._values[Ref(ref=name)] = self.loaded(buffer := self.write(value, f"{name}_row"))
            self.kept_here[buffer] = self.buffers[buffer]

    def _write_where_read_around(self, node: OpNode) -> None:
        """Write a value that others are made of over and over, each time moved a little."""
        value = self._values.get(Ref(ref=node.name))
        if value is None or not self.fuse or isinstance(value.expr, Load):
            return
        if is_read_around(node.name, value.expr, self.users, self._count):
            self._values[Ref(ref=node.name)] = self._written_out(value, node.name, None)

    def _write_where_shared(self, node: OpNode) -> None:
        """Write a value of few elements that very many are made of, or one that a long row wants twice."""
        value = self._values.get(Ref(ref=node.name))
        if value is None or not self.fuse or len(node.outs) > 1:
            return
        known = node, value.expr, self.users, self._made
        if is_worth_a_table(*known) or is_walked_twice(*known):
            self.applied.add(MADE_ONCE)
            if MADE_ONCE not in self.without:
                self._values[Ref(ref=node.name)] = self._written_out(value, node.name, None)

    def _store_long_sums(self, node: OpNode) -> None:
        """Write a sum of many tensors that is read once more behind a call that was made of it."""
        if not self._calls:
            return
        refs = tuple(dict.fromkeys(node.refs)) if self.fuse and is_pointwise(node) else ()
        for ref in refs if len(refs) > 1 else ():
            value = self.value(ref)
            if not long_sums.is_long(value.expr, self._elements(value.shape), self._elements_of):
                continue
            same = [one.ref for one, known in self._values.items() if known.expr is value.expr]
            others = [one.ref for one in refs if one != ref]
            if self._readers.reads_behind_a_call(same, others, self._calls):
                written = self._written_out(value, ref.ref, None)
                self._read_from[_contents(value)] = written.expr

    @cached_property
    def _readers(self) -> long_sums.Readers:
        return long_sums.Readers({name: {r.ref for r in n.refs} for name, n in self.nodes.items()})

    def _elements(self, shape: tuple[Size, ...]) -> int:
        """At the size that was declared first."""
        return product(shape).at(self.cases[0])

    def _elements_of(self, buffer: str) -> int:
        return self._elements(self.buffers[buffer].shape)

    def _count(self, name: str) -> int:
        """Elements of a result that was declared first."""
        return self._made(self.nodes[name])

    def _made(self, node: OpNode) -> int:
        """Elements of a node's first result."""
        return self._elements(self.sizes.shape(node.outs[0].dims))

    def _is_long(self, node: OpNode) -> bool:
        value = self._values.get(Ref(ref=node.name))
        return value is not None and self._branches.are_long(value.expr)

    def _node(self, node: OpNode) -> None:
        if is_pointwise(node):
            self._pointwise(node)
        elif node.op == RESULTS:
            for item, made in enumerate(node.args):
                self.keep_view(node, self.value(made), item)
        elif node.op == WRITTEN:
            self.keep_view(node, self._written_out(self.value(node.args[0]), node.name, None))
        elif node.op == RECORD:
            movement.store_in_slices(self, node)
        elif not any(kind.lower(self, node) for kind in _KINDS):
            self._library(node)

    def _pointwise(self, node: OpNode) -> None:
        out = node.outs[0]
        shape = self.sizes.shape(out.dims)
        operands = tuple(self._operand(arg, shape) for arg in node.args)
        expr = pointwise(self.pool, node, operands)
        self.keep_expr(node, expr)

    def _operand(self, arg: Arg, shape: tuple[Size, ...]) -> Operand:
        match arg:
            case Ref():
                return Operand(expr=self.broadcast(self.value(arg), shape).expr)
            case Sym(sym=text):
                return Operand(scalar=text)
            case None | bool() | int() | float():
                return Operand(scalar=arg)
            case _:
                return Operand()

    # -------------------------------------------------------------------------------- library

    def _library(self, node: OpNode) -> None:
        self._calls.add(node.name)
        args = tuple(self._library_arg(arg, node.op) for arg in node.args)
        kwargs = tuple((name, self._library_arg(arg, node.op)) for name, arg in node.kwargs)
        # Made of row-major copies, results are row-major too, whatever they were of the reference's tensors.
        as_traced = _takes_strides(node.op) or any(
            self._is_strided(arg) for arg in (*args, *dict(kwargs).values())
        )
        orders = tuple(out.order if as_traced else None for out in node.outs)
        names = []
        for item, (out, order) in enumerate(zip(node.outs, orders, strict=True)):
            stem = node.name if len(node.outs) == 1 else f"{node.name}_{item}"
            shape = in_order(self.sizes.shape(out.dims), order)
            names.append(self.new_buffer(stem, out.dtype, shape, "library"))
        self.operations.append(Operation(call=LibraryCall(node.op, args, kwargs, tuple(names), orders)))
        for item, (name, order) in enumerate(zip(names, orders, strict=True)):
            self.keep_view(node, self._as_torch_has_it(self.loaded(name), order), item)

    def _is_strided(self, arg: object) -> bool:
        """True for an argument of the problem that a call takes as it lies, and that is not row-major."""
        if isinstance(arg, tuple):
            return any(self._is_strided(one) for one in arg)
        return isinstance(arg, LibraryArgument) and self.buffers[arg.buffer].strides is not None

    def _library_arg(self, arg: Arg, op: str) -> object:
        if isinstance(arg, tuple):
            return tuple(self._library_arg(item, op) for item in arg)
        if not isinstance(arg, Ref):
            return arg
        value = self.value(arg)
        strides = _takes_strides(op)
        direct = self._as_it_is(value, strides)
        if direct is not None:
            return direct
        order = self.nodes[arg.ref].outs[arg.item or 0].order if strides and arg.ref in self.nodes else None
        self._values[arg] = read = self._written_out(value, arg.ref, order)
        self._read_from[_contents(value)] = read.expr
        return self._as_it_is(read, strides)

    def _as_it_is(self, value: Value, strides: bool) -> LibraryArgument | None:
        """The buffer behind a plain load, reshaped or strided where the plan can say so."""
        expr = value.expr
        if not isinstance(expr, Load) or expr.lookups:
            return None
        buffer = self.buffers[expr.buffer]
        if buffer.dtype != value.dtype:
            return None
        if expr.view.is_linear and buffer.strides is None and expr.view.size == product(buffer.shape):
            return self._whole(expr.buffer, value.shape)
        if buffer.strides is not None and value.shape == buffer.shape and expr.view == buffer.view:
            return LibraryArgument(expr.buffer)
        if not strides:
            return None
        try:
            axes = [merged(View(run)).axes for run in runs(expr.view, value.shape)]
        except NotAView:
            return None
        if any(len(run) > 1 for run in axes):
            return None
        steps = _steps([run[0].stride if run else None for run in axes], value.shape)
        if any(step.is_negative for step in steps):  # flipped: torch's tensors have no such strides
            return None
        return LibraryArgument(expr.buffer, value.shape, steps, expr.view.offset)

    def _whole(self, name: str, shape: tuple[Size, ...]) -> LibraryArgument:
        if self.buffers[name].shape == shape:
            return LibraryArgument(name)
        return LibraryArgument(name, shape)

    # -------------------------------------------------------------------------------- outputs

    def output(self, ref: Ref, order: Order = None) -> Output:
        """The buffer an output comes back in, which lies in memory as torch's own result does."""
        value = self.value(ref)
        laid = self._laid(value, order)
        strides = strides_in(value.shape, order) if laid and order else None
        value, shape = laid or value, value.shape
        expr = value.expr
        if isinstance(expr, Load) and not expr.lookups and expr.view.is_linear:
            buffer = self.buffers[expr.buffer]
            whole = buffer.role != "argument" and buffer.dtype == value.dtype
            if whole and expr.view.size == product(buffer.shape):
                as_it_is = buffer.shape == shape and strides is None  # a square one may be turned
                return Output(expr.buffer, None if as_it_is else shape, strides)
        if strides is None and (holder := self._holder(expr, product(shape), value.dtype)) is not None:
            return Output(holder, None if self.buffers[holder].shape == shape else shape)
        name = self.write(value, "out" if ref.item is None else f"out_{ref.item}")
        return Output(name, shape if strides else None, strides)


_KINDS = (
    movement, reductions, windows, pools, adaptive, depthwise, scans, products, pieces, replaced,
    scattered_sums, bit_casts,
)  # fmt: skip
"""Modules that know operations; what none of them takes is a library call."""
_TAKES_STRIDES = frozenset(
    [
        "mm",
        "bmm",
        "addmm",
        "_addmm_activation",
        "baddbmm",
        "mv",
        "dot",
        "convolution",
        "scaled_dot_product_attention",
    ]
)


def _contents(value: Value) -> tuple[int, Size, DType]:
    """Alike for tensors that hold the same, whatever their shapes."""
    return value.expr.serial, product(value.shape), value.dtype


def _is_erf(part: Expr) -> bool:
    return isinstance(part, Apply) and part.op == "erf" and part.dtype == "f32"


def _steps(found: Sequence[Size | None], shape: Sequence[Size]) -> tuple[Size, ...]:
    """Strides in elements. Along an axis of one element any would do, and torch's attention asks of all of
    them that rows begin where vectors may: it is as far as the axes behind it reach."""
    steps: list[Size] = []
    reach = ONE
    for step, size in zip(reversed(found), reversed(shape), strict=True):
        steps.append(reach if step is None else step)
        reach = steps[-1] if steps[-1].is_zero else size * steps[-1]
    return tuple(reversed(steps))


def _takes_strides(op: str) -> bool:
    return base_name(op) in _TAKES_STRIDES


def _label(part: Expr) -> str:
    op = getattr(part, "op", None)
    return op if isinstance(op, str) else "value"


def _misfit(space: Placement, columns: Size, reduction: Reduction) -> bool:
    return not fits(reduction, space, columns)


def _any(space: Placement, columns: Size, reduction: Reduction) -> bool:
    return True


def lower(problem: Problem, fuse: bool, without: frozenset[str] = frozenset()) -> Program:
    """Lower a problem's graph; every exportable graph has a lowering.

    ``without`` names rewrites that are not to be made; of those in ``LOWERED`` none is without ``fuse``.
    """
    if fuse and ROW_STEPS not in without and (kept := kept_rows(problem, sizes_of(problem))) is not None:
        in_steps = _in_steps(problem, without, kept)
        if in_steps is not None:
            return in_steps
    return _program(Lowering(problem, fuse, without))


def _in_steps(problem: Problem, without: frozenset[str], kept: KeptRows) -> Program | None:
    """The program with rows that wait on the chip between steps; None where they cannot."""
    lowering = Lowering(problem, True, without)
    lowering.kept = kept
    for spec in problem.tensors:
        lowering.keep(spec.name)
    program = _program(lowering)
    steps = with_row_steps(program, lowering.kept_here, kept.rows)
    cases = [case.size_map for case in (*problem.cases, *problem.proofs)]
    chains = [step for step in steps or () if isinstance(step, Kernel) and step.steps is not None]
    if not chains or not all(has_room(program, one, LEAST_THREADS, False, cases) for one in chains):
        return None
    return replace(program, steps=steps or [], applied=program.applied | {ROW_STEPS})


def _program(lowering: Lowering) -> Program:
    """Every node lowered, and what is asked for put into kernels."""
    problem, fuse = lowering.problem, lowering.fuse
    for node in problem.graph.nodes:
        lowering.node(node)
    orders = [spec.order for spec in problem.outputs]
    outputs = tuple(
        lowering.output(ref, order) for ref, order in zip(problem.graph.outputs, orders, strict=True)
    )
    steps = grouped(lowering.operations, fuse)
    if fuse:
        steps = with_tails(lowering.pool, absorbed(lowering.pool, steps), outputs)
        if any(joint_rows.can_be_apart(lowering, step) for step in steps):
            lowering.applied.add(JOINT_ROWS)
        if JOINT_ROWS in lowering.without:
            steps = joint_rows.apart(lowering, steps)
    stems = tuple(lowering.stems.items())
    made = (lowering.buffers, steps, outputs, lowering.pool, lowering.sizes, stems)
    if fuse:
        for step in steps:
            if isinstance(step, Kernel):
                found = shifted_slices(lowering.pool, step, lowering.buffers, lowering.stencils)
                lowering.stencils += list(found)
    return Program(*made, applied=frozenset(lowering.applied), stencils=tuple(lowering.stencils))
