"""pass@k as most evaluations are written: four plain loops, each a program without sage.

    python benchmarks/simple_loops.py LOOP MODEL TASK.json

LOOP is `whole` (problem by problem, `generate` with all samples at once), `quarters` (the same
with a quarter of them at a time), `padded` (all prompts in one batch, padded on the left, some
samples of each at a time) or `vllm` (its engine schedules all). TASK.json is what
benchmarks/passk.py writes. The last line printed is JSON: the number of tokens drawn, and pass@k
for k = 1, 2, ..., n.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from math_verify import parse, verify
from transformers import AutoModelForCausalLM, AutoTokenizer

ROWS = 1024
"""Rows of a padded batch, about."""


def batches(loop: str, prompts: list[str], samples: int) -> Iterator[tuple[list[int], int]]:
    """Problems whose prompts go into a call of `generate`, and how many samples of each."""
    numbers = list(range(len(prompts)))
    together = [numbers] if loop == "padded" else [[number] for number in numbers]
    each = {"whole": samples, "quarters": -(-samples // 4), "padded": max(1, ROWS // len(prompts))}
    for problems in together:
        for start in range(0, samples, each[loop]):
            yield problems, min(each[loop], samples - start)


def pass_at_k(n: int, right: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k), as in Chen et al. 2021."""
    if n - right < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - right + 1, n + 1)))


@torch.inference_mode()
def generated(loop: str, model_path: str, task: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Problem, number of tokens and text of each sample, by Transformers' `generate`."""
    model = AutoModelForCausalLM.from_pretrained(model_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path, padding_side="left")
    stop = tokenizer.encode(task["answer_close"], add_special_tokens=False)
    ends = [tokenizer.eos_token_id, *(stop if len(stop) == 1 else [])]
    for problems, each in batches(loop, task["prompts"], task["samples"]):
        prompts = [task["prompts"][problem] for problem in problems]
        given = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
        output_BT = model.generate(
            **{name: given[name] for name in ("input_ids", "attention_mask")},
            do_sample=True,
            num_return_sequences=each,
            eos_token_id=ends,
            pad_token_id=tokenizer.pad_token_id,
            **task["sampling"],
        )
        new_BT = output_BT[:, given["input_ids"].shape[1] :]
        texts = tokenizer.batch_decode(new_BT, skip_special_tokens=True)
        counts = (new_BT != tokenizer.pad_token_id).sum(1).tolist()
        for row, (tokens, text) in enumerate(zip(counts, texts, strict=True)):
            yield problems[row // each], tokens, text


def scheduled(model_path: str, task: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """The same by vLLM, with all samples of a prompt in one request."""
    from vllm import LLM, SamplingParams

    asked = {name: value for name, value in task["sampling"].items() if value is not None}
    params = SamplingParams(
        n=task["samples"],
        max_tokens=asked.pop("max_new_tokens"),
        stop=task["answer_close"],
        include_stop_str_in_output=True,
        **asked,
    )
    engine = LLM(model_path, dtype="float32", max_model_len=1024, enforce_eager=True)
    for problem, output in enumerate(engine.generate(task["prompts"], params)):
        for sample in output.outputs:
            yield problem, len(sample.token_ids), sample.text


def main(loop: str, model_path: str, task: dict[str, Any]) -> None:
    """Draw, grade, count and print."""
    golds = [parse(f"${gold}$") for gold in task["golds"]]
    rights, drawn, samples = [0] * len(golds), 0, task["samples"]
    rows = scheduled(model_path, task) if loop == "vllm" else generated(loop, model_path, task)
    for problem, tokens, text in rows:
        drawn += tokens
        answer = text.partition(task["answer_open"])[2].partition(task["answer_close"])[0]
        rights[problem] += verify(golds[problem], parse(f"${answer}$"))
    means = [
        float(np.mean([pass_at_k(samples, right, k) for right in rights]))
        for k in range(1, samples + 1)
    ]
    print(json.dumps({"tokens": drawn, "means": means}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(Path(sys.argv[3]).read_text(encoding="utf-8")))
