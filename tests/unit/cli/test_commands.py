"""What commands print: settings with their origins, plans, runs."""

from pathlib import Path

import pytest
from suite_results import result
from typer.testing import CliRunner

from sage_cli import __version__
from sage_cli.cli.app import app
from sage_cli.cli.printing import show_offline_tracker
from sage_cli.settings.presets import preset_names
from sage_cli.store.run import Runs
from sage_cli.trials.suites.chapters import chapters, write_report
from sage_cli.trials.suites.plan import prepare_suite
from sage_cli.view.api import Api


def test_config_show_prints_every_setting_and_its_origin(sage):
    typed = sage("config", "show", "--set", "rl.steps=7", "--origin")
    assert typed.code == 0
    assert "rl.steps 7 --set" in typed.words
    assert "model.hidden 96 preset tiny" in typed.words
    assert "grading.mode strict default" in typed.words
    assert typed.written == []
    flags = ("--set", "rl.algo=dapo", "--guide", "token")
    shown = sage("config", "show", "--json", *flags).answer
    assert (shown["rl"]["algo"], shown["rl"]["epsilon_high"]) == ("dapo", 0.28)
    assert shown["guide"]["name"] == "token"
    origins = sage("config", "show", "--json", "--origin", *flags).answer["origins"]
    assert (origins["rl.epsilon_high"], origins["rl.algo"]) == ("method dapo", "--set")
    algo = sage("config", "show", "--algo", "dapo", "--json").answer["rl"]
    assert (algo["algo"], algo["epsilon_high"]) == ("dapo", 0.28)
    for command, stage in (("sft", 0), ("rl", 1)):
        planned = sage(command, "--lr", "3e-5", "--dry-run", "--json").answer["stages"]
        assert planned[stage]["learning rate"].startswith("3e-05")


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
    assert "dry run: nothing was trained or sampled" in typed.words
    assert len(sage(*words, "--dry-run", "--json").answer["stages"]) == stages
    assert typed.written == []


def test_sft_says_that_rl_starts_from_the_policy_that_comes_with_sage(sage):
    said = "`sage rl` needs no SFT here: it starts from sft-arithmetic-"
    assert said in sage("sft", "--dry-run").words
    assert said not in sage("sft", "--dry-run", "--set", "sft.seed=5").words
    assert "compat" not in sage("rl", "--dry-run").words
    assert sage("rl", "--dry-run", "--json").answer["stages"][1]["compat"] == "none"


def test_wandbs_offline_files_are_named_with_what_uploads_them(tmp_path, capsys):
    run = Runs(tmp_path).at("rl", "grpo", "1" * 8)
    show_offline_tracker(run)
    assert capsys.readouterr().out == ""
    (run.folder / "wandb/offline-run-1-x").mkdir(parents=True)
    show_offline_tracker(run)
    assert f"`wandb sync {run.folder}/wandb/offline-run-1-x` uploads" in capsys.readouterr().out


def test_plans_of_the_demo_and_their_arithmetic(sage):
    typed = sage("demo", "--dry-run")
    assert (typed.code, typed.written) == (0, [])
    assert "--guide branch" in typed.words
    tasks = sage("demo", "--dry-run", "--json").answer["tasks"]
    assert [task["command"].split()[1] for task in tasks] == ["eval", "rl", "rl"]
    tiny = {
        "rl.prompts_per_step": 16,
        "rl.rollouts_per_prompt": 16,
        "rl.micro_batch": 64,
        "rl.steps": 200,
        "rollout.max_tokens": 48,
    }
    sets = [word for key, value in tiny.items() for word in ("--set", f"{key}={value}")]
    _, rl, sweep = sage("sweep", "--steps", "5", *sets, "--dry-run", "--json").answer["stages"]
    # a trial: 16 x 16 = 256 completions a step, in 4 micro-batches; 5 x 256 of 48 tokens
    assert rl["batch"] == "16 prompts x 16 rollouts = 256 completions, in 4 micro-batches of 64"
    assert rl["completions"] == "1,280"
    assert rl["tokens at most"] == "61,440"
    # 9 points x 5 steps x 256 = 11,520; 9 x 50 problems x 256 samples = 115,200
    assert sweep["trials"] == 9
    assert sweep["left"].startswith("45 steps; 126,720 completions; ")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (
            "rl --algo dapo",
            "completions at least 10,240, because dynamic sampling replaces groups of equal grades "
            "in up to 3 further generations per step (at most 40,960)",  # 40 x 256, 4 times that
        ),
        ("rl --algo dapo", "max. tokens 1,966,080"),  # 40,960 of 48
        (
            "rl --algo dapo --set rl.dynamic_sampling=false",
            "completions 10,240 max. tokens 491,520",
        ),
        ("rl --algo dapo", "KL term dapo has no KL term of its own, so nothing anchors this run"),
        ("rl --algo dapo --guide branch", "KL term the guide branch adds a KL term with beta 0.04"),
        (
            "rl --algo dars",
            # 40 steps of 16 prompts, 16 rollouts each and at most 32
            "completions at least 10,240, because the second stage adds rollouts of hard prompts, "
            "up to 32 of each in all (at most 20,480) max. tokens 983,040",
        ),
        # 9 points of 30 x 256, and of 4 times that; 9 x 100 problems x 128 samples
        ("sweep --algo dapo", "at least 184,320 completions, at most 391,680"),
        (
            "sweep --space tau,rho --sampler tpe --trials 30",
            "search space tau 0.31, 0.465 or 0.775; rho 0.258333, 0.775 or 1.29167 trials 9 why "
            "not more the space has only 9 points, fewer than --trials 30",
        ),
        ("sweep --space tau,rho", "guide branch (tau is searched, rho is searched, signals of the"),
        (
            "sweep --space tau=0.2:0.8,lr=1e-5:1e-3:log",
            "tau from 0.2 to 0.8; lr from 1e-05 to 0.001,",
        ),
        (
            "sweep --space tau=0.2:0.8,lr=1e-5:1e-3:log",
            "learning rate depends on lr, which is searched",
        ),
        ("sweep --space algo=grpo|dapo", "method depends on algo, which is searched"),
    ],
)
def test_a_plan_says_what_holds(sage, words, shown):
    assert shown in sage(*words.split(), "--dry-run").words


RIGHT = {
    "base": {"arithmetic": [[0, 0, 1, 3] * 5]},
    "dapo-no-kl": {"arithmetic": [[1, 2, 3, 4] * 5]},
    "dapo-branch": {"arithmetic": [[1, 2, 3, 4] * 5]},
}


@pytest.mark.parametrize(("missing", "sets"), [(None, ()), ("dapo-branch", ("rl.seed=4",))])
def test_the_demo_ends_with_what_it_shows_and_what_to_type(sage, monkeypatch, missing, sets):
    def reported(name, overrides, progress, write_page):
        plan = prepare_suite(name, overrides)
        right = {label: counts for label, counts in RIGHT.items() if label != missing}
        found = result(plan.suite, right)
        return write_report(plan, [found], chapters(plan, [found], {}))

    monkeypatch.setattr("sage_cli.trials.suites.run.run_suite", reported)
    typed = sage("demo", *(word for one in sets for word in ("--set", one)))
    assert typed.code == 0
    lines = [line.strip() for line in typed.stdout.splitlines()]
    (first,) = [line for line in lines if "dapo-no-kl is above the initial policy at" in line]
    assert first.startswith("dapo-no-kl is above the initial policy at pass@1: +0.375 [")
    second = "dapo-branch is indistinguishable from dapo-no-kl at pass@4: +0.000 [−0."
    assert any(line.startswith(second) for line in lines) == (missing is None)
    assert ("not everything was measured: dapo-branch (out of memory" in typed.stdout) == (
        missing is not None
    )
    heads = next(line for line in lines if "initial policy ┃" in line)
    assert "dapo-no-kl" in heads
    assert "rl-dapo" not in typed.stdout  # labels in the place of ids
    picture = Path(next(line for line in lines if line.startswith("Figure:"))[len("Figure: ") :])
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


def test_config_explains_settings_methods_and_presets(sage):
    typed = sage("config", "explain", "guide.tau")
    assert typed.code == 0
    assert "guide.tau (for branch, shuffled) Threshold τ: the entropy in nats" in typed.words
    assert "default 1.2" in typed.words
    (told,) = sage("config", "explain", "tau", "--json").answer["settings"]
    assert (told["key"], told["cosmetic"], told["type"]) == (
        "guide.tau",
        False,
        "number, at least 0",
    )
    assert sage("config", "explain", "taww").code == 2
    typed = sage("config", "algos")
    assert typed.code == 0
    assert "dr-grpo loss dr_grpo, advantage none faithful paper" in typed.words
    facts = sage("config", "algos", "--json").answer
    assert (facts["dapo"]["epsilon_high"], facts["dapo"]["kl"]) == (0.28, "none")
    assert all(method["source"] for method in facts.values())
    listed = sage("config", "presets", "--json").answer["presets"]
    about = {preset["name"]: preset["about"] for preset in listed}
    assert list(about) == sorted(preset_names())
    paper = "The paper's main setting: Qwen2.5-Math-7B-Base, SFT of Table 7, RL of Table 8"
    assert about["qwen2.5-math-7b"] == paper
    assert all(about.values())
    assert f"qwen2.5-math-7b {paper}" in sage("config", "presets").words
    assert sage("--version").stdout == f"sage {__version__}\n"


@pytest.mark.parametrize(("line", "offered"), [("sage ru", "runs"), ("sage config ex", "explain")])
def test_a_shell_completes_commands(line, offered):
    words = {"_SAGE_COMPLETE": "complete_bash", "COMP_WORDS": line}
    words["COMP_CWORD"] = str(line.count(" "))
    result = CliRunner().invoke(app, [], prog_name="sage", env=words)
    assert result.output.split() == [offered]


@pytest.mark.parametrize(
    "words",
    [("rl", "24"), ("sft", "24g"), ("sweep", "24"), ("rl", "rtx4090-24g"), ("rl", "L4-pcie-24G")],
)
def test_a_dry_run_lays_memory_against_a_card(sage, words):
    command, gpu = words
    typed = sage(command, "--dry-run", "--gpu", gpu, "--json")
    memory = [stage for stage in typed.answer["stages"] if "memory" in stage["stage"]]
    assert memory
    for stage in memory:
        assert stage["fits"] is True
        assert stage["peak, GiB"] > 0
        assert stage["stage"].endswith(" on 24 GB")
    assert typed.written == []
