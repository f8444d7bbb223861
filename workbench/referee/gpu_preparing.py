"""Makes what every kernel of a problem is held against, in the process that holds the GPU.

Inputs, float64 bounds and the reference's first calls are had while the first kernel is still being written.
Owns nothing that lasts: what is made is kept by ``Expectations``, and looked at again before it is used.
"""

from __future__ import annotations

import time

import torch

from workbench.numerics.precision import precision
from workbench.referee import matrix
from workbench.referee.gpu_expectation import Expectations
from workbench.referee.gpu_faults import fault_of
from workbench.referee.gpu_protocol import PrepareReport, PrepareRequest


def prepared(request: PrepareRequest, expectations: Expectations) -> PrepareReport:
    """Whatever fails is in the report, and fails again, with a better name, when a kernel is judged."""
    started = time.perf_counter()
    try:
        with torch.no_grad(), precision(request.problem.contract):
            made = _prepared(request, expectations)
    except Exception as error:
        fault = fault_of(error)
        return PrepareReport(machine=str(error)[:200], lost=fault is not None and fault.lost)
    return PrepareReport(checks=made, seconds=time.perf_counter() - started)


def _prepared(request: PrepareRequest, expectations: Expectations) -> int:
    """Every small check, and one that is judged slice by slice, with the reference in the kernel's place."""
    made = 0
    for planned in matrix.checks_on_gpu(request.trials, request.options, request.problem.own_inputs):
        expected = expectations.prepare(planned)
        if expected is None:
            continue
        outputs = expectations.reference.call(expected.tensors)
        expectations.differences(expected, outputs)
        made += 1
        if not expected.bounds:
            break  # larger ones are not kept: they are made anew for every kernel
    return made
