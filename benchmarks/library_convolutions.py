"""cuDNN's convolutions in IEEE float32, four ways: as PyTorch calls them, algorithms tried, channels last.

    WORKBENCH_RECEIPTS=out python benchmarks/library_convolutions.py

Needs a GPU. A row is a convolution without a bias: microseconds of each way, the median of five calls by CUDA
events, and the largest difference from the first way, over the largest result. Writes ``convolutions.json``.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

SHAPES: tuple[tuple[tuple[int, ...], int, int, int, int, bool], ...] = (
    ((128, 8, 128, 128), 64, 3, 1, 0, False),
    ((32, 64, 128, 128), 128, 3, 1, 0, False),
    ((64, 64, 56, 56), 64, 3, 1, 1, False),
    ((64, 64, 56, 56), 128, 3, 2, 1, False),
    ((64, 256, 28, 28), 256, 3, 1, 1, False),
    ((64, 3, 224, 224), 32, 3, 2, 1, False),
    ((128, 3, 16, 32, 32), 16, 3, 1, 0, False),
    ((256, 3, 16, 32, 32), 16, 4, 1, 0, False),
    ((64, 8, 32, 64, 64), 32, 3, 1, 0, False),
    ((64, 64, 64, 64), 128, 4, 2, 1, True),
    ((32, 32, 16, 32, 32), 64, 3, 2, 1, True),
    ((8, 64, 32, 32, 32), 128, 3, 1, 0, True),
)
"""Input, channels made, window, stride, padding, transposed."""
WAYS = {
    "as called": (False, False),
    "tried": (True, False),
    "channels last": (False, True),
    "channels last, tried": (True, True),
}


def call_of(shape: tuple[int, ...], stride: int, padding: int, turned: bool) -> Callable[..., Tensor]:
    """The operation on an input and its weights."""
    name = f"conv{'_transpose' if turned else ''}{len(shape) - 2}d"
    operation = getattr(F, name)
    return lambda x, weight: operation(x, weight, None, stride, padding)


def microseconds(call: Callable[[], Tensor]) -> float:
    """Median of five calls, after two that warm up."""
    for _ in range(2):
        call()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(6)]
    torch.cuda.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return 1e3 * statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks))


def row_of(
    shape: tuple[int, ...], made: int, window: int, stride: int, padding: int, turned: bool
) -> dict[str, object]:
    """Times of one convolution."""
    sides = len(shape) - 2
    last = torch.channels_last if sides == 2 else torch.channels_last_3d
    channels = (shape[1], made) if turned else (made, shape[1])
    x = torch.randn(shape, device="cuda")
    weight = 0.05 * torch.randn(*channels, *([window] * sides), device="cuda")
    call = call_of(shape, stride, padding, turned)
    expected = call(x, weight)
    row: dict[str, object] = {
        "input": shape,
        "made": made,
        "window": window,
        "stride": stride,
        "padding": padding,
        "transposed": turned,
    }
    for way, (tried, by_channel) in WAYS.items():
        torch.backends.cudnn.benchmark = tried
        layout = last if by_channel else torch.contiguous_format
        own, weights = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)
        row[way] = round(microseconds(lambda own=own, weights=weights: call(own, weights)), 1)  # type: ignore[misc]
        apart = (call(own, weights) - expected).abs().max() / expected.abs().max()
        row[f"{way}, apart"] = float(f"{apart.item():.1e}")
    torch.backends.cudnn.benchmark = False
    return row


def main() -> None:
    """See the module."""
    torch.backends.cudnn.allow_tf32 = False
    rows = []
    with torch.no_grad():
        for shape in SHAPES:
            rows.append(row_of(*shape))
            print(rows[-1], flush=True)
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
    out = Path(os.environ.get("WORKBENCH_RECEIPTS", "out"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "convolutions.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
