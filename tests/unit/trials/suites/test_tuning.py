"""Tuned methods: searches of one budget, and trainings that take the chosen points."""

import json
from dataclasses import replace

import pytest
from sweep_cells import done, keep_state, sweep_document

from sage_cli.errors import ConfigurationError
from sage_cli.reports.provenance import Provenance
from sage_cli.settings.objective import parse_objective
from sage_cli.trials.cost import cost
from sage_cli.trials.suites.dry_run import plan_suite
from sage_cli.trials.suites.plan import Overrides, prepare_suite
from sage_cli.trials.suites.sweeps import FRESH, prepare_tuned
from sage_cli.trials.sweep.folder import sweep_folder
from sage_cli.trials.sweep.result import Axis

RATE = "rl.learning_rate"
SUITE = """
title: mine
methods:
  base: base
  grpo: grpo
  branch: {of: grpo/branch, space: "learning_rate=1e-4|1e-3,tau=0.2:0.8"}
tune: {space: "learning_rate=1e-4|1e-3", trials: 2, steps: 2}
seeds: 2
"""


def write(folder, *changes):
    text = SUITE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def overrides(root, *sets):
    return Overrides(("tiny",), sets, None, {"run": {"root": root}})


@pytest.fixture
def tuned(tmp_path):
    """The suite and what was typed with it."""
    return write(tmp_path), overrides(tmp_path / "runs")


def searched(search, *values, **state):
    """Leave the search's folder as its driver does; a later value is better."""
    folder = sweep_folder(search.config.run.root, search.name)
    axes = [Axis(RATE.rpartition(".")[2], RATE, (1e-4, 1e-3))]
    trials = [done({RATE: value}, seed, seed / 4) for seed, value in enumerate(values)]
    base = done({}, 9, 0.5)
    document = sweep_document(axes, (parse_objective("pass@1"),), trials, Provenance(), base=base)
    replace(document, figures=()).write(folder)
    counts = {"done": len(values), "failed": 0, "pruned": 0, "left": 0}
    usual = {"space": search.space.plain(), "sampler": "tpe", "trials": counts}
    keep_state(folder, **{**usual, **state})


def test_the_typed_search_has_the_sweeps_settings_that_were_typed(tmp_path):
    sets = ("sweep.benchmark=arithmetic:held_out=20", "sweep.trials=9", "executor.workers=2")
    _, (grpo, _) = prepare_tuned(write(tmp_path), overrides(tmp_path / "runs", *sets))
    assert sets[0] in grpo.options
    assert sets[1] not in grpo.options, "the suite's budget holds"
    assert sets[2] in grpo.options


def test_a_training_waits_for_its_methods_search(tmp_path, tuned):
    plan, (grpo, branch) = prepare_tuned(*tuned)
    # 16 prompts of 16 rollouts are tiny's
    assert grpo.title == "tune grpo: 2 trials x 2 steps x 256 completions"
    assert (grpo.state, branch.state) == ("to do", "to do")
    assert (grpo.config.guide.name, branch.config.guide.name) == ("none", "branch")
    assert grpo.config.sweep.benchmark == "arithmetic-dev"
    needs = {task.title: task.needs for task in plan.tasks if task.kind == "rl"}
    assert needs == {
        "grpo, seed 1": grpo,
        "grpo, seed 2": grpo,
        "branch, seed 1": branch,
        "branch, seed 2": branch,
    }
    assert not (tmp_path / "runs").exists()


def test_the_plans_cost_has_the_searches(tuned):
    plan = plan_suite(*tuned)
    # tiny's base comes with sage; 2 methods x 2 seeds x 40 steps, 2 searches of 2 trials x 2 steps
    assert plan["cost"].steps == plan["left"].steps == 160 + 8
    # besides, 2 x 2 trials of 2 x 256 rollouts and of 100 problems x 128 samples
    trainings = cost(prepare_suite(*tuned).tasks).completions
    assert plan["cost"].completions - trainings == 4 * (512 + 12_800)
    searched(prepare_tuned(*tuned)[1][0], 1e-3, 1e-4)
    assert plan_suite(*tuned)["left"].steps == 160 + 4
    # a suite's own sweep: 9 points x 3 seeds of 30 steps
    assert plan_suite("table6", tuned[1])["cost"].steps == 9 * 3 * 30


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ([("grpo: grpo", "grpo: {of: grpo, settings: {rl.rollouts_per_prompt: 8}}")], "x 128 c"),
        (
            [
                ("tau=0.2:0.8", "tau=0.3"),
                ("trials: 2", "trials: 3"),
                ("  grpo: grpo", "  grpo: {of: grpo, space: 'learning_rate=1e-4:1e-3'}"),
            ],
            "branch has 2 trials",
        ),
        ([("tune: {", "settings: {sweep.benchmark: arithmetic}\ntune: {")], "arithmetic would"),
        ([('space: "learning_rate=1e-4|1e-3", trials: 2', "trials: 2")], "tune.space"),
        ([("trials: 2", "trails: 2")], "did you mean trials?"),
    ],
)
def test_unequal_budgets_and_reported_problems_are_refused(tmp_path, changes, cause):
    with pytest.raises(ConfigurationError) as refused:
        prepare_tuned(write(tmp_path, *changes), overrides(tmp_path / "runs"))
    assert cause in refused.value.cause


def test_trainings_take_the_chosen_point_with_seeds_that_did_not_choose_it(tuned):
    before, searches = prepare_tuned(*tuned)
    for search, values in zip(searches, ((1e-3, 1e-4), (1e-4, 1e-3)), strict=True):
        searched(search, *values)
    plan, after = prepare_tuned(*tuned, required=True)
    assert [search.name for search in after] == [search.name for search in searches]
    assert [search.state for search in after] == ["done", "done"]
    _, grpo, branch = plan.parts[0].trials
    rates = [trial.config.rl.learning_rate for trial in (grpo, branch)]
    assert rates == [1e-4, 1e-3]
    assert f"{RATE}=0.0001" in grpo.replicates[0].words.sets
    seeds = {replicate.config.rl.seed for trial in (grpo, branch) for replicate in trial.replicates}
    assert seeds == {1, 2}
    assert after[0].config.rl.seed == 1 + FRESH
    # tuned to different rates, it is still the method without the guide
    assert plan.suite.methods["branch"].control == "grpo"
    # neither a search is left nor SFT: the initial policy comes with sage
    assert [task.needs for task in plan.tasks if task.kind == "rl"] == [None] * 4
    assert plan.folder != before.folder


@pytest.mark.parametrize(
    "state",
    [
        {"trials": {"done": 1, "failed": 0, "pruned": 0, "left": 1}},
        {"sampler": "random"},
        {"objectives": ["pass@8"]},
        {"space": []},  # of other values
        {"space": [], "trials": {"done": 0, "failed": 2, "pruned": 0, "left": 0}},
    ],
)
def test_a_search_of_another_kind_or_unspent_chooses_nothing(tuned, state):
    _, (grpo, branch) = prepare_tuned(*tuned)
    searched(grpo, 1e-3, 1e-4, **state)
    searched(branch, 1e-3, 1e-4)
    plan, (again, _) = prepare_tuned(*tuned)
    assert again.tried == ()
    assert plan.parts[0].trials[1].config.rl.learning_rate == grpo.trial.config.rl.learning_rate
    with pytest.raises(ConfigurationError, match="not tuned yet: grpo"):
        prepare_tuned(*tuned, required=True)


def test_a_search_of_too_many_or_of_failed_trials_says_where_to_look(tuned):
    _, (grpo, branch) = prepare_tuned(*tuned)
    searched(grpo, 1e-3, 1e-4, 2e-4)
    with pytest.raises(ConfigurationError, match="with 3 trials, but the budget is 2") as refused:
        prepare_tuned(*tuned)
    assert grpo.name in str(refused.value.next_step)
    searched(grpo, trials={"done": 0, "failed": 2, "pruned": 0, "cancelled": 0, "left": 0})
    searched(branch, 1e-3, 1e-4)
    failed = r"every trial of the tuning failed: grpo$"
    with pytest.raises(ConfigurationError, match=failed) as refused:
        prepare_tuned(*tuned, required=True)
    assert f"`sage sweep show {grpo.name}`" in str(refused.value.next_step)


def test_what_was_tried_stands_in_the_report(tmp_path):
    from sage_cli.progress import Silent
    from sage_cli.trials.suites.report import report_suite
    from sage_cli.view.page_file import write_page

    suite, typed = write(tmp_path), overrides(tmp_path / "runs", "evaluation.samples=4")
    with pytest.raises(ConfigurationError, match="not tuned yet: branch, grpo"):
        report_suite(suite, typed, Silent(), write_page)
    _, searches = prepare_tuned(suite, typed)
    for search in searches:
        searched(search, 1e-3, 1e-4)
    written = report_suite(suite, typed, Silent(), write_page).report.folder / "mine.json"
    section = json.loads(written.read_text())["chapters"][0]["sections"]["tuning"]
    assert section["budget"] == "2 trials x 2 steps x 256 completions"
    assert [(row["method"], row["settings"]) for row in section["trials"]] == [
        ("initial policy", ""),
        ("grpo, chosen", "learning_rate 0.0001"),
        ("grpo", "learning_rate 0.001"),
        ("branch, chosen", "learning_rate 0.0001"),
        ("branch", "learning_rate 0.001"),
    ]
