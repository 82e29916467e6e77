"""What `tracking.rollouts=all` costs: time of a step in pairs, and bytes a completion.

    python benchmarks/kept.py --clock cpu --model runs/sft-.../model

One trainer with rollouts by `sampler` keeps every completion on every other step. What a step kept
is written before the next such step: a file a step, where a training writes one between two
checkpoints. The options are those of `rl_step.py`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from rl_step import Bench, Change, alternating_seconds, report, sampled_by, sizes_parser

from sage_cli.store.ledger import TrainingCompletions
from sage_cli.training.noted import Kept
from sage_cli.training.rollouts import sampled_rollouts


def kept_by(kept: Kept | None, sampled: Change) -> Change:
    """Rollouts as `sampled`; every completion is kept, or counted alone."""

    def change(trainer: Any) -> None:
        sampled(trainer)
        trainer.noted.kept = kept
        if kept is not None:
            kept.seal()

    return change


def measured(bench: Bench, pairs: int) -> dict[str, Any]:
    """Ratios of steps that keep all completions to steps that keep none, and the files' size."""
    sampled = sampled_by(sampled_rollouts(bench.config(1).rollout, 1, bench.tokenizer))
    kept = Kept(TrainingCompletions(bench.folder / "completions"))
    seconds = alternating_seconds(bench, pairs, kept_by(None, sampled), kept_by(kept, sampled))
    kept.seal()
    ratios = sorted(b / a for a, b in zip(*seconds, strict=False))
    size = sum(file.stat().st_size for file in kept.store.folder.iterdir())
    quarter = len(ratios) // 4
    return {
        **report("all kept / none", *seconds),
        "middle_half_of_pairs": [ratios[quarter], ratios[-1 - quarter]],
        "bytes_a_completion": size / len(kept.store.read()),
    }


if __name__ == "__main__":
    given = sizes_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(Bench(Path(folder), given), given.pairs)))
