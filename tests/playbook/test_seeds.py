"""Seeds: the best by prediction first, then what is unlike it; nothing that costs seconds to look at."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.playbook.problems import problem_of
from workbench.model import H100, Problem
from workbench.playbook.rules.moves import naive_vector, parse_vector, seed_vectors
from workbench.playbook.rules.seeds import best_at_each, times_of, unlike, worth_timing
from workbench.playbook.techniques.table import settled


def softmax(rows: int, columns: int) -> Problem:
    x = torch.empty(rows, columns, device="meta")
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax")


def divergence(rows: int, columns: int) -> Problem:
    wide = torch.empty(rows, columns, device="meta")
    return problem_of(
        lambda t: F.kl_div(t["x"].log_softmax(1), t["y"].softmax(1), reduction="batchmean"),
        {"x": wide, "y": wide},
        "divergence",
    )


def test_what_costs_seconds_is_not_compared_with() -> None:
    large, small = divergence(8192, 32000), divergence(64, 1000)
    assert not any(("fusion", "none") in card.vector for card in seed_vectors(large, H100, 6))
    assert ("fusion", "none") in seed_vectors(small, H100, 6)[0].vector


def test_slow_is_no_fault_without_something_much_faster() -> None:
    assert worth_timing({"a": 12_000.0}, {"a": 5_000.0})
    assert not worth_timing({"a": 12_000.0, "b": 1.0}, {"a": 500.0, "b": 1.0})
    assert worth_timing({"a": 900.0}, {"a": 1.0})


def test_a_seed_that_is_only_another_name_comes_last() -> None:
    problem = softmax(4096, 1024)
    registers = (("row_cache", "registers"), ("vector_width", "4"))
    alike = (*registers, ("stores", "streamed"))
    shared = (("block_size", "128"), ("row_cache", "shared"), ("vector_width", "4"))
    chosen = unlike(problem, [registers, alike, shared], H100, 2)
    assert shared in chosen and len(chosen) == 2


def test_a_shape_of_its_own_brings_a_seed_of_its_own() -> None:
    x = torch.empty(4096, 4096, device="meta")
    problem = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, cases=({"s0": 1, "s1": 2**20},))
    plain, split = (("row_cache", "registers"), ("vector_width", "4")), (("grid_split", "on"),)
    many, few = (times_of(problem, vector, H100).values() for vector in (plain, split))
    assert any(a < b for a, b in zip(many, few, strict=True))
    assert any(a > b for a, b in zip(many, few, strict=True))
    assert set(unlike(problem, [plain, split], H100, 2)) == {plain, split}


def test_a_shape_is_not_denied_what_is_slow_at_the_others() -> None:
    x = torch.empty(4096, 1024, device="meta")
    cases = ({"s0": 1, "s1": 2**20},)
    problem = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax", cases=cases)
    short = settled(problem, parse_vector("row_cache=registers threads_per_row=warp vector_width=4"))
    split = settled(problem, parse_vector("grid_split=on vector_width=4"))
    slow = settled(problem, parse_vector("vector_width=1"))
    assert best_at_each(problem, [slow, split, short], H100) == [short, split]
    assert best_at_each(softmax(4096, 1024), [split, short], H100) == []
    assert best_at_each(problem, [], H100) == []


def test_the_naive_chain_stays_where_it_is_cheap() -> None:
    problem = softmax(4096, 4096)
    assert seed_vectors(problem, H100, 3)[0].vector == naive_vector(problem)


def test_weights_are_left_alone_where_they_are_larger_than_the_product() -> None:
    def scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return (t["x"] @ t["w"] - t["m"]) * t["s"]

    def folds(rows: int, columns: int) -> str:
        x, w = torch.empty(rows, 4096, device="meta"), torch.empty(4096, columns, device="meta")
        row = torch.empty(columns, device="meta")
        problem = problem_of(scaled, {"x": x, "w": w, "m": row, "s": row}, varying=False)
        own = ("matrix_product", "three_tf32")  # there what follows is done in registers, weights or not
        cards = [card for card in seed_vectors(problem, H100, 8) if own not in card.vector]
        best = max(cards, key=lambda card: card.predicted_factor)
        return dict(best.vector)["affine_in_weights"]

    assert folds(64, 8192) == "off" and folds(65536, 256) == "on"


def test_columns_that_are_read_once_are_read_past_the_cache_among_the_first() -> None:
    def first(*shape: int, sums: bool) -> list[dict[str, str]]:
        x = torch.empty(shape, device="meta")
        once, twice = (lambda t: t["x"].amax(1)), (lambda t: t["x"] - t["x"].amax(1, keepdim=True))
        return [
            dict(card.vector or ())
            for card in seed_vectors(problem_of(once if sums else twice, {"x": x}), H100, 6)
        ]

    assert any(
        seed["threads_per_row"] == "bundle" and seed["stream_hints"] == "on"
        for seed in first(64, 2048, 256, sums=True)
    )
    assert not any(seed.get("stream_hints") == "on" for seed in first(64, 2048, 256, sums=False))


def test_what_is_read_twice_may_keep_the_cache_to_itself() -> None:
    x, order = torch.empty(64, 3, 224, 224, device="meta"), torch.empty(64, dtype=torch.int64, device="meta")
    mixed = problem_of(lambda t: t["x"] * 2 + t["x"][t["order"]], {"x": x, "order": order})
    other = problem_of(lambda t: t["y"] * 2 + t["x"][t["order"]], {"x": x, "y": x.clone(), "order": order})
    found = [
        [dict(card.vector or ()).get("stores") for card in seed_vectors(problem, H100, 6)]
        for problem in (mixed, other)
    ]
    assert "streamed" in found[0] and "streamed" not in found[1]


def test_colours_whose_mean_is_needed_first_are_a_thread_s_together() -> None:
    """A grey of three colours for each of them, in the kernel behind the one that has rows."""

    def contrast(t: dict[str, torch.Tensor]) -> torch.Tensor:
        x = t["image"].float() / 255
        mean = (x * t["luma"]).sum(-1, keepdim=True).mean((1, 2), keepdim=True)
        x = torch.lerp(mean, x, t["factor"].view(-1, 1, 1, 1)).clamp(0, 1)
        grey = (x * t["luma"]).sum(-1, keepdim=True)
        return torch.lerp(grey, x, 0.3).permute(0, 3, 1, 2).contiguous()

    image = torch.empty(64, 224, 224, 3, dtype=torch.uint8, device="meta")
    tensors = {
        "image": image,
        "luma": torch.empty(3, device="meta"),
        "factor": torch.empty(64, device="meta"),
    }
    first = [
        dict(card.vector) for card in seed_vectors(problem_of(contrast, tensors, varying=False), H100, 4)
    ]
    assert any(vector.get("axis_a_thread") == "on" for vector in first)
