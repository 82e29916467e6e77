"""A user's mistake is one panel with the cause and the next step, exit code 2, nothing written."""

import errno
import json
import os
import shlex
from importlib.metadata import EntryPoint
from itertools import pairwise

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.store.run import Runs

FILES = {
    "words.yaml": "just words",
    "list.yaml": "rl: [steps: 3",
    "wrong.yaml": "rl: {stepps: 3}\nsft: {seed: x}\nmodle: {}\n",
    "own.yaml": "rl: {steps: 3}\n",
    "notamodel/readme.txt": "nothing",
    "a.csv": "problem,n,c\nx,4,1\ny,4,2\n",
    "b.csv": "problem,n,c\nx,4,5\n",
    "runs/rl-a-11111111/manifest.json": '{"status": "finished", "started": "2026"}',
    "runs/rl-a-11111111/config.json": '{"rl": {"steps": 3',
    "json.jsonl": '{"question": "1+1=?", "gold": "2"}\n' * 6 + '{"question": "6+1=?", "go',
    "row.jsonl": '{"question": "1+1=?", "gold": "2"}\n' * 6 + '{"question": "6", "gold": [7, 8]}',
}
"""Files a user may point to, beside the folder that must stay empty."""


@pytest.fixture
def files(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "files"


def refused(typed, *said):
    typed.refused(*said)
    assert typed.words.count("error") == 1  # one panel
    assert "Traceback" not in typed.words
    assert "error" not in typed.stdout  # a panel goes to stderr
    assert typed.written == []


EACH = "sft / rl / passk / eval / sweep"
FILE = "rl --preset / config show -p / rl --config"
SPACE = "--space 'lr=1e-4|4e-4'"
PRETRAINED = "--set model.kind=pretrained --set prompt.format=plain --set model.path="
TWO = "--processes 2 --accelerate"
MISTAKES = [
    ("rl / sweep", "--algo dpao", "rl.algo is 'dpao'", "(did you mean dapo?)"),
    (
        EACH,
        "--set rl.learning_rat=1",
        "rl has no 'learning_rat' (did you mean learning_rate?)",
        "sage config show",
    ),
    ("passk / eval", "--k 512", "pass@512 is undefined with 256 samples", "--n 512"),
    ("passk / passk --dry-run", "--temperature .5,banana", "--temperature .5,banana", "0.8,1,1.2"),
    ("passk / passk --dry-run", "--temperature 0", "are the same", "sampling.temperature=0"),
    ("passk", "--n 64 --k 1..256", "pass@256 is undefined with 64 samples"),
    ("passk", "--n 64 --set evaluation.k=1..256", "pass@256 is undefined with 64 samples"),
    ("passk / eval", "--k 1 8 64", "8 64 after --k 1 would be read as a run", "--k 1,8,64"),
    ("rl", "--steps -3", "`sage config explain rl.steps` explains it"),
    ("compare", "{files}/a.csv {files}/a.csv", "is on both sides of the comparison"),
    ("compare", "{files}/a.csv,{files}/a.csv {files}/c.csv", "there is no file"),
    ("compare", "{files}/a.csv {files}/b.csv", "c = 5 is more than n = 4"),
    ("power", "{files}/b.csv", "c = 5 is more than n = 4"),
    ("power", "{files}/a.csv --problems many", "--problems: 'many' is not a whole number"),
    ("eval", "--paper table2", "no evaluation table 'table2'", "table1, table3"),
    (EACH, "--preset tinny", "there is no preset 'tinny'; there are", "did you mean tiny?"),
    (FILE, "{files}/words.yaml", "contains no settings:"),
    (FILE, "{files}/list.yaml", "can't be read as YAML"),
    (FILE, "{files}/gone.yaml", "there is no file"),
    (
        "config show -p",
        "{files}/wrong.yaml",
        "rl has no 'stepps' (did you mean steps?)",
        "sft.seed is 'x'",
        "has no 'modle' (did you mean model?)",
    ),
    ("rl", "--guide branch --kl none", "there is nothing to reshape"),
    ("sft / rl", f"{PRETRAINED}{{files}}/notamodel", "can be loaded from", "notamodel"),
    ("sft / rl", f"{PRETRAINED}./gone", "there is no folder ./gone"),
    ("passk", "{files}/notamodel --n 8 --k 1..8", "contains neither a run nor a model"),
    ("passk", "--benchmark arithmetik", "arithmetik", "arithmetic"),
    ("sweep", "--set sweep.benchmark=arithmetik", "arithmetik"),
    (
        "passk / eval / runs show",
        "rl-dapo",
        "there is no run 'rl-dapo', nor any other in",
        "--runs FOLDER",
    ),
    ("samples show", "nobody", "there is no run 'nobody'"),
    ("suite run", "tabel3", "did you mean table3?"),
    (
        "rl",
        f"{TWO} fsdp",
        "no accelerate configuration 'fsdp'; there are ddp, fsdp2, zero3",
        "did you mean fsdp2?",
    ),
    ("rl", f"{TWO} fsdp --dry-run", "no accelerate configuration 'fsdp'"),
    ("rl", f"{TWO} {{files}}/gone.yaml", "there is no file"),
    ("rl", "--accelerate ddp", "rl.processes is 1", "--processes N"),
    ("rl", "--init nothing", "there is no run 'nothing'"),
    ("rl --init / passk / runs show", "./my-llama", "folder ./my-llama does not exist", "run's ID"),
    ("sweep", "--space tau,roh", "no search space 'tau,roh'", "tau-rho"),
    ("sweep", "--space {files}/wrong.yaml", "'parameters' is missing", "is written as"),
    ("sweep", "--guide token", "needs guide branch", "--guide branch"),
    ("sweep", "--set sweep.samples=8", "sweep.objective asks for pass@64 of 8 samples"),
    ("passk", "{files}/runs/rl-a-11111111", "config.json", "is corrupt or was edited"),
    (
        f"rl / sft / sweep {SPACE} / rl --dry-run / sft --dry-run / sweep --dry-run {SPACE}",
        "-p {files}/own.yaml",
        "no preset names a model",
        "-p tiny -p",
        "extends: tiny",
    ),
]
"""Commands, what is typed behind each of them, and what is said."""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{command} {words}", said)
        for commands, words, *said in MISTAKES
        for command in commands.split(" / ")
    ],
)
def test_a_mistake_is_a_panel(sage, files, words, said):
    refused(sage(*shlex.split(words.format(files=files))), *said)


ANSWERS = [
    ("rl --tau high", "'--tau': 'high' is not a number"),
    ("rl --steps 2.5", "'--steps': '2.5' is not a whole number"),
    ("samples tokens x --limit 0", "'--limit': '0': input should be greater than or equal to 1"),
    (
        "rl --set learning_rate=1",
        "`learning_rate` is called `rl.learning_rate` here type --set rl.",
    ),
    (
        "sft --set lora_r=8",
        "`lora_r` is called `model.lora.rank` here type --set model.lora.rank=8",
    ),
    (
        "rl --set actor_rollout_ref.actor.kl_loss_coef=0.1",
        "`actor_rollout_ref.actor.kl_loss_coef` is called `anchor.beta` here type --set "
        "anchor.beta=0.1",
    ),
    ("rl --set gradient_accumulation_steps=4", "TRL counts micro-batches of completions instead"),
    ("rl --set data.max_prompt_length=9", "prompts are never cut"),
    ("rl --set trainer.total_epochs=2", "rl.steps counts optimiser steps"),
    (
        "rl --set steps=3",
        "form section.key=value write --set sft.steps=3 or rl.steps=3 or sweep.steps=3",
    ),
    ("config explain num_generations", "is called `rl.rollouts_per_prompt` here `sage config expl"),
    ("rl --model X", "No such option: --model (here: --init MODEL, or --set model.kind=pretrained"),
    ("sft --model X", "--model (here: --set model.kind=pretrained --set model.path=MODEL)"),
    ("passk --model X", "--model (here: sage passk MODEL, without an option)"),
    ("rl --learning_rate 2", "No such option: --learning_rate (here: --lr)"),
    ("passk --learning_rate 2", "(here: --set rl.learning_rate=...)"),
    ("rl --aglo dapo", "No such option: --aglo (Possible options: --algo)"),
    ("train", "No such command 'train'. (here: `sage rl` trains by RL, and `sage sft` the initial"),
    ("suite table1", "No such command 'table1'. (here: sage suite run table1"),
    ("models", "No such command 'models'. (here: `sage runs list` lists the models that you"),
    ("generate", "No such command 'generate'. (here: sage passk)"),
    ("config guides", "docs/guides.md explains them"),
    ("suite show", "`sage suite plan SUITE` shows the arms"),
    ("compare", "'a'. (for example: sage compare rl-dapo-branch rl-dapo-kl --k 1,64)"),
    ("samples show", "(for example: sage samples show rl-dapo-branch --grade wrong)"),
    (
        "rl --algo ppo",
        "rl.algo is 'ppo': there is no critic here, so no PPO; the nearest method is grpo "
        "`sage config algos` lists the methods",
    ),
    ("rl --algo GRPO", "rl.algo is 'GRPO' (did you mean grpo?)"),
    ("rl --wandb", "(here: --set tracking.wandb=online)"),
    (
        "rl --set data.train_batch_size=32",
        "is called `rl.steps_per_generation` here, and its values differ type, for example, --set "
        "rl.steps_per_generation=4 optimiser steps per batch of rollouts; verl's "
        "`data.train_batch_size` is `rl.prompts_per_step` times this number",
    ),
    ("rl --set loss_agg_mode=token-mean", "and its values differ type, for example, --set rl.lo"),
    ("rl --data no.jsonl", "no file no.jsonl, which data.rl.name names (--data)"),
]
"""What is typed by who knows other programs, and what is answered."""


@pytest.mark.parametrize(("words", "said"), ANSWERS)
def test_names_of_others_and_wrong_values_are_answered_with_what_to_type(sage, words, said):
    typed = sage(*words.split())
    typed.refused(said)
    assert typed.words.count("(here:") <= 1


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rl --model X", "--gold-field"),
        ("sweep --space tau,beta", "did you mean"),
        ("rl --algo ppo", "did you mean"),
        ("rl --guide entropy", "did you mean"),
    ],
)
def test_nothing_is_offered_that_is_not_near(sage, words, offered):
    typed = sage(*words.split())
    typed.refused()
    assert offered not in typed.words


@pytest.mark.parametrize(
    ("words", "here"),
    [
        ("data.rl.name=problems", "(here: --set data.rl.name=problems)"),
        (
            "steps data.rl.name=problems learning_rate=1",
            "(here: --set data.rl.name=problems --set rl.learning_rate=1)",
        ),
    ],
)
def test_words_of_hydra_are_answered_with_the_whole_value(sage, words, here):
    sage("rl", *words.split()).refused(here)


@pytest.mark.parametrize("gpu", ["h100", "80-h100", "-80", "8.5", "", None])
def test_a_card_without_its_size_or_a_dry_run_is_refused(sage, gpu):
    words, said = ("--dry-run", f"--gpu={gpu}"), "a name that ends with it, for example h100-80g"
    typed = sage("rl", *words) if gpu is not None else sage("rl", "--gpu", "80")
    typed.refused(said if gpu is not None else "--dry-run is missing")
    assert typed.written == []


@pytest.mark.parametrize("fault", ["json", "row"])
@pytest.mark.parametrize(
    "words",
    [
        "rl --dry-run --set data.rl.name=",
        "rl --dry-run --set data.sft.name=",
        "sft --dry-run --set data.sft.name=",
        f"sweep {SPACE} --dry-run --set sweep.benchmark=arithmetic-dev --set data.rl.name=",
        f"sweep {SPACE} --dry-run --set sweep.benchmark=arithmetic-dev --set data.sft.name=",
        f"sweep {SPACE} --dry-run --set sweep.benchmark=",
        "passk --dry-run --benchmark=",
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                "rl --set data.rl.name=",
                "sft --set data.sft.name=",
                "passk --benchmark=",
                "eval --benchmark=",
            )
        ),
    ],
)
def test_a_broken_line_is_named_before_anything_is_trained(sage, files, fault, words):
    typed = sage(*shlex.split(f"{words}{files}/{fault}.jsonl"))
    refused(typed, f"{fault}.jsonl, line 7" if fault == "json" else "row.jsonl, line 7: gold is")


@pytest.mark.parametrize("command", ["passk", "eval"])
@pytest.mark.parametrize(
    ("asked", "k"),
    [
        ("--n 64", "1..64"),
        ("--set evaluation.samples=64", "1..64"),
        ("--n 512", "1..256"),
        ("--n 64 --preset qwen2.5-math-7b", "1,64"),
    ],
)
def test_n_alone_ends_the_ks_that_nobody_asked_for(sage, command, asked, k):
    typed = sage(command, *asked.split(), "--benchmark", "arithmetic", "--dry-run", "--json")
    (stage,) = typed.answer["stages"]
    assert stage["k"] == k


class Mine:
    pass


@pytest.mark.parametrize(
    ("group", "object_", "words", "said"),
    [
        (
            "guides",
            Mine,
            "--guide mine",
            "guide 'mine' (package:Mine) is not a subclass of sage_cli.guides.guide.Guide",
        ),
        ("methods", lambda inputs: None, "--algo mine --set rl.scale=2", "has no settings class"),
        (
            "methods",
            ImportError("no numbers"),
            "--algo mine",
            "method 'mine' (package:Mine) can't be imported: ImportError: no numbers",
        ),
    ],
)
def test_a_plug_in_that_cannot_be_made_is_named_before_anything_is_trained(
    sage, monkeypatch, group, object_, words, said
):
    class Point(EntryPoint):
        def load(self):
            if isinstance(object_, Exception):
                raise object_
            return object_

    point = Point("mine", "package:Mine", f"sage_cli.{group}")
    monkeypatch.setattr(
        "sage_cli.settings.own_code.entry_points",
        lambda group: [point] if group == point.group else [],
    )
    refused(sage("rl", *words.split()), said)


@pytest.mark.parametrize("command", ["sft", "rl", "sweep --set sft.enabled=false"])
def test_a_mirror_that_is_not_installed_is_named_before_anything_is_trained(
    sage, monkeypatch, command
):
    monkeypatch.setattr("sage_cli.store.mirrors.find_spec", lambda _: None)
    typed = sage(*command.split(), "--set", "tracking.tensorboard=true")
    refused(typed, "the package tensorboard is not installed", "pip install tensorboard")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("rl --algo dpao", "rl.algo is 'dpao' (did you mean dapo?)"),
        ("rl --aglo dapo", "No such option: --aglo"),
        ("runs lits", "No such command 'lits'"),
        ("pask", "No such command 'pask'. Did you mean 'passk'"),
        ("runs show", "Missing argument 'name'"),
        ("samples tokens x --limit 0", "greater than or equal to 1"),
        ("--nothing", "stderr says why"),
    ],
)
def test_a_mistake_is_an_object_with_json(sage, words, cause):
    typed = sage(*words.split(), "--json")
    said = json.loads(typed.stdout)
    assert (list(said), said["error"]["exit_code"], typed.code) == (["error"], 2, 2)
    assert (cause in said["error"]["cause"], typed.written) == (True, [])
    if words == "rl --algo dpao":
        assert "did you mean dapo" in typed.words  # the panel, on stderr
        assert said["error"]["next_step"].split()[0] == "`sage"


def test_an_answer_of_no_an_interruption_and_a_bug_are_objects(sage, tmp_path, monkeypatch):
    run = Runs(tmp_path / "runs").at("sft", "arithmetic", "1" * 8)
    with run.recording({}, kind="sft"):
        pass
    root = ("--runs", tmp_path / "runs", "--json")
    declined = sage("runs", "remove", "sft", *root)
    assert (declined.code, json.loads(declined.stdout)["error"]["exit_code"]) == (1, 1)
    assert run.folder.is_dir()

    def raising(error):
        def fail(_):
            raise error

        monkeypatch.setattr(Runs, "all", fail)

    raising(KeyboardInterrupt())
    interrupted = sage("runs", "list", *root)
    assert (interrupted.code, json.loads(interrupted.stdout)["error"]["exit_code"]) == (130, 130)
    raising(KeyError("status"))
    typed = CliRunner().invoke(app, ["runs", "list", *map(str, root)])
    assert isinstance(typed.exception, KeyError)  # a traceback
    said = json.loads(typed.stdout)["error"]
    assert (said["cause"], said["exit_code"]) == ("KeyError: 'status'", 1)


LEVELS = "\n".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefghi")
)
HOSTILE = {
    "aliases": ("a: &a [" + ",".join("x" * 9) + f"]\n{LEVELS}", "more than 100,000 values"),
    "aliases in a section": (
        "rl:\n  a: &a [x]\n" + LEVELS.replace("\n", "\n  ").join(["  ", ""]),
        "100,000 values",
    ),
    "an alias inside of itself": ("rl: &a {b: *a}", "*a is used inside its own definition"),
    "nesting": ("rl: " + "[" * 300_000, "nested more than 100 levels deep"),
    "nesting of JSON": ('{"rl":' * 900 + "1" + "}" * 900, "nested too deeply"),
    "no date": ("rl: {steps: 2001-99-99}", "month must be in 1..12"),
    "digits": ("rl: {steps: " + "9" * 20_000 + "}", "4300 digits"),
    "a long value": ("rl: " + str(list(range(20_000))), "must be a section, not [0, 1, 2, 3, 4, 5"),
    "a long key": ("? " + "k" * 1_000_000 + "\n: 1\n", "must be a section, not 1"),
    "a long setting": ("rl: {steps: " + "x" * 50_000 + "}", "rl.steps is 'xxx"),
}


@pytest.mark.parametrize(("text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_settings_that_would_fill_the_memory_or_the_screen_are_a_short_panel(
    sage, tmp_path, text, said
):
    file = tmp_path / "hostile.yaml"
    file.write_text(text)
    typed = sage("rl", "--dry-run", "-p", file)
    typed.refused(said)
    assert len(typed.words) < 2000


REFUSALS = [
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
    errno.ENOLCK,
]
MAY_PASS = {
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ENOTCONN,
    errno.ENOLCK,
}


@pytest.mark.parametrize("number", REFUSALS)
def test_what_a_file_system_refuses_is_a_panel(sage, files, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))  # names no file, as a write doesn't

    monkeypatch.setattr("os.fsync", refuse)
    typed = sage("passk", files / "a.csv")
    for said in ("runs/reports/passk-a-", f": {os.strerror(number)} ", "stored until now is kept"):
        assert said in typed.words
    # what may pass by itself says so to who types again, as a queue of jobs
    assert typed.code == (75 if number in MAY_PASS else 2)


def test_an_error_of_a_file_system_that_a_program_causes_stays_a_traceback(
    sage, files, monkeypatch
):
    def fail(*_):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sage("passk", files / "a.csv")


@pytest.mark.parametrize("lack", [MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed")])
def test_a_lack_of_memory_is_a_panel(sage, files, monkeypatch, lack):
    def fail(*_):
        raise lack

    monkeypatch.setattr("os.fsync", fail)
    sage("passk", files / "a.csv").refused("not enough memory", *map(str, lack.args), "ulimit -v")


def test_a_plan_asks_the_hub_for_nothing(sage):
    for command, sets in (("rl", ("--set", "data.rl.name=my/sums")), ("sft", ())):
        typed = sage(command, "-p", "qwen2.5-math-7b", *sets, "--dry-run")
        assert typed.code == 0
        unread = "(not read: it has no local copy; `sage doctor` reads it)"
        assert typed.words.count(unread) == typed.words.count("demonstrations") + bool(sets)
