import asyncio

import pytest
from toy import PROBLEM, branch, evaluation

from workbench.agents.base import Attempt, ReasonRequest, RepairRequest, SynthesisRequest
from workbench.agents.scripted import Faults, Script, scripted_team, with_faults
from workbench.errors import AgentError
from workbench.model import H100, Vector

TEAM = scripted_team(Script(kernels=("one", "two", "three"), repairs=("better",)))


def ask(count: int, *taken: Vector, hint: str = "") -> ReasonRequest:
    return ReasonRequest(
        problem=PROBLEM, target=H100, operator="refine", parents=(), count=count, taken=taken, hint=hint
    )


def test_the_script_goes_on_from_what_is_taken_and_ends() -> None:
    first, second = asyncio.run(TEAM.reasoner.hypothesize(ask(2)))
    assert (first.vector, second.vector) == ((("line", "0"),), (("line", "1"),))
    (third,) = asyncio.run(TEAM.reasoner.hypothesize(ask(2, first.vector, second.vector, hint="hurry")))
    assert third.cause == "hurry"
    taken = (first.vector, second.vector, third.vector)
    assert asyncio.run(TEAM.reasoner.hypothesize(ask(2, *taken))) == ()


def test_the_kernel_is_the_line_of_the_hypothesis() -> None:
    _, card = asyncio.run(TEAM.reasoner.hypothesize(ask(2)))
    request = SynthesisRequest(problem=PROBLEM, target=H100, operator="seed", hypothesis=card)
    draft = asyncio.run(TEAM.synthesizer.synthesize(request))
    assert (draft.kernel.source, draft.vector) == ("two", card.vector)


def test_repairs_differ_by_hypothesis_and_run_out() -> None:
    chains = [(Attempt(branch=branch(id)),) for id in ("b1", "b2")]
    requests = [RepairRequest(problem=PROBLEM, target=H100, chain=chain) for chain in chains]
    one, other = (asyncio.run(TEAM.compiler.repair(request)) for request in requests)
    assert one is not None and other is not None
    assert one.kernel.source.startswith("better\n")
    assert one.kernel != other.kernel
    again = RepairRequest(problem=PROBLEM, target=H100, chain=chains[0] * 2)
    assert asyncio.run(TEAM.compiler.repair(again)) is None


def test_faults_are_put_in_front_of_every_agent() -> None:
    always = Faults(
        reasoner_fails=lambda _: True,
        synthesizer_fails=lambda _: True,
        compiler_fails=lambda _: True,
        checker_fails=True,
    )
    team = with_faults(TEAM, always)
    card = asyncio.run(TEAM.reasoner.hypothesize(ask(1)))[0]
    synthesis = SynthesisRequest(problem=PROBLEM, target=H100, operator="seed", hypothesis=card)
    with pytest.raises(AgentError, match="reasoner"):
        asyncio.run(team.reasoner.hypothesize(ask(1)))
    with pytest.raises(AgentError, match="synthesizer"):
        asyncio.run(team.synthesizer.synthesize(synthesis))
    with pytest.raises(AgentError, match="compiler"):
        asyncio.run(team.compiler.repair(RepairRequest(problem=PROBLEM, target=H100, chain=())))
    with pytest.raises(AgentError, match="checker"):
        team.checker.explain(PROBLEM, evaluation("// us 1"))
    assert asyncio.run(with_faults(TEAM, Faults()).reasoner.hypothesize(ask(1))) == (card,)


def test_a_repeating_reasoner_offers_what_is_taken() -> None:
    team = with_faults(TEAM, Faults(repeats=True))
    taken: Vector = (("line", "0"),)
    cards = asyncio.run(team.reasoner.hypothesize(ask(1, taken)))
    assert [card.vector for card in cards] == [taken, (("line", "1"),), (("line", "1"),)]
