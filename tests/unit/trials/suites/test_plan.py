""""""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sage_cli.config.load import changed, load
from sage_cli.config.unread_settings import check_settings_read
from sage_cli.errors import ConfigurationError
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.run import Runs
from sage_cli.trials.cost import Cost, cost_left, cost_of
from sage_cli.trials.suites.declaration import read_suite
from sage_cli.trials.suites.plan import Overrides, prepare_suite, trials_of
from sage_cli.trials.suites.results import check_suite_settings, results
from sage_cli.trials.task import Task

PAPER = "qwen2.5-math-7b"


def replicates(name, *presets, sets=(), seeds=None):
    trials = trials_of(read_suite(name), Overrides(presets, sets, seeds))
    return [one for trial in trials for one in trial.replicates]


def typed(one):
    """The configuration that `sage rl` resolves from the one's options, read word by word."""
    words, flags, presets, sets = list(one.words.all), {}, [], []
    sections = {"--algo": ("rl", "algo"), "--guide": ("guide", "name"), "--kl": ("anchor", "kl")}
    while words:
        option, value = words.pop(0), words.pop(0)
        if option == "--preset":
            presets.append(value)
        elif option == "--set":
            sets.append(value)
        else:
            section, key = sections[option]
            flags[section] = {key: value}
    return load(presets, flags, sets).config


def test_a_method_that_cannot_be_configured_is_named(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nmethods: {base: base, wide: grpo/brnch}\n")
    said = r"^suite mine, method wide: .*did you mean branch\?"
    with pytest.raises(ConfigurationError, match=said):
        replicates(str(file), "tiny")


def test_the_papers_protocol_and_models():
    base, grpo, *_ = replicates("table2", PAPER)
    assert grpo.config.evaluation.benchmark == "aime"
    assert (grpo.config.evaluation.samples, grpo.config.evaluation.k) == (16, "1,16")
    assert grpo.config.evaluation.seeds == 1
    assert grpo.config.sampling.temperature == 0.3
    assert base.is_initial
    assert base.config.evaluation == grpo.config.evaluation
    assert "DeepSeek-R1" in replicates("table4", PAPER)[0].initial.path
    assert {one.initial.path for one in replicates("figure6", PAPER)} == {
        "Qwen/Qwen2.5-Math-1.5B-Instruct",
        "Qwen/Qwen2.5-3B-Instruct",
    }
    assert {one.words.presets for one in replicates("figure6", "tiny")} == {("tiny",)}


@pytest.mark.parametrize(
    ("preset", "sets", "samples", "k"),
    [
        ("tiny", "evaluation.samples=8", 8, "1,8"),  # as far as it has samples
        ("tiny", "evaluation.samples=1024", 1024, "1,256"),
        (PAPER, "evaluation.samples=1024", 1024, "1,256"),
        # what is typed wins over the protocol
        (PAPER, "evaluation.samples=32 sampling.temperature=1", 32, "1,32"),
        (PAPER, "evaluation.k=1,2", 256, "1,2"),
    ],
)
def test_a_suite_takes_its_ks_as_far_as_there_are_samples(preset, sets, samples, k):
    config = replicates("table1", preset, sets=tuple(sets.split()))[1].config
    assert (config.evaluation.samples, config.evaluation.k) == (samples, k)
    if preset == "tiny":  # a miniature keeps its own problems
        assert config.evaluation.benchmark == "arithmetic"
    if preset == "tiny" or "temperature" in sets:
        assert config.sampling.temperature == 1


def test_the_papers_models_are_trained_once_and_a_miniature_three_times():
    assert [one.seed for one in replicates("table4", PAPER)] == [0, 0, 0]
    small = replicates("table4", "tiny")
    assert [(one.title, one.seed) for one in small] == [
        ("initial policy", 0),
        ("grpo, seed 1", 0),
        ("grpo, seed 2", 1),
        ("grpo, seed 3", 2),
        ("grpo-branch, seed 1", 0),
        ("grpo-branch, seed 2", 1),
        ("grpo-branch, seed 3", 2),
    ]
    first = small[1].config.rl.seed
    assert [one.config.rl.seed for one in small[1:4]] == [first, first + 1, first + 2]
    assert len({one.policy.label for one in small}) == 7
    assert len(replicates("table4", PAPER, seeds=2)) == 5
    *_, branch = replicates("table4", "tiny", seeds=1)
    assert (branch.config.guide.name, branch.config.guide.tau) == ("branch", 0.465)


@pytest.mark.parametrize("preset", ["tiny", PAPER])
@pytest.mark.parametrize("suite", ["table1", "table2", "table3", "figure2", "figure4", "figure6"])
def test_the_options_are_what_a_person_would_type(suite, preset):
    for one in replicates(suite, preset):
        if not one.is_initial:
            assert typed(one) == one.config, shlex.join(one.words.all)


def plan(name, root, *sets, preset="tiny", seeds=None):
    return prepare_suite(name, Overrides((preset,), sets, seeds, {"run": {"root": root}}))


def finished(one, **manifest):
    """Have the one's run say that it has come to its end."""
    run = one.policy.run
    assert run is not None
    with run.recording(one.config.model_dump(mode="json"), kind="rl", **manifest):
        pass


def titles(found):
    return [task.title for task in found.tasks]


TRAINED_HERE = "sft.shipped=false"


def test_a_suite_is_a_base_its_measurement_and_trainings(tmp_path):
    found = plan("table4", tmp_path, TRAINED_HERE, seeds=2)
    base, measuring, first, *_ = found.tasks
    assert [task.kind for task in found.tasks] == ["sft", "eval", "rl", "rl", "rl", "rl"]
    assert titles(found)[2:] == [
        "grpo, seed 1",
        "grpo, seed 2",
        "grpo-branch, seed 1",
        "grpo-branch, seed 2",
    ]
    assert measuring.needs is base
    assert first.needs is base
    assert shlex.split(first.typed)[:3] == ["sage", "rl", "--measure"]
    assert first.typed.endswith(f"--runs {tmp_path}")
    assert {task.state for task in found.tasks} == {"to do"}
    assert list(tmp_path.iterdir()) == []
    found = plan("table5", tmp_path, TRAINED_HERE, seeds=1)
    assert [task.kind for task in found.tasks] == ["sft", "rl", "rl", "rl"]
    assert not any("--measure" in task.words for task in found.tasks)
    others = ({"seeds": 2}, {"sets": "rl.steps=3"}, {"sets": "evaluation.samples=64"})
    folders = [
        plan("demo", tmp_path, *filter(None, [one.get("sets")]), seeds=one.get("seeds")).folder
        for one in ({}, {}, *others)
    ]
    assert folders[0] == folders[1]
    assert len(set(folders)) == 4
    # the base that comes with sage is no task, and nothing waits for it
    found = plan("table4", tmp_path, seeds=1)
    assert [(task.kind, task.needs) for task in found.tasks] == [
        ("eval", None),
        ("rl", None),
        ("rl", None),
    ]


@pytest.mark.parametrize(("executor", "first"), [("local", True), ("slurm", False)])
def test_the_base_is_measured_first_by_all_cores_where_cores_are_all_there_is(
    tmp_path, monkeypatch, executor, first
):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    found = plan("table4", tmp_path, f"executor.name={executor}", seeds=1)
    kinds = [task.kind for task in found.tasks]
    assert kinds == (["eval", "rl", "rl"] if first else ["rl", "rl", "eval"])
    assert [(task.alone, task.resources.threads) for task in found.tasks] == (
        [(True, 2), (False, 1), (False, 1)] if first else [(False, 1)] * 3
    )


def test_what_suites_share_is_done_once(tmp_path):
    found = plan("paper", tmp_path, preset=PAPER)
    names = [task.name for task in found.tasks]
    assert len(names) == len(set(names))
    (grpo,) = [
        task
        for task in found.tasks
        if task.kind == "rl"
        and task.title == "grpo"
        and "deepseek" not in task.config.model_dump_json()
    ]
    assert {"table1", "table2", "table5", "table9", "figure3"} <= set(grpo.wanted_by)
    again = [task for task in found.tasks if task.needs is grpo and task.kind == "eval"]
    assert {task.config.evaluation.benchmark for task in again} == {
        "aime",
        "minerva",
        "kk",
        "aime,amc23,math500-l5",
    }


def test_every_task_comes_after_what_it_needs_and_a_file_has_its_name(tmp_path):
    tasks = list(plan("paper", tmp_path).tasks)
    for place, task in enumerate(tasks):
        assert task.needs is None or tasks.index(task.needs) < place
    for task in plan("paper", tmp_path).tasks:
        assert isinstance(task, Task)
        assert "/" not in task.name
        assert task.run is None or task.run.id == task.name


def cost_by_kind(found):
    return {task.kind: cost_of(task) for task in found.tasks}


def test_costs_by_hand_and_what_is_left_of_them(tmp_path):
    found = cost_by_kind(plan("table4", tmp_path, preset=PAPER))
    # 1,000 steps of 8 x 8 completions; 60 + 40 + 134 problems x 64 samples x 5 seeds
    measuring = 234 * 64 * 5
    assert found["eval"].completions == measuring
    assert found["eval"].tokens == measuring * 6144
    assert found["rl"].steps == 1000
    assert found["rl"].completions == 64_000 + measuring
    assert found["rl"].tokens == (64_000 + measuring) * 6144
    found = [cost_of(task) for task in plan("figure4", tmp_path, preset=PAPER).tasks]
    assert "the problems of kk" in sum(found, Cost()).unknown
    assert "the steps of SFT" in sum(found, Cost()).unknown
    found = plan("table4", tmp_path, preset=PAPER)
    _, grpo, _ = found.parts[-1].replicates
    finished(grpo)
    # one of two trainings of 1,000 steps is left; both and the base are to be measured
    measuring = 234 * 64 * 5
    left = cost_left([one for one in found.tasks if one.state != "done"])
    assert left.steps == 1000
    assert left.completions == 64_000 + 3 * measuring


def result(found, failures=None):
    return results(found.parts[-1], found.benchmarks, failures or {})


def test_what_failed_is_told_with_its_reason(tmp_path):
    found = plan("table4", tmp_path, seeds=1)
    _, grpo, _ = found.parts[-1].replicates
    rows = result(found, {grpo.policy.label: "diverged: the loss is not a number"}).methods
    assert [row.shown for row in rows] == [
        "initial policy (not measured yet)",
        "grpo (diverged: the loss is not a number)",
        "grpo-branch (not trained yet)",
    ]
    found = plan("table4", tmp_path, TRAINED_HERE, seeds=1)
    base = found.tasks[0].name
    rows = result(found, {base: "timeout: it took too long"}).methods
    assert {row.why for row in rows} == {"timeout: it took too long"}


def test_methods_that_are_the_same_stand_once_and_have_their_own_controls(tmp_path):
    found = result(plan("figure6", tmp_path, seeds=1))
    assert [row.label for row in found.methods] == ["base-1.5b", "grpo-1.5b", "branch-1.5b"]
    assert found.same == {
        "base-3b": "base-1.5b",
        "grpo-3b": "grpo-1.5b",
        "branch-3b": "branch-1.5b",
    }
    suite = plan("figure6", tmp_path, preset=PAPER).suite
    controls = {a: b.control for a, b in suite.methods.items() if b.control}
    assert controls == {"branch-1.5b": "grpo-1.5b", "branch-3b": "grpo-3b"}
    assert len(plan("anchors", tmp_path).suite.compared) == 6  # each control is in a claim


FIGURES = {"samples": 256, "seeds": 1, "temperature": 1.0, "grading": "strict"}


def measured(tmp_path, **figures):
    """A finished training of a suite, of which these figures are kept."""
    one = plan("table4", tmp_path, seeds=1).parts[-1].replicates[1]
    finished(one)
    record_evaluation(one.policy.run, "arithmetic", {**FIGURES, **figures})
    return one


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"temperature": 0.3}, "temperature 0.3 instead of 1.0"),
        ({"grading": "plain"}, "grading plain instead of strict"),
    ],
)
def test_samples_of_other_settings_are_refused_with_the_difference(tmp_path, changed, said):
    with pytest.raises(ConfigurationError) as refused:
        check_suite_settings(measured(tmp_path, **changed))
    assert said in refused.value.cause
    assert "grpo on arithmetic" in refused.value.cause


@pytest.mark.parametrize("benchmark", ["kk-generated, arithmetic", "mine/arithmetic.jsonl"])
def test_samples_on_a_file_or_behind_a_blank_are_compared_too(tmp_path, benchmark):
    one = measured(tmp_path, temperature=0.3)
    other = replace(one, config=changed(one.config, {"evaluation.benchmark": benchmark}))
    with pytest.raises(ConfigurationError, match=r"temperature 0\.3 instead of 1\.0"):
        check_suite_settings(other)


def test_fewer_samples_are_no_other_setting(tmp_path):
    check_suite_settings(measured(tmp_path, samples=64))


def test_a_trained_run_is_still_to_be_measured(tmp_path):
    found = plan("table4", tmp_path, seeds=1)
    grpo = found.parts[-1].replicates[1]
    finished(grpo)
    assert grpo.policy.run is not None
    grpo.policy.run.model.mkdir()
    (grpo.policy.run.model / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    states = {task.title: task.state for task in found.tasks}
    assert states["grpo"] == "trained, to be measured"
    assert len(Runs(tmp_path).all()) == 1


@pytest.mark.parametrize(
    ("protocol", "benchmark"),
    [("", "kk"), ("protocol: {benchmark: aime}\n", "aime")],  # the preset's if no suite has one
)
def test_a_preset_of_ones_own_names_the_benchmark_unless_the_suite_does(
    tmp_path, monkeypatch, protocol, benchmark
):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("evaluation: {benchmark: kk}\n")
    Path("mine.yaml").write_text(f"title: mine\nmethods: {{base: base}}\n{protocol}")
    (base,) = replicates("mine.yaml", PAPER, "own.yaml")
    assert base.config.evaluation.benchmark == benchmark
    assert base.config.evaluation.seeds == 5  # what nobody named is the protocol's
    assert typed(base).evaluation == base.config.evaluation


def test_a_suite_on_ones_own_data_is_not_measured_on_generated_problems(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text('{"question": "1+1=?", "gold": "2"}\n')
    Path("mine.yaml").write_text(
        "title: mine\nmethods: {grpo: grpo}\nsettings: {data.rl.name: train.jsonl}\n"
    )
    with pytest.raises(ConfigurationError, match=r"evaluation\.benchmark is 'arithmetic'"):
        replicates("mine.yaml", "tiny")


def test_what_all_methods_of_a_suite_are_told_reaches_those_that_read_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(
        "title: mine\nmethods: {plain: dapo, kl: grpo}\nsettings: {anchor.beta: 0.1}\nseeds: 1\n"
    )
    plain, kl = replicates(
        "mine.yaml", "tiny", sets=("anchor.estimator=reward", "executor.workers=1")
    )
    assert not [text for text in plain.words.sets if text.startswith(("anchor.", "executor."))]
    assert {"anchor.beta=0.1", "anchor.estimator=reward"} <= {*kl.words.sets}
    check_settings_read(load(plain.words.presets, {"rl": {"algo": "dapo"}}, plain.words.sets), "rl")


STRONG = "{of: grpo/none/reverse, settings: {anchor.beta: 0.4}}"


@pytest.mark.parametrize(
    ("methods", "controls"),
    [
        ("base: base, grpo: grpo, b: grpo/branch, r: grpo/random", {"b": "grpo", "r": "grpo"}),
        ("grpo: grpo, no-kl: grpo/none/none, f: grpo/none/forward", {}),  # none has a guide
        (f"grpo: grpo, s: {STRONG}, b: grpo/branch", {"b": "grpo"}),
        ("grpo: grpo, b: {of: grpo/branch, settings: {anchor.beta: 0.4}}", {}),
        (f"grpo: grpo, s: {STRONG}, b: {STRONG.replace('none/reverse', 'branch')}", {"b": "s"}),
        ("grpo: grpo, b: {of: grpo, settings: {guide.name: branch}}", {"b": "grpo"}),
        ("grpo: grpo, b: {of: grpo/branch, settings: {guide.tau: 2}}", {"b": "grpo"}),
        ("dapo: dapo, b: dapo/branch", {}),  # DAPO alone has no anchor
        ("dapo: dapo, kl: dapo/none/reverse, b: dapo/branch", {"b": "kl"}),
        ("grpo: grpo, b: {of: grpo/branch, settings: {rl.learning_rate: 0.1}}", {}),
        ("one: grpo, two: grpo, b: grpo/branch", {"b": "one"}),
        (f"grpo: grpo, s: {STRONG}, b: {{of: grpo/branch, control: s}}", {"b": "s"}),
        ("grpo: grpo, psr: {of: psr, control: grpo}", {"psr": "grpo"}),
    ],
)
def test_a_methods_own_control_is_the_same_without_the_guide(tmp_path, methods, controls):
    file = tmp_path / "mine.yaml"
    file.write_text(f"title: mine\nmethods: {{{methods}}}\nclaims: []\n")
    suite = plan(str(file), tmp_path).suite
    assert {a: b.control for a, b in suite.methods.items() if b.control} == controls
    assert suite.compared[: len(controls)] == tuple(controls.items())
