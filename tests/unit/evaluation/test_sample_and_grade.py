"""Policies x benchmarks x seeds: one load and one hash per policy, grades stored and found."""

import json

import numpy as np
import pytest
from scripted import Scripted, solution

from sage_cli import file_hash as content
from sage_cli.config.load import load
from sage_cli.errors import DataError, RefusedPromptsError
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import measure
from sage_cli.evaluation.stored_grades import Missing, missing
from sage_cli.grading import Grader
from sage_cli.models import folders
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent

FILES = ("one", "two", "three")


class Even(Scripted):
    """A sampler that is right on even samples."""

    def text(self, request, index):
        return solution("no" if index % 2 else request.prompt.split("=")[0])


@pytest.fixture
def built(monkeypatch):
    """The samplers that were built, in order."""
    samplers = []

    def build(setup):
        samplers.append(Even(setup))
        return samplers[-1]

    monkeypatch.setattr(drawing, "build_sampler", build)
    return samplers


@pytest.fixture
def policies(tmp_path):
    """Two folders that look like models, with weights that are large enough to be remembered."""
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(name.encode() * (1 << 17))
        (folder / "config.json").write_text("{}")
        (folder / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
        made.append(Policy(str(folder)))
    return made


@pytest.fixture
def config(tmp_path):
    """Three files of two problems each, two samples, three seeds."""
    paths = [tmp_path / f"{name}.jsonl" for name in FILES]
    for path in paths:
        rows = ({"question": f"{path.stem}{i}=", "gold": f"{path.stem}{i}"} for i in range(2))
        path.write_text("\n".join(map(json.dumps, rows)))
    names = ",".join(map(str, paths))
    sets = [f"evaluation.benchmark={names}", "evaluation.samples=2", "evaluation.seeds=3"]
    return load(sets=sets).config


def found(policies, config, tmp_path):
    benchmarks = load_benchmarks(config.evaluation, config.data)
    samples = [PolicySamples.from_config(one, config, tmp_path / "runs") for one in policies]
    return measure(samples, benchmarks, config, Silent())


def test_a_policy_is_loaded_and_hashed_once(policies, config, tmp_path, built, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content._remembered_in.cache_clear()
    hashed, fingerprints = [], []
    monkeypatch.setattr(content, "content_hash", lambda path: hashed.append(path.name) or "ab" * 32)
    whole = folders.fingerprint
    monkeypatch.setattr(
        "sage_cli.models.policy.fingerprint",
        lambda *given: fingerprints.append(given) or whole(*given) + given[0][-1],
    )
    measured = found(policies, config, tmp_path)
    assert len(measured) == 2 * 3
    assert len(built) == 2  # models loaded
    assert len(fingerprints) == 2
    assert hashed.count("model.safetensors") == 2
    assert [sampler.closed for sampler in built] == [1, 1]
    # every benchmark's problems under every seed, through the same sampler
    assert [sorted({asked.seed for asked in sampler.asked}) for sampler in built] == [[0, 1, 2]] * 2
    assert [str(sampler.setup.model) for sampler in built] == [policy.path for policy in policies]


def test_counts_by_benchmark_policy_and_seed(policies, config, tmp_path, built):
    measured = found(policies, config, tmp_path)
    stems = [(benchmark.rsplit("/", 1)[-1], policy) for benchmark, policy in measured]
    assert stems == [(f"{name}.jsonl", policy) for name in FILES for policy in "ab"]
    for seeds in measured.values():
        assert [one.seed for one in seeds] == [0, 1, 2]
        for one in seeds:
            np.testing.assert_array_equal(one.counts.n_P, [2, 2])
            np.testing.assert_array_equal(one.counts.c_P, [1, 1])  # sample 0 of 0 and 1
            assert (dict(one.statuses), one.truncated) == ({"right": 2, "wrong": 2}, 0)


def test_what_is_stored_is_neither_drawn_nor_graded_again(
    policies, config, tmp_path, built, monkeypatch
):
    first = found(policies, config, tmp_path)

    def never(*_):
        raise AssertionError("graded or drawn again")

    monkeypatch.setattr(drawing, "build_sampler", never)
    monkeypatch.setattr("sage_cli.evaluation.sample_and_grade.grade_rows", never)
    again = found([Policy(policy.path) for policy in policies], config, tmp_path)
    for key, seeds in first.items():
        for one, other in zip(seeds, again[key], strict=True):
            np.testing.assert_array_equal(one.counts.c_P, other.counts.c_P)
            assert one.statuses == other.statuses


def test_another_grader_judges_anew_what_was_drawn(policies, config, tmp_path, built, monkeypatch):
    found(policies, config, tmp_path)
    monkeypatch.setattr("sage_cli.grading.grader.GRADING_VERSION", "another")
    judged = []
    grade_many = Grader.grade_many
    monkeypatch.setattr(
        Grader, "grade_many", lambda self, *given: judged.append(1) or grade_many(self, *given)
    )
    found(policies, config, tmp_path)
    assert len(built) == 2  # as before: nothing was drawn
    assert judged


def test_an_interruption_keeps_what_was_judged(policies, config, tmp_path, monkeypatch):
    class Breaking(Even):
        def sample(self, requests):
            rows = super().sample(requests)
            for _ in range(3):
                yield next(rows)
            raise KeyboardInterrupt

    monkeypatch.setattr(drawing, "build_sampler", Breaking)
    with pytest.raises(KeyboardInterrupt):
        found(policies[:1], config, tmp_path)
    benchmarks = load_benchmarks(config.evaluation, config.data)
    (one, *_) = missing(policies[:1], benchmarks, config, tmp_path / "runs")
    assert (one.needed, one.stored, one.graded) == (12, 3, 3)


def test_missing_says_what_a_measurement_would_draw(policies, config, tmp_path, built):
    benchmarks = load_benchmarks(config.evaluation, config.data)
    root = tmp_path / "runs"
    before = missing(policies, benchmarks, config, root)
    assert [(one.needed, one.stored, one.graded) for one in before] == [(12, 0, 0)] * 6
    assert not root.exists()
    found(policies[:1], config, tmp_path)
    after = missing(policies, benchmarks, config, root)
    assert [(one.stored, one.graded) for one in after] == [(12, 12)] * 3 + [(0, 0)] * 3
    assert isinstance(after[0], Missing)
    assert len(set(after[0].sample_sets)) == 3  # one for each seed


def contents(root):
    return {
        path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in root.rglob("*")
    }


def test_missing_leaves_everything_as_it_is(policies, config, tmp_path, built, monkeypatch):
    """Not one index is written, no damaged part set aside, no file of grades tidied away."""
    found(policies, config, tmp_path)
    root = tmp_path / "runs"
    sets = sorted(root.glob("samples/*"))
    (sets[0] / "index").unlink()
    (part, *_) = sets[1].glob("*.parquet")
    (sets[1] / "index").unlink()
    part.write_bytes(part.read_bytes()[:-1])
    (grades, *_) = sets[2].glob("grades/*/*.grades")
    grades.write_bytes(grades.read_bytes()[:-1])
    monkeypatch.setattr("sage_cli.store.annotations.FILES_AT_MOST", 0)
    before = contents(root)
    told = missing(policies, load_benchmarks(config.evaluation, config.data), config, root)
    assert contents(root) == before
    # each of 2 x 3 sets has 3 files x 2 problems x 2 samples = 12
    assert sum(one.needed for one in told) == 2 * 3 * 12
    assert sum(one.stored for one in told) < 2 * 3 * 12
    assert sum(one.graded for one in told) < sum(one.stored for one in told)


def test_prompts_that_cannot_be_answered_stop_no_other(policies, config, tmp_path, monkeypatch):
    """Nor other benchmarks, seeds and policies; what is missing is named at the end."""

    class Refusing(Even):
        def sample(self, requests):
            short = [one for one in requests if not one.prompt.startswith("two1")]
            yield from super().sample(short)
            if len(short) < len(requests):
                (long,) = set(requests) - set(short)
                raise RefusedPromptsError({long.problem_id: "9 tokens are too many"})

    monkeypatch.setattr(drawing, "build_sampler", Refusing)
    with pytest.raises(RefusedPromptsError, match="1 problem lacks samples") as refusal:
        found(policies, config, tmp_path)
    assert "9 tokens are too many" in refusal.value.cause
    benchmarks = load_benchmarks(config.evaluation, config.data)
    stored = missing(policies, benchmarks, config, tmp_path / "runs")
    # two problems of two samples under three seeds; one of them is missing on the second file
    assert [(one.stored, one.graded) for one in stored] == [(12, 12), (6, 6), (12, 12)] * 2


def test_a_gold_that_is_no_answer_to_itself_is_named(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"question": "q", "gold": " , "}))
    config = load(sets=[f"evaluation.benchmark={path}"]).config
    with pytest.raises(
        DataError, match=r"1 reference answers of .*bad\.jsonl are not graded correct"
    ):
        load_benchmarks(config.evaluation, config.data)
