"""Calls captured in CUDA graphs. Runs in a worker child with a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from workbench.referee.clock.lane import Act

WARM_UP = 3


def captured(act: Act, rotation: int) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
    """Capture one call, after the warm-up torch asks for; raises what the call or the capture raises.

    Not with ``torch.cuda.graph``, which empties the allocator's cache: the next call would pay for it.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            act(rotation)
        side.synchronize()
        try:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                outputs = act(rotation)
            finally:
                graph.capture_end()
        except Exception:
            _draws_again()
            raise
    torch.cuda.current_stream().wait_stream(side)
    return graph, outputs


def _draws_again() -> None:
    """Another state for torch's generator, which a failed capture leaves as if it were still being captured.

    Without it the next random number on this device raises "Offset increment outside graph capture".
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    fresh = torch.Generator(device=generator.device)
    fresh.manual_seed(generator.initial_seed())
    generator.graphsafe_set_state(fresh.graphsafe_get_state())


def graphed(act: Act, rotations: int) -> Act:
    """The act as replays, one graph for each copy of the inputs; outputs lie where they always lie."""
    made = [captured(act, rotation) for rotation in range(rotations)]

    def replay(rotation: int) -> tuple[Tensor, ...]:
        graph, outputs = made[rotation % len(made)]
        graph.replay()
        return outputs

    return replay


@contextmanager
def replaying(act: Act) -> Iterator[Act | None]:
    """The act as replays of one graph, None where it cannot be captured; its memory is given back after."""
    try:
        replay = graphed(act, 1)
        for _ in range(WARM_UP):
            replay(0)  # the first replay uploads the graph
    except Exception:  # a synchronising call, a random generator, a graph already: no graph then
        torch.cuda.synchronize()
        yield None
        return
    try:
        yield replay
    finally:
        torch.cuda.synchronize()
        del replay
