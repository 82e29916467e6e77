"""The study smollm2-dose: its order, what need not run again, and what the pilot is asked."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from dose import COMMIT, Place, clone_commit
from dose_kept import Kept
from dose_pilot import criteria, pilot_of, q_by_d
from dose_units import (
    BASE_TEMPERATURES,
    PAIR,
    PILOT,
    PILOTED,
    Unit,
    arms_of,
    done,
    order_of_seeds,
    units,
)

from sage_cli.problems.problem import problem_id
from sage_cli.trials.suites.declaration import read_suite

DECLARED = Path(__file__).parents[3] / "configs/suites/smollm2-dose.yaml"
HERE = {"adapter": "a", "result_version": 1}
THERE = {"adapter": "b", "result_version": 1}


def line(unit, made_with=HERE, *, ended=True, **steps):
    return {
        "unit": unit.name,
        "method": unit.method,
        "seed": unit.seed,
        "policy": unit.name,
        "ended": ended,
        "made_with": made_with,
        "steps": steps,
    }


def test_the_order_is_the_declared_one():
    said = " ".join(DECLARED.read_text().replace("#", " ").split())
    assert " ".join(map(str, order_of_seeds())) in said
    assert f"one seed ({PILOT})" in said
    suite = read_suite(str(DECLARED))
    assert {unit.method for unit in units()} == suite.methods.keys()
    assert PILOT not in order_of_seeds()
    assert sorted(order_of_seeds()) == list(range(1, suite.seeds + 1))


def test_every_seed_has_the_pair_and_four_have_all_arms():
    trained = [(unit.seed, unit.method) for unit in units() if unit.trains and unit.seed != PILOT]
    assert len(trained) == 4 * 4 + 4 * 2
    for place, seed in enumerate(order_of_seeds()):
        arms = [method for of, method in trained if of == seed]
        assert arms == arms_of(seed)
        assert set(arms) == ({*PILOTED} if place < 4 else {*PAIR})


def test_names_are_unique_and_the_pilot_comes_first():
    names = [unit.name for unit in units()]
    assert len(set(names)) == len(names)
    # a pool, 4 of the pilot; a pool, the initial policy; 24 trainings, 2 x 8 and 4 temperatures
    assert len(names) == 5 + 2 + 24 + 16 + 4
    assert [unit.part for unit in units()[:6]] == ["pilot's pool", *["pilot"] * 4, "pool"]
    left = units(["temperatures", "initial", "envelope"])
    assert len(left) == 5 + 2 + 20
    assert {0.8, 1.2, *BASE_TEMPERATURES}.isdisjoint(unit.temperature for unit in left)


def test_two_processes_share_the_seeds_in_the_declared_order():
    one, two = units(seeds=[4, 6]), units(seeds=[7])
    assert {unit.seed for unit in one} == {PILOT, None, 4, 6}
    assert [unit for unit in units() if unit in {*one, *two}] == [
        *one[: one.index(Unit("pair", "anchor", 4))],
        *(unit for unit in two if unit.seed == 7),
        *one[one.index(Unit("pair", "anchor", 4)) :],
    ]


def test_a_seed_goes_on_with_its_own_initial_policy_alone():
    first = order_of_seeds()[0]
    arms = [unit for unit in units() if unit.seed == first]
    trained = [unit for unit in arms if unit.trains]
    begun = [line(unit, THERE) for unit in trained[:-1]]
    assert done(begun, THERE, units()) == {unit.name for unit in trained[:-1]}
    # elsewhere the seed is begun anew; whole, it is done, and its policies are not there to measure
    assert done(begun, HERE, units()) == set()
    assert done([*begun, line(trained[-1], HERE)], HERE, units()) == {trained[-1].name}
    assert done([*begun, line(trained[-1], THERE, ended=False)], THERE, units()) == {
        unit.name for unit in trained[:-1]
    }
    whole = [*begun, line(trained[-1], THERE)]
    assert done(whole, HERE, units()) == {unit.name for unit in arms}
    # where the policies are, they are still to be measured at other temperatures
    assert done(whole, THERE, units()) == {unit.name for unit in trained}
    # without the envelope the same lines are a whole seed
    lines = [line(unit, THERE) for unit in trained if unit.part != "envelope"]
    assert {one["unit"] for one in lines} <= done(lines, HERE, units(["envelope"]))
    assert done(lines, HERE, units()) == set()


def test_what_has_no_seed_is_done_wherever_it_was():
    wanted = units()
    lines = [line(unit, THERE) for unit in wanted if unit.seed is None]
    assert done(lines, HERE, wanted) == {unit.name for unit in wanted if unit.seed is None}
    assert done([line(wanted[0], THERE, ended=False)], HERE, wanted) == set()


STEPS = {
    "anchor": {"reward": [0.1, 0.2, 0.2, 0.3], "kl/k3_reference": [0.0, 0.001, 0.001, 0.003]},
    "branch": {
        "kl/k3_reference": [0.0, 9.0, 0.001, 0.003],
        "completions/length": [9.0, 9.0, 20.0, 10.0],
        "guide/q_kl_mean": [None, 9.0, 1.1, 1.3],
        "guide/shaped": [0.9, 0.9, 0.1, 0.2],
    },
    "control": {"kl/k3_reference": [0.0, 0.0, 0.003, 0.005]},
    "envelope": {"kl/k3_reference": [0.0, 0.0, 0.001, 0.001]},
}


def test_the_pilots_criteria_by_hand():
    answers = [(answer.asked[0], answer.value, answer.holds) for answer in criteria(STEPS)]
    assert answers == [
        ("a", pytest.approx(0.25 - 0.15), True),
        ("a", pytest.approx(0.002), True),
        # sums of d over tokens are .001 x 20 and .003 x 10: (1.1 x .02 + 1.3 x .03) / .05
        ("b", pytest.approx(0.061 / 0.05), True),
        ("b", pytest.approx(0.15), True),
        ("c", pytest.approx(4), True),
    ]
    some = criteria({method: STEPS[method] for method in ("branch", "control")})
    assert [answer.holds for answer in some] == [None, None, True, True, None]


@pytest.mark.parametrize(
    ("method", "key", "values", "what"),
    [
        ("anchor", "reward", [0.2, 0.2, 0.2, 0.2], "a: reward"),
        ("anchor", "kl/k3_reference", [1, 1, 0.0009, 0.0009], "a: mean d"),
        ("branch", "guide/q_kl_mean", [1.4, 1.4, 1.1, 1.1], "b: q"),
        ("branch", "guide/shaped", [0.2, 0.2, 0.3, 0.4], "b: tokens"),
        ("envelope", "kl/k3_reference", [0, 0, 0.003, 0.003], "c: "),
    ],
)
def test_each_of_them_can_fail(method, key, values, what):
    steps = STEPS | {method: STEPS[method] | {key: values}}
    failed = [answer.asked for answer in criteria(steps) if not answer.holds]
    assert [asked.startswith(what) for asked in failed] == [True]


def test_q_of_a_guide_without_anything_to_pull_at_is_unknown():
    nothing = {
        "kl/k3_reference": [0.0, 0.0],
        "guide/q_kl_mean": [None, None],
        "completions/length": [9.0, 9.0],
    }
    assert math.isnan(q_by_d(nothing))


def test_the_pilot_is_its_largest_set_from_one_initial_policy():
    pilot = [unit for unit in units() if unit.part == "pilot"]
    lines = [line(pilot[0], HERE, d=[1]), *(line(unit, THERE, d=[2]) for unit in pilot[:2])]
    assert pilot_of(lines) == {unit.method: {"d": [2]} for unit in pilot[:2]}
    assert pilot_of([line(pilot[0], ended=False)]) == {}


def test_nothing_of_a_declared_training_runs_before_the_pilot_holds():
    trained = {"pair", "control", "envelope", "temperatures"}
    assert {unit.part for unit in units() if unit.waits} == trained
    assert {unit.part for unit in units() if not unit.waits} == {
        "pilot's pool",
        "pilot",
        "pool",
        "base",
        "initial",
    }


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path)


def rows_of(unit, policy, right):
    return [
        {
            "suite": "s",
            "unit": unit,
            "method": "m",
            "policy": policy,
            "benchmark": benchmark,
            "problem": problem,
            "temperature": 1.0,
            "seed": 0,
            "evaluation_seed": 0,
            "n": 4,
            "c": c,
        }
        for benchmark in ("answers", "formulas")
        for problem, c in right.items()
    ]


def test_a_unit_takes_the_place_of_its_own_earlier_counts_and_no_others(kept):
    for unit, right in (("first", {"x": 1}), ("second", {"x": 2}), ("first", {"x": 3, "y": 4})):
        kept.keep_counts(rows_of(unit, "p", right))
    assert kept.shares("first") == {"x": 3 / 4, "y": 1.0}
    assert kept.shares("second") == {"x": 2 / 4}
    assert kept.shares("third") == {}


def test_a_line_takes_the_place_of_one_from_the_same_weights(kept):
    one, two = Unit("pair", "anchor", 1), Unit("pair", "branch", 1)
    for written in (line(one, ended=False), line(two), line(one, THERE), line(one)):
        kept.keep_line(written)
    found = [(of["unit"], of["made_with"]["adapter"], of["ended"]) for of in kept.lines()]
    assert found == [(two.name, "a", True), (one.name, "b", True), (one.name, "a", True)]


@pytest.fixture
def place(tmp_path, kept):
    """A folder with four training problems, of which the counts choose one for the pilot."""
    (tmp_path / "smollm2").mkdir()
    rows = [{"question": f"q{i}", "gold": str(i), "working": "w"} for i in range(4)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "smollm2/train.jsonl").write_text(text)
    ids = [problem_id("train.jsonl", row["question"], row["gold"]) for row in rows]
    # of 4 samples 0, 1 and 4 are right, and of the fourth problem there are none
    pool = Unit("pilot", "anchor", PILOT).pool
    kept.keep_counts(rows_of(pool, "p", dict(zip(ids, (0, 1, 4), strict=False))))
    return Place(tmp_path, DECLARED.parents[2], kept)


def test_rows_are_those_that_the_counts_choose(place):
    assert place.choose_rows(Unit("pilot", "anchor", PILOT)) == "smollm2/pilot.jsonl"
    chosen = (place.folder / "smollm2/pilot.jsonl").read_text()
    assert chosen == '{"question": "q1", "gold": "1"}\n'
    with pytest.raises(SystemExit, match="no unit 'pool base T 1'"):
        place.choose_rows(Unit("pair", "anchor", 1))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("envelope", ["beta 0.28", "4 prompts x 8 rollouts"]),
        ("branch", ["beta 0.2,", "tau 0.3, rho 1.0, signals of the reference"]),
    ],
)
def test_each_training_is_a_command_that_sage_takes(place, method, said):
    """The declared settings arrive in the plan; nothing is trained."""
    plan = place.sage(*place.training(Unit("pilot", method, PILOT)), "--dry-run")
    *_, stage = plan["stages"]
    assert (stage["seed"], stage["steps"], stage["problems"]) == (PILOT, 24, "smollm2/pilot.jsonl")
    assert all(text in json.dumps(stage) for text in [*said, "0.0004, linear"])


def test_the_code_that_runs_is_one_commits(tmp_path):
    code = tmp_path / "code"
    try:
        clone_commit(code)
    except SystemExit as error:  # a checkout without its history
        pytest.skip(str(error))
    said = subprocess.run(
        ["git", "-C", code, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout
    assert said.strip() == COMMIT
    assert COMMIT[:8] in DECLARED.read_text()
    assert "q_kl_mean" in (code / "sage_cli/guides/token_values.py").read_text()
    assert not list(tmp_path.glob("*.part"))


def test_the_plan_of_the_committed_units():
    command = [sys.executable, DECLARED.parents[2] / "examples/smollm2/dose.py", "x", "--plan"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [row[5:].strip() for row in shown[: len(units())]] == [unit.name for unit in units()]
    assert any(row.startswith("pilot, b: q of branch, weighted by d: ") for row in shown)


def test_every_committed_unit_that_measures_has_its_counts():
    kept = Kept(DECLARED.parents[2] / "docs/results")
    by_name = {unit.name: unit for unit in units()}
    for written in kept.lines():
        unit = by_name.get(written["unit"])
        if unit is None:
            assert written["unit"].startswith("pilot ")  # of a seed before the last change
            assert written["seed"] not in (PILOT, *order_of_seeds())
        elif unit.measured:
            assert len(kept.shares(unit.name)) == unit.problems
