"""What stands behind a name after ``%cuda_apply``: the kernel where its guard allows, else the original.

Owns the guard and the two counts. Imports torch only when it is called.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.errors import DeviceError, GpuError, PlanError
from workbench.live.binding import Binding
from workbench.live.kernel_call import NotRun, meta_of, run_kernel
from workbench.model import Problem, Target, TensorMeta, TensorSpec, size_of
from workbench.plan.interpret import interpret
from workbench.plan.parse import Program, parse

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.gpu.driver import Driver
    from workbench.gpu.program import Guarded

EMULATED_ELEMENTS = 2**20
"""Most elements of inputs and outputs together for which the emulator is used in place of a GPU."""


class Original:
    """The reference of a cell under its own name; built when it is first called.

    ``problem`` may wait until the cell is read, and raise ``ProblemError``.
    """

    def __init__(self, problem: Callable[[], Problem]) -> None:
        self._problem = problem
        self._target: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)

    @property
    def target(self) -> Callable[..., Any]:
        """The function or module itself. Raises ``ProblemError`` when the cell no longer runs."""
        if self._target is None:
            from workbench.problem.reference import Reference

            problem = self._problem()
            with random_state_kept():
                self._target = Reference(problem).form.target
        return self._target

    def __repr__(self) -> str:
        return f"<the original: {self._target or 'not called yet'}>"


def original_of(problem: Problem) -> Any:
    """The original a cell defines: a stand-in for a function or an instance, a module class itself."""
    if problem.kind not in ("module_class", "kernelbench"):
        return Original(lambda: problem)
    from workbench.problem.running import run_source

    with random_state_kept():
        return run_source(problem.source, problem.payload, (problem.entry,))[problem.entry]


class Applied:
    """A drop-in for the original: same arguments, same result, two counts.

    CUDA tensors stay where they are and the kernel runs on the caller's current stream; CPU tensors go
    through the emulator. ``kernel_calls`` and ``fallback_calls`` count; ``last_fallback`` says why the
    original ran last. Safe to call from many threads and, once called with the same shapes, while a CUDA
    graph is captured.
    """

    def __init__(
        self, original: Any, problem: Problem, source: str, target: Target, driver: Driver | None = None
    ) -> None:
        from workbench.gpu.guard import key_of
        from workbench.live.gpu_calls import GpuCalls
        from workbench.problem.form import Form, rebind

        self.original = original
        self.problem = problem
        self.source = source
        self.last_fallback = ""
        called = original.target if isinstance(original, Original) else original
        self._target = target
        self._program = parse(source)
        self._binding = Binding(Form(called, rebind(called, problem)), problem, self._program.parameters)
        self._gpu = GpuCalls(self._program, source, target, driver)
        self._runs, self._key_of = self._gpu.runs, key_of
        self._last_key: Any = None
        self._recent: tuple[int, Guarded] | None = None
        """Positional arguments that are the plan's own, and what runs those of the latest kind."""
        self._single = not problem.returns_tuple
        self._by_kernel, self._by_original = Tally(), Tally()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Every line here is paid by every call; it is to cost less than a torch operation.
        values: Sequence[Any] = args
        try:
            recent = self._recent
            if recent is not None and not kwargs and len(args) == recent[0]:
                results = recent[1](args)
            else:
                values = self._binding(args, kwargs)
                results = recent[1](values) if recent is not None else None
            if results is None:
                results = self._by_key(values)
        except (NotRun, PlanError, DeviceError, GpuError) as error:
            if isinstance(error, GpuError):
                self._recent = None
                self._gpu.failed(self._key_of(values), error)
            self._by_original.add()
            self.last_fallback = str(error)
            return self.original(*args, **kwargs)
        self._by_kernel.add()
        return results[0] if self._single else results

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
            return self._gpu.decide(key, values, metas).run(values)
        if on != "cpu":
            raise NotRun(f"{self._binding.names[0]} is on {values[0].device}; the kernel is CUDA code")
        check_emulated(self.problem, self._program, self._target, tensors)
        outputs = tuple(spec.dtype for spec in self.problem.outputs)
        return run_kernel(self.source, self._target, tensors, outputs)

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

    def __repr__(self) -> str:
        counts = f"{self.kernel_calls} calls, {self.fallback_calls} fallbacks"
        return f"<{self.problem.name}: a CUDA kernel, {counts}>"


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


def check_emulated(problem: Problem, program: Program, gpu: Target, tensors: Mapping[str, Tensor]) -> None:
    """Raises ``NotRun`` or ``PlanError`` where the kernel does not cover the tensors on the emulator."""
    metas = covered_metas(problem, tensors)
    refuse_empty(metas)
    elements = sum(meta.numel for meta in metas.values())
    if elements > EMULATED_ELEMENTS:
        raise NotRun(f"{elements:,} elements are too many for the emulator; a GPU is needed")
    if not program.uses_library:
        interpret(program, metas, gpu)


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


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Building a reference seeds the generators; the notebook's own state comes back afterwards."""
    import numpy
    import torch

    torch_state, numpy_state = torch.get_rng_state(), numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        numpy.random.set_state(numpy_state)
