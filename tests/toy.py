"""A toy problem, a toy device and short builders, for the tests of tree, search, session and orchestrator."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from workbench.devices.base import OnStage
from workbench.errors import DeviceError
from workbench.events import BranchProposed, Event, KernelJudged, KernelWritten, SessionOpened
from workbench.model import (
    H100,
    Branch,
    BranchId,
    Case,
    CaseTime,
    CompileFailed,
    Diagnostic,
    Draft,
    Evaluation,
    Graph,
    Hypothesis,
    Kernel,
    Mismatch,
    Operator,
    Outcome,
    OutputSpec,
    Passed,
    Problem,
    Ref,
    Sampler,
    Suspect,
    Target,
    TensorSpec,
    Vector,
)
from workbench.policy import Policy

PROBLEM = Problem(
    name="relu",
    source="def relu(x): return x.relu()",
    entry="relu",
    kind="function",
    tensors=(TensorSpec(name="x", role="input", dtype="f32", dims=("s0",), sampler=Sampler(kind="normal")),),
    outputs=(OutputSpec(dtype="f32", dims=("s0",)),),
    cases=(Case(label="8", sizes=(("s0", 8),)),),
    graph=Graph(nodes=(), outputs=(Ref(ref="x"),)),
)


def opened(**options: object) -> SessionOpened:
    """First event of a toy session; options are the policy's."""
    policy = Policy.model_validate(options)
    return SessionOpened(
        version="0", problem=PROBLEM, policy=policy, target=H100, device="null", brain="scripted"
    )


def evaluation(source: str, floor_us: float = 10.0) -> Evaluation:
    """What the toy device finds: the first line says ``// us TIME`` (baseline 100) or another outcome."""
    outcome: Outcome
    words = source.splitlines()[0].split()[1:] if source else []
    times: tuple[CaseTime, ...] = ()
    match words:
        case ["us", time]:
            outcome = Passed()
            times = (
                CaseTime(
                    case="8",
                    source="model",
                    time_us=float(time),
                    baselines=(("eager", 100.0),),
                    floor_us=floor_us,
                ),
            )
        case ["wrong", *_]:
            outcome = Mismatch(case="8", message="all of it is wrong")
        case ["suspect", *_]:
            outcome = Suspect(message="too good")
        case _:
            outcome = CompileFailed(stage="nvrtc", diagnostics=(Diagnostic(line=1, message="no time given"),))
    return Evaluation(
        kernel=Kernel(source=source).digest, device="null", target="toy", outcome=outcome, times=times
    )


class ToyDevice:
    """Judges by the kernel's first line, after a delay that may depend on the kernel."""

    name = "null"
    target: Target = H100

    def __init__(
        self,
        delay_s: Callable[[Kernel], float] = lambda _: 0.0,
        broken: Callable[[Kernel], bool] = lambda _: False,
        parallel: int = 8,
    ) -> None:
        self.parallel = parallel
        self.most_at_once = 0
        self.judged: list[str] = []
        self.busy = 0
        self._delay_s = delay_s
        self._broken = broken

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        try:
            on_stage("compiling")
            await asyncio.sleep(self._delay_s(kernel))
            on_stage("running")
            if self._broken(kernel):
                raise DeviceError("the toy device is broken; mend it")
            self.judged.append(kernel.source)
            return evaluation(kernel.source)
        finally:
            self.busy -= 1

    async def close(self) -> None:
        pass


def chance(kernel: Kernel, salt: int, most_s: float) -> float:
    """A delay between 0 and ``most_s`` that is the same for the same kernel and salt."""
    digest = hashlib.sha256(f"{salt}{kernel.source}".encode()).digest()
    return digest[0] / 255 * most_s


def card(vector: Vector = (), title: str = "card", factor: float = 1.25) -> Hypothesis:
    """A hypothesis with nothing in it but what a test looks at."""
    return Hypothesis(
        title=title, bottleneck="none", cause="", fix="", predicted_factor=factor, vector=vector
    )


def branch(
    id: str,
    *parents: str,
    round: int = 1,
    operator: Operator | None = None,
    vector: Vector | None = None,
) -> Branch:
    """A branch; its technique vector is its id unless given, its operator follows from its parents."""
    return Branch(
        id=BranchId(id),
        parents=tuple(BranchId(parent) for parent in parents),
        round=round,
        operator=operator or ("seed", "refine", "crossover")[len(parents)],  # type: ignore[arg-type]
        hypothesis=card((("id", id),) if vector is None else vector),
        author="scripted",
    )


def proposed(
    id: str, *parents: str, round: int = 1, operator: Operator | None = None, vector: Vector | None = None
) -> Event:
    return BranchProposed(branch=branch(id, *parents, round=round, operator=operator, vector=vector))


def written(id: str, source: str, vector: Vector | None = None) -> Event:
    draft = Draft(kernel=Kernel(source=source), vector=(("id", id),) if vector is None else vector)
    return KernelWritten(branch=BranchId(id), draft=draft)


def judged(id: str, source: str, floor_us: float = 10.0) -> Event:
    return KernelJudged(branch=BranchId(id), evaluation=evaluation(source, floor_us))
