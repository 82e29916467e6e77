"""A training of the toy policy as a process of its own: python toy_run.py JSON.

To be killed, or launched in several processes. With `fixed` the completions are a function of the
prompt and of the row within its group, so that any number of processes sees the same.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from toy_policy import Bench, configuration
from transformers import AutoTokenizer
from trl import GRPOTrainer


def fixed_completions(self: Any, prompt_ids: list[list[int]], *_: Any) -> tuple[Any, None]:
    """Between 1 and 9 tokens, seeded by the prompt and by how often it came before."""
    seen: Counter[tuple[int, ...]] = Counter()
    drawn = []
    for ids in prompt_ids:
        generator = torch.Generator().manual_seed(sum(ids) * 1000 + seen[tuple(ids)])
        seen[tuple(ids)] += 1
        length = int(torch.randint(1, 10, (1,), generator=generator))
        tokens = torch.randint(0, 90, (length,), generator=generator).tolist()
        drawn.append([*tokens, self.eos_token_ids[0]])
    return drawn, None


def main(order: dict[str, Any]) -> None:
    if order.get("fixed"):
        GRPOTrainer._generate_single_turn = fixed_completions
    base = Path(order["base"])
    bench = Bench(base, AutoTokenizer.from_pretrained(base), Path(order["folder"]))
    bench.run(configuration(**order["sections"]), order["name"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
