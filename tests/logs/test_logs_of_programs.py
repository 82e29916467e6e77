"""Logs that releases of Inspect and lm-eval write (`make test-logs`), measured from their files."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RELEASES = Path(os.environ.get("LOG_RELEASES", HERE.parents[1] / ".venv-logs"))
INSPECT = ("inspect-0.3.285", "inspect-0.3.112")
LM_EVAL = ("lm-eval-0.4.13", "lm-eval-0.4.9.1")
INSPECTED = {
    "repeated": (4, "", ["12", "30", "7", "x", "y"]),
    "single": (1, "", ["12"]),
    "right-once": (4, "", ["12"]),
    "other": (2, "", ["12", "7"]),
    "reworded": (2, "Compute ", ["12", "7"]),
}
"""Logs of Inspect's mock model: epochs, what precedes a question, and its answers in turn."""
SUMS = [("3*4=?", "12"), ("5*6=?", "30"), ("2+5=?", "lol")]
"""lm-eval's dummy model answers lol to everything."""
_SAMPLED = {
    "output_type": "generate_until",
    "doc_to_target": "{{gold}}",
    "generation_kwargs": {"until": ["\n"], "do_sample": True, "temperature": 1},
}
KINDS = {
    "generated": _SAMPLED,
    "repeated": {**_SAMPLED, "repeats": 4},
    "choice": {
        "output_type": "multiple_choice",
        "doc_to_choice": ["12", "30", "7"],
        "doc_to_target": 0,
    },
}
METRICS = {"generated": "exact_match", "repeated": "exact_match", "choice": "acc"}


def program(release, name):
    """Return an executable of a release; the test is skipped where it isn't installed."""
    if not (RELEASES / release / ".installed").exists():
        pytest.skip(f"{release} is not installed: make test-logs")
    return RELEASES / release / "bin" / name


def run(folder, *command):
    variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    ended = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def inspect(tmp_path_factory):
    """Return a log by its release and name, and the accuracy that Inspect printed."""

    @cache
    def evaluated(release):
        python, folder = program(release, "python"), tmp_path_factory.mktemp(release)
        printed = run(folder, python, HERE / "evaluate.py", json.dumps(INSPECTED))
        return folder, json.loads(printed.splitlines()[-1])

    def read(release, name):
        folder, accuracies = evaluated(release)
        (log,) = (folder / name).glob("*.eval")
        return log, accuracies[name]

    return read


@pytest.fixture(scope="module")
def lm_eval(tmp_path_factory):
    """Return of a release and a kind of task a file of samples, and lm-eval's own score."""

    @cache
    def evaluated(release):
        executable = program(release, "lm_eval")
        folder = tmp_path_factory.mktemp(release)
        rows = [{"question": question, "gold": gold} for question, gold in SUMS]
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for kind, own in KINDS.items():
            task = {"task": kind, "dataset_path": "json", "test_split": "test", **own}
            task["dataset_kwargs"] = {"data_files": {"test": str(folder / "sums.jsonl")}}
            task["doc_to_text"] = "{{question}}"
            task["metric_list"] = [{"metric": METRICS[kind], "aggregation": "mean"}]
            (folder / f"{kind}.yaml").write_text(json.dumps(task))  # JSON is YAML, too
        run(
            folder,
            executable,
            "--model",
            "dummy",
            "--tasks",
            ",".join(KINDS),
            "--include_path",
            ".",
            "--log_samples",
            "--output_path",
            "out/put",
        )
        return folder

    def read(release, kind):
        (samples,) = evaluated(release).rglob(f"samples_{kind}_*.jsonl")
        (results,) = samples.parent.glob("results_*.json")
        scores = json.loads(results.read_text())["results"][kind]
        return samples, float(scores[f"{METRICS[kind]},none"])

    return read


def sage(folder, *words):
    return json.loads(run(folder, sys.executable, "-m", "sage_cli", *words, "--json"))


def refused(folder, *words):
    ended = subprocess.run(
        [sys.executable, "-m", "sage_cli", *map(str, words)],
        cwd=folder,
        text=True,
        env=os.environ | {"COLUMNS": "300"},
        capture_output=True,
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    return ended.stderr


@pytest.mark.parametrize("release", INSPECT)
def test_a_log_of_inspect(tmp_path, inspect, release):
    log, accuracy = inspect(release, "repeated")
    (curve,) = sage(tmp_path, "passk", log)["curves"]
    assert curve["pass@k"][0] == pytest.approx(accuracy)
    assert (len(curve["pass@k"]), curve["benchmark"]) == (4, "sums")
    single, accuracy = inspect(release, "single")
    assert "1 sample of problem 1" in refused(tmp_path, "passk", single, "--k", "1,4")
    assert accuracy == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["other", "reworded"])
def test_logs_of_two_releases_are_compared(tmp_path, inspect, name):
    a, mean_a = inspect(INSPECT[0], "repeated")
    b, mean_b = inspect(INSPECT[1], name)
    found = sage(tmp_path, "compare", a, b, "--k", "1")
    assert found["comparisons"]["sums"]["difference"][0] == pytest.approx(mean_a - mean_b)
    assert found["unmatched"] == {}
    assert sage(tmp_path, "power", a, "--k", "1")["name"] == "power"


@pytest.mark.parametrize("release", LM_EVAL)
@pytest.mark.parametrize("kind", ["generated", "choice"])
def test_samples_of_lm_eval(tmp_path, lm_eval, release, kind):
    samples, score = lm_eval(release, kind)
    (curve,) = sage(tmp_path, "passk", samples)["curves"]
    assert (curve["pass@k"], curve["benchmark"]) == (pytest.approx([score]), kind)
    assert "1 sample of problem 0" in refused(tmp_path, "passk", samples, "--k", "4")


@pytest.mark.parametrize("release", LM_EVAL)
def test_repeats_of_lm_eval_are_graded_by_sages_judge(tmp_path, lm_eval, release):
    samples, _ = lm_eval(release, "repeated")
    (file,) = sage(tmp_path, "passk", samples, "--k", "1,4")["files"]
    assert "lm-eval scored one response of each document" in " ".join(file["notes"])
    assert (file["samples"], file["judge"]["judge"]) == (12, "math")
    graded = sage(tmp_path, "grade", samples)
    assert sum(graded["statuses"]["math-verify"].values()) == 12


def test_two_programs_are_compared_by_question(tmp_path, inspect, lm_eval):
    log, accuracy = inspect(INSPECT[0], "right-once")
    samples, score = lm_eval(LM_EVAL[0], "generated")
    found = sage(tmp_path, "compare", log, samples, "--k", "1")["comparisons"]["sums"]
    assert found["difference"] == pytest.approx([accuracy - score])
