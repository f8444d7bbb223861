from __future__ import annotations

import pytest
from softmax_problem import PROBLEM, RIGHT, case

from workbench.errors import UsageError
from workbench.model import H100, Case
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.referee.matrix import YOURS, checks_of, checks_on_gpu, elements, typical_trial
from workbench.referee.options import JudgeOptions
from workbench.referee.protocol import Trial


def trial(at: Case, once: bool = False) -> Trial:
    return Trial(case=at, plan=interpret(parse(RIGHT), PROBLEM.metas(at), H100), once=once)


TRIALS = tuple(trial(at) for at in PROBLEM.proofs)


def test_every_case_is_looked_at_once_and_one_meets_all_kinds() -> None:
    planned = checks_of(TRIALS, JudgeOptions(), own_tensors=False)
    looked_at = [p.trial.case for p in planned if p.mode == "checked"]
    assert sorted(c.label for c in looked_at) == sorted(c.label for c in PROBLEM.proofs)
    typical = typical_trial(TRIALS)
    assert {p.inputs for p in planned if p.trial is typical} == set(JudgeOptions().kinds)
    assert sum(p.repeat for p in planned) == 1
    assert planned[0].trial is typical


def test_few_rows_are_shown_all_three_special_values() -> None:
    """Found with other seeds: two rows met one of NaN, inf and -inf a judgement, and lost NaN passed."""
    few = [p for p in checks_of(TRIALS, JudgeOptions(), own_tensors=False) if p.inputs == "special values"]
    assert [p.seed - few[0].seed for p in few] == [0, 1, 2]
    many = checks_of((trial(case(64, 512)),), JudgeOptions(), own_tensors=False)
    assert sum(p.inputs == "special values" for p in many) == 1


def test_seeds_differ_and_follow_the_option() -> None:
    seeds = [p.seed for p in checks_of(TRIALS, JudgeOptions(), own_tensors=False)]
    assert len(set(seeds)) == len(seeds) >= 5
    others = [p.seed for p in checks_of(TRIALS, JudgeOptions(seed=1), own_tensors=False)]
    assert not set(seeds) & set(others)


def test_one_check_more_leaves_all_others_their_inputs() -> None:
    """What must come of them is kept for the next kernel, which may meet sizes that this one does not."""
    options = JudgeOptions(seed=3)
    some = checks_on_gpu(TRIALS[1:], options, own_tensors=False)
    more = checks_on_gpu(TRIALS, options, own_tensors=False)
    known = {(one.trial.case.label, one.inputs, one.seed) for one in more}
    assert len(more) > len(some)
    typical = typical_trial(TRIALS)
    same = [one for one in some if one.trial is not typical and one.inputs == "normal"]
    assert len(same) >= 2 and all((one.trial.case.label, one.inputs, one.seed) in known for one in same)


def test_without_a_seed_every_judgement_draws_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_SEED", raising=False)
    assert len({JudgeOptions().drawn().seed for _ in range(5)}) == 5
    assert JudgeOptions(seed=7).drawn().seed == 7
    monkeypatch.setenv("WORKBENCH_SEED", "41")
    assert JudgeOptions().drawn().first_seed == 41001
    monkeypatch.setenv("WORKBENCH_SEED", "today")
    with pytest.raises(UsageError, match="whole number"):
        JudgeOptions().drawn()


def test_on_a_gpu_one_check_has_a_seed_of_this_kernel_alone() -> None:
    usual = checks_on_gpu(TRIALS, JudgeOptions(seed=3), own_tensors=False)
    own = checks_on_gpu(TRIALS, JudgeOptions(seed=3, own_seed=99), own_tensors=False)
    assert own[:-1] == usual and (own[-1].seed, own[-1].inputs) == (99, "normal")
    assert own[-1].trial is typical_trial(TRIALS)


def test_judged_again_from_a_receipt_the_emulator_meets_that_seed_too() -> None:
    usual = checks_of(TRIALS, JudgeOptions(seed=3), own_tensors=False)
    own = checks_of(TRIALS, JudgeOptions(seed=3, own_seed=99), own_tensors=False)
    assert own[:-1] == usual and (own[-1].seed, own[-1].mode) == (99, "plain")


def test_the_typical_case_is_quick_has_several_rows_and_is_no_special_one() -> None:
    assert typical_trial(TRIALS).case == case(2, 1025)
    huge = trial(case(1024, 4096))
    assert typical_trial((*TRIALS, huge)).case == case(2, 1025)
    assert typical_trial((huge,)) is huge
    assert typical_trial((*TRIALS, trial(case(8, 4096), once=True))).case == case(2, 1025)
    one_row = trial(case(1, 60000))
    assert elements(one_row) > elements(TRIALS[4])
    assert typical_trial((*TRIALS, one_row)).case == case(2, 1025)


def test_large_weights_do_not_leave_a_single_row() -> None:
    """Found with a published kernel whose ReLU lost NaN: all its kinds of input had met one row only."""
    one, several = trial(case(1, 70000)), trial(case(7, 70000))
    assert typical_trial((one, several)) is several


def test_races_are_looked_for_at_every_size_however_many_threads_the_kernel_starts() -> None:
    planned = checks_of(TRIALS, JudgeOptions(traced_threads=1), own_tensors=False)
    assert all(p.races for p in planned if p.mode == "checked")
    assert {p.trial.case.label for p in planned if p.races} == {t.case.label for t in TRIALS}
    assert not any(p.races for p in checks_of(TRIALS, JudgeOptions(races=False), own_tensors=False))


def test_own_tensors_come_last_on_the_first_case() -> None:
    last = checks_of(TRIALS, JudgeOptions(), own_tensors=True)[-1]
    assert (last.inputs, last.trial) == (YOURS, TRIALS[0])
    assert checks_of((), JudgeOptions(), own_tensors=True) == ()
