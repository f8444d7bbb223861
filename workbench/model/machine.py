"""The GPU that kernels are written for."""

from __future__ import annotations

from workbench.model.value import Value


class Target(Value):
    """The GPU a kernel is written for; every figure names its unit."""

    name: str
    arch: str
    """Architecture NVRTC compiles for, such as ``sm_90a``."""
    sm_count: int
    dram_bytes_per_s: float
    """Bandwidth a plain copy reaches, bytes read plus bytes written."""
    fp32_flops_per_s: float
    l2_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    launch_us: float
    """Device-side cost of one launch, microseconds."""
    dram_latency_ns: float
    dram_bytes: int = 80_000_000_000
    """Memory of the card, which arguments and buffers of a plan share."""
    meeting_us: float = 0.66
    """A barrier of the whole grid: an arrival's way to L2, and the news of the last one's way back."""
    arrival_us: float = 0.0048
    """What each block's arrival there adds: they follow one another at one counter. Set with softmax of a row
    of 1,048,576 on an H100: 8.8, 8.0 and 8.6 us with 132, 264 and 528 blocks, 1.3, 1.9 and 3.2 of it here."""

    def meeting_of(self, blocks: int) -> float:
        """Microseconds until all blocks of a cooperative launch know that all have come."""
        return self.meeting_us + self.arrival_us * blocks


H100 = Target(
    name="NVIDIA H100 80GB HBM3",
    arch="sm_90a",
    sm_count=132,
    dram_bytes_per_s=3.03e12,  # measured copy bandwidth, docs/notes/2026-11-21-model-of-time.md
    fp32_flops_per_s=60e12,
    l2_bytes=50 * 2**20,
    shared_bytes_per_block=227 * 1024,
    shared_bytes_per_sm=228 * 1024,
    registers_per_sm=65536,
    threads_per_sm=2048,
    blocks_per_sm=32,
    launch_us=2.5,
    dram_latency_ns=600.0,
)
