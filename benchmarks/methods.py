"""What a step of a method of exploration costs over GRPO's, on the same rows and with the same KL.

    python benchmarks/methods.py --advantages effective-rank --algos pacs rlpr --clock cpu --pairs 6

`--advantages`: one trainer whose advantage alternates from step to step. `--algos`, for methods
that change more than that: a trainer with all of the method's `rl` settings and GRPO's, in
alternating blocks of steps; the completions drawn are beside, since some methods draw more.
`--anchors`: the same for settings of `anchor`, as `ema=0.9`. The other options are those of
`rl_step.py`.
"""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import yaml
from rl_step import (
    BLOCK_STEPS,
    Bench,
    Change,
    alternating_seconds,
    report,
    sizes_parser,
    trainer_seconds,
)

from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings.anchor import AnchorSection


def advantaged(name: str) -> Change:
    """The advantages of the method `name`, computed by us; of the group without one."""
    kind = Method.named(name) if name else PolicyGradient

    def change(trainer: Any) -> None:
        trainer.rl = kind.model_construct(**dict(trainer.rl) | {"algo": name or "group"})

    return change


def main() -> None:
    """Measure and print one JSON object per method."""
    parser = sizes_parser(__doc__)
    parser.add_argument("--advantages", nargs="+", default=[])
    parser.add_argument("--algos", nargs="+", default=[])
    parser.add_argument("--anchors", nargs="+", default=[], metavar="SETTING=VALUE")
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes)
        for name in sizes.advantages:
            changes = (advantaged(""), advantaged(name))
            seconds = alternating_seconds(bench, sizes.pairs, *changes)
            print(json.dumps(report(f"{name} / group", *seconds)), flush=True)
        for name in sizes.algos:
            method = partial(bench.sage, rl={"algo": name})
            bench.records.clear()
            found = trainer_seconds(bench, sizes.pairs, bench.sage, method)
            drawn = [record["sampled/completions"] for record in bench.records]
            by_block = [mean(drawn[at:][:BLOCK_STEPS]) for at in range(0, len(drawn), BLOCK_STEPS)]
            ratio = mean(by_block[1::2]) / mean(by_block[0::2])
            measured = report(f"{name} / grpo", *found) | {"completions_drawn": ratio}
            print(json.dumps(measured), flush=True)
        for setting in sizes.anchors:
            name, value = setting.split("=")
            anchor = AnchorSection.model_validate({name: yaml.safe_load(value)})
            changed = partial(bench.sage, anchor=anchor.model_dump(include={name}))
            found = trainer_seconds(bench, sizes.pairs, bench.sage, changed)
            print(json.dumps(report(f"{setting} / grpo", *found)), flush=True)


if __name__ == "__main__":
    main()
