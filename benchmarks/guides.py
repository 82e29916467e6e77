"""What guides cost: step times of one trainer whose guide alternates with none, in pairs.

    python benchmarks/guides.py --clock cpu

The learning rate is 0, so that every step does the same work. The teacher is as large as the
policy. Sizes and clock are those of `rl_step.py`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from rl_step import Bench, Change, alternating_seconds, guided, report, sizes_parser

from sage_cli.guides import BranchGuide, Guide, NoGuide, RapoGuide, TeacherGuide, TokenGuide
from sage_cli.models.load import load_model
from sage_cli.training.trainer.guide_signals import frozen_teacher

GUIDES: tuple[Guide, ...] = (BranchGuide(tau=0.465, rho=0.775), TokenGuide(), RapoGuide())


def taught(bench: Bench) -> Change:
    """The anchor mixed with a teacher, which is loaded once."""
    loaded: list[Any] = []

    def change(trainer: Any) -> None:
        if not loaded:
            loaded.append(frozen_teacher(trainer, load_model(bench.base)))
        trainer.guide, trainer.teacher = TeacherGuide(), loaded[0]

    return change


def alone(trainer: Any) -> None:
    """No guide, and no teacher."""
    trainer.guide, trainer.teacher = NoGuide(), None


def main() -> None:
    """Measure and print one JSON object per guide."""
    sizes = sizes_parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes)
        changes = {guide.name: guided(guide) for guide in GUIDES} | {"teacher": taught(bench)}
        for name, change in changes.items():
            seconds = alternating_seconds(bench, sizes.pairs, alone, change)
            print(json.dumps(report(f"{name} / none", *seconds)), flush=True)


if __name__ == "__main__":
    main()
