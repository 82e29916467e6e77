from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import check_benchmark_named, load_benchmarks
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.training.validation import configured_validation
from sage_cli.trials.sweep.plan import prepare_sweep


def loaded(path):
    config = load(sets=[f"evaluation.benchmark={path}"]).config
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    return list(benchmark.golds.values())


def test_one_question_with_two_golds_is_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("question,gold\n1+1=?,2\n2+2=?,4\n")
    assert loaded(path) == ["2", "4"]
    path.write_text("question,gold\n1+1=?,2\n1+1=?,3\n")
    with pytest.raises(DataError, match="a question with two reference answers") as refusal:
        loaded(path)
    assert "has 2" in refusal.value.cause
    assert "has 3" in refusal.value.cause


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text(
        "".join(f'{{"q": "{n}+1=?", "gold": "{n + 1}"}}\n' for n in range(60))
    )
    Path("mine.yaml").write_text(
        "data: {rl: {name: train.jsonl, fields: {question: q}}}\n"
        "evaluation: {fields: {question: q}}\n"
    )
    return "train.jsonl"


def configured(*sets, presets=("tiny", "mine.yaml")):
    return load(presets, sets=["sweep.space=lr=1e-4|4e-4", *sets]).config


REFUSED = {
    "a sweep": (prepare_sweep, "sweep.benchmark", ()),
    "a validation": (configured_validation, "sweep.benchmark", ("evaluation.every=5",)),
    "a measurement": (lambda config: Evaluation(config).benchmarks, "evaluation.benchmark", ()),
}


@pytest.mark.parametrize("case", REFUSED)
def test_problems_of_another_task_are_not_measured_on_unless_named(train, case):
    """Whoever brings data is neither validated nor measured on the preset's own problems."""
    measure, setting, sets = REFUSED[case]
    with pytest.raises(ConfigurationError, match=f"{setting} is 'arithmetic.*nobody") as refusal:
        measure(configured(*sets))
    assert train in refusal.value.cause
    step = refusal.value.next_step
    assert step is not None
    offered = [word for word in step.partition(": ")[2].split() if word != "--set"]
    assert "evaluation.fields.question=q" in offered
    measure(configured(*sets, *offered))  # what is offered can be typed as it stands


@pytest.mark.parametrize(
    ("setting", "presets", "sets"),
    [
        ("sweep.benchmark", ("tiny",), ()),
        ("sweep.benchmark", ("tiny",), ("data.rl.name=arithmetic",)),
        ("sweep.benchmark", ("tiny",), ("evaluation.benchmark=arithmetic",)),
        ("sweep.benchmark", ("qwen2.5-math-7b",), ("data.rl.name=dapo-math-17k",)),
        ("sweep.benchmark", ("tiny", "mine.yaml"), ("sweep.benchmark=arithmetic-dev",)),
        ("evaluation.benchmark", ("tiny", "mine.yaml"), ("evaluation.benchmark=arithmetic",)),
        ("evaluation.benchmark", ("qwen2.5-math-7b",), ("data.rl.name=train.jsonl",)),
    ],
)
def test_what_is_named_or_of_the_same_data_is_measured_on(train, setting, presets, sets):
    assert train
    check_benchmark_named(configured(*sets, presets=presets), setting)


def test_a_stored_configuration_names_what_it_named(train):
    config = configured(f"sweep.benchmark={train}:dev")
    again = load(stored=config.model_dump(mode="json")).config
    check_benchmark_named(again, "sweep.benchmark")
    with pytest.raises(ConfigurationError, match=r"sweep\.benchmark is"):
        check_benchmark_named(configured(presets=("tiny", "mine.yaml")), "sweep.benchmark")
