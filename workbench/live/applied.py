"""What stands behind a name after ``%cuda_apply``: the kernel where its guard allows, else the original.

Owns the guard and the two counts. Imports torch only when it is made.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import DeviceError, GpuError, NotCovered, PlanError, UsageError
from workbench.live.binding import Binding
from workbench.live.kernel_call import NotRun, meta_of, run_kernel
from workbench.live.original import Original
from workbench.model import Layout, Problem, Target, TensorMeta, TensorSpec, size_of
from workbench.plan.interpret import interpret
from workbench.plan.parse import Program, parse
from workbench.problem.layout import unlike_declared

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.gpu.driver import Driver
    from workbench.gpu.program import Guarded
    from workbench.live.captured import Captured
    from workbench.live.watch import State, Watch

EMULATED_ELEMENTS = 2**20
"""Most elements of inputs and outputs together for which the emulator is used in place of a GPU."""


class Applied:
    """A drop-in for the original: same arguments, same result, two counts.

    CUDA tensors stay where they are and the kernel runs on the caller's current stream; CPU tensors go
    through the emulator. ``kernel_calls`` and ``fallback_calls`` count; ``last_fallback`` says why the
    original ran last. What the original reads besides its arguments (numbers, helpers, attributes, modes)
    is looked at in every call: ``watch``. Attributes are the original's, also when they are set. Safe to
    call from many threads and, once called with the same shapes, while a CUDA graph is captured.
    """

    def __init__(
        self, original: Any, problem: Problem, source: str, target: Target, driver: Driver | None = None
    ) -> None:
        from workbench.gpu.guard import key_of
        from workbench.live.gpu_calls import GpuCalls
        from workbench.live.watch import Watch

        self.original = original
        self.problem = problem
        self.source = source
        self.last_fallback = ""
        self._target = target
        self._layouts: frozenset[tuple[Layout, ...]] = frozenset()
        self._program = parse(source)
        self._binding, self._made = self._bound(), self._maker()
        self._refresh = original.refresh if _follows(original) else None
        self.watch: Watch = Watch(self._called)
        self._gpu = GpuCalls(self._program, source, target, driver)
        self._runs, self._key_of = self._gpu.runs, key_of
        self._last_key: Any = None
        self._recent: tuple[int, Guarded] | None = None
        """Positional arguments that are the plan's own, and what runs those of the latest kind."""
        self._single = not problem.returns_tuple
        self._complex = tuple(at for at, spec in enumerate(problem.outputs) if spec.in_pairs)
        self._by_kernel, self._by_original = Tally(), Tally()
        self._be_known_as(self._called())
        self._is_made = True

    def made_for(self, made: Captured) -> None:
        """Hold what the original reads against this, in place of what it read when this was made."""
        from workbench.live.watch import Watch

        self.watch = Watch(self._called, made)

    def judged_on(self, layouts: Sequence[tuple[Layout, ...]]) -> None:
        """Take tensors that lie otherwise than declared, in these layouts, besides."""
        self._layouts = frozenset(layouts)

    def _called(self) -> Callable[..., Any]:
        """The function or module behind the original."""
        called: Callable[..., Any] = (
            self.original.target if isinstance(self.original, Original) else self.original
        )
        return called

    def _be_known_as(self, called: Any) -> None:
        """A function's name, words and signature are asked of it, by ``help`` for instance."""
        if not isinstance(called, types.FunctionType):
            return
        for name in functools.WRAPPER_ASSIGNMENTS:
            object.__setattr__(self, name, getattr(called, name, None))
        self.__signature__ = inspect.signature(called)

    def _bound(self) -> Binding:
        from workbench.problem.form import Form, rebind

        called = self._called()
        return Binding(Form(called, rebind(called, self.problem)), self.problem, self._program.parameters)

    def _maker(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """Of what the original returns results in, but for a tensor or a plain tuple."""
        from workbench.problem.results import maker

        how = self.problem.returned
        try:
            return None if how is None else maker(how, self._called())
        except LookupError as error:
            raise UsageError(f"{self.problem.name}: {error}") from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Every line here is paid by every call; it is to cost less than a torch operation.
        values: Sequence[Any] = args
        try:
            if self._refresh is not None:
                self._refresh()
            state = self.watch.state
            if not state.same():
                state = self._look_again()
            if state.told:
                raise NotRun(state.told)
            recent = self._recent
            if recent is not None and not kwargs and len(args) == recent[0]:
                results = recent[1](args)
            else:
                values = self._binding(args, kwargs)
                results = recent[1](values) if recent is not None else None
            if results is None:
                results = self._by_key(values)
        except (NotRun, PlanError, DeviceError, GpuError, UsageError) as error:
            if isinstance(error, GpuError):
                self._recent = None
                self._gpu.failed(self._key_of(values), error)
            reason = str(error)
        else:
            self._by_kernel.add()
            if self._complex:
                results = self._with_complex(results)
            if self._made is not None:
                return self._made(results)
            return results[0] if self._single else results
        # Outside of "except", so that an error of the original is told without ours in front of it.
        self._by_original.add()
        self.last_fallback = reason
        return self.original(*args, **kwargs)

    def _with_complex(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        from workbench.problem.pairs import as_complex

        return tuple(as_complex(r) if at in self._complex else r for at, r in enumerate(results))

    def _look_again(self) -> State:
        """Something the original reads has changed: what, and where are its tensors now?"""
        state = self.watch.look_again()
        if not state.told:  # a layer may have been replaced by one that is alike, with tensors of its own
            self._binding, self._made = self._bound(), self._maker()
            self._recent = None
        return state

    def _by_key(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Tensors unlike the ones before."""
        try:
            key = self._key_of(values)
        except (AttributeError, RuntimeError, NotImplementedError):
            raise NotRun(self._objection(values) or "the tensors have no memory of their own") from None
        laid = self._runs.get(key)
        if laid is None:
            return self._first(key, values)
        if key == self._last_key:  # twice in a row: worth recognising
            guarded = self._gpu.guarded(key, values, laid)
            self._recent = (self._binding.plain_count, guarded) if guarded is not None else None
        self._last_key = key
        return laid.run(values)

    def _first(self, key: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        """Tensors of a kind not seen before, or one that is not for the GPU's kernel."""
        known = self._gpu.refused.get(key)
        if known is not None:
            raise NotRun(known)
        if told := self._objection(values):
            raise NotRun(told)
        tensors = dict(zip(self._binding.names, values, strict=True))
        on = values[0].device.type
        if on == "cuda" or (on == "cpu" and self._gpu.recorded):
            metas = covered_metas(self.problem, tensors)
            if told := self._never_judged(metas):
                self._gpu.refuse(key, told)
                raise NotRun(told)
            return self._gpu.decide(key, values, metas).run(values)
        if on != "cpu":
            raise NotRun(f"{self._binding.names[0]} is on {values[0].device}; the kernel is CUDA code")
        metas = check_emulated(self.problem, self._program, self._target, tensors)
        if told := self._never_judged(metas):
            raise NotRun(told)
        outputs = tuple(spec.dtype for spec in self.problem.outputs)
        return run_kernel(self.source, self._target, tensors, outputs)

    def _never_judged(self, metas: Mapping[str, TensorMeta]) -> str:
        """Why tensors that lie so are not the kernel's; the plan's own words where it turns them away."""
        layouts = unlike_declared(self.problem, metas)
        if not layouts or layouts in self._layouts:
            return ""
        try:
            interpret(self._program, metas, self._target)
        except NotCovered as error:
            return str(error)
        except PlanError:  # it calls the library: only torch knows of what
            pass
        lay = " and ".join(f"{one.tensor} has strides {metas[one.tensor].strides}" for one in layouts)
        return f"{lay}: the kernel was never judged on tensors that lie so"

    def preload(self, device: int) -> None:
        """Load code for the declared sizes into a GPU. Raises ``GpuError`` or ``DeviceError``."""
        self._gpu.preload(device, [self.problem.metas(case) for case in self.problem.cases])

    def _objection(self, values: Sequence[Any]) -> str:
        from workbench.gpu.guard import objection

        return objection(self._binding.names, values)

    @property
    def kernel_calls(self) -> int:
        """Calls answered by the kernel."""
        return self._by_kernel.count

    @property
    def fallback_calls(self) -> int:
        """Calls answered by the original."""
        return self._by_original.count

    def __getattr__(self, name: str) -> Any:
        # Parameters, training mode and the rest stay the original's.
        if name.startswith("__") or name == "original":
            raise AttributeError(name)
        return getattr(self.original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # A module's attribute set here is to be seen by the module.
        if "_is_made" not in self.__dict__ or name in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.original, name)

    def __repr__(self) -> str:
        counts = f"{self.kernel_calls} calls, {self.fallback_calls} fallbacks"
        what = "a CUDA kernel" if self.launches else "library calls of a plan"
        return f"<{self.problem.name}: {what}, {counts}>"

    @property
    def launches(self) -> bool:
        """False where the plan only calls what torch has."""
        return self._program.launches


def _follows(original: Any) -> bool:
    return isinstance(original, Original) and bool(original.followed)


class Tally:
    """A count that many threads add to without a lock."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.add: Callable[[], int] = self._numbers.__next__
        self._read = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How often ``add`` was called. Looking takes a number too, which is deducted."""
        with self._lock:
            self._read += 1
            return next(self._numbers) - self._read + 1


# ------------------------------------------------------------------------------------ the guard


def covered_metas(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, TensorMeta]:
    """The tensors' metadata. Raises ``NotRun`` where the problem is not about such tensors."""
    metas = {name: meta_of(tensor) for name, tensor in tensors.items()}
    sizes: dict[str, int] = {}
    for spec in problem.tensors:
        _bind_sizes(spec, metas[spec.name], sizes)
    for spec in problem.tensors:
        _check_sizes(spec, metas[spec.name], sizes)
    return metas


def check_emulated(
    problem: Problem, program: Program, gpu: Target, tensors: Mapping[str, Tensor]
) -> dict[str, TensorMeta]:
    """The tensors' metadata. Raises ``NotRun`` or ``PlanError`` where the emulator is not to run them."""
    metas = covered_metas(problem, tensors)
    refuse_empty(metas)
    elements = sum(meta.numel for meta in metas.values())
    if elements > EMULATED_ELEMENTS:
        raise NotRun(f"{elements:,} elements are too many for the emulator; a GPU is needed")
    if not program.uses_library:
        interpret(program, metas, gpu)
    return metas


def refuse_empty(metas: Mapping[str, TensorMeta]) -> None:
    """Raises ``NotRun`` for tensors without elements: a grid of no blocks cannot be launched."""
    for name, meta in metas.items():
        if meta.numel == 0:
            raise NotRun(f"{name} is empty, shape {meta.shape}: there is nothing to launch a kernel for")


def _bind_sizes(spec: TensorSpec, meta: TensorMeta, sizes: dict[str, int]) -> None:
    if meta.dtype != spec.dtype or len(meta.shape) != len(spec.dims):
        raise NotRun(
            f"{spec.name} is {meta.dtype} with {len(meta.shape)} axes; "
            f"the kernel was made for {spec.dtype} with {len(spec.dims)}"
        )
    for dim, size in zip(spec.dims, meta.shape, strict=True):
        if isinstance(dim, str) and dim.isidentifier():
            sizes.setdefault(dim, size)


def _check_sizes(spec: TensorSpec, meta: TensorMeta, sizes: Mapping[str, int]) -> None:
    try:
        expected = tuple(size_of(dim, sizes) for dim in spec.dims)
    except KeyError as error:
        raise NotRun(f"{spec.name}: its size {error} cannot be told from the arguments") from None
    if expected != meta.shape:
        raise NotRun(f"{spec.name} has shape {meta.shape}; the kernel was made for {expected}")
