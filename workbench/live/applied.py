"""What stands behind a name after ``%cuda_apply``: the kernel where its guard allows, else the original.

Owns the guard and the two counts. Imports torch only when it is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.errors import DeviceError, PlanError
from workbench.live.kernel_call import NotRun, meta_of, run_kernel
from workbench.model import Problem, Target, TensorMeta, TensorSpec, size_of
from workbench.plan.interpret import interpret
from workbench.plan.parse import Program, parse

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.problem.form import Form

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

    ``kernel_calls`` and ``fallback_calls`` count; ``last_fallback`` says why the original ran last.
    """

    def __init__(self, original: Any, problem: Problem, source: str, target: Target) -> None:
        from workbench.problem.form import Form, rebind

        self.original = original
        self.problem = problem
        self.source = source
        self.kernel_calls = 0
        self.fallback_calls = 0
        self.last_fallback = ""
        called = original.target if isinstance(original, Original) else original
        self._gpu = target
        self._form = Form(called, rebind(called, problem))
        self._program = parse(source)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            tensors = named_tensors(self._form, self.problem, args, kwargs)
            check_covered(self.problem, self._program, self._gpu, tensors)
            results = run_kernel(
                self.source, self._gpu, tensors, tuple(spec.dtype for spec in self.problem.outputs)
            )
        except (NotRun, PlanError, DeviceError) as error:
            self.fallback_calls += 1
            self.last_fallback = str(error)
            return self.original(*args, **kwargs)
        self.kernel_calls += 1
        return results if self.problem.returns_tuple else results[0]

    def __getattr__(self, name: str) -> Any:
        # Parameters, training mode and the rest stay the original's.
        if name.startswith("__") or name == "original":
            raise AttributeError(name)
        return getattr(self.original, name)

    def __repr__(self) -> str:
        counts = f"{self.kernel_calls} calls, {self.fallback_calls} fallbacks"
        return f"<{self.problem.name}: a CUDA kernel, {counts}>"


# ------------------------------------------------------------------------------------ the guard


def named_tensors(
    form: Form, problem: Problem, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The problem's tensors by name, out of a call's arguments and what the original holds.

    Raises ``NotRun`` for a call the kernel was not made for.
    """
    given = _arguments(form, args, kwargs)
    tensors: dict[str, Tensor] = {}
    for spec in problem.tensors:
        value = form.held[spec.name].value if spec.role != "input" else given.get(spec.name)
        tensors[spec.name] = _fit_tensor(spec.name, value)
    for static in problem.statics:
        if static.name in given and given[static.name] != static.value:
            raise NotRun(f"{static.name} is {given[static.name]!r}; the kernel was made for {static.value!r}")
    return tensors


def _arguments(form: Form, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the problem's names; arguments left out have their defaults."""
    called = form.target.forward if hasattr(form.target, "forward") else form.target
    by_name: dict[str, Any] = {}
    positional = list(args)
    try:
        bound = inspect.signature(called).bind(*args, **kwargs)
        bound.apply_defaults()
        by_name = bound.arguments
    except TypeError as error:
        raise NotRun(f"the arguments do not fit: {error}") from None
    except ValueError:  # a function that does not tell its parameters
        by_name = dict(kwargs)
    found = {}
    for argument in form.arguments:
        if argument.keyword:
            found[argument.name] = by_name.get(argument.keyword)
        elif positional:
            found[argument.name] = positional.pop(0)
    return found


def _fit_tensor(name: str, value: Any) -> Tensor:
    import torch

    if not isinstance(value, torch.Tensor):
        raise NotRun(f"{name} is {type(value).__name__}, not a tensor")
    if value.device.type != "cpu":
        raise NotRun(f"{name} is on {value.device}; without a GPU worker the kernel takes CPU tensors")
    if value.layout != torch.strided:
        raise NotRun(f"{name} is {value.layout}; the kernel takes strided tensors")
    if value.requires_grad and torch.is_grad_enabled():
        raise NotRun(f"{name} requires a gradient; the kernel has no backward. Use torch.no_grad()")
    return value


def check_covered(
    problem: Problem, program: Program, gpu: Target, tensors: Mapping[str, Tensor]
) -> dict[str, TensorMeta]:
    """The tensors' metadata. Raises ``NotRun`` or ``PlanError`` where the kernel does not cover them."""
    metas = {name: meta_of(tensor) for name, tensor in tensors.items()}
    sizes: dict[str, int] = {}
    for spec in problem.tensors:
        _bind_sizes(spec, metas[spec.name], sizes)
    for spec in problem.tensors:
        _check_sizes(spec, metas[spec.name], sizes)
    elements = sum(meta.numel for meta in metas.values())
    if elements > EMULATED_ELEMENTS:
        raise NotRun(f"{elements:,} elements are too many for the emulator; a GPU is needed")
    if not program.uses_library:
        interpret(program, metas, gpu)
    return metas


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
