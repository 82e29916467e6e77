"""Counts of what is stored, without drawing or grading."""

import json
import shutil
from contextlib import suppress

import numpy as np
import pytest

from sage_cli.cli.named_models import NamedModels, measure_table
from sage_cli.cli.power import power
from sage_cli.config.load import load
from sage_cli.errors import StoreError
from sage_cli.evaluation import measure as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.stored import PolicySamples, stored_counts
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent
from sage_cli.settings.sections.model import PretrainedModel
from sage_cli.store.sample_parts import Completion

N, SEEDS = 4, 2


class Odd:
    """Right on problem 7 from the second sample on, on problem 8 never; seed 1 always on both."""

    provenance = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self, setup):
        pass

    def sample(self, requests):
        for request in requests:
            for index in request.indices:
                gold = request.prompt.split("=")[0]
                right = request.seed == 1 or (gold == "7" and index > 0)
                text = f"<SOLUTION>{gold if right else 'no'}</SOLUTION>"
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")

    def close(self):
        pass


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A model that answers as above, and a benchmark of two problems."""
    (tmp_path / "mine.csv").write_text("question,gold\n7=,7\n8=,8\n")
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_text("weights")
    (model / "config.json").write_text("{}")
    (model / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    monkeypatch.setattr(drawing, "build_sampler", Odd)
    return load(sets=[
        f"evaluation.benchmark={tmp_path / 'mine.csv'}", f"evaluation.samples={N}",
        f"evaluation.seeds={SEEDS}", f"run.root={tmp_path / 'runs'}", "evaluation.k='1,4'",
    ]).config  # fmt: skip


def never(*_):
    raise AssertionError("drawn or graded")


def test_the_first_samples_of_every_seed(config, tmp_path, monkeypatch):
    config, root = config, config.run.root
    benchmarks = load_benchmarks(config.evaluation, config.data)
    policy = Policy(str(tmp_path / "model"))
    (nothing,) = stored_counts(policy, benchmarks[0], config, root, (N,))[N][:1]
    assert nothing.n_P.tolist() == [0, 0]
    measure([PolicySamples.from_config(policy, config, root)], benchmarks, config, Silent())
    monkeypatch.setattr(drawing, "build_sampler", never)
    monkeypatch.setattr("sage_cli.evaluation.measure.grade_rows", never)
    found = stored_counts(policy, benchmarks[0], config, root, (1, N, 64))
    assert [[one.c_P.tolist() for one in found[n]] for n in (1, N)] == [
        [[0, 0], [1, 1]], [[3, 0], [4, 4]],
    ]  # fmt: skip
    np.testing.assert_array_equal(found[64][0].n_P, [N, N])  # what there is


def test_the_papers_protocol_beside_ours(config, tmp_path):
    model = str(tmp_path / "model")
    plain = measure_table(NamedModels.from_config(config, [model], {}), Silent())
    assert len(plain.document.data["rows"]) == 1
    report = measure_table(NamedModels.from_config(config, [model], {}), Silent(), k_samples=True)
    ours, published = report.document.data["rows"]
    name = f"{tmp_path / 'mine.csv'} pass@"
    # all samples: 3/8 and 1; the first alone: 0 and 1; any of four: 1/2 and 1
    assert (ours[f"{name}1"], ours[f"{name}4"]) == (11 / 16, 3 / 4)
    assert (published[f"{name}1"], published[f"{name}4"]) == (1 / 2, 3 / 4)
    assert published[f"{name}1 sd"] == pytest.approx(np.sqrt(1 / 2), abs=1e-15)
    beside = measure_table(
        NamedModels.from_config(config, [model], {}), Silent(), paper="table1"
    ).document.data["rows"]
    assert beside[1] == {**published, **{k: None for k in beside[1] if k not in published}}
    assert len(beside) == 2 + 7


def test_power_means_the_same_model_as_the_command_that_measures_it(config, tmp_path, monkeypatch):
    """At the configured revision: else it would look for the samples of other weights."""
    model, loaded = str(tmp_path / "model"), []
    ours = PretrainedModel(path=model, revision="v1", trust_remote_code=True)
    monkeypatch.setattr(
        PolicySamples, "from_config", lambda policy, *_: loaded.append(policy.loading)
    )
    asked = config.model_copy(update={"model": ours})
    with suppress(AttributeError):  # there are no samples
        power(Evaluation(asked), [model], Silent())
    with suppress(AttributeError):
        measure_table(NamedModels.from_config(asked, [model], {}), Silent())
    assert loaded == [{"revision": "v1", "trust_remote_code": True}] * 2


def test_power_takes_what_is_stored_and_draws_nothing(config, tmp_path, monkeypatch):
    model = str(tmp_path / "model")
    with pytest.raises(Exception, match=r"no sample of model on .* is stored") as caught:
        power(Evaluation(config), [model], Silent())
    assert "sage passk model --benchmark" in caught.value.next_step
    measure_table(NamedModels.from_config(config, [model], {}), Silent())
    monkeypatch.setattr(drawing, "build_sampler", never)
    report = power(Evaluation(config), [model], Silent(), problems="30", samples="4", k="1")
    written = json.loads((report.folder / "power.json").read_text())
    (base,) = written["bases"]
    # both seeds together: 7 and 4 of 8
    assert (base["problems"], base["pass@k"]) == (2, {"1": 11 / 16})
    assert written["provenance"]["policies"][0]["label"] == "model"


def test_power_estimates_the_correlation_from_the_grades_of_a_run_like_it(config, tmp_path):
    base, other = tmp_path / "model", tmp_path / "other"
    shutil.copytree(base, other)
    (other / "model.safetensors").write_text("other weights")
    asked = {"samples": "4", "problems": "2", "k": "1"}
    measure_table(NamedModels.from_config(config, [str(base)], {}), Silent())
    with pytest.raises(StoreError, match="no stored grades on the same samples"):
        power(Evaluation(config), [str(base)], Silent(), **asked, like=str(other))
    measure_table(NamedModels.from_config(config, [str(other)], {}), Silent())
    report = power(Evaluation(config), [str(base)], Silent(), **asked, like=str(other))
    (found,) = report.document.data["bases"]
    assert found["correlation"] == pytest.approx(1)  # they answer alike, sample by sample
    assert found["like"] == str(other)
