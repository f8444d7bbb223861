"""From what was seen to an outcome, one question a function. Pure but for comparing tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from workbench.emulator.buffers import bits, same_bits
from workbench.foreign.protocol import Called, Followed, RaisedInside, Weighed
from workbench.foreign.values import Provenance
from workbench.model import (
    DTYPE_BYTES,
    Crashed,
    Diagnostic,
    Difference,
    DType,
    Hazard,
    LaunchFailed,
    Mismatch,
    Outcome,
    Suspect,
    contiguous_strides,
)
from workbench.numerics.bounds import in_expected_order
from workbench.numerics.compare import compare
from workbench.referee.expectation import Expectation
from workbench.referee.gpu_faults import fault_of

FILE = "solution.py"
POISON = 255
"""Every byte of the places that the solution's process is to fill: NaN for floats."""


def diagnostic(message: str, line: int = 0) -> Diagnostic:
    """A message at a line of the solution."""
    return Diagnostic(file=FILE, line=line, message=message)


def diagnostics(raised: RaisedInside) -> tuple[Diagnostic, ...]:
    """An exception of the solution as a compiler's message."""
    lines = raised.message.strip().splitlines() or [""]
    errors = [line for line in lines if "error" in line.lower()]
    return (diagnostic(f"{raised.type}: {(errors or lines)[0][:300]}", raised.line),)


def failed(raised: RaisedInside, case: str) -> LaunchFailed | Crashed:
    """``forward`` raised where it may not; an error that breaks the GPU's context is a crash."""
    fault = fault_of(RuntimeError(raised.message)) if "CUDA" in raised.message else None
    if fault is not None and fault.lost:
        return Crashed(case=case, message=f"{fault.message}, seen at line {raised.line}")
    return LaunchFailed(case=case, diagnostics=diagnostics(raised))


def weights(weighed: Weighed, case: str) -> Outcome | None:
    """Parameters must be there under the reference's names."""
    if weighed.missing:
        told = f"ModelNew has no {', '.join(weighed.missing[:5])}: name its parameters as the reference does"
        return LaunchFailed(case=case, diagnostics=(diagnostic(told),))
    if weighed.unlike:
        told = f"parameters of ModelNew differ from the reference's: {'; '.join(weighed.unlike[:3])}"
        return LaunchFailed(case=case, diagnostics=(diagnostic(told),))
    return None


def form(called: Called, slots: Sequence[dict[str, Any]], case: str, device: str) -> Mismatch | None:
    """Number, type, shape, dtype, device and ancestry of the outputs."""
    if len(called.outputs) != len(slots):
        told = f"it returns {len(called.outputs)} outputs, the reference {len(slots)}"
        return Mismatch(case=case, message=told)
    for number, (found, slot) in enumerate(zip(called.outputs, slots, strict=True)):
        where = f"output {number}" if len(slots) > 1 else "the output"
        told = ""
        if found.type != "torch.Tensor":
            told = f"is {found.type}, not a plain torch.Tensor"
        elif list(found.shape) != slot["shape"]:
            told = f"has shape {tuple(found.shape)}, not {tuple(slot['shape'])}"
        elif found.dtype != slot["torch"]:
            told = f"is {found.dtype}, not {slot['torch']}"
        elif found.device != device:
            told = f"lies on {found.device}, not on {device}"
        elif found.view_of:
            told = f"shares the memory of {found.view_of}"
        elif found.overlaps:
            told = f"has elements that share memory (strides {found.strides})"
        if told:
            return Mismatch(case=case, message=f"{where} {told}")
    return None


def wires(called: Called) -> Suspect | None:
    """Replaced functions and settings that change numbers."""
    if called.replaced:
        return Suspect(message=f"the solution replaced {', '.join(called.replaced[:5])}")
    if called.precision:
        return Suspect(message=f"the solution changed a global setting: {'; '.join(called.precision[:3])}")
    return None


def remarks(called: Called) -> Iterator[str]:
    """Not wrong, but worth saying."""
    for change in called.settings:
        yield f"the solution changed {change}"
    for found in called.outputs:
        if found.type == "torch.Tensor" and found.strides != contiguous_strides(found.shape):
            yield "an output is not contiguous"


def inputs_back(name: str, case: str, back: Tensor, sent: Tensor) -> Outcome | None:
    """An input must come back as it went; a place that was never written shows a forged answer."""
    if same_bits((back,), (sent,)):
        return None
    if bool((bits(back).flatten().view(torch.uint8) == POISON).all()):
        return Suspect(message="an answer came without the inputs the harness sends back: it was forged")
    told = f"the solution writes to its input {name}"
    return Hazard(hazard="input_written", case=case, line=None, message=told)


def nbytes(dtype: DType, shape: Sequence[int]) -> int:
    """Size of an output."""
    return math.prod(shape) * DTYPE_BYTES[dtype]


def differences(got: Sequence[Tensor], expected: Expectation) -> tuple[Difference, ...]:
    """Every output against its bound."""
    pairs = zip(in_expected_order(got, expected.bounds), expected.bounds, strict=True)
    return tuple(compare(t, limit, n) for n, (t, limit) in enumerate(pairs))


def mismatch(found: Sequence[Difference], case: str, when: str) -> Mismatch | None:
    """The worst output that is out of its bound, in a sentence."""
    wrong = [d for d in found if d.max_ratio > 1]
    if not wrong:
        return None
    worst = max(wrong, key=lambda d: d.max_ratio)
    first = worst.worst[0]
    share = f"{worst.wrong_fraction:.0%}" if worst.wrong_fraction >= 0.01 else "under 1%"
    told = (
        f"{share} of the elements are wrong {when} ({worst.pattern}); "
        f"at {first.index} expected {first.expected:.6g}, got {first.got:.6g}"
    )
    return Mismatch(case=case, message=told)


def ghost(provenance: Provenance) -> Suspect | None:
    """A solution that brings a kernel and never runs it is not what it says.

    On a GPU it is the kernels that count: a host function of its own that calls a library is no kernel.
    """
    if provenance.clock == "blind":
        return None
    kernels = provenance.clock == "device" and bool(provenance.defined)
    ran = provenance.own_kernels if kernels else (*provenance.own_calls, *provenance.own_kernels)
    if ran or not (kernels or provenance.claims):
        return None
    shares = [share for share in provenance.shares if share.kind == "library"]
    told = provenance.sentence if kernels else "nothing else was seen"
    if shares and not kernels:
        told = f"{shares[0].name} does {shares[0].percent:.0f}% of the time"
    claimed = ", ".join(provenance.defined if kernels else provenance.claims)
    return Suspect(message=f"its text brings a kernel ({claimed}), and none of its own code ran: {told}")


def unjoined(followed: Followed) -> Suspect | None:
    """Whoever reads a result on the stream of the call must find it there."""
    if not followed.late:
        return None
    return Suspect(
        message=f"{followed.late[:120]} ended {followed.late_us:.0f} us after the caller's stream was free "
        "to go on: it runs on a stream that this one does not wait for; call "
        "torch.cuda.current_stream().wait_stream(side) before forward returns"
    )
