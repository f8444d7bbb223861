"""Sectors, wavefronts and bytes are counted exactly, at the source line that caused them."""

import torch
from launching import Out, Shape, line_of, run

from workbench.emulator.execute import Execution
from workbench.model import AccessSite, Counts


def counts(execution: Execution) -> Counts:
    assert execution.report.hazards == ()
    assert execution.report.counts is not None
    return execution.report.counts


def site(found: Counts, line: int, kind: str) -> AccessSite:
    (match,) = [s for s in found.sites if (s.line, s.kind) == (line, kind)]
    return match


def test_coalesced_copy() -> None:
    n = 1 << 14
    found = counts(
        run("copy.cu:copy_coalesced", Shape(n // 256, 256), {"x": torch.ones(n), "y": Out((n,)), "n": n})
    )
    assert (found.case, found.launches, found.barriers) == ("test", 1, 0)
    assert (found.load_bytes, found.store_bytes) == (4 * n, 4 * n)
    assert found.sectors == found.ideal_sectors == 2 * n // 8
    load = site(found, line_of("copy.cu", "if (i < n) y[i] = x[i]"), "load")
    assert (load.space, load.width_bytes, load.requests) == ("global", 4, n // 32)
    assert load.transactions == load.ideal_transactions == 4 * load.requests


def test_strided_copy_takes_32_sectors_a_request() -> None:
    n = 1 << 14
    args = {"x": torch.ones(n), "y": Out((n,)), "n": n, "stride": 32}
    found = counts(run("copy.cu:copy_strided", Shape(n // 256, 256), args))
    line = line_of("copy.cu", "if (t < n) y[t] = x[i]")
    load, store = site(found, line, "load"), site(found, line, "store")
    assert (load.transactions, load.ideal_transactions) == (32 * load.requests, 4 * load.requests)
    assert (store.transactions, store.requests) == (4 * store.requests, n // 32)


def test_float4_is_one_access() -> None:
    args = {"x": torch.ones(4096), "y": Out((4096,)), "n4": 1024}
    found = counts(run("copy.cu:double_vec4", Shape(2, 256), args))
    load = site(found, line_of("copy.cu", "float4 v = x[i]"), "load")
    assert (load.width_bytes, load.requests, load.transactions) == (16, 32, 32 * 16)
    assert (found.load_bytes, found.store_bytes) == (4 * 4096, 4 * 4096)


def test_a_vector_of_atomics_is_one_request_and_loses_nothing() -> None:
    args = {"x": torch.ones(4096), "sums": Out((128,), zero=True), "n4": 1024}
    execution = run("copy.cu:add_vec4", Shape(4, 64), args)
    added = site(counts(execution), line_of("copy.cu", "atomicAdd(sums + i"), "atomic")
    assert (added.width_bytes, added.requests, added.transactions) == (16, 32, 32 * 16)
    assert torch.equal(execution.outputs[0], torch.full((128,), 32.0))


def test_tail_counts_only_what_is_there() -> None:
    args = {"x": torch.ones(1000), "y": Out((1000,)), "n": 1000}
    found = counts(run("copy.cu:copy_coalesced", Shape(4, 256), args))
    load = site(found, line_of("copy.cu", "if (i < n) y[i] = x[i]"), "load")
    assert (load.requests, load.transactions) == (32, 125)


def test_bank_conflicts_of_a_transpose() -> None:
    args = {"x": torch.ones(64, 64), "y": Out((64, 64)), "w": 64, "h": 64}
    line = line_of("transpose.cu", "tile[threadIdx.x][threadIdx.y + j]")
    for padding, wavefronts in ((0, 32), (1, 1)):
        found = counts(run(f"transpose.cu:transpose<{padding}>", Shape((2, 2), (32, 8)), args))
        (load,) = [s for s in found.sites if s.line == line and s.space == "shared"]
        assert (load.requests, load.transactions) == (128, 128 * wavefronts)
        assert load.ideal_transactions == 128
        assert found.barriers == 4


def test_uncoalesced_stores_of_a_naive_transpose() -> None:
    args = {"x": torch.ones(64, 64), "y": Out((64, 64)), "w": 64, "h": 64}
    found = counts(run("transpose.cu:transpose_naive", Shape((2, 2), (32, 8)), args))
    line = line_of("transpose.cu", "out[x * h + y + j] =")
    store = site(found, line, "store")
    assert (store.requests, store.transactions) == (128, 128 * 32)


def test_16_byte_shared_accesses() -> None:
    args = {"A": torch.ones(64, 64), "B": torch.ones(64, 64), "C": Out((64, 64)), "M": 64, "N": 64, "K": 64}
    found = counts(run("gemm.cu:gemm_reg", Shape((1, 1), 256), args))
    line = line_of("gemm.cu", "float4 a = *reinterpret_cast")
    (load,) = [s for s in found.sites if s.line == line]
    # Two operands, 8 warps, 64 steps. A warp reads 2 different float4 of one, in one wavefront, and 16 of
    # the other, a quarter of the warp at a time.
    assert (load.width_bytes, load.requests) == (16, 2 * 8 * 64)
    assert (load.transactions, load.ideal_transactions) == ((1 + 4) * 8 * 64, (1 + 2) * 8 * 64)


def test_memory_copies_are_accesses() -> None:
    consts = (("N", "1"), ("SCALE", "1.0f"))
    x = torch.arange(256.0)
    execution = run("language.cu:copies_memory", Shape(1, 16), {"x": x, "y": Out((256,))}, consts=consts)
    assert execution.report.unwritten == ()
    assert torch.equal(execution.outputs[0].view(16, 16)[:, :12], x.view(16, 16)[:, :12])
    assert not execution.outputs[0].view(16, 16)[:, 12:].any()
    found = counts(execution)
    copy, fill = line_of("language.cu", "memcpy(y + 16"), line_of("language.cu", "memset(y + 16")
    assert [site(found, copy, kind).requests for kind in ("load", "store")] == [3, 3]
    assert site(found, fill, "store").requests == 1
    rows = {"x": x, "y": Out((256,))}
    found = counts(run("language.cu:struct_copy", Shape(1, 32), rows, consts=consts))
    assert (found.load_bytes, found.store_bytes) == (1024, 1024)
    execution = run("language.cu:unaligned_copy", Shape(1, 8), {"x": x, "y": Out((32,))}, consts=consts)
    assert counts(execution).load_bytes == 128
    assert torch.equal(execution.outputs[0], x[1:33])


def test_atomics_have_sectors() -> None:
    args = {"x": torch.ones(256), "out": Out((1,), zero=True), "n": 256}
    found = counts(run("reduce.cu:reduce<true>", Shape(1, 256, 1024), args))
    atomic = site(found, line_of("reduce.cu", "atomicAdd"), "atomic")
    assert (atomic.requests, atomic.transactions, atomic.width_bytes) == (1, 1, 4)


def test_sampled_blocks_are_scaled_up() -> None:
    n = 1 << 14
    args = {"x": torch.ones(n), "y": Out((n,)), "n": n}
    execution = run("copy.cu:copy_coalesced", Shape(n // 64, 64), args, traced_blocks=8)
    (launch,) = execution.report.launches
    assert (launch.blocks, launch.traced_blocks) == (256, 8)
    assert counts(execution).sectors == 2 * n // 8
    assert torch.equal(execution.outputs[0], torch.ones(n))


def test_statistics_can_be_left_out() -> None:
    args = {"x": torch.ones(64), "y": Out((64,)), "n": 64}
    assert counts(run("copy.cu:copy_coalesced", Shape(1, 64), args, statistics=False)).sites == ()
