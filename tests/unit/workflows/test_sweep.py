"""What a sweep refuses before it trains anything."""

import json

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.load import load_problems
from sage_cli.problems.training import load_training_problems
from sage_cli.progress import Silent
from sage_cli.sweep.prepared import prepared
from sage_cli.sweep.shared import shared_config
from sage_cli.workflows.sweep import _section, sweep


@pytest.fixture
def dapo(tmp_path):
    """A made-up copy of the training data set, some of whose first rows are repeated."""
    rows = [{"prompt": f"What is {i} + {i}?", "solution": str(2 * i)} for i in range(3200)]
    rows[10], rows[11] = rows[0], rows[1]
    (tmp_path / "train").mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "train/dapo_math_sample.jsonl").write_text(text)
    return tmp_path


def config(folder, *sets):
    named = ["data.rl.name=dapo-math-17k", "sweep.benchmark=dapo-math-dev"]
    root = [f"data.root={folder}", f"run.root={folder}/runs", "tracking.wandb=off"]
    return load(flags={"guide": {"name": "branch"}}, sets=[*named, *root, *sets]).config


def test_the_development_rows_lie_behind_those_that_are_trained_on(dapo):
    data = config(dapo, "data.rl.limit=2000").data
    development = load_problems("dapo-math-dev", data)
    assert [p.question for p in development] == [f"What is {i} + {i}?" for i in range(3000, 3100)]
    trained = load_training_problems(data)
    assert len(trained) == 2000
    assert trained[-1].question == "What is 2001 + 2001?"  # two repetitions were left out
    assert not {p.id for p in trained} & {p.id for p in development}


def test_a_cell_of_the_papers_preset_is_measured_once_on_the_development_rows():
    paper = load(["qwen2.5-math-7b"], {"guide": {"name": "branch"}}).config
    evaluation = shared_config(paper).evaluation
    found = (evaluation.benchmark, evaluation.samples, evaluation.seeds)
    assert found == ("dapo-math-dev", 256, 1)


def test_too_short_a_copy_holds_no_development_rows(dapo):
    path = dapo / "train/dapo_math_sample.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3050]))
    with pytest.raises(DataError, match="dapo-math-dev has 50 problems where 100 are expected"):
        load_problems("dapo-math-dev", config(dapo).data)


def test_settings_are_not_chosen_on_what_is_trained_on(dapo):
    everything = config(dapo)  # data.rl.limit isn't set
    with pytest.raises(ConfigurationError, match="100 of the 100 problems of dapo-math-dev are am"):
        sweep(everything, Silent())
    assert not (dapo / "runs").exists()


@pytest.mark.parametrize(
    ("sets", "workers"),
    [
        (["executor.name=slurm"], None),  # the cluster knows
        (["executor.name=slurm", "sweep.sampler=random"], 4),
        (["executor.name=slurm", "sweep.sampler=random", "executor.workers=9"], 9),
        (["executor.workers=3", "sweep.sampler=random"], 3),
    ],
)
def test_how_many_trainings_run_at_once(dapo, sets, workers):
    assert _section(prepared(config(dapo, "data.rl.limit=2000", *sets))).workers == workers
