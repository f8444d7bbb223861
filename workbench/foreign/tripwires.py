"""What the solution's process can say about itself: flags, replaced functions, what an output is.

Owns the facts, never the verdict. They come from the very process that is distrusted: a solution that
goes to war with this module can silence it, and gains nothing but silence, because right and wrong are
settled outside. Functions are held before the solution is imported, so that replacing them is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

STORAGE: Callable[[Tensor], Any] = Tensor.untyped_storage
PRECISION_FLAGS: Mapping[str, Callable[[], Any]] = {
    "torch.get_default_dtype()": torch.get_default_dtype,
    "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision,
    "torch.backends.cuda.matmul.allow_tf32": lambda: torch.backends.cuda.matmul.allow_tf32,
    "torch.backends.cudnn.allow_tf32": lambda: torch.backends.cudnn.allow_tf32,
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": (
        lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ),
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
        lambda: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    ),
    "torch.is_autocast_enabled('cuda')": lambda: torch.is_autocast_enabled("cuda"),
    "torch.is_autocast_enabled('cpu')": lambda: torch.is_autocast_enabled("cpu"),
    "active torch function modes": lambda: torch._C._len_torch_function_stack(),
    "active torch dispatch modes": lambda: torch._C._len_torch_dispatch_stack(),
}
"""Settings that change what numbers come out, here or in whatever runs next in the process."""
OTHER_FLAGS: Mapping[str, Callable[[], Any]] = {
    "torch.backends.cudnn.benchmark": lambda: torch.backends.cudnn.benchmark,
    "torch.backends.cudnn.deterministic": lambda: torch.backends.cudnn.deterministic,
    "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled,
    "torch.is_grad_enabled()": torch.is_grad_enabled,
    "torch.get_num_threads()": torch.get_num_threads,
}

_WATCHED: tuple[tuple[Any, str, str], ...] = (
    (torch, "torch", "allclose equal isclose empty zeros randn"),
    (torch.testing, "torch.testing", "assert_close"),
    (torch.cuda, "torch.cuda", "synchronize Event Stream current_stream"),
    (torch.cuda.Event, "torch.cuda.Event", "record elapsed_time synchronize"),
    (Tensor, "torch.Tensor", "copy_ clone cpu to numpy data_ptr detach equal allclose untyped_storage"),
    (nn.Module, "torch.nn.Module", "__call__ load_state_dict state_dict to"),
    (time, "time", "time perf_counter perf_counter_ns monotonic sleep"),
)
_ORIGINAL = {
    (place, name): getattr(owner, name) for owner, place, names in _WATCHED for name in names.split()
}


def flags() -> dict[str, str]:
    """Settings that matter for precision, as text."""
    return _read(PRECISION_FLAGS)


def other_flags() -> dict[str, str]:
    """Settings that only change speed or bookkeeping."""
    return _read(OTHER_FLAGS)


def _read(settings: Mapping[str, Callable[[], Any]]) -> dict[str, str]:
    found = {}
    for name, read in settings.items():
        try:
            found[name] = str(read())
        except RuntimeError:  # torch refuses to read a setting that was made in two ways
            found[name] = "a mixture"
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """``name from a to b`` for every flag that differs."""
    return [f"{name} from {before[name]} to {after[name]}" for name in before if before[name] != after[name]]


def replaced() -> list[str]:
    """Watched functions that are no longer the ones torch and Python came with."""
    now = {(place, name): getattr(owner, name) for owner, place, names in _WATCHED for name in names.split()}
    return [f"{place}.{name}" for (place, name), found in now.items() if found is not _ORIGINAL[place, name]]


def outputs_of(returned: Any) -> list[Any]:
    """What ``forward`` returned as a list of outputs."""
    return list(returned) if type(returned) in (tuple, list) else [returned]


def describe(output: Any, known: Iterable[tuple[str, Tensor]]) -> dict[str, Any]:
    """Type, layout and ancestry of one output; ``known`` are inputs and parameters by name."""
    if type(output) is not Tensor:
        kind = type(output)
        return {"type": f"{kind.__module__}.{kind.__qualname__}"[:200]}
    if output.layout is not torch.strided or output.is_quantized:
        return {"type": f"a {output.layout} tensor"}
    where = STORAGE(output).data_ptr()
    return {
        "type": "torch.Tensor",
        "dtype": str(output.dtype),
        "shape": list(output.shape),
        "strides": list(output.stride()),
        "device": output.device.type,
        "overlaps": overlaps(output),
        "view_of": next((name for name, t in known if where and STORAGE(t).data_ptr() == where), ""),
    }


def overlaps(tensor: Tensor) -> bool:
    """True when several elements share one place in memory, as after ``expand``."""
    axes = sorted(
        (stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    )
    reach = 1
    for stride, size in axes:
        if stride < reach:
            return bool(tensor.numel())
        reach = stride * (size - 1) + reach
    return False
