"""`sage rl --measure` and `sage sft --measure`: trained, measured, kept, and found again."""

import json

import pytest
import wandb
from offline_wandb import read_offline

from sage_cli.config.load import changed, load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.evaluate import figures
from sage_cli.evaluation.stored_grades import stored_counts
from sage_cli.grading import Grade
from sage_cli.models.policy import Policy
from sage_cli.models.stages import plan_of
from sage_cli.progress import Silent
from sage_cli.store.evaluations import evaluation_figures
from sage_cli.training.run import InitialPolicy, RlTraining, SftTraining

SETTINGS = {
    "model.hidden": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.feed_forward": 32,
    "model.max_positions": 96,
    "data.arithmetic.low": 2,
    "data.arithmetic.high": 6,
    "data.arithmetic.held_out": 4,
    "data.arithmetic.validation": 2,
    "data.arithmetic.familiar_share": 0.5,
    "data.arithmetic.phases": [{"share": 1.0, "mix": {"D": 1}}],
    "sft.steps": 20,
    "sft.batch_size": 4,
    "sft.max_length": 48,
    "rl.steps": 1,
    "rl.prompts_per_step": 2,
    "rl.rollouts_per_prompt": 2,
    "rollout.max_tokens": 8,
    "rl.stop_when_stuck": "false",
    "sampling.max_tokens": 8,
    "evaluation.samples": 2,
    "evaluation.k": "1,2",
    "grading.workers": 1,
}

ON = "arithmetic:low=2:high=6:held_out=4"
KEPT = "arithmetic-low-2-high-6-held_out-4"
"""Its name in files and records, without signs that shells read."""


class Watching(Silent):
    """Keeps what stands beside the bar, and how far validations were."""

    def __init__(self):
        self.beside, self.validated = {}, []

    def advance(self, amount=1, **numbers):
        if "validating: samples" in numbers:
            assert amount == 0
            self.validated.append(numbers["validating: samples"])
        self.beside |= numbers


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab") / "runs"
    return changed(load().config, {**SETTINGS, "run.root": str(root)})


@pytest.fixture(scope="module")
def base(config):
    unmirrored = changed(config, {"tracking.wandb": "off"})
    return SftTraining.of(unmirrored, measure=True).execute(Silent())


@pytest.fixture(scope="module")
def policy(config, base):
    """Trained and measured in one go, and how often W&B's run was begun for that."""
    begun = []
    with pytest.MonkeyPatch.context() as patch:
        init = wandb.init
        patch.setattr(wandb, "init", lambda *a, **k: begun.append(k["id"]) or init(*a, **k))
        run = RlTraining.of(config, measure=True).execute(Silent())
    return run, begun


def counted(config, run):
    """The figures that the stored counts lead to."""
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    (counts,) = stored_counts(Policy.of_run(run), benchmark, config, config.run.root, (2,))[2]
    assert counts.n_P.tolist() == [2] * 4
    one = type("Seed", (), {"counts": counts})
    return {f"eval/{KEPT}/{name}": value for name, value in figures([one], config).items()}


def test_what_is_stored_of_it_is_what_its_run_keeps_and_wandb_holds(config, base, policy):
    run, begun = policy
    for trained in (base, run):
        assert trained.is_finished()
        about = {f"eval/{KEPT}/benchmark": ON, f"eval/{KEPT}/content": ON}
        assert evaluation_figures(trained) == {**counted(config, trained), **about}
    assert begun == [run.id]
    offline = read_offline(run.folder)
    kept = evaluation_figures(run)
    assert {name: offline.summary[name] for name in kept} == kept
    assert [step for step, _ in offline.of("loss")] == [1]


def test_its_stages_say_that_nothing_is_left(config, policy):
    start, training, measurement = plan_of(RlTraining.of(config, measure=True).stages)
    assert [start.facts["state"], training.facts["state"]] == ["finished", "finished"]
    left = measurement.facts[f"{policy[0].id} on {ON}"]
    assert left.startswith("0 of 8 to sample, 0 to grade (samples/")


def test_typed_again_it_ends_at_once(config, policy, tmp_path, alone):
    stored = tmp_path / "config.json"
    stored.write_text(json.dumps(config.model_dump(mode="json")))
    words = ["rl", "--config", stored, "--runs", config.run.root, "--measure", "--json"]
    modules, (printed,) = alone(words)
    assert not modules & {"torch", "transformers", "wandb"}
    said = json.loads(printed[printed.index("{") :])
    assert said["id"] == policy[0].id
    assert said["evaluations"] == evaluation_figures(policy[0])


def test_the_last_validation_finds_what_the_measurement_finds(config, base, monkeypatch):
    """Same weights, same seeds: the samples in memory are those of the model that was saved."""

    def by_length(rows, *_, **__):
        return [Grade("right" if len(row.text) % 3 else "wrong", None) for row in rows]

    monkeypatch.setattr("sage_cli.evaluation.sample_and_grade.grade_rows", by_length)
    monkeypatch.setattr("sage_cli.training.validation.grade_rows", by_length)
    validating = changed(
        config,
        {
            "rl.seed": 5,
            "rl.steps": 3,
            "evaluation.every": 2,
            "evaluation.samples": 4,
            "evaluation.validation": "arithmetic",
            "evaluation.validation_samples": 4,
            "tracking.wandb": "off",
        },
    )
    elsewhere = changed(validating, {"evaluation.every": None, "evaluation.validation": None})
    assert RlTraining.of(validating).planned == RlTraining.of(elsewhere).planned
    watching = Watching()
    run = RlTraining.of(validating, measure=True).execute(watching)
    records = run.metrics.read()
    assert ["eval/pass@1" in record for record in records] == [False, True, True]
    kept = evaluation_figures(run)
    names = ("pass@1", "pass@2", "pass@4")
    found = [records[-1][f"eval/{name}"] for name in names]
    assert found == [kept[f"eval/{KEPT}/{name}"] for name in names]
    assert 0 < found[0] < found[2]
    assert watching.validated[-16:] == [float(drawn) for drawn in range(1, 17)]  # 4 problems x 4
    assert watching.beside["validation pass@1"] == found[0]


def test_what_is_looked_at_is_not_trained_on(config, base):
    trained = {"evaluation.every": 1, "evaluation.validation": "arithmetic-train"}
    validating = changed(config, {**trained, "rl.seed": 99})  # a run that isn't there yet
    with pytest.raises(ConfigurationError, match="also in the training set arithmetic") as caught:
        RlTraining.of(validating).execute(Silent())
    assert "--set evaluation.validation" in caught.value.next_step


def test_a_broken_benchmark_is_named_before_anything_is_trained(config, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "1+1=?", "gold": ""}\n')
    there = {"run.root": str(tmp_path / "runs"), "evaluation.benchmark": str(rows)}
    for kind in (RlTraining, SftTraining):
        with pytest.raises(DataError):
            kind.of(changed(config, there), measure=True).execute(Silent())
    assert not (tmp_path / "runs").exists()


def test_what_several_processes_trained_their_command_measures(config, base, monkeypatch):
    several = changed(config, {"rl.processes": 2, "tracking.wandb": "off"})
    run = RlTraining.of(several).planned
    assert InitialPolicy(several).policy.run == base

    def train(*_):
        with run.recording({}, kind="rl"):
            run.model.mkdir(parents=True)

    taken = []
    monkeypatch.setattr("sage_cli.training.launch.run_together", train)
    monkeypatch.setattr(RlTraining, "measure", lambda self, run, _: taken.append(run))
    assert RlTraining.of(several, measure=True).execute(Silent()) == run
    assert taken == [run]
