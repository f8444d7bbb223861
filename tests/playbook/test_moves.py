"""Seeds, moves and crossovers: what is proposed, in which order, and what the cards say."""

import pytest
import torch
import torch.nn.functional as F

from tests.playbook.problems import problem_of
from workbench.errors import UsageError
from workbench.model import (
    H100,
    AccessSite,
    CaseTime,
    Counts,
    Digest,
    Evaluation,
    Passed,
    Problem,
    Profile,
)
from workbench.playbook.rules import moves as rules
from workbench.playbook.rules.cards import RISKS
from workbench.playbook.rules.moves import cross, moves, naive_vector, parse_vector, seed_vectors, title_of
from workbench.playbook.techniques.table import TECHNIQUES, settled
from workbench.playbook.text.titles import TITLES


def softmax(rows: int, columns: int) -> Problem:
    x = torch.empty(rows, columns, device="meta")
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax")


def linear_rowsum() -> Problem:
    tensors = {"x": torch.empty(4096, 4096, device="meta"), "w": torch.empty(4096, 4096, device="meta")}
    return problem_of(lambda t: F.linear(t["x"], t["w"]).sum(1), tensors, "linear_rowsum")


def measured(bound: str) -> Evaluation:
    site = AccessSite(
        line=12,
        space="global",
        kind="load",
        width_bytes=4,
        requests=100,
        transactions=3200,
        ideal_transactions=400,
    )
    none = dict.fromkeys(("sectors", "ideal_sectors", "load_bytes", "store_bytes", "barriers"), 0)
    return Evaluation(
        kernel=Digest("k"),
        device="emulator",
        target="H100",
        outcome=Passed(),
        counts=(Counts(case="a", launches=1, **none, sites=(site,)),),
        times=(CaseTime(case="a", source="model", time_us=100.0, floor_us=40.0, bound=bound),),
    )


def test_seeds_start_from_the_naive_chain_and_get_better() -> None:
    cards = seed_vectors(softmax(4096, 4096), H100, 3)
    assert [dict(card.vector)["fusion"] for card in cards] == ["none", "all", "all"]
    assert cards[0].predicted_factor == 1.0 < cards[1].predicted_factor < cards[2].predicted_factor
    assert dict(cards[2].vector)["row_cache"] != "reread"
    assert "5 kernels where 1 would do" in cards[0].evidence[0]


def test_a_chain_of_more_steps_than_a_plan_may_have_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its kernels has a result that is allocated."""
    problem = softmax(4096, 4096)
    for steps, starts in ((10, True), (9, False)):
        monkeypatch.setattr(rules, "STEPS", steps)
        vectors = [card.vector for card in seed_vectors(problem, H100)]
        assert (naive_vector(problem) in vectors) is starts and vectors


def test_few_long_rows_are_split() -> None:
    cards = seed_vectors(softmax(2, 2**20), H100, 3)
    assert dict(cards[2].vector)["grid_split"] == "on"
    assert "grid_split" not in dict(settled(softmax(4096, 4096), ()))


def test_short_rows_get_a_warp() -> None:
    cards = seed_vectors(softmax(65536, 128), H100, 3)
    assert dict(cards[2].vector)["threads_per_row"] in ("warp", "thread")


def test_the_rewrite_is_on_from_the_start_and_can_be_seen_without() -> None:
    problem = linear_rowsum()
    assert dict(settled(problem, ()))["linear_rowsum"] == "on"
    assert "linear_rowsum" not in dict(settled(softmax(8, 8), ()))


def test_a_move_changes_one_technique_and_what_must_follow() -> None:
    problem = softmax(4096, 4096)
    here = settled(problem, (("row_cache", "registers"),))
    refinements = moves(problem, here, None, H100, "refine")
    assert refinements
    for card in refinements:
        before = {name: technique.plain for name, technique in TECHNIQUES.items()} | dict(here)
        changed = {name for name, value in card.vector if before[name] != value}
        assert changed == {card.technique}
        assert not TECHNIQUES[card.technique].structural
    factors = [card.predicted_factor for card in moves(problem, settled(problem, ()), None, H100)]
    assert factors == sorted(factors, reverse=True) and factors[0] > 1.1


def test_rewrites_change_the_structure() -> None:
    problem = softmax(4096, 4096)
    cards = moves(problem, settled(problem, ()), None, H100, "rewrite")
    assert {card.technique for card in cards} <= {n for n, t in TECHNIQUES.items() if t.structural}
    assert cards[0].technique == "row_cache"


def test_evidence_has_numbers_and_sources() -> None:
    problem = softmax(4096, 4096)
    card = moves(problem, settled(problem, ()), measured("memory"), H100)[0]
    assert card.bottleneck == "memory"
    assert "a: 100 us, 40% of the roofline, bound by memory (model)" in card.evidence
    assert any("line 12: 32 sectors a request where 4 would do (emulator)" in fact for fact in card.evidence)


def test_a_profile_is_evidence_and_names_the_bottleneck() -> None:
    problem = softmax(4096, 4096)
    told = ("68% of DRAM peak.", "Occupancy is 40%.")
    profile = Profile(case="a", source="counters", sentences=told, bound="latency")
    evaluation = measured("memory")
    time = evaluation.times[0].model_copy(update={"source": "measured"})
    evaluation = evaluation.model_copy(update={"profile": profile, "times": (time,)})
    card = moves(problem, settled(problem, ()), evaluation, H100)[0]
    assert card.bottleneck == "latency"
    assert card.evidence[:3] == (
        "a: 100 us, 40% of the roofline, bound by memory (measured)",
        "68% of DRAM peak (Nsight Compute)",
        "Occupancy is 40% (Nsight Compute)",
    )
    guess = profile.model_copy(update={"source": "estimate", "bound": None})
    card = moves(problem, settled(problem, ()), evaluation.model_copy(update={"profile": guess}), H100)[0]
    assert card.bottleneck == "memory"
    assert card.evidence[1] == "68% of DRAM peak"


def test_values_for_teaching_are_never_proposed_as_gains() -> None:
    for problem in (softmax(4096, 4096), linear_rowsum()):
        for card in moves(problem, settled(problem, ()), None, H100):
            chosen = (card.technique, dict(card.vector)[card.technique])
            assert chosen not in {("fusion", "none"), ("block_reduction", "tree"), ("linear_rowsum", "off")}


def test_a_crossover_takes_from_both() -> None:
    problem = softmax(4096, 4096)
    one = settled(problem, (("row_cache", "registers"),))
    two = settled(problem, (("stream_hints", "on"), ("vector_width", "4")))
    cards = cross(problem, one, two, H100)
    assert cards
    best = dict(cards[0].vector)
    assert best["row_cache"] == "registers" and best["vector_width"] == "4"
    assert all(card.vector not in (one, two) for card in cards)
    assert cross(problem, one, one, H100) == ()


def test_every_technique_teaches() -> None:
    assert len(TECHNIQUES) >= 8
    for technique in TECHNIQUES.values():
        assert len(technique.teaches) > 200 and technique.look_for and len(technique.values) > 1


def test_every_technique_has_a_risk_and_a_title_for_each_value() -> None:
    """A card repeats both: without them a search would end where the technique is first offered."""
    assert set(RISKS) == set(TECHNIQUES)
    assert set(TITLES) == {(name, value) for name, one in TECHNIQUES.items() for value in one.values}


def test_vectors_are_read_from_words() -> None:
    assert parse_vector("vector_width=4, row_cache=registers") == (
        ("row_cache", "registers"),
        ("vector_width", "4"),
    )
    with pytest.raises(UsageError, match="Did you mean 'row_cache'"):
        parse_vector("row_cash=registers")
    with pytest.raises(UsageError, match="technique=value"):
        parse_vector("faster")


def test_where_blocks_keep_all_rows_no_card_says_where_rows_wait() -> None:
    """Its file would hold other kernels, none of which is launched at a declared shape."""
    shared = parse_vector("grid_split=on split_join=words row_cache=registers vector_width=4")
    kept, apart = softmax(64, 131072), softmax(4096, 4096)
    assert "row_cache" not in {card.technique for card in moves(kept, shared, None, H100)}
    assert "row_cache" in {card.technique for card in moves(apart, shared, None, H100)}


def test_a_file_with_a_kernel_for_each_class_of_shapes_has_a_title_too() -> None:
    """What was best before may be such a file: its choices are several at once, which no words say."""
    several = (("by_shape", "cols<=4096|else"), ("fusion", "all"), ("row_cache", "registers|reread"))
    assert title_of(several) == "Each shape takes the kernel that was fastest there"
    assert title_of((("fusion", "all"), ("row_cache", "registers"))) == "Keep the row in registers"
    assert title_of(()) == ""
