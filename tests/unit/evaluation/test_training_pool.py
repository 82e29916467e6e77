"""Training problems chosen and sorted by stored pass rates, and what a run's identity takes."""

import pytest
from shown_runs import weightless

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.planned import rl_run
from sage_cli.models.policy import Policy
from sage_cli.problems.load import load_training_problems
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.ledger import PromptRow
from sage_cli.store.run import Runs
from sage_cli.training.pass_rates import pool_facts, pool_identity, training_problems

RIGHT = {"1": 0, "2": 1, "3": 2, "4": 4}
"""Right ones among four completions, by gold; of problem 5 nothing is stored."""


@pytest.fixture
def folder(tmp_path):
    """Five problems, a model, and a finished run whose ledger has four of them."""
    rows = "".join(f"{gold}=,{gold}\n" for gold in "12345")
    (tmp_path / "mine.csv").write_text("question,gold\n" + rows)
    weightless(tmp_path / "model")
    run = Runs(tmp_path / "runs").at("rl", "met", "1" * 8)
    with run.recording({}, kind="rl"):
        enter(run, {gold: right // 2 for gold, right in RIGHT.items()}, 2)
        enter(run, {gold: -(-right // 2) for gold, right in RIGHT.items()}, 2, trained=False)
    return tmp_path


def enter(run, right, n, *, trained=True):
    ids = {p.gold: p.id for p in load_training_problems(configured(run.folder.parents[1]).data)}
    ledger = run.ledger
    ledger.add(
        1 if trained else 2,
        [PromptRow(ids[gold], n, c, n - c, 0, 0, 0, 9, 0, trained) for gold, c in right.items()],
    )
    ledger.seal()


def configured(folder, *sets):
    named = (f"data.rl.name={folder / 'mine.csv'}", f"run.root={folder / 'runs'}")
    return load(sets=[*named, *sets]).config


def chosen(folder, *sets):
    config = configured(folder, *(f"data.rl.{one}" for one in sets))
    return [problem.gold for problem in training_problems(config, folder / "runs")]


def test_a_range_of_the_ledgers_pass_rates_is_planned_unless_it_is_empty(folder):
    # pass rates 0/4, 1/4, 2/4 and 4/4, of two visits together; ends belong to the range
    assert chosen(folder, "solved=.25...5", "solved_by=rl-met") == ["2", "3"]
    assert chosen(folder, "solved=0..0.3", "solved_by=rl-met") == ["1", "2"]
    assert chosen(folder) == list("12345")
    config = configured(folder, "data.rl.solved=0..1", "data.rl.solved_by=rl-met")
    facts = pool_facts(config, folder / "runs")
    assert "4 of 5" in facts["problems"]
    assert "4 completions each; 1 have none" in facts["problems"]
    with pytest.raises(ConfigurationError, match=r"has a pass rate in \.6\.\.0\.9.*0 to 1 on 4"):
        chosen(folder, "solved=.6..0.9", "solved_by=rl-met")


def store_samples(folder, seed, right):
    """Store and grade two samples of each of the first two problems, `right` of the first's."""
    config = configured(folder)
    samples = PolicySamples.for_rollouts(Policy(str(folder / "model")), config, folder / "runs")
    ids = [problem.id for problem in load_training_problems(config.data)][:2]
    stored = samples.at(seed)
    rows = [Completion(id_, i, seed, "", 1, "stop") for id_ in ids for i in range(2)]
    with stored.writing({"engine": "scripted"}) as writer:
        writer.claim(ids, 2)
        for row in rows:
            writer.add(row)
    with grader_for(config.data.rl.name, config.grading, config.prompt) as grader:
        grades = GradeStore(stored, grader.identity.mapping())
        good = {(ids[0], i) for i in range(right)}
        grades.add(
            [
                (row, "right" if (row.problem_id, row.index) in good else "wrong", None)
                for row in stored.completions()
            ]
        )
        grades.flush()


def test_samples_of_all_seeds(folder):
    by = f"solved_by={folder / 'model'}"
    with pytest.raises(StoreError, match="has no graded completion of a problem"):
        chosen(folder, "solved=.1..1", by)
    store_samples(folder, 0, 2)
    assert chosen(folder, "solved=.9..1", by) == ["1"]
    store_samples(folder, 3, 0)  # 2 of 4 over both seeds
    assert chosen(folder, "solved=.5...5", by) == ["1"]


def test_the_identity_is_of_the_rates_content(folder):
    def identity(*sets):
        config = configured(folder, *(f"data.rl.{one}" for one in sets))
        return pool_identity(config, folder / "runs")

    pool = ("solved=.25...5", "solved_by=rl-met")
    first = identity(*pool)
    assert identity() is None
    copied = Runs(folder / "runs").at("rl", "other", "2" * 8)
    with copied.recording({}, kind="rl"):
        enter(copied, RIGHT, 4)
    assert identity(pool[0], "solved_by=rl-other") == first  # another run, the same counts
    assert identity("solved=0...5", pool[1]) != first
    enter(copied, {"5": 1}, 4)
    assert identity(pool[0], "solved_by=rl-other") != first


def test_a_run_without_a_pool_keeps_its_name(folder):
    config, parent = configured(folder), Policy(str(folder / "model"))
    runs = Runs(folder / "runs")
    plain = rl_run(config, parent, runs, 1)
    assert rl_run(config, parent, runs, 1, None).id == plain.id
    assert rl_run(config, parent, runs, 1, {"solved": [0, 1]}).id != plain.id
    assert not {"solved", "solved_by"} & set(config.data.rl.determinants())
