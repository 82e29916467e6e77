"""An exported folder says where it is from and how it was measured."""

from types import SimpleNamespace

import pytest
import yaml
from random_model import save_scratch

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.export import export, push, require_hub_name
from sage_cli.models.model_card import model_card
from sage_cli.progress import Silent
from sage_cli.settings.model import ScratchModel
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.json_files import write_json
from sage_cli.store.run import Runs

SMALL = ScratchModel(kind="scratch", hidden=32, layers=2, heads=2, feed_forward=64, seed=3)
PROBLEMS = '{"question": "2+2=?", "gold": "4"}\n{"question": "3+3=?", "gold": "6"}\n'


@pytest.fixture
def root(tmp_path):
    """A run that is measured on a file of its own."""
    (tmp_path / "own.jsonl").write_text(PROBLEMS)
    runs = Runs(tmp_path / "runs")
    run = runs.at("sft", "toy", "1" * 8)
    config = {
        "prompt": {"format": "plain", "system": None},
        "evaluation": {"benchmark": str(tmp_path / "own.jsonl"), "samples": 2, "k": "1,2"},
        "sampling": {"temperature": 0, "max_tokens": 8, "min_p": 0},
    }
    with run.recording(config, kind="sft", parent=None, seed=5, template="t0"):
        save_scratch(SMALL, ("<SOLUTION>", "</SOLUTION>"), [], run.model)
    return runs.root


def test_a_card_has_origin_curve_and_command_and_no_text_ends_its_cells():
    card = model_card(
        name="rl-a",
        base="org/base",
        origin={"run": "rl-a", "weights (fingerprint)": "abc", "data": None},
        settings={"guide.tau": 0.5},
        command="sage rl --tau .5",
        measured={"own": {"pass@1": 0.25, "pass@2": 0.5, "problems": 3, "samples": 4}},
    )
    head = yaml.safe_load(card.split("---")[1])
    assert head["base_model"] == "org/base"
    for line in (
        "| weights (fingerprint) | abc |",
        "| guide.tau | 0.5 |",
        "sage rl --tau .5",
        "own: problems 3, samples 4",
        "| 2 | 0.5000 |",
    ):
        assert line in card
    assert "| data |" not in card
    card = model_card("<b>|x", None, {"run": "a|b\n# no"}, prompt="```\n# not a title")
    assert "# &lt;b>\\|x" in card
    assert "| run | a\\|b # no |" in card
    assert "````\n```\n# not a title\n````" in card


def test_an_export_has_a_card_and_says_that_nothing_was_measured(root, tmp_path):
    export("sft-toy", tmp_path / "out", root, Silent())
    card = (tmp_path / "out/README.md").read_text()
    assert "| training seed | 5 |" in card
    assert "Not measured." in card


def test_a_card_names_own_functions_and_no_local_folder_as_base(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text("def near(answer, gold): ...\ndef short(completions, **_): ...\n")
    (tmp_path / "llama").mkdir()
    config = {
        "prompt": {"format": "plain", "system": None},
        "model": {"kind": "pretrained", "path": str(tmp_path / "llama"), "tuning": "full"},
        "grading": {"judge": f"{code}:near"},
        "rl": {
            "rewards": [{"name": "grade", "weight": 1.0}, {"name": f"{code}:short", "weight": 0.2}]
        },
    }
    run = Runs(tmp_path / "runs").at("rl", "toy", "2" * 8)
    with run.recording(config, kind="rl", parent="llama", seed=5, template="t0"):
        save_scratch(SMALL, ("<SOLUTION>", "</SOLUTION>"), [], run.model)
    export(run.id, tmp_path / "out", tmp_path / "runs", Silent())
    card = (tmp_path / "out/README.md").read_text()
    assert f"| grading.judge | {code}:near |" in card
    assert f"| rl.rewards | grade + 0.2 x {code}:short |" in card
    assert "base_model" not in card


def test_a_card_has_what_its_run_recorded_and_runs_no_judge(root, tmp_path):
    run = Runs(root).find("sft-toy")
    judge = f"{tmp_path / 'gone.py'}:same"
    write_json(run.folder / "config.json", run.read_config() | {"grading": {"judge": judge}})
    run.note(files=None)  # as if it had been trained so
    record_evaluation(run, "own", {"pass@1": 0.5, "problems": 2, "samples": 2, "seeds": 1})
    export("sft-toy", tmp_path / "out", root, Silent())
    card = (tmp_path / "out/README.md").read_text()
    assert "own: problems 2, samples 2, seeds 1" in card
    assert "| 1 | 0.5000 |" in card


def test_an_upload_is_private_and_its_failure_names_the_next_step(monkeypatch, tmp_path):
    asked = []

    class Hub:
        def create_repo(self, name, **how):
            asked.append((name, how))
            return f"https://hub/{name}"

        def upload_folder(self, **how):
            asked.append(how)
            if how["repo_id"] == "me/forbidden":
                raise PermissionError("403 Forbidden\nmore")

    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", SimpleNamespace(HfApi=Hub))
    assert push(tmp_path, "me/policy", Silent()) == "https://hub/me/policy"
    assert asked[0] == ("me/policy", {"private": True, "exist_ok": True})
    with pytest.raises(StoreError, match=r"uploading it as me/forbidden failed: 403 Forbidden$"):
        push(tmp_path, "me/forbidden", Silent())
    with pytest.raises(ConfigurationError, match="form ORG/MODEL"):
        require_hub_name("policy")
