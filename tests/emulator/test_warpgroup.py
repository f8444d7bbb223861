"""Hopper's asynchronous warp-group multiplications, written as inline PTX."""

import re
from typing import Any

import pytest
import torch
from launching import KERNELS, Out, Shape, line_of, plan_of

from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import Execution, execute
from workbench.emulator.ptx import with_known
from workbench.emulator.values import Options
from workbench.errors import EmulatorUnsupported
from workbench.model import CompileFailed

MODES = pytest.mark.parametrize("mode", ["plain", "checked"])
FILE = "warpgroup.cu"
HALVES = {"f16": torch.float16, "bf16": torch.bfloat16}


def statement(columns: int, adds: str = "1", a_in_shared: bool = False, factors: str = "tf32") -> str:
    """One multiplication; a: ``a``, ``sum`` and ``b`` are what it names."""
    sums = columns // 2
    left, operands = f"{{%{sums}, %{sums + 1}, %{sums + 2}, %{sums + 3}}}", sums + 4
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
    if a_in_shared:
        left, operands, inputs = f"%{sums}", sums + 1, '"l"(a)'
    names = ", ".join(f"%{i}" for i in range(sums))
    outputs = ", ".join(f'"+f"(sum[{i}])' for i in range(sums))
    signs = "1, 1" if factors == "tf32" else "1, 1, 0, 0" if a_in_shared else "1, 1, 0"
    return (
        f'asm volatile(\n"wgmma.mma_async.sync.aligned.{form(columns, factors)} "\n'
        f'"{{{names}}}, {left}, %{operands}, {adds}, {signs};"\n: {outputs}\n: {inputs}, "l"(b));'
    )


def form(columns: int, factors: str) -> str:
    return f"m64n{columns}k{8 if factors == 'tf32' else 16}.f32.{factors}.{factors}"


def function(name: str, columns: int, a: str = "const unsigned (&a)[4]", **spelt: Any) -> str:
    head = f"__device__ void {name}(float (&sum)[{columns // 2}], {a}, Descriptor b)"
    return f"{head} {{\n{statement(columns, a_in_shared='&' not in a, **spelt)}\n}}\n"


def source(factors: str = "tf32") -> str:
    bodies = [function("multiply_add", columns, factors=factors) for columns in (8, 24, 64, 128, 256)]
    bodies += [function("multiply_add", 64, "Descriptor a", factors=factors)]
    bodies += [function("multiply", 64, adds="0", factors=factors)]
    bodies += [function("multiply_others", 64, factors="bf16")] if factors == "f16" else []
    return (KERNELS / FILE).read_text() + "".join(bodies)


def built_with(kernel: str, factors: str) -> list[str]:
    """What is wrong in one way or another, and what is no template, is compiled once for all tests."""
    if factors != "tf32":
        widths = [f"product<{columns}, 128, NOTHING>" for columns in (8, 24, 64, 128, 256)]
        return [*widths, *(f"product<64, 128, {name}>" for name in WRONG_OF_HALVES[factors]), "two_tiles"]
    wrong = [f"product<64, 128, {name}>" for name in (*NEVER_WAITED_FOR, *OVERWRITTEN, *FOUND, *TRAPPED)]
    together = [*wrong, "two_tiles", "two_groups", "large", "apart", "round_all"]
    return together if kernel in together else [kernel]


def run(
    kernel: str,
    shape: Shape,
    args: dict[str, Any],
    mode: Any = "checked",
    factors: str = "tf32",
    **options: Any,
) -> Execution:
    tensors = {name: arg for name, arg in args.items() if isinstance(arg, torch.Tensor)}
    module = build(source(factors), [(name, ()) for name in built_with(kernel, factors)], mode)
    return execute(plan_of(kernel, shape, args), module, tensors, Options(case="test", **options))


def clean(execution: Execution) -> tuple[torch.Tensor, ...]:
    report = execution.report
    assert (report.hazards, report.trap, report.unwritten, report.stopped) == ((), None, (), False)
    return execution.outputs


def operands(columns: int, terms: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(columns)
    return torch.randn(64, terms, generator=generator), torch.randn(columns, terms, generator=generator)


def truncated(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32).double()


def rounded(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def halves(columns: int, factors: str) -> tuple[torch.Tensor, torch.Tensor]:
    x, w = operands(columns, 64)
    return x.to(HALVES[factors]), w.to(HALVES[factors])


def in_pairs(x: torch.Tensor) -> torch.Tensor:
    """As the kernels take 16-bit numbers: two are one float."""
    return x.view(torch.float32)


def product_of_halves(columns: int, factors: str, wrong: str = "NOTHING", **options: Any) -> Execution:
    x, w = halves(columns, factors)
    args = {"x": in_pairs(x), "w": in_pairs(w), "y": Out((64, columns))}
    kernel, shape = f"product<{columns}, 128, {wrong}>", Shape(1, 128, columns * 128)
    return run(kernel, shape, args, factors=factors, **options)


def product(columns: int, row_bytes: int, wrong: str = "NOTHING", **options: Any) -> Execution:
    x, w = operands(columns, row_bytes // 4 or 16)
    args = {"x": x, "w": w, "y": Out((64, columns))}
    tile = columns * (row_bytes or 64)
    return run(f"product<{columns}, {row_bytes}, {wrong}>", Shape(1, 128, tile), args, **options)


def expected(columns: int, row_bytes: int) -> torch.Tensor:
    x, w = operands(columns, row_bytes // 4 or 16)
    return (1 + truncated(x) @ truncated(w).T).float()


@pytest.mark.many(19)
@MODES
@pytest.mark.parametrize("columns", [8, 24, 64, 128, 256])
def test_sums_of_every_width(columns: int, mode: Any) -> None:
    (y,) = clean(product(columns, 128, mode=mode))
    torch.testing.assert_close(y, expected(columns, 128), rtol=1e-5, atol=1e-5)


def test_products_are_counted_and_no_warp_waits_for_them() -> None:
    (launch,) = product(24, 128).report.launches
    assert (launch.unit_products, launch.warp_operations) == (64 * 24 * 32, 0)
    (launch,) = product_of_halves(24, "f16").report.launches
    assert launch.unit_products == 64 * 24 * 64


@pytest.mark.many(7)
@pytest.mark.parametrize("columns", [8, 24, 64, 128, 256])
@pytest.mark.parametrize("factors", HALVES)
def test_sums_of_16_bit_factors(factors: str, columns: int) -> None:
    (y,) = clean(product_of_halves(columns, factors, races=True))
    x, w = halves(columns, factors)
    torch.testing.assert_close(y, (1 + x.double() @ w.double().T).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factors", HALVES)
def test_both_16_bit_factors_in_shared_memory(factors: str) -> None:
    x, w = halves(64, factors)
    args = {"x": in_pairs(x), "w": in_pairs(w), "y": Out((64, 64))}
    (y,) = clean(run("two_tiles", Shape(1, 128), args, factors=factors, races=True))
    torch.testing.assert_close(y, (x.double() @ w.double().T).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factors", HALVES)
def test_the_least_and_the_largest_16_bit_numbers(factors: str) -> None:
    one = torch.finfo(HALVES[factors])
    subnormal = [one.tiny * one.eps, -one.tiny * one.eps, one.tiny * (1 - one.eps)]
    numbers = [*subnormal, one.tiny, 1.0, -1.0 - one.eps, one.max, one.min, torch.inf, -torch.inf, torch.nan]
    of_rows = torch.tensor((numbers * 6)[:64], dtype=HALVES[factors])
    x, ones = torch.diag(of_rows), torch.ones(64, 64, dtype=HALVES[factors])
    args = {"x": in_pairs(x), "w": in_pairs(ones), "y": Out((64, 64))}
    (y,) = clean(run("two_tiles", Shape(1, 128), args, factors=factors))
    expected = of_rows.float()[:, None].expand(64, 64)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.many(7)
@pytest.mark.parametrize("row_bytes", [128, 64, 32, 0])
def test_tiles_of_every_swizzle(row_bytes: int) -> None:
    (y,) = clean(product(64, row_bytes, races=True))
    torch.testing.assert_close(y, expected(64, row_bytes), rtol=1e-5, atol=1e-5)


@pytest.mark.many(2)
@MODES
def test_sums_that_are_no_array(mode: Any) -> None:
    x, w = operands(8, 32)
    (y,) = clean(run("apart", Shape(1, 128), {"x": x, "w": w, "y": Out((64, 8))}, mode))
    torch.testing.assert_close(y, expected(8, 128), rtol=1e-5, atol=1e-5)


def test_both_operands_in_shared_memory() -> None:
    x, w = operands(64, 32)
    args = {"x": x, "w": w, "y": Out((64, 64))}
    (y,) = clean(run("two_tiles", Shape(1, 128), args, races=True))
    torch.testing.assert_close(y, (truncated(x) @ truncated(w).T).float(), rtol=1e-5, atol=1e-5)


@MODES
def test_groups_add_in_order_and_what_begins_at_zero_reads_no_sum(mode: Any) -> None:
    x, w = operands(64, 32)
    args = {"x": x, "w": w, "y": Out((64, 64)), "between": Out((64, 64))}
    y, between = clean(run("two_groups", Shape(1, 128), args, mode))
    torch.testing.assert_close(y, (rounded(x).double() @ rounded(w).double().T).float(), rtol=1e-5, atol=1e-5)
    assert between.isnan().all(), "the last group may be on its way"


@pytest.mark.parametrize("options", [{"reverse": True}, {"races": True}, {"workers": 2}])
def test_a_matrix_product_of_several_blocks_and_warp_groups(options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(512, 96, generator=generator), torch.randn(256, 96, generator=generator)
    args = {"x": x, "w": w, "y": Out((512, 256)), "terms": 96, "columns": 256}
    (y,) = clean(run("large", Shape((2, 2), 256, 2 * 16384), args, **options))
    torch.testing.assert_close(y, (rounded(x).double() @ truncated(w).T).float(), rtol=1e-5, atol=1e-4)


def test_rounding_to_tf32() -> None:
    half = 2.0**-11  # of the last bit that stays
    x = torch.tensor([1.0, 1 + half, -1 - half, 1 + half * 0.99, 3.5, torch.inf, -torch.inf, torch.nan])
    (y,) = clean(run("round_all", Shape(1, 8), {"x": x, "y": Out((8,))}))
    expected = torch.tensor([1.0, 1 + 2 * half, -1 - 2 * half, 1.0, 3.5, torch.inf, -torch.inf, torch.nan])
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


NEVER_WAITED_FOR = ["NO_WAIT", "OTHER_GROUP", "NO_COMMIT"]


@MODES
@pytest.mark.parametrize("wrong", NEVER_WAITED_FOR)
def test_sums_are_there_only_when_they_have_been_waited_for(wrong: str, mode: Any) -> None:
    (y,) = product(64, 128, wrong, mode=mode).outputs
    assert y.isnan().all()


OVERWRITTEN = ["OVERWRITES", "OVERWRITES_LATER"]


@pytest.mark.parametrize("wrong", OVERWRITTEN)
def test_who_writes_over_a_tile_before_the_wait_is_found(wrong: str) -> None:
    execution = product(64, 128, wrong, races=True)
    (y,) = execution.outputs
    assert torch.equal(y[48:], torch.ones(16, 64)), "the last warp's tile is nothing but zeros by then"
    hazards = execution.report.hazards
    assert {hazard.hazard for hazard in hazards} == {"race"}
    assert line_of(FILE, "while it is in use") in {hazard.line for hazard in hazards}


def line_of_multiplication(columns: int) -> int:
    """The first line of the statement: what is wrong with it is told there."""
    before, _, _ = source().partition(f"m64n{columns}k8")
    return before.count("\n")


FOUND = {
    "NO_BARRIER": ("race", r"reads byte \d+ of .*, which thread \d+ .* wrote in line \d+ with nothing in"),
    "NO_PROXY_FENCE": ("race", r"which thread \d+ .* wrote in line \d+ with no fence\.proxy\.async in"),
    "HALF_A_TILE": ("uninitialised", r"reads byte \d+ of 8192 bytes of .* before anything wrote it"),
    "OUTSIDE": ("out_of_bounds", r"reads byte 65\d+ of 8192 bytes of dynamic shared memory"),
    "ODD_WARP": ("warp_sync", "the warps of its warp group do not ask for the same multiplications"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", FOUND)
def test_what_is_wrong_is_told_with_the_multiplications_line(wrong: str) -> None:
    kind, words = FOUND[wrong]
    hazards = product(64, 128, wrong, races=True).report.hazards
    (hazard,) = [hazard for hazard in hazards if re.search(words, hazard.message)]
    assert (hazard.hazard, hazard.line) == (kind, line_of_multiplication(64)), hazards


TRAPPED = {"ODD_LANE": "not the same in all lanes", "NO_FENCE": "before any wgmma.fence"}


@MODES
@pytest.mark.parametrize("wrong", TRAPPED)
def test_what_no_card_runs_ends_the_kernel(wrong: str, mode: Any) -> None:
    trap = product(64, 128, wrong, mode=mode).report.trap
    assert trap is not None and TRAPPED[wrong] in trap
    assert trap.startswith(f"line {line_of_multiplication(64)}: ")


WRONG_OF_HALVES = {"f16": ["NO_WAIT", "OVERWRITES", "ODD_LANES_FACTORS", "ODD_WARPS_FACTORS"], "bf16": []}


def test_sums_of_16_bit_factors_are_there_only_when_they_have_been_waited_for() -> None:
    (y,) = product_of_halves(64, "f16", "NO_WAIT").outputs
    assert y.isnan().all()


def test_who_writes_over_a_tile_of_16_bits_is_found() -> None:
    hazards = product_of_halves(64, "f16", "OVERWRITES", races=True).report.hazards
    assert {hazard.hazard for hazard in hazards} == {"race"}
    assert line_of(FILE, "while it is in use") in {hazard.line for hazard in hazards}


def test_factors_have_one_type_in_a_warp_group() -> None:
    trap = product_of_halves(64, "f16", "ODD_LANES_FACTORS").report.trap
    assert trap is not None and "not the same in all lanes" in trap
    (hazard,) = product_of_halves(64, "f16", "ODD_WARPS_FACTORS").report.hazards
    assert hazard.hazard == "warp_sync" and "do not ask for the same multiplications" in hazard.message


@MODES
def test_a_tile_outside_of_shared_memory_is_not_read(mode: Any) -> None:
    (hazard,) = product(64, 128, "OUTSIDE", mode=mode).report.hazards
    assert hazard.hazard == "out_of_bounds"


def test_a_warp_group_has_128_threads() -> None:
    x, w = operands(64, 32)
    args = {"x": x, "w": w, "y": Out((64, 64))}
    trap = run("product<64, 128>", Shape(1, 64, 8192), args).report.trap
    assert trap is not None and "128 threads" in trap


def test_a_cards_compiler_takes_these_statements() -> None:
    kernels = ["product<8, 0>", "product<24, 32>", "product<128, 64>", "product<256, 128>"]
    kernels += ["two_tiles", "two_groups", "large", "apart"]
    assert not isinstance(compile_kernel(source(), [(kernel, ()) for kernel in kernels]), CompileFailed)


def test_a_cards_compiler_takes_those_of_16_bits() -> None:
    kernels = ["product<64, 128, ODD_WARPS_FACTORS>", "two_tiles"]  # the first has both types
    assert not isinstance(compile_kernel(source("f16"), [(kernel, ()) for kernel in kernels]), CompileFailed)


REFUSED = {
    "transposed": statement(8, factors="f16").replace("1, 1, 1, 0;", "1, 1, 1, 1;"),
    "both transposed": statement(8, a_in_shared=True, factors="bf16").replace("1, 1, 0, 0;", "1, 1, 1, 1;"),
    "one says how it lies": statement(8, a_in_shared=True, factors="bf16").replace("1, 1, 0, 0;", "1, 1, 0;"),
    "nothing to transpose": statement(8).replace("1, 1, 1;", "1, 1, 1, 0;"),
    "16 bits negated": statement(8, factors="f16").replace("1, 1, 1, 0;", "1, -1, 1, 0;"),
    "two types": statement(8, factors="f16").replace("f16.f16", "f16.bf16"),
    "sums of 16 bits": statement(8, factors="f16").replace("f32.f16.f16", "f16.f16.f16"),
    "other width": statement(8).replace("m64n8k8", "m64n12k8"),
    "negated": statement(8).replace("1, 1, 1;", "1, -1, 1;"),
    "too few sums": statement(8).replace(', "+f"(sum[3])', ""),
    "kind of operand": statement(8).replace('"r"(a[0])', '"f"(a[0])'),
    "unused": statement(8).replace('"l"(b)', '"l"(b), "r"(0)'),
    "more beside it": statement(8).replace("1, 1, 1;", "1, 1, 1; trap;"),
    "other fence": 'asm volatile("fence.proxy.tensormap::generic.acquire.gpu;" ::: "memory");',
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_forms_are_refused_with_their_line(case: str) -> None:
    text = f"__global__ void k(float* y) {{\nfloat sum[4];\n{REFUSED[case]}\n}}\n"
    with pytest.raises(EmulatorUnsupported, match="cannot run this yet: inline PTX") as caught:
        build(text, [("k", ())], "plain")
    assert caught.value.diagnostics[0].line == 3


def test_lines_below_a_statement_keep_their_numbers() -> None:
    before = statement(64) + "\nint last;"
    after = with_known(before)
    assert "asm" not in after and after.count("\n") == before.count("\n") and after.endswith("\nint last;")


def test_spaces_and_literal_operands_do_not_matter() -> None:
    waits = [
        '"wgmma.wait_group.sync.aligned 1;\\n\\t" : : : "memory"',
        '"wgmma.wait_group.sync" ".aligned %0 ;"::"n"(1)',
    ]
    for wait in waits:
        assert re.fullmatch(r"emu_wgmma_wait_group\(\(?1\)?\)", with_known(f"asm  volatile ( {wait} )"))
