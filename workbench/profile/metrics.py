"""The few counters that tell where time goes, out of the thousands a GPU has, and our names for them.

Owns the list. The unit stands at the end of our names. Names of counters follow the Nsight Compute
Profiling Guide, "Metrics Structure" and "Metrics Reference".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One counter: our name, Nsight Compute's, and what its base unit is multiplied with."""

    name: str
    counter: str
    scale: float = 1.0


_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS: Mapping[str, str] = {
    "long_scoreboard": "for global memory",
    "short_scoreboard": "for shared memory or special functions",
    "barrier": "at __syncthreads for other warps",
    "math_pipe_throttle": "for a busy arithmetic unit",
    "mio_throttle": "for the queue to shared memory and special functions",
    "lg_throttle": "for the queue to global memory",
    "wait": "for the fixed latency of the instruction before",
    "not_selected": "though ready: another warp was chosen",
    "drain": "for their last stores to leave",
}
"""Reason as the counter names it, and in words after ``warps wait``."""

METRICS = (
    Metric("time_us", "gpu__time_duration.sum", 1e-3),
    Metric("dram_percent", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    Metric("dram_read_bytes", "dram__bytes_read.sum"),
    Metric("dram_write_bytes", "dram__bytes_write.sum"),
    Metric("l2_percent", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    Metric("l2_hit_percent", "lts__t_sector_hit_rate.pct"),
    Metric("l1_hit_percent", "l1tex__t_sector_hit_rate.pct"),
    Metric(
        "load_sectors_per_request", "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
    ),
    Metric(
        "store_sectors_per_request", "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
    ),
    Metric("load_bytes_per_sector", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"),
    Metric("store_bytes_per_sector", "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio"),
    Metric("sm_percent", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    Metric("issue_percent", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
    Metric("tensor_pipe_percent", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
    Metric("special_function_percent", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"),
    Metric("occupancy_percent", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    Metric("occupancy_limit_percent", "sm__maximum_warps_per_active_cycle_pct"),
    Metric("waves", "launch__waves_per_multiprocessor"),
    Metric("registers", "launch__registers_per_thread"),
    Metric("blocks_by_registers", "launch__occupancy_limit_registers"),
    Metric("blocks_by_shared", "launch__occupancy_limit_shared_mem"),
    Metric("blocks_by_warps", "launch__occupancy_limit_warps"),
    Metric("active_threads_per_instruction", "smsp__thread_inst_executed_per_inst_executed.ratio"),
    Metric("bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
    Metric("shared_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
    Metric("local_loads", "smsp__inst_executed_op_local_ld.sum"),
    *(Metric(f"stall_{reason}", _STALL.format(reason)) for reason in STALLS),
)
BY_COUNTER: Mapping[str, Metric] = {metric.counter: metric for metric in METRICS}
