"""Which chosen elements are in doubt, and what doubt makes of what is put to their places."""

from __future__ import annotations

from dataclasses import replace

import known_ops as ops
import torch
from torch import Tensor

from workbench.model import Graph, OpNode, OutputSpec, Ref
from workbench.numerics import choices, movement, reductions
from workbench.numerics.choices import exact_index
from workbench.numerics.chosen_places import misplaced
from workbench.numerics.running import Running
from workbench.numerics.tracked import Tracked, exact


def test_a_masked_score_is_no_doubt_about_the_maximum_of_the_others() -> None:
    """Scores of -3e38 are off by 1e31 each; the largest of a row is not."""
    scores = exact(torch.tensor([[-3e38, 1.0, 2.0]]), "f32")
    doubtful = replace(scores, shared=torch.tensor([[1e31, 1e-6, 1e-7]], dtype=torch.float64))
    largest = reductions.extremum(torch.ops.aten.amax.default, doubtful, 1, False, "f32")
    assert 0 < largest.error.item() < 2e-7
    values, _ = choices.selected(torch.ops.aten.max.dim, doubtful, [1], {}, "f32")
    assert 0 < values.error.item() < 2e-7


def test_the_place_of_a_value_among_its_like_is_in_doubt() -> None:
    """What uses an index further on may be given that of any value that is as good."""
    scores = exact(torch.tensor([[1.0, 3.0, 2.99, 7.0], [1.0, 3.0, 5.0, 7.0]]), "f32")
    doubtful = replace(scores, shared=torch.full((2, 4), 0.1, dtype=torch.float64))
    for op, args, unsure in (
        (torch.ops.aten.max.dim, [1], [False, False]),
        (torch.ops.aten.min.dim, [1, True], [[False], [False]]),
        (torch.ops.aten.kthvalue.default, [2, 1], [True, False]),
        (torch.ops.aten.topk.default, [2, 1], [[False, True], [False, False]]),
    ):
        _, places = choices.selected(op, doubtful, args, {}, "f32")
        assert (places.error > 0).tolist() == unsure
        assert places.error.max() in (0.0, 4.0)


def test_in_no_order_only_what_was_not_chosen_leaves_doubt() -> None:
    """The two largest are as good as one another and both chosen; of the next two, one is."""
    scores = exact(torch.tensor([[7.0, 1.0, 7.05, 3.0], [7.0, 1.0, 3.05, 3.0]]), "f32")
    doubtful = replace(scores, shared=torch.full((2, 4), 0.1, dtype=torch.float64))
    _, places = choices.selected(torch.ops.aten.topk.default, doubtful, [2, 1, True, False], {}, "f32")
    unsure = places.error > 0
    assert not bool(unsure[0].any())
    assert unsure[1].tolist() == [place != 0 for place in places.value[1].tolist()]


def put(x: Tensor, largest: int | None) -> Tracked:
    """Numbers of their ranks put to the places of a sort of x / 3, or ones to those of its largest."""
    outs = (OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=()))
    way = ("aten.sort.default", ()) if largest is None else ("aten.topk.default", (largest,))
    nodes = (
        ops.node("third", "aten.div.Tensor", ops.ref("x"), 3.0),
        OpNode(name="found", op=way[0], args=(ops.ref("third"), *way[1]), outs=outs),
        ops.node("none", "aten.full.default", tuple(x.shape), 0.0),
        ops.node("ranks", "aten.arange.start_step", 1, x.numel() + 1),
        ops.node("rows", "aten.view.default", ops.ref("ranks"), tuple(x.shape)),
        ops.node("y", "aten.scatter.src", ops.ref("none"), 1, Ref(ref="found", item=1), ops.ref("rows"))
        if largest is None
        else ops.node("y", "aten.scatter.value", ops.ref("none"), 1, Ref(ref="found", item=1), 1.0),
    )
    running = Running(sizes={})
    (made,) = running.outputs(Graph(nodes=nodes, outputs=(ops.ref("y"),)), {"x": x})
    assert running.unknown == []
    return made


def near(value: float) -> float:
    return value * (1 + 2.0**-22)


def test_ranks_of_what_is_nearly_as_good_may_be_one_anothers() -> None:
    made = put(torch.tensor([[5.0, 1.0, near(5.0), 9.0]]), None)
    assert made.value.tolist() == [[2.0, 1.0, 3.0, 4.0]]
    assert made.error.tolist() == [[1.0, 0.0, 1.0, 0.0]]


def test_of_a_choice_what_was_not_chosen_may_be() -> None:
    made = put(torch.tensor([[5.0, 1.0, near(5.0), 9.0], [5.0, 1.0, 2.0, near(5.0)]]), 2)
    assert made.value.tolist() == [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]]
    assert made.error.tolist()[0] == [1.0, 0.0, 1.0, 0.0]
    assert not any(made.error.tolist()[1][1:3]), "both of a pair were chosen"


def test_a_sort_leaves_equals_as_they_are_and_a_choice_does_not() -> None:
    x = exact(torch.tensor([[1.0, 1.0, 2.0]]), "f32")
    before = torch.zeros(1, 3, dtype=torch.float64)
    _, order = choices.selected(torch.ops.aten.sort.default, x, [], {}, "f32")
    ranks = exact(torch.tensor([[1.0, 2.0, 3.0]]), "f32")
    assert not bool(choices.exchanged(ranks, before, order, 1).error.any())
    _, places = choices.selected(torch.ops.aten.topk.default, x, [2], {}, "f32")
    mask = exact(before.scatter(1, places.value, 1.0), "f32")
    assert choices.exchanged(mask, before, places, 1).error.tolist() == [[1.0, 1.0, 0.0]]


def test_an_index_in_doubt_leaves_the_others_of_a_gather_their_bound() -> None:
    outs = (OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=()))
    nodes = (
        ops.node("third", "aten.div.Tensor", ops.ref("x"), 3.0),
        OpNode(name="top", op="aten.topk.default", args=(ops.ref("third"), 1), outs=outs),
        ops.node("y", "aten.gather.default", ops.ref("w"), 1, Ref(ref="top", item=1)),
    )
    x = torch.tensor([[1.0, near(1.0), 0.0], [1.0, 0.0, 2.0]])
    graph, w = Graph(nodes=nodes, outputs=(ops.ref("y"),)), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    (made,) = Running(sizes={}).outputs(graph, {"x": x, "w": w})
    assert made.error.flatten().tolist() == [1.0, 0.0]  # the other that is as good, and no third


def ordered_and_cut(x: Tensor, place: list[int]) -> tuple[Tracked, Tracked]:
    """1, 2, 3... gathered in the order of x / 3, and which of x / 3 are beyond one of its elements."""
    outs = (OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=()))
    nodes = (
        ops.node("third", "aten.div.Tensor", ops.ref("x"), 3.0),
        OpNode(name="found", op="aten.sort.default", args=(ops.ref("third"),), outs=outs),
        ops.node("moved", "aten.gather.default", ops.ref("w"), 1, Ref(ref="found", item=1)),
        ops.node("edge", "aten.gather.default", Ref(ref="found", item=0), 1, ops.ref("place")),
        ops.node("cut", "aten.gt.Tensor", ops.ref("third"), ops.ref("edge")),
    )
    numbers = torch.arange(1.0, x.numel() + 1).view_as(x)
    tensors = {"x": x, "w": numbers, "place": torch.tensor([place])}
    graph = Graph(nodes=nodes, outputs=(ops.ref("moved"), ops.ref("cut")))
    for keep in (True, False):
        moved, cut = Running(sizes={}).outputs(graph, tensors, keep=keep)
    return moved, cut


def test_what_is_gathered_in_the_order_of_a_sort_changes_places_with_its_like() -> None:
    moved, _ = ordered_and_cut(torch.tensor([[5.0, 1.0, near(5.0), 9.0]]), [0])
    assert moved.value.tolist() == [[2.0, 1.0, 3.0, 4.0]]
    assert moved.error.tolist() == [[0.0, 2.0, 2.0, 0.0]]


def test_one_that_may_come_anywhere_moves_all_that_it_may_pass() -> None:
    scores = exact(torch.tensor([[1.0, 2.0, 3.0, 4.0, 9.0]]), "f32")
    doubtful = replace(scores, shared=torch.tensor([[0.0, 2.5, 0.0, 0.0, 0.0]], dtype=torch.float64))
    _, places = choices.selected(torch.ops.aten.sort.default, doubtful, [], {}, "f32")
    data = exact(torch.tensor([[10.0, 20.0, 30.0, 40.0, 50.0]]), "f32")
    unsure = replace(places, shared=torch.full_like(places.shared, 5.0))
    off = choices.rearranged(data, unsure, 1, data.value)
    assert off is not None and off.tolist() == [[30.0, 20.0, 20.0, 30.0, 0.0]]


def test_the_edge_that_a_row_is_cut_off_at_is_none_of_what_is_cut_off() -> None:
    """Unless another is as good; and what is beyond one that is as good as another may be either of them."""
    for place, doubtful in ((0, []), (1, [0, 2]), (2, [0, 2]), (3, [])):
        _, cut = ordered_and_cut(torch.tensor([[5.0, 1.0, near(5.0), 9.0]]), [place])
        assert (cut.error > 0).nonzero()[:, 1].tolist() == doubtful


def test_an_edge_that_may_be_another_is_no_edge_for_sure() -> None:
    """The place of the edge itself is one of a choice that is in doubt."""
    outs = (OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=()))
    nodes = (
        ops.node("third", "aten.div.Tensor", ops.ref("x"), 3.0),
        ops.node("other", "aten.div.Tensor", ops.ref("w"), 3.0),
        OpNode(name="best", op="aten.max.dim", args=(ops.ref("other"), 1, True), outs=outs),
        ops.node("edge", "aten.gather.default", ops.ref("third"), 1, Ref(ref="best", item=1)),
        ops.node("cut", "aten.gt.Tensor", ops.ref("third"), ops.ref("edge")),
    )
    x, w = (
        torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]),
        torch.tensor([[1.0, 5.0, near(5.0)], [1.0, 5.0, 3.0]]),
    )
    (cut,) = Running(sizes={}).outputs(Graph(nodes=nodes, outputs=(ops.ref("cut"),)), {"x": x, "w": w})
    assert (cut.error > 0).tolist() == [[False, True, True], [False, False, False]]


def test_beside_a_best_that_may_be_masked_only_the_next_is_right() -> None:
    """The best of a row may have been left out: the second is right then, and no third."""
    scores = exact(torch.tensor([[9.0, 1.0, 5.0, 4.0]]), "f32")
    doubtful = replace(scores, shared=torch.tensor([[torch.inf, 0.1, 0.1, 0.1]], dtype=torch.float64))
    for sign, names in ((1.0, ("argmax", "max")), (-1.0, ("argmin", "min"))):
        x = replace(doubtful, value=sign * doubtful.value)
        chosen = choices.index_of_extremum(getattr(torch.ops.aten, names[0]).default, x, 1, False)
        _, places = choices.selected(getattr(torch.ops.aten, names[1]).dim, x, [1], {}, "f32")
        for made in (chosen, places):
            assert made.value.item() == 0 and made.error.item() > 0 and made.tie is not None
            right = [float(misplaced(torch.tensor([at]), made.tie)[1]) == 0 for at in range(4)]
            assert right == [True, False, True, False]


def test_an_index_in_doubt_leaves_other_rows_their_bound_wherever_it_indexes() -> None:
    """One of five places is in doubt: what lies at the others is known to the last bit."""
    source = exact(torch.arange(24.0).reshape(4, 2, 3), "f32")
    at = exact(torch.tensor([0, 1, 1, 0, 1]), "i64")
    unsure = replace(at, shared=torch.tensor([0.0, 0.0, 4.0, 0.0, 0.0], dtype=torch.float64))
    sure = exact(torch.tensor([[0], [1]]), "i64")
    aten = torch.ops.aten
    calls = {
        "embedding": (aten.embedding.default, [exact(source.value[:, 0], "f32"), unsure], 0),
        "index_select": (aten.index_select.default, [source, 1, unsure], 1),
        "index": (aten.index.Tensor, [source, [None, unsure]], 1),
        "index ": (aten.index.Tensor, [source, [unsure, None, unsure]], 0),
        "index  ": (aten.index.Tensor, [source, [sure, unsure]], 1),
    }
    for name, (op, args, axis) in calls.items():
        made = movement.move(name.strip(), op, args, {}, "f32")
        assert isinstance(made, Tracked)
        off = (made.error > 0).movedim(axis, 0).flatten(1)
        assert off.all(1).tolist() == off.any(1).tolist() == [False, False, True, False, False], name


def test_scores_that_are_all_nan_leave_open_which_of_them_is_chosen() -> None:
    scores = torch.tensor([[torch.nan, torch.nan, torch.nan], [3.0, torch.nan, 1.0]])
    for rows, is_open in ((slice(0, 1), True), (slice(1, 2), False)):
        _, places = choices.selected(torch.ops.aten.topk.default, exact(scores[rows], "f32"), [2], {}, "f32")
        assert choices.is_left_open(places) == is_open


def ranks_of_sorted_choices(scores: Tensor) -> tuple[Tracked, bool]:
    """Where each of the two experts of a token comes among all of them in order; whether it is only tried."""
    pair = (OutputSpec(dtype="f32", dims=()), OutputSpec(dtype="i64", dims=()))
    count = 2 * scores.shape[0]
    nodes = (
        OpNode(name="found", op="aten.topk.default", args=(ops.ref("x"), 2), outs=pair),
        ops.node("flat", "aten.view.default", Ref(ref="found", item=1), (count,)),
        OpNode(name="order", op="aten.sort.default", args=(ops.ref("flat"),), outs=(pair[1], pair[1])),
        ops.node("none", "aten.full.default", (count,), 0),
        ops.node("ranks", "aten.arange.start_step", 0, count),
        ops.node(
            "put", "aten.index_put.default", ops.ref("none"), (Ref(ref="order", item=1),), ops.ref("ranks")
        ),
    )
    run = Running(sizes={})
    (found,) = run.outputs(Graph(nodes=nodes, outputs=(ops.ref("put"),)), {"x": scores})
    return found, bool(run.unknown)


def test_what_is_put_to_the_places_of_equals_is_in_doubt_and_of_others_is_not() -> None:
    """As tokens are sorted by experts: among equal scores torch leaves open which expert it is."""
    sure, probed = ranks_of_sorted_choices(torch.tensor([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0], [9.0, 8.0, 0.0]]))
    assert not probed and not bool(sure.error.any()), "experts that are chosen twice stay in order"
    open_, probed = ranks_of_sorted_choices(torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [9.0, 8.0, 0.0]]))
    assert not probed and bool((open_.error >= 1).all()), "an expert that may be any moves all that follow"


def test_ranks_that_are_put_to_the_places_of_a_sort_are_their_neighbours_or_sure() -> None:
    scores = exact(torch.tensor([5.0, 1.0, 5.05, 9.0]), "f32")
    doubtful = replace(scores, shared=torch.full((4,), 0.1, dtype=torch.float64))
    _, order = choices.selected(torch.ops.aten.sort.default, doubtful, [], {}, "f32")
    ranks = exact(torch.tensor([1.0, 0.0, 2.0, 3.0]), "f32")
    put = choices.put_anywhere(ranks, torch.zeros(4), torch.arange(4.0), order, None, adds=False)
    assert (put.error > 0).tolist() == [True, False, True, False]


def test_what_is_added_at_a_place_in_doubt_may_be_added_anywhere_along_its_row() -> None:
    unsure = torch.tensor([[True, False], [False, False]])
    places = replace(
        exact_index(torch.tensor([[0, 1], [2, 2]])), shared=torch.where(unsure, 3.0, 0.0).to(torch.float64)
    )
    made = exact(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), "f32")
    before, ones = torch.zeros(2, 3), torch.ones(2, 2)
    added = choices.put_anywhere(made, before, ones, places, 1, adds=True)
    assert added.error.tolist() == [[4.0] * 3, [0.0] * 3]
    kept = choices.put_anywhere(made, before, 2 * ones, places, 1, adds=False)
    assert kept.error.tolist() == [[1.0, 1.0, 2.0], [0.0] * 3]
