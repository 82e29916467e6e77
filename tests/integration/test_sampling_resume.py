"""SIGKILL at random moments while a sample set is filled: nothing is lost, nothing drawn twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from sage_cli.store.samples import SampleIdentity, SampleSet

PROBLEMS, N, ROWS_OF_A_PART = 4, 48, 8

DRIVER = """
import json, os, random, signal, sys, time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.sampling.transformers_sampler import TransformersSampler
from sage_cli.store import samples as module

root, problems, n, module.FLUSH_ROWS = Path(sys.argv[1]), *map(int, sys.argv[2:])


def run(samples, report):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = character_tokenizer(["</SOLUTION>"])
    model = AutoModelForCausalLM.from_config(Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
    ))
    for weight in model.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.3)
    greedy = SamplingParameters(0.0, 1.0, 0, 0.0, 16, "</SOLUTION>", 0)
    sampler = TransformersSampler(model.eval(), tokenizer, greedy, batch_rows=8)
    prompts = {f"p{i}": f"{i}*{i}=" for i in range(problems)}
    fill(samples, prompts, n, sampler, lambda rows: os.write(report, b"."))


for name, killed in [("straight", False), *[("killed", True)] * 3, ("killed", False)]:
    samples = module.SampleSet(root / name, module.SampleIdentity("m", "t", {}))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        run(samples, writing)
        os._exit(0)
    os.close(writing)
    reported = 0
    if killed:
        moment = random.randint(1, 5)
        while reported < moment and os.read(reading, 1):
            reported += 1
        time.sleep(random.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    while os.read(reading, 1):
        reported += 1
    os.close(reading)
    rows = len(list(samples.completions()))
    print(json.dumps([os.waitstatus_to_exitcode(status), reported, rows]))
"""


def test_killed_three_times_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    numbers = [str(number) for number in (PROBLEMS, N, ROWS_OF_A_PART)]
    driven = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path), *numbers],
        capture_output=True,
        text=True,
        check=True,
    )
    attempts = [json.loads(line) for line in driven.stdout.splitlines()]
    assert [code for code, _, _ in attempts] == [0, -9, -9, -9, 0]
    stored_before = 0
    for _, reported, stored in attempts[1:-1]:
        assert stored >= stored_before + ROWS_OF_A_PART * reported
        assert stored < PROBLEMS * N
        stored_before = stored
    identity = SampleIdentity("m", "t", {})
    straight, killed = (SampleSet(tmp_path / name, identity) for name in ("straight", "killed"))
    expected = {(row.problem_id, row.index): row for row in straight.completions()}
    rows = list(killed.completions())
    assert len(expected) == PROBLEMS * N
    assert max(Counter((row.problem_id, row.index) for row in rows).values()) == 1
    assert {(row.problem_id, row.index): row for row in rows} == expected
    assert not list(killed.folder.glob(".*.tmp"))
