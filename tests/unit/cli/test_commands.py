"""What commands print: settings with their origins, plans, runs."""

import json
from pathlib import Path

import pytest
from suite_results import result
from typer.testing import CliRunner

from sage_cli import __version__
from sage_cli.cli.app import app
from sage_cli.settings.presets import preset_names
from sage_cli.store.run import Runs, record_evaluation
from sage_cli.trials.suites.report import chapters, write_report
from sage_cli.trials.suites.trials import planned
from sage_cli.view.api import Api


@pytest.fixture
def made(tmp_path, monkeypatch, sage):
    """A base and a run that grew from it, in the folder where `sage` is typed."""
    runs = Runs(tmp_path / "empty" / "runs")
    base, trained = runs.at("sft", "arithmetic", "1" * 8), runs.at("rl", "dapo-branch", "2" * 8)
    for run, parent in ((base, None), (trained, base.id)):
        with run.recording({}, kind=run.id.split("-")[0], parent=parent, seed=7, template="0"):
            run.metrics.append({"step": 1, "reward": 0.25})
            run.metrics.append({"step": 2, "reward": 0.5})
    return base, trained


def test_config_show_prints_every_setting_and_its_origin(sage):
    typed = sage("config", "show", "--set", "rl.steps=7", "--origin")
    assert typed.code == 0
    assert "rl.steps 7 --set" in typed.words
    assert "model.hidden 96 preset tiny" in typed.words
    assert "grading.mode strict default" in typed.words
    assert typed.written == []


def test_config_show_takes_the_flags_that_decide_other_settings(sage):
    typed = sage("config", "show", "--algo", "dapo", "--guide", "token", "--json")
    shown = json.loads(typed.stdout)
    assert (shown["rl"]["epsilon_high"], shown["guide"]["name"]) == (0.28, "token")


def test_a_learning_rate_is_a_flag(sage):
    for command, stage in (("sft", 0), ("rl", 1)):
        planned = json.loads(sage(command, "--lr", "3e-5", "--dry-run", "--json").stdout)["stages"]
        assert planned[stage]["learning rate"].startswith("3e-05")


def test_config_show_json_is_the_configuration(sage):
    shown = json.loads(sage("config", "show", "--json", "--set", "rl.algo=dapo").stdout)
    assert (shown["rl"]["algo"], shown["rl"]["epsilon_high"]) == ("dapo", 0.28)
    typed = sage("config", "show", "--json", "--origin", "--set", "rl.algo=dapo")
    origins = json.loads(typed.stdout)["origins"]
    assert origins["rl.epsilon_high"] == "method dapo"
    assert origins["rl.algo"] == "--set"


@pytest.mark.parametrize(
    ("words", "stages"),
    [
        (("sft",), 1),
        (("rl", "--algo", "dapo", "--guide", "branch"), 2),
        (("passk", "--k", "1..256"), 1),
        (("sweep", "--space", "tau,rho"), 3),
        (("rl", "--preset", "qwen2.5-math-7b", "--guide", "branch"), 2),
    ],
)
def test_a_dry_run_says_what_would_happen_and_touches_nothing(sage, words, stages):
    typed = sage(*words, "--dry-run")
    assert typed.code == 0
    assert "dry run: nothing was written" in typed.words
    planned = json.loads(sage(*words, "--dry-run", "--json").stdout)
    assert len(planned["stages"]) == stages
    assert typed.written == []


def test_the_demos_plan_has_both_arms(sage):
    typed = sage("demo", "--dry-run")
    assert typed.code == 0
    assert "--guide branch" in typed.words
    assert typed.written == []
    tasks = json.loads(sage("demo", "--dry-run", "--json").stdout)["tasks"]
    assert [task["command"].split()[1] for task in tasks] == ["sft", "rl", "rl", "eval"]


RIGHT = {
    "base": {"arithmetic": [[0, 0, 1, 3] * 5]},
    "dapo-no-kl": {"arithmetic": [[1, 2, 3, 4] * 5]},
    "dapo-branch": {"arithmetic": [[1, 2, 3, 4] * 5]},
}


@pytest.mark.parametrize(("missing", "sets"), [(None, ()), ("dapo-branch", ("rl.seed=4",))])
def test_the_demo_ends_with_what_it_shows_and_what_to_type(sage, monkeypatch, missing, sets):
    def reported(name, overrides, progress):
        plan = planned(name, overrides)
        right = {label: counts for label, counts in RIGHT.items() if label != missing}
        found = result(plan.suite, right)
        return write_report(plan, [found], chapters(plan, [found], {}))

    monkeypatch.setattr("sage_cli.cli.suite_run.run_suite", reported)
    typed = sage("demo", *(word for one in sets for word in ("--set", one)))
    assert typed.code == 0
    lines = [line.strip() for line in typed.stdout.splitlines()]
    (first,) = [line for line in lines if "dapo-no-kl is above the initial policy at" in line]
    assert first.startswith("dapo-no-kl is above the initial policy at pass@1: +0.375 [")
    second = "dapo-branch is indistinguishable from dapo-no-kl at pass@4: +0.000 [-0."
    assert any(line.startswith(second) for line in lines) == (missing is None)
    assert ("incomplete: dapo-branch (out of memory" in typed.stdout) == (missing is not None)
    heads = next(line for line in lines if "initial policy ┃" in line)
    assert "dapo-no-kl" in heads
    assert "rl-dapo" not in typed.stdout  # labels in the place of ids
    picture = Path(next(line for line in lines if line.startswith("picture:"))[len("picture: ") :])
    assert picture.is_file()
    commands = [line.partition("  #")[0] for line in lines if line.startswith("sage ")]
    typed_sets = "".join(f" --set {one}" for one in sets)
    root = " --runs runs" if sets else ""
    assert commands == [
        f"sage view {picture.parent.parent.name}{root}",
        f"sage suite run demo --seeds 3{typed_sets}",
        "sage init mystudy",
    ]
    assert sage(*commands[1].split()[1:], "--dry-run").code == 0
    assert sage(*commands[2].split()[1:]).code == 0
    shown = Api(Path("runs")).answer("suite", {"suite": picture.parent.parent.name})
    assert shown["report"]["facts"]["claims"]


def test_a_plans_arithmetic(sage):
    tiny = {
        "rl.prompts_per_step": 16, "rl.rollouts_per_prompt": 16, "rl.micro_batch": 64,
        "rl.steps": 200, "rollout.max_tokens": 48,
    }  # fmt: skip
    sets = [word for key, value in tiny.items() for word in ("--set", f"{key}={value}")]
    typed = sage("sweep", "--steps", "5", *sets, "--dry-run", "--json")
    _, rl, sweep = json.loads(typed.stdout)["stages"]
    # a trial: 16 x 16 = 256 completions a step, in 4 micro-batches; 5 x 256 of 48 tokens
    assert rl["batch"] == "16 prompts x 16 rollouts = 256 completions = 4 x 64"
    assert rl["completions"] == "1,280"
    assert rl["tokens at most"] == "61,440"
    # 9 points x 5 steps x 256 = 11,520; 9 x 50 problems x 256 samples = 115,200
    assert sweep["trials"] == 9
    assert sweep["left"].startswith("45 steps; 126,720 completions; ")


def test_runs_list_and_show(sage, made):
    base, trained = made
    typed = sage("runs", "list")
    assert f"{trained.id} finished 2" in typed.words
    listed = json.loads(sage("runs", "list", "--json").stdout)["runs"]
    assert [(run["id"], run["parent"]) for run in listed] == [
        (base.id, None), (trained.id, base.id),
    ]  # fmt: skip
    shown = json.loads(sage("runs", "show", "rl", "--json").stdout)
    assert shown["last"] == {"step": 2, "reward": 0.5}
    assert shown["manifest"]["seed"] == 7
    assert "reward 0.5" in sage("runs", "show", trained.id).words


def test_runs_show_begins_with_how_it_was_trained_and_its_pass_at_k(sage, made):
    _, trained = made
    settings = {
        "rl": {"algo": "dapo", "learning_rate": 2e-4, "steps": 200, "seed": 7},
        "guide": {"name": "branch", "tau": 0.5, "rho": 0.75},
        "anchor": {"kl": "reverse", "beta": 0.04},
    }
    (trained.folder / "config.json").write_text(json.dumps(settings))
    record_evaluation(trained, "amc23", {"pass@1": 0.25})
    method = json.loads(sage("runs", "show", "rl", "--json").stdout)["method"]
    assert method == {
        "rl.algo": "dapo", "guide.name": "branch", "guide.tau": 0.5, "guide.rho": 0.75,
        "anchor.kl": "reverse", "anchor.beta": 0.04, "rl.learning_rate": 2e-4, "rl.steps": 200,
    }  # fmt: skip
    words = sage("runs", "show", "rl").words
    order = [
        "status", "rl.algo dapo", "guide.tau 0.5", "anchor.beta 0.04", "rl.learning_rate 0.0002",
        "eval/amc23/pass@1 0.25", "parent", "reward 0.5",
    ]  # fmt: skip
    assert [words.index(part) for part in order] == sorted(words.index(part) for part in order)


def test_what_is_undefined_is_null_in_json(sage, made):
    made[1].metrics.append({"step": 3, "entropy": float("nan")})
    assert "NaN" in made[1].metrics.path.read_text()
    stdout = sage("runs", "show", "rl", "--json").stdout
    assert json.loads(stdout, parse_constant=pytest.fail)["last"]["entropy"] is None


def test_runs_show_says_what_the_last_look_found_and_when(sage, made):
    _, trained = made
    for step, looked in ((2, {"eval/pass@1": 0.25, "eval/pass@2": 0.5}), (3, {})):
        trained.metrics.append({"step": step, "of": 4, "reward": 0.1, **looked})
    shown = json.loads(sage("runs", "show", "rl", "--json").stdout)
    assert shown["last"]["step"] == 3
    assert shown["validated"] == {"validated at step": 2, "eval/pass@1": 0.25, "eval/pass@2": 0.5}
    assert "validated at step 2" in sage("runs", "show", "rl").words


def test_a_pruned_run_says_why(sage, made):
    made[1].note(status="pruned", reason="below the median at step 1")
    assert "pruned" in sage("runs", "list").words
    words = sage("runs", "show", "rl").words
    assert "status pruned" in words
    assert "reason below the median at step 1" in words


def test_runs_show_says_what_evaluations_found(sage, made):
    record_evaluation(made[1], "amc23", {"pass@1": 0.25, "grading": "strict"})
    shown = json.loads(sage("runs", "show", "rl", "--json").stdout)
    assert shown["evaluations"] == {"eval/amc23/pass@1": 0.25, "eval/amc23/grading": "strict"}
    assert "eval/amc23/pass@1 0.25" in sage("runs", "show", "rl").words


def test_runs_remove_asks_and_refuses_parents(sage, made):
    _, trained = made
    for sure in (("--yes",), ()):  # a parent is refused before anybody is asked
        refused = sage("runs", "remove", "sft", *sure)
        assert (refused.code, f"is the parent of {trained.id}" in refused.words) == (2, True)
    assert sage("runs", "remove", "rl").code == 1  # stdin is empty: not confirmed
    assert trained.folder.is_dir()
    assert sage("runs", "remove", "rl", "--yes").code == 0
    assert sage("runs", "remove", "sft", "-y").code == 0
    assert json.loads(sage("runs", "list", "--json").stdout) == {"runs": []}


@pytest.mark.parametrize("file", ["manifest.json", "config.json"])
def test_a_torn_run_is_listed_named_and_removed(sage, made, file):
    base, trained = made
    (trained.folder / file).write_text('{"status": "fin')
    assert f"{trained.id} " in (listed := sage("runs", "list").words)
    assert "torn" in listed
    first, second = json.loads(sage("runs", "list", "--json").stdout)["runs"]
    assert (first["id"], first["status"], second["id"]) == (trained.id, "torn", base.id)
    assert file in first["reason"]
    rows = json.loads(sage("runs", "list", "--columns", "status", "--json").stdout)["runs"]
    assert [(row["id"], row["status"]) for row in rows] == [
        (trained.id, "torn"),
        (base.id, "finished"),
    ]
    assert sage("runs", "show", base.id).code == 0
    for words in (
        ("runs", "show", trained.id),
        ("passk", trained.id),
        ("analyze", "lengths", trained.id),
    ):
        refused = sage(*words)
        assert refused.code == 2
        assert f"{file} is torn or was edited" in refused.words
        assert f"sage runs remove {trained.id}" in refused.words
    assert sage("runs", "remove", trained.id, "--yes").code == 0
    assert sage("runs", "show", trained.id).code == 2


def test_a_line_of_the_records_that_is_torn_costs_itself(sage, made):
    torn = (b"\xff", b"[" * 100_000, b'{"reward": 1}')
    with made[1].metrics.path.open("ab") as records:
        records.writelines(line + b"\n" for line in torn)
    assert f"{made[1].id} finished 2" in sage("runs", "list").words
    shown = json.loads(sage("runs", "show", "rl", "--json").stdout)
    assert shown["last"] == {"step": 2, "reward": 0.5}


def test_brackets_in_a_reason_are_shown(sage, made):
    made[1].note(status="failed", reason="KeyError: [/not] [markup]")
    assert "KeyError: [/not] [markup]" in sage("runs", "show", "rl").words


def test_no_runs_yet(sage):
    assert "no runs yet" in sage("runs", "list").words
    assert json.loads(sage("runs", "list", "--json").stdout) == {"runs": []}
    assert sage("runs", "list").written == []


def test_config_explain(sage):
    typed = sage("config", "explain", "guide.tau")
    assert typed.code == 0
    assert "guide.tau (for branch, shuffled) Entropy in nats" in typed.words
    assert "default 1.2" in typed.words
    (told,) = json.loads(sage("config", "explain", "tau", "--json").stdout)["settings"]
    assert (told["key"], told["cosmetic"], told["type"]) == (
        "guide.tau", False, "number, at least 0",
    )  # fmt: skip
    assert sage("config", "explain", "taww").code == 2


def test_config_algos_lists_every_method_with_its_source(sage):
    typed = sage("config", "algos")
    assert typed.code == 0
    assert "dr-grpo loss dr_grpo, advantage none faithful paper" in typed.words
    facts = json.loads(sage("config", "algos", "--json").stdout)
    assert (facts["dapo"]["epsilon_high"], facts["dapo"]["kl"]) == (0.28, "none")
    assert all(method["source"] for method in facts.values())


def test_config_presets_lists_what_ships(sage):
    listed = json.loads(sage("config", "presets", "--json").stdout)["presets"]
    about = {preset["name"]: preset["about"] for preset in listed}
    assert list(about) == sorted(preset_names())
    paper = "The paper's main setting: Qwen2.5-Math-7B-Base, SFT of Table 7, RL of Table 8"
    assert about["qwen2.5-math-7b"] == paper
    assert all(about.values())
    assert f"qwen2.5-math-7b {paper}" in sage("config", "presets").words


def test_the_version(sage):
    assert sage("--version").stdout == f"sage {__version__}\n"


@pytest.mark.parametrize(("line", "offered"), [("sage ru", "runs"), ("sage config ex", "explain")])
def test_a_shell_completes_commands(line, offered):
    words = {"_SAGE_COMPLETE": "complete_bash", "COMP_WORDS": line}
    words["COMP_CWORD"] = str(line.count(" "))
    result = CliRunner().invoke(app, [], prog_name="sage", env=words)
    assert result.output.split() == [offered]


@pytest.mark.parametrize(
    "words", [("rl", "24"), ("sft", "24g"), ("sweep", "24"), ("rl", "rtx4090-24g")]
)
def test_a_dry_run_lays_memory_against_a_card(sage, words):
    command, gpu = words
    typed = sage(command, "--dry-run", "--gpu", gpu, "--json")
    assert typed.code == 0
    memory = [one for one in json.loads(typed.stdout)["stages"] if "memory" in one["stage"]]
    assert memory
    assert all(one["fits"] is True and one["peak, GiB"] > 0 for one in memory)
    assert all(one["stage"].endswith(" on 24 GB") for one in memory)
    assert typed.written == []


@pytest.mark.parametrize("gpu", ["h100", "80-h100", "-80", "8.5", ""])
def test_a_card_without_its_size_is_refused(sage, gpu):
    typed = sage("rl", "--dry-run", "--gpu", gpu)
    assert typed.code == 2
    assert "a name that ends with them, as h100-80g" in typed.words


def test_a_card_without_a_dry_run_is_refused(sage):
    typed = sage("rl", "--gpu", "80")
    assert typed.code == 2
    assert "--dry-run is missing" in typed.words
    assert typed.written == []
