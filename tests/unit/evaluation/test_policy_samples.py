"""What tells one sample set from another, and counts of what is stored."""

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from scripted import Scripted, solution
from shown_runs import weightless
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.measure import NamedModels, measure_table
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.power import power
from sage_cli.evaluation.sample_and_grade import measure
from sage_cli.evaluation.stored_grades import stored_counts
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent
from sage_cli.sampling.backends import build_sampler
from sage_cli.settings.model import PretrainedModel
from sage_cli.store import sample_writer
from sage_cli.store.run import Runs

CHAT = ("prompt.format=chat", "sampling.servers=[http://a]")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"dtype": "bfloat16"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "generation_config.json").write_text('{"eos_token_id": 1, "top_k": 5}')
    tokenizer(folder)
    return folder


def tokenizer(folder, **changes):
    settings = {"eos_token": "<|end|>", "chat_template": "{{ messages }}", **changes}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


ALLOWED = ("model.allow_lost_updates=true",)  # nothing is trained here


def samples(folder, *sets):
    loaded = load(["tiny"], sets=["model.dtype=float32", *ALLOWED, *sets])
    config = loaded.config
    return PolicySamples.from_config(Policy(str(folder)), config, folder.parent)


def key(folder, *sets):
    return samples(folder, *sets).at(0).identity.key


@pytest.mark.parametrize(
    "setting",
    [
        "sampling.top_k=3",
        "sampling.stop_at_answer=false",
        "model.dtype=bfloat16",
        "prompt.user='Q: {question}'",
        "sampling.max_tokens=9",
    ],
)
def test_what_decides_the_distribution_names_another_set(folder, setting):
    assert key(folder, setting) != key(folder)


@pytest.mark.parametrize(
    "setting",
    [
        "sampling.servers=[http://a]",
        "sampling.server_attempts=3",
        "sampling.timeout_s=9",
        "sampling.server_patience_s=9",
        "sampling.server_model=x",  # nobody is asked
    ],
)
def test_how_samples_are_computed_does_not(folder, setting):
    assert key(folder, setting) == key(folder)


def test_server_names_ends_of_sequence_and_chat_templates_are_part_of_it(folder):
    asked = "sampling.servers=[http://a]"
    named = samples(folder, asked, "sampling.server_model=theirs").at(0).identity
    assert named.sampling["server_model"] == "theirs"
    other = key(folder, asked, "sampling.server_model=another")
    assert len({named.key, other, key(folder, asked)}) == 3
    before = key(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 1, "top_k": 50}')
    assert key(folder) == before
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    more = key(folder)
    tokenizer(folder, eos_token="<|im_end|>")
    assert len({before, more, key(folder)}) == 3
    tokenizer(folder, chat_template=None)
    with pytest.raises(ConfigurationError, match=f"{folder} has no chat template"):
        samples(folder, "prompt.format=chat")


def test_a_servers_own_template_is_another_prompt(folder):
    here = samples(folder, *CHAT)
    there = samples(folder, *CHAT, "sampling.server_form=chat")
    assert here.template.hash != there.template.hash
    assert there.at(0).identity.sampling["server_form"] == "chat"
    assert there.in_chat
    assert not here.in_chat
    # the model's own tokenizer isn't read for it
    tokenizer(folder, chat_template=None, eos_token="another")
    assert samples(folder, *CHAT, "sampling.server_form=chat").at(0).identity == (
        there.at(0).identity
    )
    with pytest.raises(ConfigurationError, match=r"sends messages, and prompt\.format is 'plain'"):
        samples(folder, "sampling.server_form=chat")


class Right(Scripted):
    """A sampler whose every answer is right."""

    def text(self, request, index):
        return solution(request.prompt)


def test_a_full_disk_while_sampling_is_a_panel_and_what_was_stored_is_kept(
    measured, tmp_path, monkeypatch
):
    """The first part is written; then there is no room, as on a disk that fills."""
    monkeypatch.setattr(sample_writer, "_FLUSH_ROWS", 3)
    monkeypatch.setenv("COLUMNS", "300")
    write_bytes, room = Path.write_bytes, [True]

    def limited(path, content):
        if room and room.pop():
            return write_bytes(path, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sage(*more):
        words = ["passk", str(tmp_path / "a"), *measured, *more]  # the last --n counts
        return CliRunner().invoke(app, words)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", limited)
        stopped = sage("--n", "6")
    assert stopped.exit_code == 2
    model = Policy(str(tmp_path / "a")).fingerprint
    (folder,) = [
        path.parent
        for path in tmp_path.glob("runs/samples/*/set.json")
        if json.loads(path.read_text())["model"] == model
    ]
    assert f"{folder} can't be written: No space left on device" in stopped.output
    assert "what was stored until now is kept" in stopped.output
    assert "Traceback" not in stopped.output
    assert not list(folder.glob(".*.tmp"))
    # of 2 x 6 samples 2 x 2 were stored before and 3 in the part that was written
    assert "sample a: 12 samples, 7 of them done already" in sage("--n", "6").output


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Two models that were measured on a file; returns the words that name all of it."""
    file = tmp_path / "mine.csv"
    file.write_text("question,gold\n7,7\n8,8\n")
    for name in ("a", "b"):
        weightless(tmp_path / name)
    sets = [f"evaluation.benchmark={file}", "evaluation.samples=2"]
    config = load(sets=sets).config
    monkeypatch.setattr(drawing, "build_sampler", Right)
    benchmarks = load_benchmarks(config.evaluation, config.data)
    policies = [Policy(str(tmp_path / name)) for name in ("a", "b")]
    samples = [PolicySamples.from_config(one, config, tmp_path / "runs") for one in policies]
    measure(samples, benchmarks, config, Silent())
    settings = ["--preset", "tiny", "--n", "2", "--k", "1,2"]
    return ["--benchmark", str(file), *settings, "--runs", str(tmp_path / "runs")]


@pytest.mark.slow
def test_a_run_whose_plug_ins_are_not_installed_is_measured(measured, tmp_path, monkeypatch):
    """What is stored of it is counted; only drawing more takes its sampler."""
    theirs = load(sets=["tracking.wandb=off"]).config.model_dump(mode="json")
    theirs["guide"] = {"name": "theirs", "options": {"strength": 2}, "q_min": 0.6, "q_max": 1.4}
    theirs["rl"] |= {"algo": "theirs", "scale": 2}
    theirs["sampling"] |= {"backend": "theirs", "options": {"beam": 3}}
    run = Runs(tmp_path / "runs").at("rl", "theirs", "1" * 8)
    with run.recording(theirs, kind="rl"):
        shutil.copytree(tmp_path / "a", run.model)
    monkeypatch.setattr(drawing, "build_sampler", build_sampler)

    own = [word for word in measured if word not in ("--preset", "tiny")]

    def sage(*more):
        return CliRunner().invoke(app, ["passk", "theirs", *own, *more, "--json"])

    (curve,) = json.loads(sage("--set", "grading.workers=1").stdout)["curves"]
    assert (curve["policy"], curve["pass@k"]) == (run.id, [1.0, 1.0])
    typed = ("--set", "sampling.backend=theirs")  # a stored one isn't taken over
    said = json.loads(sage("--n", "3", *typed).stdout)["error"]["cause"]
    assert said.startswith("sampling.backend: unknown sampler 'theirs'")


N, SEEDS = 4, 2


class Odd(Scripted):
    """Right on problem 7 from the second sample on, on problem 8 never; seed 1 always on both."""

    def text(self, request, index):
        gold = request.prompt.split("=")[0]
        return solution(gold if request.seed == 1 or (gold == "7" and index > 0) else "no")


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A model that answers as above, and a benchmark of two problems."""
    (tmp_path / "mine.csv").write_text("question,gold\n7=,7\n8=,8\n")
    weightless(tmp_path / "model")
    monkeypatch.setattr(drawing, "build_sampler", Odd)
    return load(
        sets=[
            f"evaluation.benchmark={tmp_path / 'mine.csv'}",
            f"evaluation.samples={N}",
            f"evaluation.seeds={SEEDS}",
            f"run.root={tmp_path / 'runs'}",
            "evaluation.k='1,4'",
        ]
    ).config


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
    monkeypatch.setattr("sage_cli.evaluation.sample_and_grade.grade_rows", never)
    found = stored_counts(policy, benchmarks[0], config, root, (1, N, 64))
    assert [[one.c_P.tolist() for one in found[n]] for n in (1, N)] == [
        [[0, 0], [1, 1]], [[3, 0], [4, 4]],
    ]  # fmt: skip
    np.testing.assert_array_equal(found[64][0].n_P, [N, N])  # what there is


def test_the_papers_protocol_beside_ours(config, tmp_path):
    model = str(tmp_path / "model")
    plain = measure_table(NamedModels(Evaluation(config), [model]), Silent())
    assert len(plain.document.data["rows"]) == 1
    report = measure_table(NamedModels(Evaluation(config), [model]), Silent(), k_samples=True)
    ours, published = report.document.data["rows"]
    name = f"{tmp_path / 'mine.csv'} pass@"
    # all samples: 3/8 and 1; the first alone: 0 and 1; any of four: 1/2 and 1
    assert (ours[f"{name}1"], ours[f"{name}4"]) == (11 / 16, 3 / 4)
    assert (published[f"{name}1"], published[f"{name}4"]) == (1 / 2, 3 / 4)
    assert published[f"{name}1 sd"] == pytest.approx(np.sqrt(1 / 2), abs=1e-15)
    beside = measure_table(
        NamedModels(Evaluation(config), [model]), Silent(), paper="table1"
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
        measure_table(NamedModels(Evaluation(asked), [model]), Silent())
    assert loaded == [{"revision": "v1", "trust_remote_code": True}] * 2


def test_power_takes_what_is_stored_and_draws_nothing(config, tmp_path, monkeypatch):
    model = str(tmp_path / "model")
    with pytest.raises(Exception, match=r"no sample of model on .* is stored") as caught:
        power(Evaluation(config), [model], Silent())
    assert "sage passk model --benchmark" in caught.value.next_step
    measure_table(NamedModels(Evaluation(config), [model]), Silent())
    monkeypatch.setattr(drawing, "build_sampler", never)
    report = power(Evaluation(config), [model], Silent(), problems="30", samples="4", k="1")
    written = json.loads((report.folder / "power.json").read_text())
    (base,) = written["bases"]
    # both seeds together: 7 and 4 of 8
    assert (base["problems"], base["pass@k"]) == (2, {"1": 11 / 16})
    assert written["provenance"]["policies"][0]["label"] == "model"
