"""Sixty wrong commands: the answer has the value that was typed and a line to type next."""

import json
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app

REPOSITORY = Path(__file__).resolve().parents[3]
FAULTS = runpy.run_path(str(REPOSITORY / "docs" / "prose.py"))["faults"]
FILES = {
    "c1.jsonl": '{"problem":"a","n":8,"c":1}\n{"problem":"b","n":8,"c":5}\n',
    "c2.jsonl": '{"problem":"x","n":8,"c":1}\n{"problem":"y","n":8,"c":5}\n',
    "nocomp.jsonl": '{"gold":"1"}\n',
    "lists.jsonl": '{"question":"1+1=?","gold":["1","2"]}\n',
    "cols.jsonl": '{"a":"1+1=?","b":"2"}\n',
    "own.py": "def f(a, g):\n    return 3\n",
    "pair.jsonl": '{"question":"1+1=?","gold":"2"}\n',
    "notmodel/readme.txt": "nothing\n",
}
COMMANDS = """
rl --algo dapoo                                     | dapoo     | sage config algos
rl --guide brunch                                   | brunch    | guide.name
rl --set rl.learning_rat=1e-3 --dry-run             | learning_rat | sage config show
rl --set rl.learning_rate=abc --dry-run             | abc       | rl.learning_rate
rl --set rl.steps --dry-run                         | rl.steps  | --set rl.steps=100
rl --tau 0.3 --guide token --dry-run                | guide.tau | guide.tau
rl --init ./nowhere --dry-run                       | ./nowhere | sage runs list
rl --init ./notmodel --dry-run                      | ./notmodel | config.json
rl --data nowhere.jsonl --dry-run                   | nowhere.jsonl | path
rl --data cols.jsonl --dry-run                      | cols.jsonl | --question-field a
rl --data lists.jsonl --dry-run                     | lists.jsonl | any_of=true
rl --gpu 80                                         | 80        | --dry-run
rl --preset qwen9 --dry-run                         | qwen9     | YAML
rl --set rollout.backend=vlm --dry-run              | vlm       | rollout.backend
rl --set rl.micro_batch=7 --dry-run                 | 7         | rl.micro_batch
rl --kl sideways --dry-run                          | sideways  | anchor.kl
rl --guide branch --kl none --dry-run               | branch    | anchor.kl
rl --accelerate fsdp9 --dry-run                     | fsdp9     | rl.accelerate
rl --set anchor.reference=bas --dry-run             | bas       | anchor.reference
rl --config nowhere.json                            | nowhere.json | path
rl --steps 0 --dry-run                              | 0         | rl.steps
sft --set sft.epochs=0 --dry-run                    | 0         | sft.epochs
sft --set sft.enabled=false                         | sft.enabled | sage rl
sft --set sft.optimizer=adan --dry-run              | adan      | sft.optimizer
passk nosuch                                        | nosuch    | --runs
passk --k 1..512 --n 256                            | 1..512    | --n 512
passk --k zero                                      | zero      | 1..256
passk c1.jsonl --k 1,16                             | c1.jsonl  | k up to 8
passk c1.jsonl --n 8                                | --n       | leave
passk nowhere.jsonl                                 | nowhere.jsonl | path
passk nosuch --k 1 64                               | 64        | --k 1,64
passk --temperature hot                             | hot       | --temperature 0.8
passk --second-judge working --dry-run              | --second-judge | --dry-run
passk --grade working --dry-run                     | --second-judge | --dry-run
compare c1.jsonl c2.jsonl                           | c1.jsonl  | logs
compare c1.jsonl c1.jsonl                           | c1.jsonl  | different
compare c1.jsonl,c1.jsonl c2.jsonl                  | c1.jsonl  | once
compare nosuch c1.jsonl                             | nosuch    | --runs
eval nosuch                                         | nosuch    | --runs
grade nocomp.jsonl                                  | nocomp.jsonl | completion
grade nowhere.jsonl                                 | nowhere.jsonl | path
grade pair.jsonl --judge own.py:g                   | 'g'       | defines f
power --k 1                                         | runs      | sage rl
power c1.jsonl --problems many                      | many      | 30,60,300
analyze support nosuch --alpha 2                    | nosuch    | --runs
sweep --space taus                                  | taus      | tau=0.2:0.8
sweep --space tau=0.2:0.8:cube                      | cube      | tau=0.2:0.8
sweep --space tau=0.2:0.8 --sampler grid --dry-run  | tau       | 0.1|0.2|0.3
sweep --space tau,rho --objective pass@x --dry-run  | pass@x    | sage config
suite plan nosuch                                   | nosuch    | YAML
suite run nosuch --dry-run                          | nosuch    | YAML
config explain guide.tauu                           | guide.tauu | guide.tau
data show nosuch                                    | nosuch    | arithmetic
data show cols.jsonl                                | cols.jsonl | --question-field a
samples show nosuch --training                      | nosuch    | --runs
samples import nowhere.jsonl --as x                 | nowhere.jsonl | path
runs show nosuch                                    | nosuch    | --runs
runs remove nosuch --yes                            | nosuch    | --runs
runs list --where branch                            | branch    | --where guide.name=branch
export nosuch out                                   | nosuch    | --runs
view --runs nowhere                                 | nowhere   | --runs
init notmodel                                       | notmodel  | sage init
"""
LINES = [line.split(" | ") for line in COMMANDS.strip().splitlines()]


def test_there_are_sixty():
    assert len(LINES) >= 60


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0].strip())
def test_a_wrong_command_is_answered_with_its_value_and_what_to_type(line, tmp_path, monkeypatch):
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    typed, value, remedy = (part.strip() for part in line)
    done = CliRunner().invoke(app, [*shlex.split(typed), "--json"])
    assert done.exit_code == 2, done.output
    error = json.loads(done.output[done.output.index('{\n  "error"') :])["error"]
    assert value in error["cause"]
    assert remedy in error["next_step"]
    assert list(FAULTS(f"{error['cause']}. {error['next_step']}")) == []
