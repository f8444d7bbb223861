"""Inside the sandbox: load the solution, answer questions about it, call it.

Owns the solution's process after it was shut in. Knows no seed, no expected value and no tolerance. What
it reports of itself are tripwires (tripwires.py); outputs leave through shared memory as plain bytes.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench.foreign import ladder, tripwires
from workbench.foreign.arena import Arena, meta_of
from workbench.foreign.provenance import claims, followed, profiled
from workbench.foreign.sandbox import tighten
from workbench.foreign.stopwatch import HostStopwatch, Stopwatch, stopwatch, vary
from workbench.foreign.unjoined import CurrentStream, late_work
from workbench.foreign.values import Fence
from workbench.model import Contract
from workbench.numerics.inputs import place
from workbench.numerics.precision import precision
from workbench.referee.clock.options import ClockOptions
from workbench.workers import frames

FILE = "solution.py"
MODULE = "workbench_solution"
COPY: Callable[[Tensor, Tensor], Tensor] = Tensor.copy_
SYNCHRONIZE: Callable[[], None] = torch.cuda.synchronize
SLEEP: Callable[[int], None] = torch.cuda._sleep
VARY: Callable[[Tensor, Tensor, int], None] = vary
HOLD_UP_CYCLES = 500_000
"""About 0.3 ms of an H100."""
GLANCE_BYTES = 2**28
"""Outputs up to this size are copied on the device as soon as a call has returned."""
MOST_FRESH = 8
"""Argument tensors replaced by fresh ones that stay alive, so that pointers rotate."""

Answer = dict[str, Any]


def serve(
    inbox: Arena, outbox: Arena, channel: socket.socket, nonce: bytes, fences: tuple[Fence, ...]
) -> None:
    """Answer questions until the channel closes."""
    torch.set_num_threads(1)
    stream = channel.makefile("rb")
    own = [fence.model_dump() for fence in fences]
    channel.sendall(frames.encode(nonce, frames.MESSAGE, json.dumps({"fences": own}).encode()))
    resident = Resident(inbox, outbox)
    while True:
        head = stream.read(frames.HEADER.size)
        if len(head) < frames.HEADER.size:
            return
        _, _, length = frames.HEADER.unpack(head)
        question = json.loads(stream.read(length))
        number, kind = question.pop("number"), question.pop("kind")
        try:
            answer = getattr(resident, kind)(**question)
        except BaseException as error:
            answer = {"raised": raised(error)}
        body = json.dumps({**answer, "number": number}).encode()
        channel.sendall(frames.encode(nonce, frames.MESSAGE, body))


def raised(error: BaseException) -> Answer:
    """An exception of the solution: its class, message and line in the solution's file."""
    line = 0
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.endswith(FILE):
            line = number
    if isinstance(error, SyntaxError) and (error.filename or "").endswith(FILE):
        line = error.lineno or 0
    return {"type": type(error).__name__[:100], "message": str(error)[:2000], "line": line}


@dataclass
class Benched:
    """What timed calls are made on."""

    bases: list[list[Any]]
    rooms: list[list[Any]]
    watch: Stopwatch

    def fill(self, place: int, base: int, seed: int) -> None:
        """New contents in place, for every tensor of a set; each has a stream of its own."""
        for turn, (room, value) in enumerate(zip(self.rooms[place], self.bases[base], strict=True)):
            if isinstance(value, Tensor):
                VARY(room, value, seed + 2**20 * turn)


def _room(value: Any) -> Any:
    """A tensor of its own laid out as ``value``; anything else is itself."""
    if not isinstance(value, Tensor):
        return value
    room = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    COPY(room, value)
    return room


class Resident:
    """The loaded solution and the tensors it is called with; a public method is a kind of question."""

    def __init__(self, inbox: Arena, outbox: Arena) -> None:
        self.inbox, self.outbox = inbox, outbox
        self.model: Any = None
        self.device = "cpu"
        self.arguments: dict[str, Tensor] = {}
        self.fresh: list[Tensor] = []
        self.pool: list[dict[str, Tensor]] = []
        self.last: list[Tensor] = []
        self.rooms: dict[str, list[Tensor]] = {}
        self.flags = tripwires.flags()
        self.others = tripwires.other_flags()
        self.source = ""
        self.stack = ExitStack()
        self.benched = Benched([], [], HostStopwatch())

    # -------------------------------------------------------------------------------- loading

    def load(self, solution: str, init: str, seed: int, device: str, contract: Contract,
             memory_bytes: int) -> Answer:  # fmt: skip
        """Import the solution and build ``ModelNew``; ``init`` is a pickle of the trusted side's."""
        self.device, self.source = device, solution
        self.stack.enter_context(precision(contract))
        if device == "cuda":
            torch.ones(1, device=device).add_(1)
            SYNCHRONIZE()
            tighten(memory_bytes)  # until here the driver has taken address space without end
        arguments = pickle.loads(base64.b64decode(init))
        Path(FILE).write_text(solution, encoding="utf-8")
        claimed = claims(solution)
        ladder.install()
        self.flags, self.others = tripwires.flags(), tripwires.other_flags()
        specification = importlib.util.spec_from_file_location(MODULE, Path(FILE).absolute())
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[MODULE] = module
        torch.manual_seed(seed)
        specification.loader.exec_module(module)
        made = getattr(module, "ModelNew", None)
        if not isinstance(made, type) or not issubclass(made, nn.Module):
            return {"missing": True, "claims": claimed}
        torch.manual_seed(seed)
        model = made(**arguments) if isinstance(arguments, dict) else made(*arguments)
        self.model = model.to(device).eval()
        return {"claims": claimed, "build": ladder.told()}

    def weights(self, notes: list[dict[str, Any]]) -> Answer:
        """Hand over parameters and buffers by name, in place; strict about what is missing."""
        given = {note["path"]: place(self.inbox.view(note), meta_of(note)).to(self.device) for note in notes}
        own = self.model.state_dict(keep_vars=True)
        loose = {path: tensor for path, tensor in given.items() if path not in own}
        missing = [path for path in loose if not isinstance(self._attribute(path), Tensor)]
        unlike = [
            f"{path} is {tuple(have.shape)} {have.dtype}, not {tuple(tensor.shape)} {tensor.dtype}"
            for path, tensor in given.items()
            if isinstance(have := own.get(path, self._attribute(path)), Tensor)
            and (have.shape != tensor.shape or have.dtype != tensor.dtype)
        ]
        if not missing and not unlike:
            with torch.no_grad():
                self.model.load_state_dict({k: v for k, v in given.items() if k in own}, strict=False)
                for path, tensor in loose.items():
                    COPY(self._attribute(path), tensor)
        more = [path for path in own if path not in given]
        return {"missing": missing, "unlike": unlike, "more": more}

    def _attribute(self, path: str) -> Any:
        found = self.model
        for name in path.split("."):
            found = getattr(found, name, None)
        return found

    # -------------------------------------------------------------------------------- calling

    def call(self, arguments: list[dict[str, Any]], slots: list[dict[str, Any]], fresh: bool) -> Answer:
        """One call on new contents, at the same addresses unless ``fresh``; outputs go to ``slots``."""
        values, rooms = [self._value(note) for note in arguments], self._rooms(slots)
        self._hold_up()
        given = [self._rewritten(note, value, fresh) for note, value in zip(arguments, values, strict=True)]
        with torch.no_grad():
            returned = self.model(*given)
        self.last = tripwires.outputs_of(returned)
        seen = glance(self.last, rooms)
        described = self._described()
        if fit(described, slots):
            self._deliver(slots, seen)
        self._join()
        self._return_inputs(arguments)
        return {"outputs": described, **self.facts()}

    def again(self, slots: list[dict[str, Any]]) -> Answer:
        """Deliver the last call's outputs once more."""
        self._join()
        self._deliver(slots)
        return {}

    def run(self, arguments: list[list[dict[str, Any]]], order: list[int], slots: list[list[dict[str, Any]]],
            until_s: float) -> Answer:  # fmt: skip
        """Many calls in a row, arguments rewritten in place before each; every output is delivered."""
        pools = [[self._value(note) for note in notes] for notes in arguments]
        stop, done, described = time.monotonic() + until_s, 0, [Answer()]
        with torch.no_grad():
            for chosen, slot in zip(order, slots, strict=True):
                if time.monotonic() > stop:
                    break
                rooms = self._rooms(slot)
                self._hold_up()
                given = [
                    self._rewritten(note, value)
                    for note, value in zip(arguments[chosen], pools[chosen], strict=True)
                ]
                returned = self.model(*given)
                self.last = tripwires.outputs_of(returned)
                seen = glance(self.last, rooms)
                described = self._described()
                if not fit(described, slot):
                    break
                self._deliver(slot, seen)
                self._join()
                done += 1
        return {"done": done, "outputs": described, **self.facts()}

    def profile(self, arguments: list[dict[str, Any]]) -> Answer:
        """Where the time of one call goes."""
        given = [self._rewritten(note, self._value(note)) for note in arguments]
        with torch.no_grad():
            return profiled(lambda: self.model(*given), self.source)

    # -------------------------------------------------------------------------------- timing

    def bench(self, arguments: list[list[dict[str, Any]]], places: int, clock: dict[str, Any]) -> Answer:
        """Get ready to be timed: some sets of contents, and so many sets of tensors to put them into."""
        self.arguments.clear()
        self.fresh.clear()
        bases = [[self._value(note) for note in notes] for notes in arguments]
        rooms = [[_room(value) for value in bases[0]] for _ in range(places)]
        self.benched = Benched(bases, rooms, stopwatch(self.device, ClockOptions.model_validate(clock)))
        return {}

    def sample(self, base: int, place: int, seeds: list[int], host_us: float,
               slots: list[dict[str, Any]]) -> Answer:  # fmt: skip
        """One timed call on contents it never saw; its outputs are delivered where there are slots."""
        bench, room = self.benched, self.benched.rooms[place]
        with torch.no_grad():
            reading = bench.watch.once(
                lambda attempt: bench.fill(place, base, seeds[attempt]), lambda: self.model(*room), host_us
            )
        self.last = tripwires.outputs_of(reading.returned)
        described = self._described()
        if slots and fit(described, slots):
            self._deliver(slots)
        return {"outputs": described, "time_us": reading.time_us, "host_us": reading.host_us,
                "late_us": reading.late_us, "attempt": reading.attempt, **self.facts()}  # fmt: skip

    def follow(self, base: int, place: int, seed: int) -> Answer:
        """Whether the caller's stream waits for what a call begins, at the size that is timed."""
        if self.device != "cuda":
            return {}
        self.benched.fill(place, base, seed)
        room = self.benched.rooms[place]
        with torch.no_grad():
            return followed(late_work(lambda: self.model(*room), CurrentStream()))

    def row(self, count: int, seed: int, idle: bool, slots: list[dict[str, Any]]) -> Answer:
        """Calls without a pause, for the trusted side's clock; ``idle`` leaves the calls themselves out."""
        bench = self.benched
        with torch.no_grad():
            for turn in range(count):
                place = turn % len(bench.rooms)
                bench.fill(place, turn % len(bench.bases), seed + turn)
                bench.watch.flush()
                if not idle:
                    self.last = tripwires.outputs_of(self.model(*bench.rooms[place]))
        bench.watch.join()
        described = [] if idle else self._described()
        if slots and fit(described, slots):
            self._deliver(slots)
        return {"outputs": described, "done": count, **self.facts()}

    def facts(self) -> Answer:
        """The tripwires, now."""
        return {
            "precision": tripwires.changed(self.flags, tripwires.flags()),
            "settings": tripwires.changed(self.others, tripwires.other_flags()),
            "replaced": tripwires.replaced(),
        }

    # -------------------------------------------------------------------------------- tensors

    def _value(self, note: dict[str, Any]) -> Any:
        """A static, or a new tensor on the device with the contents and strides the note asks for."""
        if "shape" not in note:
            return note["value"]
        there = place(self.inbox.view(note), meta_of(note))
        moved = there.to(self.device)
        if moved.stride() == there.stride() or tripwires.overlaps(there):
            return moved
        room = torch.empty_strided(there.shape, there.stride(), dtype=there.dtype, device=self.device)
        return COPY(room, moved)

    def _rewritten(self, note: dict[str, Any], value: Any, fresh: bool = False) -> Any:
        """The argument's own tensor with new contents, its version counter left as it was."""
        if "shape" not in note:
            return value
        key = json.dumps([note["name"], note["shape"], note["strides"], note["dtype"]])
        if fresh and key in self.arguments:
            self.fresh = [*self.fresh[-MOST_FRESH + 1 :], self.arguments.pop(key)]
        if key not in self.arguments:
            made = self._value(note)  # on the CPU it may be the shared memory itself
            self.arguments[key] = made.clone() if made.is_contiguous() else made
        COPY(self.arguments[key].data, value)
        return self.arguments[key]

    def _described(self) -> list[Answer]:
        return [tripwires.describe(output, self._known()) for output in self.last]

    def _known(self) -> Iterator[tuple[str, Tensor]]:
        for key, tensor in self.arguments.items():
            yield f"input {json.loads(key)[0]}", tensor
        for room in self.benched.rooms:
            yield from (("an input", tensor) for tensor in room if isinstance(tensor, Tensor))
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            yield f"parameter {name}", tensor

    def _rooms(self, slots: list[dict[str, Any]]) -> list[Tensor]:
        """Places on the device for copies of outputs; kept, so that no call is given their memory."""
        types = [getattr(torch, slot["torch"].removeprefix("torch.")) for slot in slots]
        sizes = [math.prod(slot["shape"]) * kind.itemsize for slot, kind in zip(slots, types, strict=True)]
        if self.device != "cuda" or sum(sizes) > GLANCE_BYTES:
            return []
        key = json.dumps([[slot["torch"], slot["shape"]] for slot in slots])
        if key not in self.rooms:
            self.rooms[key] = [
                torch.empty(slot["shape"], dtype=kind, device=self.device)
                for slot, kind in zip(slots, types, strict=True)
            ]
        return self.rooms[key]

    def _deliver(self, slots: list[dict[str, Any]], seen: list[Tensor] | None = None) -> None:
        for output, slot in zip(self.last if seen is None else seen, slots, strict=True):
            COPY(self.outbox.view(slot), output.detach())

    def _return_inputs(self, arguments: list[dict[str, Any]]) -> None:
        """Copy the inputs back, so that the trusted side sees whether they were written."""
        for note in arguments:
            if "after" in note:
                key = json.dumps([note["name"], note["shape"], note["strides"], note["dtype"]])
                COPY(self.outbox.view({**note, "offset": note["after"]}), self.arguments[key])

    def _hold_up(self) -> None:
        """On a GPU, keep the current stream busy for a while before the inputs are written.

        Whatever is not ordered behind that stream then reads old inputs, or its outputs are read before
        they are there.
        """
        if self.device == "cuda":
            SLEEP(HOLD_UP_CYCLES)

    def _join(self) -> None:
        """Wait for the whole device, side streams included."""
        if self.device == "cuda":
            SYNCHRONIZE()


def glance(outputs: list[Any], rooms: list[Tensor]) -> list[Any]:
    """What a kernel on the caller's stream finds in the outputs once that stream is free, in ``rooms``.

    An output that fits no room is given as it is. A copy to the host takes its time to begin, and a stream
    that nobody waits for may be done by then.
    """
    if len(outputs) != len(rooms):
        return outputs
    return [
        COPY(room, output.detach()) if type(output) is Tensor and _alike(output, room) else output
        for output, room in zip(outputs, rooms, strict=True)
    ]


def _alike(output: Tensor, room: Tensor) -> bool:
    return (output.device, output.dtype, output.shape, output.layout) == (
        room.device,
        room.dtype,
        room.shape,
        room.layout,
    )


def fit(described: list[Answer], slots: list[dict[str, Any]]) -> bool:
    """True when the outputs may be copied to their slots."""
    return len(described) == len(slots) and all(
        found["type"] == "torch.Tensor"
        and found["shape"] == slot["shape"]
        and found["dtype"] == slot["torch"]
        for found, slot in zip(described, slots, strict=True)
    )
