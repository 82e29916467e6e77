"""The study: nothing lost, nothing done twice, and the same proposals whoever asks for them."""

import math
import random
from itertools import islice

import optuna
import pytest

from sage_cli.trials.sweep.journal import JOURNAL, open_journal
from sage_cli.trials.sweep.sampler_choice import choose_sampler
from sage_cli.trials.sweep.samplers import pruner
from sage_cli.trials.sweep.space import Range, Space, Values, point_key
from sage_cli.trials.sweep.study import Study
from sage_cli.trials.sweep.study_trial import State

TAU = Values(key="guide.tau", values=(0.1, 0.2))
RHO = Values(key="guide.rho", values=(1.0, 2.0))
GRID = Space(parameters={"tau": TAU, "rho": RHO})
POINTS = list(GRID.points())
TAUS = Range(key="guide.tau", range=(0.2, 0.8))
RATES = Range(key="rl.learning_rate", range=(1e-5, 1e-3), log=True)
STEPS = Range(key="rl.steps", range=(10, 40), integer=True)
UNIT = Space(parameters={"tau": Range(key="guide.tau", range=(0, 1))})
RANGES = Space(parameters={"tau": TAUS, "lr": RATES, "steps": STEPS})
GUIDE = Values(key="guide.name", values=("token", "branch"))
BRANCH = {"guide.name": ("branch",)}
GUIDED = Range(key="guide.tau", range=(0.2, 0.8), when=BRANCH)
BETA = Range(key="anchor.beta", range=(0.01, 0.1))
CONDITIONAL = Space(parameters={"guide": GUIDE, "tau": GUIDED, "beta": BETA})


@pytest.fixture
def opened(tmp_path):
    """Open a study anew, as another driver would; by default the grid's."""

    def opened(space=GRID, sampler="grid", seed=0, objectives=("pass@1",), **determinants):
        return Study.open(tmp_path / "s", "mine", space, sampler, seed, objectives, determinants)

    return opened


def judged(point, objectives):
    """Some objective of a point, told by its numbers."""
    first = sum(math.sin(3 * value) for value in point.values() if not isinstance(value, str))
    return [first, -first * first][: len(objectives)]


def take(study, count):
    """So many proposals, told one after the other."""
    points = []
    for proposal in islice(iter(study.propose, None), count):
        study.tell(proposal, judged(proposal.point, study.objectives))
        points.append(proposal.point)
    return points


def test_a_grid_is_proposed_in_order_and_once(opened):
    study = opened()
    assert take(study, 2) == POINTS[:2]
    assert take(opened(), 9) == POINTS[2:]
    again = opened()
    assert again.propose() is None
    assert [one.point for one in again.trials()] == POINTS
    assert {one.state for one in again.trials()} == {State.DONE}


def test_what_a_killed_driver_left_still_runs(opened):
    left = opened().propose()
    again = opened()
    assert [(one.number, one.point) for one in again.running()] == [(left.number, POINTS[0])]
    assert again.propose().point == POINTS[1]
    again.tell(again.running()[0], [0.5])
    assert [(one.point, one.state, one.values) for one in opened().trials()] == [
        (POINTS[0], State.DONE, (0.5,)),
        (POINTS[1], State.RUNNING, None),
    ]


def test_an_ask_that_was_interrupted_is_no_proposal_and_changes_nothing(tmp_path):
    def search(folder):
        return Study.open(tmp_path / folder, "s", RANGES, "tpe", 1, ["pass@1"])

    straight = take(search("a"), 12)
    study = search("b")
    assert take(study, 8) == straight[:8]
    study._study.ask().suggest_float("tau", 0.2, 0.8)  # where a driver may be killed
    again = search("b")
    assert again.running() == []
    assert len(again.trials()) == 8
    assert take(again, 4) == straight[8:]


def test_failed_points_come_again_for_the_next_driver_alone(opened):
    study = opened()
    first = study.propose()
    study.fail(first, "diverged", "loss is NaN at step 7")
    assert study.propose().point == POINTS[1]
    (failed, _) = study.trials()
    assert (failed.state, failed.values) == (State.FAILED, None)
    assert failed.attrs == {"failure": "diverged", "reason": "loss is NaN at step 7"}
    again = opened()
    second = again.propose()
    assert second.point == POINTS[0]
    assert second.attrs == {"again": first.number}
    again.tell(second, [0.3])
    assert [one.state for one in opened().trials()] == [State.DONE, State.RUNNING]
    assert opened().failed == []


def test_a_result_outlives_a_later_failure(opened):
    study = opened()
    take(study, 1)
    late = study.begin(POINTS[0], {})
    study.fail(late, "error", "tried by hand")
    assert [one.state for one in opened().trials()] == [State.DONE]


def test_notes_and_the_last_report_are_kept(opened):
    study = opened()
    proposal = study.propose()
    assert study.last_report(proposal) == 0
    study.note(proposal, run="rl-1", jobs=["7"])
    study.report(proposal, 10, 0.1)
    study.report(proposal, 20, 0.2)
    again = opened()
    (found,) = again.running()
    assert found.attrs == {"run": "rl-1", "jobs": ["7"]}
    assert again.last_report(found) == 20


@pytest.mark.parametrize("objectives", [("pass@1",), ("pass@1", "pass@64")])
def test_pruned_proposals_say_why_and_stay_out_of_the_samplers_way(opened, objectives):
    study = opened(RANGES, "tpe", objectives=objectives)
    for _ in range(2):
        proposal = study.propose()
        if len(objectives) == 1:
            study.report(proposal, 10, 0.1)
        study.prune(proposal, "median", 10)
    take(study, 8)
    pruned = opened(RANGES, "tpe", objectives=objectives).trials()[:2]
    assert [one.state for one in pruned] == [State.PRUNED] * 2
    assert pruned[0].attrs == {"reason": "median", "step": 10}
    assert opened(RANGES, "tpe", objectives=objectives).failed == []


@pytest.mark.parametrize("rule", ["median", "asha", "hyperband"])
def test_a_driver_prunes_as_optuna_does_also_after_restarts(tmp_path, rule):
    """Fifty trainings side by side, a report at a time; the driver is started again at times."""
    rules = {"pruner": pruner(rule, 5, 100)}

    def opened():
        return Study.open(tmp_path, "mine", UNIT, "random", 0, ["pass@1"], **rules)

    ours = opened()
    theirs = optuna.create_study(study_name=ours.name, direction="maximize", **rules)
    generator, running, ended = random.Random(0), {}, 0
    for turn in range(600):
        if turn % 40 == 0:
            ours = opened()
        if len(running) < 3 and len(theirs.trials) < 50:
            trial = theirs.ask()
            running[trial.number] = (trial, ours.propose(), 0)
        if not running:
            break
        number = generator.choice(list(running))
        trial, proposal, step = running.pop(number)
        value = generator.random() + 0.02 * number
        trial.report(value, step + 5)
        ours.report(proposal, step + 5, value)
        found = ours.should_prune(proposal)
        assert found == trial.should_prune()
        if found:
            ended += 1
            theirs.tell(number, state=optuna.trial.TrialState.PRUNED)
            ours.prune(proposal, rule, step + 5)
        elif step + 5 == 100:
            theirs.tell(number, value)
            ours.tell(proposal, [value])
        else:
            running[number] = (trial, proposal, step + 5)
    assert 10 < ended < 50


def test_values_that_are_none_are_a_bug(opened):
    study = opened()
    proposal = study.propose()
    for values in ([], [0.1, 0.2], [math.nan]):
        with pytest.raises(ValueError, match="pass@1 cannot be"):
            study.tell(proposal, values)
    assert len(study.running()) == 1


SEARCHES = [
    (sampler, space, objectives)
    for sampler in ("random", "qmc", "tpe", "gp", "cmaes", "nsga2")
    for space in (RANGES, CONDITIONAL)
    for objectives in (("pass@1",), ("pass@1", "pass@64"))
    if not (space is CONDITIONAL and sampler in ("qmc", "gp", "cmaes"))
    if not (sampler == "cmaes" and len(objectives) > 1)
]


@pytest.mark.parametrize(("sampler", "space", "objectives"), SEARCHES)
def test_a_restart_changes_no_proposal(tmp_path, sampler, space, objectives):
    if sampler == "cmaes":
        pytest.importorskip("cmaes")
    assert choose_sampler(sampler, space, objectives) == sampler
    count = 24 if sampler == "nsga2" else 10  # beyond its first generation

    def search(folder, *counts):
        return [
            point
            for many in counts
            for point in take(Study.open(folder, "s", space, sampler, 3, objectives), many)
        ]

    straight = search(tmp_path / "a", count)
    assert search(tmp_path / "b", 5, count - 5) == straight
    assert len({point_key(point) for point in straight}) == count
    assert all(point in space for point in straight)


def test_another_seed_proposes_other_points_and_no_rule_prunes(opened):
    assert take(opened(RANGES, "random", seed=1), 3) != take(opened(RANGES, "random", seed=2), 3)
    study = opened(RANGES, "tpe")
    for value in (0.9, 0.8, 0.7, 0.6, 0.5, 0.1):
        proposal = study.propose()
        study.report(proposal, 1, value)
        assert not study.should_prune(proposal)
        study.tell(proposal, [value])


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe", "nsga2"])
def test_a_discrete_space_is_exhausted_without_a_repetition(opened, sampler):
    study = opened(sampler=sampler)
    points = take(study, 99)
    assert sorted(map(point_key, points)) == sorted(map(point_key, POINTS))
    assert opened(sampler=sampler).propose() is None


def test_a_repetition_is_told_what_is_known_and_is_no_proposal(opened):
    steps = Range(key="rl.steps", range=(1, 6), integer=True)
    space = Space(parameters={"steps": steps})
    study = opened(space, "random")
    assert {point["rl.steps"] for point in take(study, 9)} == {1, 2, 3, 4, 5, 6}
    assert len(study.trials()) == 6
    trials = study._all()
    assert len(trials) > 6
    repeated = [trial for trial in trials if "repeats" in trial.user_attrs]
    assert {trial.state for trial in repeated} == {optuna.trial.TrialState.COMPLETE}
    assert all(trial.values == trials[trial.user_attrs["repeats"]].values for trial in repeated)


def test_whole_numbers_are_exhausted_like_values(opened):
    """Also where a parameter exists in some points only: 3 with token, 2 x 3 with branch."""
    taus = Range(key="guide.tau", range=(1, 2), integer=True, when=BRANCH)
    steps = Range(key="rl.steps", range=(7, 9), integer=True)
    study = opened(Space(parameters={"guide": GUIDE, "tau": taus, "steps": steps}), "tpe")
    assert study.space.size == 12
    assert len(study.space.listed()) == len(take(study, 99)) == 9


def test_what_is_known_from_elsewhere_is_entered_once(opened):
    study = opened()
    assert study.known(POINTS[1], [0.7], "mine/0123abcd", run="rl-9")
    assert not study.known(POINTS[1], [0.8], "another")
    assert not study.known({"guide.tau": 0.3, "guide.rho": 1.0}, [0.1], "outside")
    running = study.propose()
    assert not study.known(running.point, [0.1], "awaited")
    (known, _) = study.trials()
    assert (known.values, known.state) == ((0.7,), State.DONE)
    assert known.attrs == {"source": "mine/0123abcd", "run": "rl-9"}
    assert [one.point for one in iter(study.propose, None)] == POINTS[2:]


def test_a_failed_point_that_is_known_by_now_does_not_come_again(opened):
    study = opened()
    study.fail(study.propose(), "killed", "")
    assert opened().known(POINTS[0], [0.7], "elsewhere")
    assert opened().propose().point == POINTS[1]


def test_bayes_learns_from_what_is_known(tmp_path):
    study = Study.open(tmp_path, "s", UNIT, "tpe", 0, ["pass@1"])
    for step in range(30):
        study.known({"guide.tau": step / 29}, [-abs(step / 29 - 0.8)], "grid")
    proposed = [study.propose().point["guide.tau"] for _ in range(10)]
    # 10 at random would have a median within .15 of .8 once in 20 times
    assert sorted(proposed)[5] == pytest.approx(0.8, abs=0.15)


def test_views_are_told_apart_by_what_decides_values(opened, tmp_path):
    study = opened()
    take(study, 4)
    views = [
        opened(Space(parameters={"tau": TAU})),
        opened(sampler="random"),
        opened(steps=30),
        opened(sampler="random", seed=1),
        opened(objectives=("pass@8",)),
        opened(steps=40),
    ]
    names = [one.name for one in (study, *views)]
    assert len(set(names)) == len(names)
    storage = open_journal(tmp_path / "s")
    assert sorted(optuna.get_all_study_names(storage)) == sorted(names)
    assert all(one.trials() == [] for one in views)


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes", "nsga2"])
def test_samplers_learn_where_trials_are_infeasible(tmp_path, sampler):
    """All above lr 1e-4, half of the space; the report of a driver before has the reason."""
    space, places = Space(parameters={"tau": TAUS, "lr": RATES}), []
    study = Study.open(tmp_path, "s", space, sampler, 0, ["pass@1"])
    for _ in range(30):
        trial = study.propose()
        places.append(trial.point["rl.learning_rate"] > 1e-4)
        if places[-1]:
            study.rule_out(trial, "diverged", "loss nan")
        else:
            study.tell(trial, [0.5 + 100 * trial.point["rl.learning_rate"]])
    again = Study.open(tmp_path, "s", space, sampler, 0, ["pass@1"])
    assert again.failed == []
    assert [one.state is State.INFEASIBLE for one in again.trials()] == places
    assert sum(places[15:]) <= {"nsga2": 9}.get(sampler, 7)


def test_half_a_line_and_a_lock_of_a_killed_driver_do_no_harm(opened, tmp_path):
    study = opened()
    take(study, 1)
    journal = tmp_path / "s" / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 5, "wor')
    journal.with_name(f"{JOURNAL}.lock").symlink_to(journal)
    again = opened()
    assert take(again, 9) == POINTS[1:]
    assert journal.read_bytes().startswith(whole)
    assert opened().propose() is None
