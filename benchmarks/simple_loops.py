"""pass@k as most evaluations are written: three plain loops, each a program without sage.

    python benchmarks/simple_loops.py LOOP MODEL TASK.json

LOOP is `whole` (problem by problem, `generate` with all samples at once), `quarters` (the same
with a quarter of them at a time) or `padded` (all prompts in one batch, padded on the left, some
samples of each at a time). TASK.json is what benchmarks/passk.py writes. The last line printed is
JSON: the number of tokens drawn, and pass@k for k = 1, 2, ..., n.
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
def main(loop: str, model_path: str, task: dict[str, Any]) -> None:
    """Draw, grade, count and print."""
    model = AutoModelForCausalLM.from_pretrained(model_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_path, padding_side="left")
    stop = tokenizer.encode(task["answer_close"], add_special_tokens=False)
    ends = [tokenizer.eos_token_id, *(stop if len(stop) == 1 else [])]
    golds = [parse(f"${gold}$") for gold in task["golds"]]
    rights, tokens, samples = [0] * len(golds), 0, task["samples"]
    for problems, each in batches(loop, task["prompts"], samples):
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
        tokens += int((new_BT != tokenizer.pad_token_id).sum())
        for row, text in enumerate(tokenizer.batch_decode(new_BT, skip_special_tokens=True)):
            problem = problems[row // each]
            answer = text.partition(task["answer_open"])[2].partition(task["answer_close"])[0]
            rights[problem] += verify(golds[problem], parse(f"${answer}$"))
    means = [
        float(np.mean([pass_at_k(samples, right, k) for right in rights]))
        for k in range(1, samples + 1)
    ]
    print(json.dumps({"tokens": tokens, "means": means}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(Path(sys.argv[3]).read_text(encoding="utf-8")))
