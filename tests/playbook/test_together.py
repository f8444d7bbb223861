"""Blocks that keep their pieces and wait for one another: right in any order, in one launch."""

import pytest
import torch

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.compile import compile_kernel, load_cubin
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.playbook.techniques.table import TECHNIQUES, settled
from workbench.referee.occupancy import not_together

GRID: Vector = (("block_size", "64"), ("grid_split", "on"), ("split_join", "grid"), ("vector_width", "4"))
WORDS: Vector = tuple({**dict(GRID), "split_join": "words"}.items())
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))


def layer_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.layer_norm(t["x"], t["x"].shape[1:])


def group_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.group_norm(t["x"], 2)


def rms_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"] * torch.rsqrt((t["x"] * t["x"]).mean(1, keepdim=True) + 1e-5)


def centred_and_scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
    centred = t["x"] - t["x"].mean(1, keepdim=True)
    return centred / (centred.abs().amax(1, keepdim=True) + 1.0)


def waves_and_roots(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """What a load becomes waits for the second pass; its first pass needs the load itself too."""
    waves = t["x"].sin()
    centred = waves - waves.mean(1, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(1, keepdim=True) + 0.01), t["x"].abs().sqrt()


CALLS: dict[str, tuple[Call, tuple[int, ...], int]] = {
    "with_a_result_of_the_load": (waves_and_roots, (1, 9000), 1),
    "softmax": (lambda t: t["x"].softmax(1), (1, 9000), 1),
    "softmax_odd": (lambda t: t["x"].softmax(1), (3, 9001), 1),
    "log_softmax": (lambda t: t["x"].log_softmax(1), (2, 8196), 1),
    "layer_norm": (layer_norm, (2, 9000), 1),
    "group_norm": (group_norm, (1, 4, 5000), 1),
    "rms_norm": (rms_norm, (5, 8200), 1),
    "two_barriers": (centred_and_scaled, (2, 8200), 1),
    "with_a_result_a_row": (lambda t: (t["x"] - t["x"].mean(1, keepdim=True), t["x"].mean(1)), (2, 9000), 1),
}


@pytest.mark.many(29)
@pytest.mark.parametrize(("name", "varying"), crossed(CALLS, [False, True]))
@pytest.mark.parametrize("vector", [GRID, WORDS], ids=["grid", "words"])
def test_right_in_any_order(name: str, vector: Vector, varying: bool) -> None:
    call, shape, launches = CALLS[name]
    torch.manual_seed(1)
    tensors = {"x": torch.randn(shape)}
    source = generate(problem_of(call, tensors, varying=varying), vector).kernel.source
    plan = plan_of(source, tensors)
    assert len(plan.launches) == launches and plan.launches[0].cooperative
    assert plan.launches[0].grid[1] > 1, "split into pieces"
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert not done.report.kept
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-5)


def test_special_values_and_halves() -> None:
    x = torch.randn(6, 8200)
    x[0, 5], x[1, 7], x[2], x[3, :4000] = torch.inf, torch.nan, -torch.inf, -torch.inf
    call: Call = lambda t: t["x"].softmax(1)  # noqa: E731
    for given, width in ((x, "4"), (torch.randn(2, 9000).half(), "8")):
        vector = (*GRID[:3], ("vector_width", width))
        source = generate(problem_of(call, {"x": given}), vector).kernel.source
        assert plan_of(source, {"x": given}).launches[0].cooperative
        check(call, source, {"x": given}, "checked")


def words_of(call: Call, x: torch.Tensor) -> str:
    return generate(problem_of(call, {"x": x}, varying=False), WORDS).kernel.source


def test_words_take_the_place_of_barrier_and_parts() -> None:
    source = words_of(lambda t: t["x"].softmax(1), torch.empty(1, 9000))
    assert "sync();" not in source and "_parts" not in source and "__threadfence" not in source
    assert "tell(op_together_told" in source and "heard(op_together_told" in source
    assert "__device__ unsigned long long" in source and "atomicInc" in source


def test_what_is_no_float_waits_at_the_barrier() -> None:
    source = words_of(
        lambda t: t["x"] - t["x"].amax(1, keepdim=True), torch.empty(1, 9000, dtype=torch.int32)
    )
    assert "this_grid().sync()" in source and "tell(" not in source


@pytest.mark.many(2)
@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_part_of_zero_is_told_too(value: float) -> None:
    """A word that says nothing is zero: a sum of zeros must not look like one."""
    x = torch.full((2, 9000), value)
    for call in (rms_norm, centred_and_scaled, lambda t: t["x"] - t["x"].sum(1, keepdim=True)):
        check(call, words_of(call, x), {"x": x}, "checked")


def test_a_word_that_nobody_writes_is_found() -> None:
    x = torch.randn(1, 9000)
    source = words_of(lambda t: t["x"].softmax(1), x)
    silent = source.replace("    *word = ", "    if (blockIdx.y != 1) *word = ")
    assert silent != source
    plan = plan_of(silent, {"x": x})
    done = execute(plan, build(silent, plan.instances, "checked"), {"x": x}, TURNS[0])
    assert any("for a value that nobody will write" in hazard.message for hazard in done.report.hazards)


def test_words_that_are_not_made_zero_again_are_found() -> None:
    x = torch.randn(1, 9000)
    source = words_of(lambda t: t["x"].softmax(1), x)
    kept = source.replace("            words[i] = 0;", "")
    assert kept != source
    plan = plan_of(kept, {"x": x})
    assert execute(plan, build(kept, plan.instances, "checked"), {"x": x}, TURNS[0]).report.kept


def test_all_loads_come_before_the_first_value_is_used() -> None:
    source = generate(wide(2**20), GRID).kernel.source
    loop = source[source.index("// All loads are on their way") :]
    assert loop.index("load<VEC>(x + col)") < loop.index("take_vector")
    assert loop.count("load<VEC>(x + col)") == 1, "and nothing is read twice"


@pytest.mark.slow
def test_a_guess_about_words_does_not_cost_the_rows_that_were_measured() -> None:
    """4096x32768 on an H100: 387 us with blocks of 1024 and the row in registers, 518 with 256 in shared."""
    shapes = ((16, 16384), (4096, 1024), (1, 2**20))
    cases = tuple({"s0": rows, "s1": columns} for rows, columns in shapes)
    x = torch.empty(4096, 32768, device="meta")
    problem = problem_of(lambda t: t["x"].softmax(1), {"x": x}, cases=cases)
    vectors = [card.vector for card in seed_vectors(problem, H100, 3) if card.vector]
    split = [vector for vector in vectors if dict(vector).get("grid_split") == "on"]
    assert split
    for vector in split:
        (launch,) = plan_of(generate(problem, vector).kernel.source, {"x": x}).launches
        assert (launch.block[0], dict(vector)["row_cache"]) == (1024, "registers")


def wide(columns: int, rows: int = 1, varying: bool = False) -> Problem:
    return problem_of(lambda t: t["x"].softmax(1), {"x": torch.empty(rows, columns)}, varying=varying)


def test_a_million_columns_take_one_launch_that_fits_without_spills() -> None:
    vector = tuple({**dict(GRID), "block_size": "1024"}.items())
    source = generate(wide(2**20), vector).kernel.source
    plan = plan_of(source, {"x": torch.empty(1, 2**20)})
    (launch,) = plan.launches
    assert launch.grid == (1, 132, 1) and launch.cooperative
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport)
    (entry,) = report.kernels
    assert entry.registers <= 64 and entry.spill_store_bytes == 0
    assert not_together(H100, plan, report) is None


def test_rows_that_do_not_fit_at_once_take_the_launches_of_before() -> None:
    source = generate(wide(2**20, varying=True), GRID).kernel.source
    plans = {n: plan_of(source, {"x": torch.empty(1, n)}) for n in (2**20, 2**23)}
    assert [step.cooperative for step in plans[2**20].launches] == [True]
    assert [step.cooperative for step in plans[2**23].launches] == [False] * 3
    assert "else:" in source and "cooperative=True" in source


def test_never_more_blocks_than_a_card_holds_at_once() -> None:
    source = generate(wide(2**17, rows=5, varying=True), (*GRID[1:], ("block_size", "1024"))).kernel.source
    for rows in (2, 3, 5, 7, 16, 50, 131):
        plan = plan_of(source, {"x": torch.empty(rows, 2**15 + 2**17 // rows // 8 * 8)})
        assert all(step.grid[0] * step.grid[1] <= 132 for step in plan.launches if step.cooperative)
    assert plan_of(source, {"x": torch.empty(16, 2**17)}).launches[0].grid == (16, 8, 1)


def test_rows_of_several_axes_never_ask_for_more_blocks_than_a_card_holds() -> None:
    """Instance norm has batch * channels rows: what fills the card is shared by all of them."""
    call: Call = lambda t: torch.nn.functional.instance_norm(t["x"])  # noqa: E731
    source = generate(problem_of(call, {"x": torch.empty(2, 3, 128, 128)}), GRID).kernel.source
    plan = plan_of(source, {"x": torch.empty(2, 3, 128, 128)})
    assert [step.grid for step in plan.launches if step.cooperative] == [(6, 16, 1)]
    for shape in ((2, 3, 512, 512), (1, 7, 512, 512), (5, 2, 256, 256), (3, 40, 128, 128)):
        plan = plan_of(source, {"x": torch.empty(shape)})
        most = 132 * 1024 // 64
        assert all(step.grid[0] * step.grid[1] <= most for step in plan.launches if step.cooperative)


def test_offered_only_where_a_row_is_needed_again_and_fits() -> None:
    def join(problem: Problem) -> str | None:
        return dict(settled(problem, GRID)).get("split_join")

    assert join(wide(2**20)) == "grid"
    assert join(wide(2**23)) == "grid", "as far as there is room"
    assert join(wide(2**25)) is None
    assert join(wide(2**12, rows=4096)) is None
    total = problem_of(lambda t: t["x"].sum(1), {"x": torch.empty(1, 2**20)}, varying=False)
    assert join(total) == "launch", "the last block suffices there"


def test_a_search_begins_with_it_and_a_split_moves_to_it() -> None:
    problem = wide(2**20)
    first = [dict(card.vector).get("split_join") for card in seed_vectors(problem, H100, 5)]
    assert "grid" in first
    apart = settled(problem, (("block_size", "512"), ("grid_split", "on"), ("vector_width", "4")))
    cards = {dict(card.vector).get("split_join"): card for card in moves(problem, apart, None, H100)}
    assert cards["grid"].predicted_factor > cards["words"].predicted_factor > 1.2
    assert cards["grid"].technique == cards["words"].technique == "split_join"
    assert predicted_factor(problem, apart, cards["grid"].vector, H100) > 1.2


def test_it_teaches_what_it_rests_on() -> None:
    text = TECHNIQUES["split_join"].teaches
    assert "cooperative launch" in text and "registers" in text


def test_a_barrier_does_not_bring_the_whole_library() -> None:
    """With it compilation took 2.1 s instead of 0.3, and the machine code came with 1146 variables."""
    problem = problem_of(lambda t: t["x"].softmax(1), {"x": torch.empty(1, 2**20)}, varying=False)
    source = generate(problem, (("grid_split", "on"), ("split_join", "grid"))).kernel.source
    ((kernel, consts),) = plan_of(source, {"x": torch.empty(1, 2**20)}).instances
    answer = load_cubin(source, consts, [kernel])
    assert isinstance(answer, tuple) and len(answer[0]) < 50_000


def test_seeds_for_one_row_are_different_kernels() -> None:
    """Blocks that meet keep their pieces in registers whatever the vector says: the same kernel thrice."""
    both = problem_of(
        lambda t: t["x"].softmax(1), {"x": torch.randn(3, 5)}, "softmax", cases=({"s0": 1, "s1": 2**20},)
    )
    problem = both.model_copy(update={"cases": both.cases[1:], "proofs": both.cases[:1]})
    seeds = [dict(card.vector or ()) for card in seed_vectors(problem, H100, count=7)]
    meeting = [seed for seed in seeds if seed.get("split_join") in ("grid", "words")]
    assert {seed["row_cache"] for seed in meeting} == {"registers"}
    assert {(seed["block_size"], seed["split_join"]) for seed in meeting} >= {
        *(("fit", "grid"), ("256", "grid"), ("fit", "words")),
    }


def test_larger_blocks_that_meet_may_stand_beside_smaller_ones() -> None:
    """A sum over all that was added at places: no length of its row is left to fit a block to."""

    def shares(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        total = t["x"].new_zeros(200_000).index_add(0, t["at"], t["x"])
        share = total / total.mean() - 1.0
        return share, share[t["at"]]

    tensors = {"x": torch.rand(70), "at": torch.randint(0, 200_000, (70,))}
    vector = tuple({**dict(WORDS), "block_size": "fit"}.items())
    source = generate(problem_of(shares, tensors, varying=False), vector).kernel.source
    assert "block=512" in source and "block=256" in source
    check(shares, source, tensors, "checked")
