"""A search that begins with the archive ends no worse than one without, by the playbook's model of time."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.playbook.problems import problem_of
from workbench.agents.base import SynthesisRequest, Team
from workbench.agents.playbook import PlaybookSynthesizer, playbook_team
from workbench.archive import Archive, remembering
from workbench.devices.base import OnStage
from workbench.model import H100, CaseTime, Draft, Evaluation, Kernel, Passed, Problem, Vector
from workbench.orchestrator import run
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.rules.experience import MOST_RECALLED, fitted
from workbench.policy import Policy
from workbench.session import Session, opening
from workbench.tree import Tree


class Predicting:
    """A device and a synthesizer in one: a kernel takes what is predicted for its vector."""

    name = "predicting"
    parallel = 1
    target = H100

    def __init__(self) -> None:
        self._vectors: dict[str, Vector] = {}
        self._inner = PlaybookSynthesizer()

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        draft = await self._inner.synthesize(request)
        self._vectors[draft.kernel.digest] = draft.vector
        return draft

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        vector = self._vectors[kernel.digest]
        times = tuple(
            CaseTime(
                case=case.label,
                source="model",
                time_us=estimate(problem, vector, H100, case.size_map).us,
                baselines=(("eager", 1000.0),),
                floor_us=0.001,
            )
            for case in problem.cases
        )
        return Evaluation(
            kernel=kernel.digest, device="null", target=H100.name, outcome=Passed(), times=times
        )

    async def close(self) -> None:
        pass


def softmax(*shapes: tuple[int, int]) -> Problem:
    return _over_rows(lambda x: torch.softmax(x, 1), "softmax", *shapes)


def layer_norm(*shapes: tuple[int, int]) -> Problem:
    return _over_rows(lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), "layer_norm", *shapes)


def row_sum(*shapes: tuple[int, int]) -> Problem:
    return _over_rows(lambda x: (x * x).sum(1), "row_sum", *shapes)


def _over_rows(
    op: Callable[[torch.Tensor], torch.Tensor], name: str, first: tuple[int, int], *more: tuple[int, int]
) -> Problem:
    x = torch.empty(*first, device="meta")
    names = problem_of(lambda t: op(t["x"]), {"x": x}, name).symbols
    cases = tuple(dict(zip(names, shape, strict=True)) for shape in more)
    return problem_of(lambda t: op(t["x"]), {"x": x}, name, cases=cases)


def searched(problem: Problem, folder: Path, archive: Archive | None = None) -> Tree:
    device = Predicting()
    plain = playbook_team()
    team = Team(plain.name, plain.reasoner, device, plain.compiler, plain.checker)
    team = team if archive is None else remembering(team, archive)
    with Session.create(folder, opening(problem, Policy(rounds=2), device, team.name)) as session:
        asyncio.run(run(session, team, device))
        return session.tree


def best_score(tree: Tree) -> float:
    best = tree.best()
    return 0.0 if best is None else tree.nodes[best].score


@pytest.mark.slow
@pytest.mark.many(5)
@pytest.mark.parametrize("op", [softmax, layer_norm, row_sum])
def test_with_an_archive_of_other_shapes_the_end_is_at_least_as_good(
    tmp_path: Path, op: Callable[..., Problem]
) -> None:
    archive = Archive(tmp_path / "archive")
    searched(op((1024, 4096)), tmp_path / "past", archive)
    problem = op((4096, 32768), (4096, 1024), (1, 1 << 20))
    fresh, again = searched(problem, tmp_path / "fresh"), searched(problem, tmp_path / "again", archive)

    def usual(tree: Tree) -> list[Vector]:
        seeds = [node for node in tree.nodes.values() if node.operator == "seed"]
        return [node.vector for node in seeds if not node.branch.hypothesis.recalled]

    recalled = [n for n in again.nodes.values() if n.branch.hypothesis.recalled]
    assert 0 < len(recalled) <= MOST_RECALLED
    assert usual(again) == usual(fresh)
    assert best_score(again) >= 0.999 * best_score(fresh)


def test_a_vector_is_fitted_where_it_has_nothing_to_say_and_kept_where_it_has() -> None:
    short, long = softmax((1024, 4096)), softmax((16, 1 << 20))
    past = (("row_cache", "shared"), ("vector_width", "2"))
    there = fitted(short, past, H100)
    here = fitted(long, past, H100)
    assert there is not None and here is not None
    assert dict(there)["vector_width"] == dict(here)["vector_width"] == "2"
    assert dict(here)["fusion"] == "all"
    assert dict(here)["grid_split"] == "on" and "grid_split" not in dict(there)
    assert fitted(short, (("no_such_idea", "on"),), H100) is None
