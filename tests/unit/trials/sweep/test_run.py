"""What a sweep refuses before it trains anything."""

import json
import signal
import sys

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, Interrupted
from sage_cli.problems.load import load_problems, load_training_problems
from sage_cli.progress import Silent
from sage_cli.trials.executors.executor import Command
from sage_cli.trials.sweep.plan import prepare_sweep, shared_config
from sage_cli.trials.sweep.run import _section, run_sweep
from sage_cli.trials.task import Task, TaskList
from sage_cli.view.page_file import write_page


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


def test_validation_rows_lie_behind_those_that_are_trained_on(dapo):
    data = config(dapo, "data.rl.limit=2000").data
    validation = load_problems("dapo-math-dev", data)
    assert [p.question for p in validation] == [f"What is {i} + {i}?" for i in range(3000, 3100)]
    trained = load_training_problems(data)
    assert len(trained) == 2000
    assert trained[-1].question == "What is 2001 + 2001?"  # two repetitions were left out
    assert not {p.id for p in trained} & {p.id for p in validation}
    paper = load(["qwen2.5-math-7b"], {"guide": {"name": "branch"}}).config
    evaluation = shared_config(paper).evaluation
    found = (evaluation.benchmark, evaluation.samples, evaluation.seeds)
    assert found == ("dapo-math-dev", 256, 1)
    everything = config(dapo)  # data.rl.limit isn't set
    with pytest.raises(
        ConfigurationError, match="100 of the 100 problems of dapo-math-dev are also"
    ):
        run_sweep(everything, Silent(), write_page)
    assert not (dapo / "runs").exists()
    path = dapo / "train/dapo_math_sample.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3050]))
    with pytest.raises(DataError, match="dapo-math-dev has 50 problems, but 100 are expected"):
        load_problems("dapo-math-dev", config(dapo).data)


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
    assert _section(prepare_sweep(config(dapo, "data.rl.limit=2000", *sets))).workers == workers


@pytest.mark.parametrize(("trials", "total"), [(6, 3), (2, 2), (None, 3)])
def test_no_more_trials_are_wanted_than_there_are_trials(dapo, trials, total):
    sets = ["sweep.space=rollout.top_k=5:7:int", f"sweep.trials={trials or 'null'}"]
    assert prepare_sweep(config(dapo, "data.rl.limit=2000", *sets)).total == total


@pytest.mark.parametrize("name", ["../evil", "a/b", ".hidden", "", "-x", "a b", "a" * 101])
def test_a_name_that_is_no_folders_is_refused(name):
    with pytest.raises(ConfigurationError, match=r"sweep\.study"):
        load(flags={"sweep": {"study": name}})
    assert load(flags={"sweep": {"study": "tau-rho_1.2"}}).config.sweep.study == "tau-rho_1.2"


class Impatient(Silent):
    """Interrupts when something runs."""

    def board(self, status):
        if status.running:
            raise Interrupted(signal.SIGINT)


def test_an_interrupted_sweep_takes_up_the_same_trials(tmp_path, monkeypatch):
    """Two trials whose trainings take longer than anybody waits."""
    asleep = (sys.executable, "-c", "import time; time.sleep(9999)")
    monkeypatch.setattr(Task, "command", lambda self, file, log: Command(self.name, asleep, log))
    monkeypatch.setattr(TaskList, "initial", lambda *_: None)  # nobody trains one
    measurement = TaskList.measurement

    def beside_trials(self, replicate):  # the initial policy's measurement has all cores otherwise
        task = measurement(self, replicate)
        task.alone = False
        return task

    monkeypatch.setattr(TaskList, "measurement", beside_trials)
    root = tmp_path / "runs"
    sets = ["sweep.space=rho=0.3|0.8", "sweep.study=mine", "executor.workers=3"]
    flags = {"guide": {"name": "branch"}, "run": {"root": root}}
    config = load(["tiny"], flags, sets=[*sets, "tracking.wandb=off"]).config
    for _ in range(2):
        with pytest.raises(Interrupted):
            run_sweep(config, Impatient(), write_page)
        runs = root / "sweeps/mine/runs.jsonl"
        entered = [json.loads(line)["point"] for line in runs.read_text().splitlines()]
        assert entered == [{"guide.rho": 0.3}, {"guide.rho": 0.8}]
        runs.write_bytes(runs.read_bytes()[:-9])  # as a full disk tears the second line
    typed = CliRunner().invoke(app, ["sweep", "list", "--runs", str(root), "--json"])
    (listed,) = json.loads(typed.stdout)["sweeps"]
    assert listed["trials"] == {"done": 0, "failed": 0, "pruned": 0, "left": 2}
