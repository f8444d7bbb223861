"""Kernels that are right must give the right numbers, in both modes and any order."""

import math
import struct
from typing import Any

import pytest
import torch
from launching import Out, Shape, line_of, run

from workbench.emulator.execute import Execution

MODES = pytest.mark.parametrize("mode", ["plain", "checked"])


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def clean(execution: Execution) -> tuple[torch.Tensor, ...]:
    report = execution.report
    assert (report.hazards, report.trap, report.unwritten, report.stopped) == ((), None, (), False)
    return execution.outputs


@pytest.mark.many(2)
@MODES
def test_softmax(mode: Any) -> None:
    x = randn(7, 1000) * 3
    args = {"x": x, "y": Out((7, 1000)), "cols": 1000}
    (y,) = clean(run("softmax.cu:softmax<256>", Shape(7, 256), args, mode))
    torch.testing.assert_close(y, torch.softmax(x.double(), 1).float(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("options", [{"reverse": True}, {"workers": 1}, {"workers": 3}, {"races": True}])
def test_order_and_workers_change_nothing(options: dict[str, Any]) -> None:
    x = randn(16, 300)
    args = {"x": x, "y": Out((16, 300)), "cols": 300}
    (expected,) = clean(run("softmax.cu:softmax<64>", Shape(16, 64), args))
    (y,) = clean(run("softmax.cu:softmax<64>", Shape(16, 64), args, **options))
    assert torch.equal(y, expected)


@pytest.mark.many(3)
@MODES
@pytest.mark.parametrize("kernel", ["transpose<0>", "transpose<1>", "transpose_naive"])
def test_transpose(mode: Any, kernel: str) -> None:
    x = randn(64, 96)
    args = {"x": x, "y": Out((96, 64)), "w": 96, "h": 64}
    (y,) = clean(run(f"transpose.cu:{kernel}", Shape((3, 2), (32, 8)), args, mode))
    assert torch.equal(y, x.T)


@MODES
def test_dynamic_shared_memory_and_float_atomics(mode: Any) -> None:
    x = randn(1000)
    args = {"x": x, "sum": Out((1,), zero=True), "n": 1000}
    (total,) = clean(run("reduce.cu:reduce<true>", Shape(4, 256, 1024), args, mode))
    assert total.item() == pytest.approx(x.double().sum().item(), abs=1e-3)


@pytest.mark.many(7)
@MODES
@pytest.mark.parametrize(
    ("kernel", "shape"),
    [("gemm_tiled<16>", Shape((4, 4), (16, 16))), ("gemm_tiled<32>", Shape((2, 2), (32, 32))),
     ("gemm_reg", Shape((1, 1), 256))],
)  # fmt: skip
def test_matrix_product(mode: Any, kernel: str, shape: Shape) -> None:
    a, b = randn(64, 64), randn(64, 64).flip(0)
    args = {"A": a, "B": b, "C": Out((64, 64)), "M": 64, "N": 64, "K": 64}
    (c,) = clean(run(f"gemm.cu:{kernel}", shape, args, mode))
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-4)


@pytest.mark.many(2)
@MODES
def test_tensor_core_product(mode: Any) -> None:
    a, b = randn(32, 48, dtype=torch.float16), randn(48, 32, dtype=torch.float16)
    args = {"A": a, "B": b, "C": Out((32, 32)), "M": 32, "N": 32, "K": 48}
    (c,) = clean(run("gemm_wmma.cu:gemm_wmma", Shape((2, 2), 32), args, mode))
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-3)


def as_tf32(x: torch.Tensor, rounds: bool) -> torch.Tensor:
    bits = x.view(torch.int32) + (0x1000 if rounds else 0)
    return (bits & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("rounds", [False, True])
def test_tensor_cores_see_tf32(rounds: bool) -> None:
    a, b = randn(16, 8), randn(16, 8).flip(0)
    args = {"A": a, "B": b, "C": Out((16, 16)), "rounds": rounds}
    (c,) = clean(run("gemm_wmma.cu:tile_tf32", Shape(1, 32), args))
    exact = as_tf32(a, rounds).double() @ as_tf32(b, rounds).double().T
    torch.testing.assert_close(c.double(), exact, rtol=1e-6, atol=1e-6)
    assert (c.double() - a.double() @ b.double().T).abs().max() > 1e-4


def test_tensor_cores_with_bfloat_and_int8() -> None:
    a, b = randn(16, 16, dtype=torch.bfloat16), randn(16, 16, dtype=torch.bfloat16).flip(0)
    (c,) = clean(run("gemm_wmma.cu:tile_bf16", Shape(1, 32), {"A": a, "B": b, "C": Out((16, 16))}))
    torch.testing.assert_close(c.T.double(), a.double() @ b.double() + 1, rtol=1e-5, atol=1e-5)
    a, b = (torch.randint(-128, 128, (16, 16), dtype=torch.int8) for _ in range(2))
    (c,) = clean(run("gemm_wmma.cu:tile_int8", Shape(1, 32), {"A": a, "B": b, "C": Out((16, 16), "i32")}))
    assert torch.equal(c.long(), a.long() @ b.long() + (1 << 28))


@pytest.mark.many(2)
@MODES
def test_half_layernorm_with_cooperative_groups(mode: Any) -> None:
    x = randn(5, 512, dtype=torch.float16)
    gain, bias = randn(512), randn(512).flip(0)
    args = {"x": x, "gain": gain, "bias": bias, "y": Out((5, 512), "f16"), "cols": 512, "eps": 1e-5}
    (y,) = clean(run("layernorm.cu:layernorm<64>", Shape(5, 64), args, mode))
    expected = torch.nn.functional.layer_norm(x.double(), (512,), gain.double(), bias.double())
    torch.testing.assert_close(y.double(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.many(2)
@MODES
@pytest.mark.parametrize("kernel", ["compact_activemask", "compact_coalesced_group"])
def test_lanes_that_are_there(mode: Any, kernel: str) -> None:
    x = torch.randint(-2, 3, (64,), dtype=torch.int32)
    args = {"x": x, "y": Out((65,), "i32", zero=True)}
    (y,) = clean(run(f"warp.cu:{kernel}", Shape(1, 64), args, mode))
    positive = (x > 0).nonzero().flatten().tolist()
    assert y[0] == len(positive)
    assert sorted(y[1 : 1 + len(positive)].tolist()) == positive


@MODES
def test_votes_and_reductions(mode: Any) -> None:
    (y,) = clean(run("warp.cu:votes", Shape(1, 32), {"y": Out((32,), "i32")}, mode))
    assert y.tolist() == [11 + 400 + 10000 * 496 + 1] * 32
    x = torch.arange(-7, 25, dtype=torch.int32)
    (y,) = clean(run("warp.cu:reductions", Shape(1, 32), {"x": x, "y": Out((7,), "i32")}, mode))
    xor = 0
    for value in x.tolist():
        xor ^= value
    assert y.tolist() == [-7, 24, -1, 0, xor, -1, 1]
    (y,) = clean(run("warp.cu:count_positive", Shape(1, 32), {"x": x, "y": Out((3,), "i32")}, mode))
    assert y.tolist() == [24, 0, 1]


@MODES
def test_tiles(mode: Any) -> None:
    x = randn(64)
    (y,) = clean(run("warp.cu:sum_tiles_of_8", Shape(1, 64), {"x": x, "y": Out((8,))}, mode))
    torch.testing.assert_close(y, x.view(8, 8).sum(1))


@pytest.mark.many(2)
@pytest.mark.parametrize("threads", [64, 80])
def test_cub_reductions(threads: int) -> None:
    x = randn(threads)
    args = {"x": x, "y": Out((3,)), "n": 41}
    (y,) = clean(run(f"cub.cu:block_sum<{threads}>", Shape(1, threads), args, races=True))
    torch.testing.assert_close(y, torch.stack([x.sum(), x[:41].sum(), x.max()]))
    (y,) = clean(run("cub.cu:warp_sums", Shape(1, 64), {"x": randn(64), "y": Out((4,))}, races=True))
    torch.testing.assert_close(y, randn(64).view(4, 16).sum(1))
    (y,) = clean(run("cub.cu:block_of_structs", Shape(1, 96), {"x": randn(96), "y": Out((3,))}, races=True))
    torch.testing.assert_close(y, torch.tensor([randn(96).sum(), 96, -math.inf]))


def test_cub_scans() -> None:
    x = torch.randint(-9, 10, (80,), dtype=torch.int32)
    args = {"x": x, "inclusive": Out((80,), "i32"), "exclusive": Out((80,), "i32"), "total": Out((1,), "i32")}
    inclusive, exclusive, total = clean(run("cub.cu:scans", Shape(1, 80), args, races=True))
    assert torch.equal(inclusive, x.cumsum(0).int())
    assert total.item() == x.sum().item()
    largest_before = torch.cat([torch.tensor([-5], dtype=torch.int32), x[:-1]]).cummax(0).values
    assert torch.equal(exclusive, largest_before)


@MODES
def test_locks_and_chained_blocks(mode: Any) -> None:
    args = {"lock": Out((1,), "i32", zero=True), "y": Out((1,), "i32", zero=True)}
    assert clean(run("warp.cu:spin_lock", Shape(4, 64), args, mode))[1].item() == 256
    args = {"flag": Out((8,), "i32", zero=True), "y": Out((8,))}
    assert clean(run("warp.cu:look_back", Shape(8, 32), args, mode))[1].tolist() == list(range(1, 9))


@MODES
def test_rows_of_different_length(mode: Any) -> None:
    # Longer than a lane's log: the logs are drained while some lanes go on.
    x, length = randn(32, 6000), torch.randint(0, 6000, (32,), dtype=torch.int32)
    args = {"x": x, "y": Out((32,)), "length": length, "width": 6000}
    execution = run("warp.cu:ragged", Shape(1, 32), args, mode)
    expected = torch.stack([row[:n].double().sum() for row, n in zip(x, length.tolist(), strict=True)])
    torch.testing.assert_close(clean(execution)[0], expected.float(), rtol=1e-3, atol=1e-2)
    if execution.report.counts is not None:
        line = line_of("warp.cu", "sum += x[row * width + k]")
        (site,) = [
            s
            for s in execution.report.counts.sites
            if s.line == line and s.kind == "load" and s.transactions > 32
        ]
        assert site.requests >= int(length.max())


@pytest.mark.many(2)
@MODES
def test_scalar_arguments(mode: Any) -> None:
    scalars = {"f": 1.5, "d": 0.1, "i": -7, "q": 2**40, "b": True, "c": 200, "h": 0.333, "w": 0.333}
    consts = (("N", "1"), ("SCALE", "1.0f"))
    (y,) = clean(run("language.cu:scalars", Shape(1, 1), {"y": Out((8,)), **scalars}, mode, consts))
    half = struct.unpack("<e", struct.pack("<e", 0.333))[0]
    bfloat = torch.tensor(0.333, dtype=torch.bfloat16).item()
    torch.testing.assert_close(y, torch.tensor([1.5, 0.1, -7, 2.0**40, 1, 200, half, bfloat]))


@pytest.mark.many(2)
@MODES
def test_macros_are_part_of_the_instance(mode: Any) -> None:
    x = torch.arange(1.0, 5.0)
    for scale in (2, 3):
        consts = (("N", "3"), ("SCALE", f"{scale}.0f"))
        execution = run("language.cu:scaled_by_macro", Shape(1, 4), {"x": x, "y": Out((4,))}, mode, consts)
        assert execution.outputs[0][:3].tolist() == [scale * 1, scale * 2, scale * 3]
        assert math.isnan(execution.outputs[0][3])


@MODES
def test_language_corners(mode: Any) -> None:
    def one(kernel: str, threads: int, args: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        consts = (("N", "1"), ("SCALE", "1.0f"))
        return clean(run(f"language.cu:{kernel}", Shape(1, threads), args, mode, consts))

    x = torch.arange(32.0)
    (y,) = one("uses_constant", 32, {"x": x, "y": Out((32,))})
    assert torch.equal(y, x + torch.tensor([1.0, 2, 3, 4]).repeat(8))
    # A module's variables live as long as the process: only the difference is this launch's own.
    before, after = (one("counts_threads", 64, {"y": Out((64,), "i32")})[0] for _ in range(2))
    assert set((after - before).tolist()) == {64}
    tiles = randn(8, 64, 4)
    (y,) = one("double_buffered", 64, {"x": tiles, "y": Out((8, 64, 4)), "tiles": 8})
    assert torch.equal(y, tiles.flip(1))
    ints = torch.arange(128, dtype=torch.int32).view(32, 4)
    assert torch.equal(one("int4_copy", 32, {"x": ints, "y": Out((32, 4), "i32")})[0], ints)
    small = torch.arange(16, dtype=torch.uint8)
    assert torch.equal(one("bytes", 16, {"x": small, "y": Out((16,), "bool")})[0], small > 7)
    longs = torch.arange(2**40, 2**40 + 8)
    assert torch.equal(one("longs", 8, {"x": longs, "y": Out((8,), "i64")})[0], longs * 4)
    one("prints", 32, {"y": Out((32,), "i32")})


@MODES
def test_half_and_bfloat_math(mode: Any) -> None:
    x = randn(64, dtype=torch.float16) * 0.5
    consts = (("N", "1"), ("SCALE", "1.0f"))
    args = {"x": x, "y": Out((64,), "f16"), "z": Out((32,), "bf16")}
    y, z = clean(run("language.cu:half_math", Shape(1, 32), args, mode, consts))
    torch.testing.assert_close(y.double(), (x.double() ** 2 + 0.5).exp(), rtol=4e-3, atol=0)
    torch.testing.assert_close(z.double(), y.double()[::2] ** 2 + 1, rtol=2e-2, atol=0)


@MODES
def test_atomics_of_every_type(mode: Any) -> None:
    args = {
        "h": Out((2,), "f16", zero=True), "d": Out((1,), "f64", zero=True),
        "f": Out((4,), zero=True), "u": Out((1,), "i32", zero=True),
    }  # fmt: skip
    consts = (("N", "1"), ("SCALE", "1.0f"))
    h, d, f, u = clean(run("language.cu:atomic_types", Shape(2, 64), args, mode, consts))
    assert (h.tolist(), d.item(), f.tolist(), u.item()) == ([128, 128], 64, [128, 256, 384, 512], 63)


REFERENCES = {
    "rsqrt": torch.rsqrt, "fast_exp": torch.exp, "exp10": lambda x: 10**x, "erfinv": torch.erfinv,
    "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri, "erfcx": torch.special.erfcx,
    "lgamma": torch.lgamma,
    "sinpi": lambda x: torch.sin(math.pi * x), "cospi": lambda x: torch.cos(math.pi * x),
    "bessel_i0": torch.special.i0, "bessel_i1": torch.special.i1, "divide": lambda x: 1 / x,
    "saturate": lambda x: x.clamp(0, 1),
    "larger": lambda x: x.clamp(min=0.25), "smaller": lambda x: x.clamp(max=0.25),
    "signed_one": lambda x: torch.copysign(torch.ones_like(x), x), "to_int": torch.round, "bits": torch.abs,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_math_functions(name: str) -> None:
    x = torch.linspace(0.01, 0.99, 64) if name in ("erfinv", "normcdfinv") else torch.linspace(0.1, 6.1, 64)
    (y,) = clean(run(f"math.cu:{name}_of", Shape(1, 64), {"x": x, "y": Out((64,))}, "plain"))
    torch.testing.assert_close(y, REFERENCES[name](x.double()).float(), rtol=3e-6, atol=3e-6)


def test_nan_and_infinity() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])

    def of(name: str) -> torch.Tensor:
        return run(f"math.cu:{name}_of", Shape(1, 4), {"x": x, "y": Out((4,))}, "plain").outputs[0]

    assert of("larger").tolist() == [0.25, math.inf, 0.25, 1.0]
    assert of("smaller").tolist() == [0.25, 0.25, -math.inf, 0.25]
    assert of("classify").tolist() == [1.0, 2.0, 2.0, 4.0]
    assert of("to_int").tolist() == [0.0, 2.0**31, -(2.0**31), 1.0]
    assert of("infinite").tolist() == [-math.inf, math.inf, -math.inf, math.inf]


@pytest.mark.many(2)
@MODES
def test_copies_are_there_when_they_have_been_waited_for(mode: Any) -> None:
    x = randn(128)
    args = {"x": x, "y": Out((128,))}
    turned = x.reshape(2, 64).flip(1)
    (y,) = clean(run("copies.cu:two_groups<0>", Shape(1, 64), args, mode))
    assert torch.equal(y.reshape(2, 64), turned)
    (y,) = run("copies.cu:two_groups<1>", Shape(1, 64), args, mode).outputs
    assert torch.equal(y[:64], turned[0]) and y[64:].isnan().all(), "the last group may be on its way"
    (y,) = run("copies.cu:two_groups<-1>", Shape(1, 64), args, mode).outputs
    assert y.isnan().all()


@pytest.mark.many(2)
@MODES
def test_copies_in_a_ring(mode: Any) -> None:
    x = randn(20, 64)
    (y,) = clean(run("copies.cu:ring", Shape(3, 64), {"x": x, "y": Out((64,))}, mode))
    torch.testing.assert_close(y, x.flip(1).sum(0), rtol=1e-5, atol=1e-5)


@MODES
def test_copies_with_zeros_behind_them_read_no_more_than_they_copy(mode: Any) -> None:
    x = randn(64)
    (y,) = clean(run("copies.cu:zeros_behind", Shape(1, 64), {"x": x, "y": Out((128,))}, mode))
    expected = torch.zeros(64, 2)
    expected[:32, 0] = x[::2]
    assert torch.equal(y, expected.flatten())
    x = randn(64, 4)
    (y,) = clean(run("copies.cu:zero_behind_three", Shape(1, 64), {"x": x, "y": Out((64, 4))}, mode))
    assert torch.equal(y, torch.cat([x[:, :3], torch.zeros(64, 1)], 1))
