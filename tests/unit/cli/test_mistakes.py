"""A user's mistake is one panel with the cause and the next step, exit code 2, nothing written."""

import errno
import json
import os
import shutil

import pytest
from plugged_in import plug_in
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.store.run import Runs


@pytest.fixture
def files(tmp_path):
    """Files a user may point to, beside the folder that must stay empty."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "words.yaml").write_text("just words")
    (folder / "list.yaml").write_text("rl: [steps: 3")
    (folder / "wrong.yaml").write_text("rl: {stepps: 3}\nsft: {seed: x}\nmodle: {}\n")
    (folder / "rows.jsonl").write_text(
        '{"question": "1+1=?", "answer": "2"}\n{"question": "2+2=?", "answer": "4"}\n{"quest'
    )
    (folder / "model").mkdir()
    (folder / "notamodel").mkdir()
    (folder / "notamodel" / "readme.txt").write_text("nothing")
    return folder


@pytest.fixture
def shared_benchmark():
    """A benchmark that every preset can be measured on without the Hub."""
    return ("--benchmark", "arithmetic")


def refused(typed, *said):
    assert typed.code == 2
    for words in said:
        assert words in typed.words
    assert typed.words.count("error") == 1  # one panel
    assert "Traceback" not in typed.words
    assert "error" not in typed.stdout  # a panel goes to stderr
    assert typed.written == []


@pytest.mark.parametrize("command", ["rl", "sweep"])
def test_a_misspelt_algorithm(sage, command):
    refused(sage(command, "--algo", "dpao"), "rl.algo is 'dpao'", "(did you mean dapo?)")


@pytest.mark.parametrize("command", ["sft", "rl", "passk", "eval", "sweep"])
def test_a_misspelt_setting_in_every_command(sage, command):
    typed = sage(command, "--set", "rl.learning_rat=1")
    refused(typed, "rl has no 'learning_rat' (did you mean learning_rate?)", "sage config show")


@pytest.mark.parametrize("command", ["passk", "eval"])
def test_k_above_n(sage, command):
    refused(sage(command, "--k", "512"), "pass@512 is undefined with 256 samples", "--n 512")


@pytest.mark.parametrize("command", ["passk", "eval"])
@pytest.mark.parametrize(
    ("asked", "k"),
    [(("--n", "64"), "1..64"), (("--set", "evaluation.samples=64"), "1..64"),
     (("--n", "512"), "1..256"), (("--n", "64", "--preset", "qwen2.5-math-7b"), "1,64")],
)  # fmt: skip
def test_n_alone_ends_the_ks_that_nobody_asked_for(sage, command, asked, k, shared_benchmark):
    said = sage(command, *asked, *shared_benchmark, "--dry-run", "--json").stdout
    (stage,) = json.loads(said)["stages"]
    assert stage["k"] == k


@pytest.mark.parametrize("command", ["passk", "eval"])
def test_ks_apart_from_each_other(sage, command):
    refused(sage(command, "--k", "1", "8", "64"), "8 64 stands beside --k 1", "--k 1,8,64")


def test_a_refused_value_leads_to_its_explanation(sage):
    refused(sage("rl", "--steps", "-3"), "`sage config explain rl.steps` says what it takes")


def test_ks_that_were_asked_for_are_refused_above_a_typed_n(sage):
    for asked in (("--k", "1..256"), ("--set", "evaluation.k=1..256")):
        refused(sage("passk", "--n", "64", *asked), "pass@256 is undefined with 64 samples")


def test_a_comparison_of_a_model_with_itself(sage, files):
    (files / "a.csv").write_text("problem,n,c\nx,4,1\ny,4,2\n")
    (files / "b.csv").write_text("problem,n,c\nx,4,5\n")
    a = files / "a.csv"
    refused(sage("compare", a, a), "is on both sides of the comparison")
    refused(sage("compare", f"{a},{a}", files / "c.csv"), "there is no file")
    refused(sage("compare", a, files / "b.csv"), "c = 5 is more than n = 4")
    refused(sage("power", files / "b.csv"), "c = 5 is more than n = 4")
    refused(sage("power", a, "--problems", "many"), "--problems: 'many' is not a whole number")


def test_a_table_that_the_paper_does_not_have(sage):
    refused(sage("eval", "--paper", "table2"), "no evaluation table 'table2'", "table1, table3")


@pytest.mark.parametrize("command", ["sft", "rl", "passk", "eval", "sweep"])
def test_a_preset_that_does_not_exist(sage, command):
    typed = sage(command, "--preset", "tinny")
    refused(typed, "there is no preset 'tinny'; there are", "did you mean tiny?")


@pytest.mark.parametrize(
    ("name", "said"),
    [("words.yaml", "holds no settings"), ("list.yaml", "can't be read as YAML"),
     ("gone.yaml", "there is no file")],
)  # fmt: skip
def test_a_file_that_is_not_yaml(sage, files, name, said):
    refused(sage("rl", "--preset", files / name), said)
    refused(sage("config", "show", "-p", files / name), said)
    refused(sage("rl", "--config", files / name), said)


def test_every_problem_of_a_file_at_once(sage, files):
    refused(
        sage("config", "show", "-p", files / "wrong.yaml"),
        "rl has no 'stepps' (did you mean steps?)",
        "sft.seed is 'x'",
        "has no 'modle' (did you mean model?)",
    )


def test_a_guide_without_an_anchor(sage):
    refused(sage("rl", "--guide", "branch", "--kl", "none"), "there is nothing to reshape")


class Mine:
    pass


@pytest.mark.parametrize(
    ("group", "object_", "words", "said"),
    [
        (
            "guides", Mine, ("--guide", "mine"),
            "guide 'mine' (package:Mine) is no subclass of sage_cli.guides.guide.Guide",
        ),
        (
            "methods", lambda inputs: None, ("--algo", "mine", "--set", "rl.scale=2"),
            "has no settings class",
        ),
        (
            "methods", ImportError("no numbers"), ("--algo", "mine"),
            "method 'mine' (package:Mine) can't be imported: ImportError: no numbers",
        ),
    ],
)  # fmt: skip
def test_a_plug_in_that_cannot_be_made_is_named_before_anything_is_trained(
    sage, monkeypatch, group, object_, words, said
):
    plug_in(monkeypatch, f"sage_cli.{group}", mine=object_)
    refused(sage("rl", *words), said)


def test_a_mirror_that_is_not_installed_is_named_before_anything_is_trained(
    sage, files, monkeypatch
):
    monkeypatch.setattr("sage_cli.store.mirrors.find_spec", lambda _: None)
    said = "the package tensorboard is not installed"
    asked = ("--set", "tracking.tensorboard=true")
    for words in (("sft",), ("rl",), ("sweep", "--set", "sft.enabled=false")):
        refused(sage(*words, *asked), said, "pip install tensorboard")


@pytest.mark.parametrize("command", ["sft", "rl"])
def test_a_model_folder_that_is_none(sage, files, command):
    kind = ("--set", "model.kind=pretrained", "--set", "prompt.format=plain")
    typed = sage(command, *kind, "--set", f"model.path={files / 'notamodel'}")
    refused(typed, "can be loaded from", "notamodel")
    typed = sage(command, *kind, "--set", "model.path=./gone")
    refused(typed, "there is no folder ./gone")


def test_a_folder_to_measure_that_is_no_model(sage, files):
    typed = sage("passk", files / "notamodel", "--n", "8", "--k", "1..8")
    refused(typed, "holds neither a run nor a model")


@pytest.mark.slow
def test_a_broken_line_is_named_before_anything_is_trained(sage, files):
    broken = files / "rows.jsonl"
    fields = ("--set", "data.rl.fields.gold=answer")
    refused(sage("rl", "--set", f"data.rl.name={broken}", *fields), "rows.jsonl", "line 3")
    fields = ("--set", "evaluation.fields.gold=answer")
    for command in ("passk", "eval"):
        refused(sage(command, "--benchmark", broken, *fields), "rows.jsonl", "line 3")
    names = {"gold": "answer", "working": "answer"}
    fields = [w for key, n in names.items() for w in ("--set", f"data.sft.fields.{key}={n}")]
    refused(sage("sft", "--set", f"data.sft.name={broken}", *fields), "rows.jsonl", "line 3")


def test_a_benchmark_that_does_not_exist(sage):
    refused(sage("passk", "--benchmark", "arithmetik"), "arithmetik", "arithmetic")
    refused(sage("sweep", "--set", "sweep.benchmark=arithmetik"), "arithmetik")


@pytest.mark.parametrize("command", [("passk",), ("eval",), ("runs", "show")])
def test_a_run_that_does_not_exist(sage, command):
    nowhere = "there is no run 'rl-dapo', nor any other in"
    refused(sage(*command, "rl-dapo"), nowhere, "--runs FOLDER")


def test_an_accelerate_configuration_that_does_not_exist(sage, files):
    two = ("rl", "--processes", "2", "--accelerate")
    refused(
        sage(*two, "fsdp"),
        "no accelerate configuration 'fsdp'; there are ddp, fsdp2, zero3", "did you mean fsdp2?",
    )  # fmt: skip
    refused(sage(*two, "fsdp", "--dry-run"), "no accelerate configuration 'fsdp'")
    refused(sage(*two, files / "gone.yaml"), "there is no file")
    refused(sage("rl", "--accelerate", "ddp"), "rl.processes is 1", "--processes N")


def test_a_start_that_does_not_exist(sage):
    refused(sage("rl", "--init", "nothing"), "there is no run 'nothing'")
    for command in (("rl", "--init"), ("passk",), ("runs", "show")):
        refused(sage(*command, "./my-llama"), "the folder ./my-llama isn't there", "its id")


@pytest.mark.slow
def test_a_start_under_another_prompt_or_of_another_model(sage, files):
    from random_model import save_scratch  # loads torch, which no other test here does

    config = load(sets=["model.hidden=16", "model.layers=1", "model.heads=2"]).config
    run = Runs(files / "runs").at("sft", "arithmetic", "1" * 8)
    save_scratch(config.model, config.prompt.tags, [], run.model)
    with run.recording(config.model_dump(mode="json"), kind="sft", template="abcdef123456"):
        pass
    refused(sage("rl", "--init", run.folder), "another model than the configuration's",
            "hidden_size 16 and 96", "num_hidden_layers 1 and 3", "--config")  # fmt: skip
    stored = ("--config", run.folder / "config.json")
    refused(sage("rl", *stored, "--init", run.folder, "--runs", "runs"), run.id,
            "trained with prompt template abcdef123456, and this training uses",
            "--allow-template-mismatch")  # fmt: skip


def test_search_spaces(sage, files):
    refused(sage("sweep", "--space", "tau,roh"), "no search space 'tau,roh'", "tau-rho")
    refused(
        sage("sweep", "--space", files / "wrong.yaml"), "'parameters' is missing", "is written as"
    )
    typed = sage("sweep", "--guide", "token")
    refused(typed, "needs guide branch", "--guide branch")
    refused(
        sage("sweep", "--set", "sweep.samples=8"), "sweep.objective asks for pass@64 of 8 samples"
    )


def test_a_mistake_is_an_object_with_json(sage):
    typed = sage("rl", "--json", "--algo", "dpao")
    assert (typed.code, typed.written) == (2, [])
    assert "did you mean dapo" in typed.words  # the panel, on stderr
    (said,) = json.loads(typed.stdout).values()
    assert (said["exit_code"], said["next_step"].split()[0]) == (2, "`sage")
    assert said["cause"].startswith("rl.algo is 'dpao'; it can be 80-20")
    assert list(json.loads(typed.stdout)) == ["error"]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("rl", "--aglo", "dapo"), "No such option: --aglo"),
        (("runs", "lits"), "No such command 'lits'"),
        (("pask",), "No such command 'pask'. Did you mean 'passk'"),
        (("runs", "show"), "Missing argument 'name'"),
        (("samples", "tokens", "x", "--limit", "0"), "greater than or equal to 1"),
        (("--nothing",), "stderr says why"),
    ],
)
def test_a_command_line_that_is_not_understood_is_an_object_too(sage, words, cause):
    typed = sage(*words, "--json")
    assert typed.code == 2
    said = json.loads(typed.stdout)["error"]
    assert (cause in said["cause"], said["exit_code"]) == (True, 2)


def test_an_answer_of_no_an_interruption_and_a_bug_are_objects(sage, files, monkeypatch):
    run = Runs(files / "runs").at("sft", "arithmetic", "1" * 8)
    with run.recording({}, kind="sft"):
        pass
    root = ("--runs", files / "runs", "--json")
    declined = sage("runs", "remove", "sft", *root)
    assert (declined.code, json.loads(declined.stdout)["error"]["exit_code"]) == (1, 1)
    assert run.folder.is_dir()

    def stopped(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Runs, "all", stopped)
    interrupted = sage("runs", "list", *root)
    assert (interrupted.code, json.loads(interrupted.stdout)["error"]["exit_code"]) == (130, 130)

    def broken(_):
        raise KeyError("status")

    monkeypatch.setattr(Runs, "all", broken)
    typed = CliRunner().invoke(app, ["runs", "list", *map(str, root)])
    assert isinstance(typed.exception, KeyError)  # a traceback
    said = json.loads(typed.stdout)["error"]
    assert (said["cause"], said["exit_code"]) == ("KeyError: 'status'", 1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_what_a_file_system_refuses_is_a_panel(sage, files, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))  # names no file, as a write doesn't

    (files / "counts.csv").write_text("problem,n,c\na,4,1\nb,4,2\n")
    monkeypatch.setattr("os.fsync", refuse)
    typed = sage("passk", files / "counts.csv")
    assert typed.code == 2
    assert "runs/reports/passk-counts-" in typed.words
    assert f": {os.strerror(number)} " in typed.words
    assert "what was stored until now is kept" in typed.words


def test_a_torn_configuration_of_a_run(sage, files):
    run = files / "runs" / "rl-a-11111111"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(json.dumps({"status": "finished", "started": "2026"}))
    (run / "config.json").write_text('{"rl": {"steps": 3')
    refused(sage("passk", run), "config.json", "is torn or was edited")
    shutil.rmtree(run)


@pytest.fixture
def broken(tmp_path):
    """A file whose seventh line is broken, and one whose seventh row has no gold."""
    rows = [json.dumps({"question": f"{number}+1=?", "gold": number + 1}) for number in range(9)]
    bad = {"json": '{"question": "6+1=?", "go', "row": '{"question": "6+1=?", "gold": [7, 8]}'}
    for name, line in bad.items():
        text = "\n".join([*rows[:6], line, *rows[7:]])
        (tmp_path / f"{name}.jsonl").write_text(text)
    return tmp_path


@pytest.mark.parametrize("fault", ["json", "row"])
@pytest.mark.parametrize(
    ("command", "setting"),
    [("rl", "data.rl.name"), ("rl", "data.sft.name"), ("sft", "data.sft.name"),
     ("sweep", "data.rl.name"), ("sweep", "data.sft.name"), ("sweep", "sweep.benchmark"),
     ("passk", "evaluation.benchmark")],
)  # fmt: skip
def test_a_dry_run_reads_all_of_the_data(sage, broken, fault, command, setting):
    space = ("--space", "lr=1e-4|4e-4", "--set", "sweep.benchmark=arithmetic-dev")
    space = space if command == "sweep" else ()
    file = broken / f"{fault}.jsonl"
    typed = sage(command, *space, "--set", f"{setting}={file}", "--dry-run")
    refused(typed, f"{fault}.jsonl, line 7" if fault == "json" else "row.jsonl, line 7: gold holds")


def test_a_plan_asks_the_hub_for_nothing(sage):
    for command, sets in (("rl", ("--set", "data.rl.name=my/sums")), ("sft", ())):
        assert sage(command, "-p", "qwen2.5-math-7b", *sets, "--dry-run").code == 0


@pytest.mark.parametrize("command", ["rl", "sft", "sweep"])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_presets_that_name_no_model(sage, tmp_path, command, dry):
    (tmp_path / "own.yaml").write_text("rl: {steps: 3}\n")
    space = ("--space", "lr=1e-4|4e-4") if command == "sweep" else ()
    typed = sage(command, *space, "-p", tmp_path / "own.yaml", *dry)
    refused(typed, "no preset names a model", "-p tiny -p", "extends: tiny")
