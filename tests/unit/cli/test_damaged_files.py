"""A stored file that was changed, halved or emptied: it is named, or the reading is as before."""

import json
import shutil

import pytest
from shown_runs import PROBLEMS, SAMPLES, SETTINGS, shown_runs, stored_run

from sage_cli.config.load import load
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.models.folders import fingerprint
from sage_cli.reports import passk as passk_report
from sage_cli.store.json_files import warn_once
from sage_cli.store.run import Run
from sage_cli.store.sweep_runs import SweepEntry
from sage_cli.training.checkpoints import newest_sealed, seal
from sage_cli.trials.sweep.folder import SweepFolder
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
        runs.append(SweepEntry(POINT, seed, RUN))
    return root


def typed(words):
    """Read what a command prints as JSON; a panel is an error."""

    def read(sage, _root):
        result = sage(*words.split(), "--json")
        if result.code:
            raise SageError(result.words)
        return result.stdout

    return read


def passk(sage, root):
    answer = json.loads(typed(f"passk {RUN}")(sage, root))
    return {key: value for key, value in answer.items() if key != "provenance"}


def engines(sage, root):
    return json.loads(typed(f"passk {RUN}")(sage, root))["provenance"]["samples"]


def viewed(name, why=lambda _: None, **asked):
    """Read an answer of the page; `why` says what it tells of a file that is torn."""

    def read(_sage, root):
        answer = Api(root).answer(name, asked)
        if told := why(answer):
            raise SageError(told)
        shown = answer.get(name)
        timeless = {name: {**shown, "changed": None}} if isinstance(shown, dict) else {}
        return {**answer, **timeless}

    return read


def checkpoint(_sage, root):
    newest = newest_sealed(Run(root / RUN).checkpoints)
    return {file: file.read_bytes() for file in newest.iterdir() if file.name != "sealed.json"}


def entries(_sage, root):
    """Lines that are lost are entered again; what is left must be true."""
    lines = SweepFolder(root / "sweeps" / SWEEP).runs.entries()
    return all(entry.point == POINT and entry.run == RUN for entry in lines)


SHOWN = typed(f"runs show {RUN}")
SWEPT = viewed("sweep", lambda told: told["sweep"]["why_corrupt"] or told["why"], sweep=SWEEP)
TABLED = viewed("suite", lambda told: told["suite"]["why_corrupt"], suite=SUITE)
IN_VIEW = viewed("passk", lambda told: told["absent"] and told["absent"][0]["why"], policies=RUN)
RUN_IN_VIEW = viewed("run", lambda told: told["why_corrupt"], run=RUN)
SAVED = typed(f"passk {RUN}@2 --dry-run")
SAMPLES_SHOWN = typed(f"samples show {RUN}")
KINDS = {
    "manifest": (f"{RUN}/manifest.json", SHOWN),
    "configuration": (f"{RUN}/config.json", passk),
    "records": (f"{RUN}/metrics.jsonl", SHOWN),
    "records in the view": (f"{RUN}/metrics.jsonl", RUN_IN_VIEW),
    "records in the table of runs": (f"{RUN}/metrics.jsonl", viewed("runs")),
    "rollouts": (f"{RUN}/rollouts.jsonl", viewed("rollouts", run=RUN)),
    "ledger": (f"{RUN}/ledger/steps-*", viewed("ledger", run=RUN)),
    "evaluation": (f"{RUN}/evaluations/*.json", SHOWN),
    "weights": (f"{RUN}/model/model.safetensors", passk),
    "weights in the view": (f"{RUN}/model/model.safetensors", IN_VIEW),
    "weights of shown samples": (f"{RUN}/model/model.safetensors", SAMPLES_SHOWN),
    "architecture": (f"{RUN}/model/config.json", passk),
    "tokenizer": (f"{RUN}/model/tokenizer.json", passk),
    "tokenizer's settings": (f"{RUN}/model/tokenizer_config.json", passk),
    "ends": (f"{RUN}/model/generation_config.json", passk),
    "checkpoint's weights": (f"{RUN}/checkpoints/checkpoint-2/model.safetensors", checkpoint),
    "measured checkpoint": (f"{RUN}/checkpoints/checkpoint-2/model.safetensors", SAVED),
    "checkpoint's optimiser": (f"{RUN}/checkpoints/checkpoint-2/optimizer.pt", checkpoint),
    "checkpoint's state": (f"{RUN}/checkpoints/checkpoint-2/trainer_state.json", checkpoint),
    "seal": (f"{RUN}/checkpoints/checkpoint-2/sealed.json", checkpoint),
    "samples": ("samples/{set}/part-*", passk),
    "texts": ("samples/{set}/part-*", SAMPLES_SHOWN),
    "set": ("samples/{set}/set.json", passk),
    "engines": ("samples/{set}/engines.json", engines),
    "grades": ("samples/{set}/grades/*/*.grades", passk),
    "grader": ("samples/{set}/grades/*/grader.json", passk),
    "sweep's report": (f"sweeps/{SWEEP}/sweep.json", SWEPT),
    "sweep's state": (f"sweeps/{SWEEP}/state.json", SWEPT),
    "sweep's runs": (f"sweeps/{SWEEP}/runs.jsonl", entries),
    "suite's report": (f"suites/{SUITE}/report/shown.json", TABLED),
    "suite's tasks": (f"suites/{SUITE}/state.json", TABLED),
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_or_harmless(kind, stored, sage, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(passk_report, "draw_curves", lambda *_: None)  # no picture is looked at
    root = tmp_path / "empty" / "runs"
    shutil.copytree(stored, root)
    where, read = KINDS[kind]
    key = json.loads((root / RUN / "evaluations/arithmetic.json").read_text())  # it was measured
    assert (key["problems"], key["samples"]) == (PROBLEMS, SAMPLES)
    before = read(sage, root)
    for damage, damaged in DAMAGES.items():
        shutil.rmtree(root)
        shutil.copytree(stored, root)
        (file,) = root.glob(where.format(set=_set_of(root)))
        warn_once.cache_clear()
        caplog.clear()
        file.write_bytes(damaged(file.read_bytes()))
        try:
            after = read(sage, root)
        except SageError as error:
            after = error.cause
        text = f"{after if isinstance(after, str) else ''} {caplog.text}"
        named = file.name in text or (kind == "seal" and file.parent.name in text)
        assert named or after == before, damage


def _set_of(root):
    """The folder of the run's samples, which hold the right golds."""
    model, files = fingerprint(root / RUN / "model"), root.glob("samples/*/set.json")
    (own,) = (f.parent.name for f in files if json.loads(f.read_text())["model"] == model)
    return own
