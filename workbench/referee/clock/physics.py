"""What no honest kernel can go below at one case, from the problem and the card. Pure."""

from __future__ import annotations

from workbench.model import (
    DTYPE_BYTES,
    EMULATED_OVER_FP32,
    Case,
    OpNode,
    Problem,
    Target,
    fastest_over_fp32,
    over_fp32,
)
from workbench.plan.overlap import distinct_elements
from workbench.referee.clock.options import Physics
from workbench.referee.least_bytes import written_bytes
from workbench.referee.least_operations import needed_products
from workbench.referee.needed import Part, restricted
from workbench.referee.work import FREE, Sized, references

OVER_COPY = 1.12
"""Peak of the memory over what a copy reaches: 3.35 TB/s against 3.03 on an H100. A copy that was measured in
a bad moment says too little (2.63 once): where the driver tells the peak, that counts."""
TRANSFORMED_OVER_FP32 = 1.12
"""The same for products of transformed tiles, which Winograd's and FFT's convolutions are made of. Those of
float32 are done in float32 (67 of 60 TFLOP/s): no library emulates them, and one that did would have to reach
three quarters of the emulation's peak with its transforms.
docs/notes/2026-11-22-least-of-a-convolution.md"""
_PARTIAL = """
embedding gather index index_select take take_along_dim masked_select slice select narrow as_strided split
split_with_sizes chunk unbind diagonal where masked_fill nll_loss nll_loss_forward nll_loss2d_forward unfold
grid_sampler_2d tril triu max_pool2d_with_indices upsample_nearest2d upsample_bilinear2d convolution
full_like zeros_like ones_like empty_like
"""
PARTIAL = frozenset(_PARTIAL.split())
"""Operations that may leave parts of a tensor unread: such a tensor is not counted."""
ELEMENTWISE = frozenset("add sub mul div neg _to_copy convert_element_type exp tanh sigmoid relu".split())  # noqa: SIM905
"""Operations that often stand before such a one, and read of a tensor what is read of their result: scores
are scaled before the later ones are hidden."""


def physics_of(problem: Problem, case: Case, target: Target, dram_peak_bytes_per_s: float = 0.0) -> Physics:
    """The bound for cold caches: what of the outputs L2 can hold need not reach memory in time.

    ``dram_peak_bytes_per_s`` is what the driver says of the memory bus; 0 where it does not.
    """
    read = sum(_needed(problem, case).values())
    written = written_bytes(problem, case)
    unit = fastest_over_fp32(problem.contract, 4)
    return Physics(
        dram_bytes=float(read + max(0, written - target.l2_bytes)),
        dram_bytes_per_s=max(OVER_COPY * target.dram_bytes_per_s, dram_peak_bytes_per_s),
        flops=sum(unit * part * _shortest(problem, one) for one, part in needed_products(problem, case)),
        flops_per_s=unit * target.fp32_flops_per_s,
    )


def _shortest(problem: Problem, one: Sized) -> float:
    """A product by its shortest way, in operations of float32's units."""
    plain = over_fp32(problem.contract, one.exact_bytes)
    unit, transformed = (EMULATED_OVER_FP32, TRANSFORMED_OVER_FP32) if plain == 1.0 else (plain, plain)
    return one.fewest_flops(unit / transformed) / unit


def _needed(problem: Problem, case: Case) -> dict[str, int]:
    """Bytes of every tensor argument that the result depends on as a whole, or on so much of it."""
    readers: dict[str, list[OpNode]] = {}
    for node in problem.graph.nodes:
        for ref in references(node):
            readers.setdefault(ref.ref, []).append(node)

    returned = {ref.ref for ref in problem.graph.outputs}

    def whole(name: str) -> bool:
        return any(counts(node.base_name, node.name) for node in readers.get(name, ()))

    def counts(op: str, result: str) -> bool:
        if op in PARTIAL:
            return False
        if op in ELEMENTWISE:
            return result in returned or whole(result)
        return op not in FREE or whole(result)

    parts, found = restricted(problem, case), {}
    for name, meta in problem.metas(case).items():
        all_of_it = distinct_elements(meta)
        part = parts.get(name, Part((all_of_it,), all_of_it))
        if part is not None and whole(name):
            found[name] = min(part.least, all_of_it) * DTYPE_BYTES[meta.dtype]
    return found
