"""A stored file that was changed, halved or emptied: it is named, or the reading is as before."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from shown_runs import PROBLEMS, SAMPLES, SETTINGS, shown_runs, stored_run

from sage_cli.config.load import load
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.store.files import warn_once
from sage_cli.store.run import Run
from sage_cli.store.run_facts import Entry
from sage_cli.training.checkpoints import newest_sealed, seal
from sage_cli.trials.search.planned_sweep import SweepFolder
from sage_cli.view.api import Api

RUN = "rl-grpo-eeeeeeee"
SWEEP = "tau-rho-12345678"
SUITE = "demo-12345678"
POINT = {"guide.tau": 0.35, "guide.rho": 0.5}


def _model(folder):
    """What a model's folder holds, with weights that nothing loads."""
    folder.mkdir()
    (folder / "config.json").write_text('{"vocab_size": 90, "dtype": "float32"}')
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 1, "b": 2}}}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<eos>", "limit": 96}')
    (folder / "generation_config.json").write_text('{"eos_token_id": 1, "pad_token_id": 2}')
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 300)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run whose samples are really graded, with checkpoints; a sweep and a suite."""
    root = shown_runs(tmp_path_factory.mktemp("stored") / "runs")
    config = load(("tiny",), SETTINGS).config
    golds = list(load_benchmarks(config.evaluation, config.data)[0].golds.values())

    def answer(problem, sample):
        right = sample < 3 and problem < PROBLEMS - 1
        number = golds[problem] if right else -1
        return f"<SOLUTION>{number}</SOLUTION>", "right" if right else "wrong"

    records = [{"step": step, "of": 2, "reward": 0.25 * step} for step in (1, 2)]
    run = stored_run(root, "grpo", "e", answer, records=records, model=_model)
    for step in (1, 2):
        checkpoint = run.checkpoints / f"checkpoint-{step}"
        checkpoint.parent.mkdir(exist_ok=True)
        _model(checkpoint)
        (checkpoint / "optimizer.pt").write_bytes(bytes(range(256)) * 300)
        (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": step}))
        seal(checkpoint)
    runs = SweepFolder(root / "sweeps" / SWEEP).runs
    for seed in (0, 1):
        runs.append(Entry(POINT, seed, RUN))
    return root


@dataclass(frozen=True)
class Reading:
    """A place where a file is read: its answer, and its error as text."""

    sage: Callable
    root: Path

    def typed(self, *words):
        result = self.sage(*words)
        if result.code:
            raise SageError(result.words)
        return result.stdout

    def show(self):
        return self.typed("runs", "show", RUN, "--json")

    def passk(self):
        answer = json.loads(self.typed("passk", RUN, "--json"))
        return {key: value for key, value in answer.items() if key != "provenance"}

    def engines(self):
        return json.loads(self.typed("passk", RUN, "--json"))["provenance"]["samples"]

    def samples(self):
        return self.typed("samples", "show", RUN, "--json")

    def view(self, name, **asked):
        return Api(self.root).answer(name, asked)

    def rollouts(self):
        return self.view("rollouts", run=RUN)

    def ledger(self):
        return self.view("ledger", run=RUN)

    def in_view(self):
        answer = self.view("passk", policies=RUN)
        if answer["absent"]:
            raise SageError(answer["absent"][0]["why"])
        return answer

    def run_in_view(self):
        answer = self.view("run", run=RUN)
        if answer["why_torn"]:
            raise SageError(answer["why_torn"])
        return answer

    def checkpoint(self):
        newest = newest_sealed(Run(self.root / RUN).checkpoints)
        return {file: file.read_bytes() for file in newest.iterdir() if file.name != "sealed.json"}

    def saved(self):
        return self.typed("passk", f"{RUN}@2", "--json", "--dry-run")

    def sweep(self):
        answer = self.view("sweep", sweep=SWEEP)
        if why := answer["sweep"]["why_torn"] or answer["why"]:
            raise SageError(why)
        return {**answer, "sweep": {**answer["sweep"], "changed": None}}

    def entries(self):
        """Lines that are lost are entered again; what is left must be true."""
        entries = SweepFolder(self.root / "sweeps" / SWEEP).runs.entries()
        return all(entry.point == POINT and entry.run == RUN for entry in entries)

    def suite(self):
        answer = self.view("suite", suite=SUITE)
        if answer["suite"]["why_torn"]:
            raise SageError(answer["suite"]["why_torn"])
        return {**answer, "suite": {**answer["suite"], "changed": None}}


KINDS = {
    "manifest": (f"{RUN}/manifest.json", "show"),
    "configuration": (f"{RUN}/config.json", "passk"),
    "records": (f"{RUN}/metrics.jsonl", "show"),
    "records in the view": (f"{RUN}/metrics.jsonl", "run_in_view"),
    "rollouts": (f"{RUN}/rollouts.jsonl", "rollouts"),
    "ledger": (f"{RUN}/ledger/steps-*", "ledger"),
    "evaluation": (f"{RUN}/evaluations/*.json", "show"),
    "weights": (f"{RUN}/model/model.safetensors", "passk"),
    "weights in the view": (f"{RUN}/model/model.safetensors", "in_view"),
    "weights of shown samples": (f"{RUN}/model/model.safetensors", "samples"),
    "architecture": (f"{RUN}/model/config.json", "passk"),
    "tokenizer": (f"{RUN}/model/tokenizer.json", "passk"),
    "tokenizer's settings": (f"{RUN}/model/tokenizer_config.json", "passk"),
    "ends": (f"{RUN}/model/generation_config.json", "passk"),
    "checkpoint's weights": (f"{RUN}/checkpoints/checkpoint-2/model.safetensors", "checkpoint"),
    "measured checkpoint": (f"{RUN}/checkpoints/checkpoint-2/model.safetensors", "saved"),
    "checkpoint's optimiser": (f"{RUN}/checkpoints/checkpoint-2/optimizer.pt", "checkpoint"),
    "checkpoint's state": (f"{RUN}/checkpoints/checkpoint-2/trainer_state.json", "checkpoint"),
    "seal": (f"{RUN}/checkpoints/checkpoint-2/sealed.json", "checkpoint"),
    "samples": ("samples/{set}/part-*", "passk"),
    "texts": ("samples/{set}/part-*", "samples"),
    "set": ("samples/{set}/set.json", "passk"),
    "engines": ("samples/{set}/engines.json", "engines"),
    "grades": ("samples/{set}/grades/*/*.grades", "passk"),
    "grader": ("samples/{set}/grades/*/grader.json", "passk"),
    "sweep's report": (f"sweeps/{SWEEP}/sweep.json", "sweep"),
    "sweep's state": (f"sweeps/{SWEEP}/state.json", "sweep"),
    "sweep's runs": (f"sweeps/{SWEEP}/runs.jsonl", "entries"),
    "suite's report": (f"suites/{SUITE}/report/shown.json", "suite"),
    "suite's tasks": (f"suites/{SUITE}/state.json", "suite"),
}
"""A kind of file -> where it lies, and where it is read."""


def _flipped(share):
    """Flip a bit: in a text that of a digit, so that it stays one; else anywhere."""

    def flip(content):
        digits = [at for at, byte in enumerate(content) if chr(byte).isdigit()]
        text = content[:1] in b"{["
        places = digits if text and digits else range(len(content))
        at = places[int(share * (len(places) - 1))]
        return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

    return flip


DAMAGES = {
    "first": _flipped(0.0),
    "middle": _flipped(0.5),
    "late": _flipped(0.8),
    "half": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_or_without_effect(kind, damage, stored, sage, tmp_path, caplog):
    root = tmp_path / "empty" / "runs"
    shutil.copytree(stored, root)
    where, name = KINDS[kind]
    reading = Reading(sage, root)
    read = getattr(reading, name)
    key = json.loads((root / RUN / "evaluations/arithmetic.json").read_text())  # it was measured
    assert (key["problems"], key["samples"]) == (PROBLEMS, SAMPLES)
    before = read()
    (file,) = root.glob(where.format(set=_set_of(root)))
    warn_once.cache_clear()
    caplog.clear()
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    try:
        after = read()
    except SageError as error:
        after = error.cause
    text = f"{after if isinstance(after, str) else ''} {caplog.text}"
    named = file.name in text or (kind == "seal" and file.parent.name in text)
    assert named or after == before


def _set_of(root):
    """The folder of the run's samples, which hold the right golds."""
    tagged = [
        part.parent.name
        for part in root.glob("samples/*/part-*")
        if json.loads((part.parent / "set.json").read_text())["model"] == _fingerprint(root)
    ]
    return tagged[0]


def _fingerprint(root):
    from sage_cli.models.folders import fingerprint

    return fingerprint(root / RUN / "model")
