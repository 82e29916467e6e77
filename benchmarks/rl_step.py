"""What the shaped anchor and our records cost: step time and memory, in pairs.

    python benchmarks/rl_step.py            # three ratios of time, one of memory

`branch / none`: one trainer whose guide alternates from step to step; the learning rate is 0, so
that every step does the same work. `sampler / generate`: the same with what draws the rollouts.
`sage / TRL`, both with `generate`: our trainer and bare GRPOTrainer with the same
arguments, model and reward, in alternating blocks. `memory`: peak of a process each. On a busy
machine without a GPU `--clock cpu` counts the process's own seconds. The model is a random one of
`tiny`'s sizes, which never ends a completion, or the one in the folder `--model`.

`--timing` measures in their place what `time/` in the records costs, in a trainer that does it
every other step. `methods.py` measures methods of exploration with the same bench.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from peak import peak_mb
from step_clock import Clock
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from random_model import save_scratch

from sage_cli.config.schema import SageConfig
from sage_cli.grading import Grade
from sage_cli.guides import BranchGuide, Guide, NoGuide
from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.problems.problem import Problem
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.store.run import Run
from sage_cli.training.phases import Phases
from sage_cli.training.prompt_order import training_order
from sage_cli.training.rl import RlInputs, build_trainer, grpo_arguments, prompt_rows
from sage_cli.training.rollouts import SampleRollouts, sampled_rollouts

BLOCK_STEPS = 12
BRANCH = BranchGuide(tau=0.465, rho=0.775)
Change = Callable[[Any], None]
"""What is done to a trainer before a step."""


def grade(golds: Sequence[str], completions: Sequence[str]) -> list[Grade]:
    """Right when the gold appears in the completion: without a grader's cost, which both share."""
    pairs = zip(golds, completions, strict=True)
    return [Grade("right" if gold in text else "wrong", None) for gold, text in pairs]


def configuration(steps: int, prompts: int, rollouts: int, tokens: int) -> SageConfig:
    """The `tiny` preset's sizes; learning rate as good as 0, so that every step is alike."""
    return SageConfig.model_validate(
        {
            "model": {"kind": "scratch"},
            "rl": {
                "steps": steps,
                "prompts_per_step": prompts,
                "rollouts_per_prompt": rollouts,
                "learning_rate": 1e-30,
                "optimizer": "adamw",
                "gradient_checkpointing": False,
                "save_every": 10 * steps,
                "stop_when_stuck": False,
            },
            "rollout": {"max_tokens": tokens, "min_p": 0},
            "anchor": {"beta": 0.04},
        }
    )


class Alternate(TrainerCallback):  # type: ignore[misc]
    """The trainer is `even` on even steps, `odd` on odd ones."""

    trainer: Any

    def __init__(self, even: Change, odd: Change) -> None:
        self.changes = (even, odd)

    def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
        """Change the trainer."""
        self.changes[state.global_step % 2](self.trainer)


class Untimed(Phases):
    """A step's phases, none of which is timed."""

    def during(self, phase: str) -> Any:  # noqa: ARG002
        """Nothing is begun or ended."""
        return nullcontext()

    def record(self, *_: Any, **__: Any) -> dict[str, float]:
        """Nothing is said of times."""
        return {}


class Bench:
    """A random model of the tiny preset, or another one, and prompts of arithmetic."""

    def __init__(self, folder: Path, sizes: argparse.Namespace) -> None:
        self.folder, self.sizes = folder, sizes
        self.records: list[Mapping[str, Any]] = []
        self.clock = time.process_time if sizes.clock == "cpu" else time.perf_counter
        self.base = sizes.model or folder / "base"
        if sizes.model is None:
            section = self.config(1).model
            save_scratch(section, ["<SOLUTION>", "</SOLUTION>"], [], self.base)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(self.base)
        self.prompts = [
            (f"{a}*{b}=?", Problem(f"{a}x{b}", "bench", f"{a}*{b}=?", str(a * b)))
            for a in range(11, 21)
            for b in range(11, 21)
        ]

    def config(self, steps: int) -> SageConfig:
        """The configuration of a training of `steps` steps."""
        return configuration(steps, self.sizes.prompts, self.sizes.rollouts, self.sizes.tokens)

    def policy(self) -> tuple[Any, Path | None]:
        """A policy to train, and the folder of its reference."""
        return load_model(self.base), self.base

    def sage(
        self,
        steps: int,
        *callbacks: TrainerCallback,
        rl: Mapping[str, Any] | None = None,
        anchor: Mapping[str, Any] | None = None,
    ) -> Any:
        """Our trainer, with other settings of `rl` and `anchor` where some are given."""
        config = self.config(steps)
        sections = {
            "rl": config.rl.model_copy(update=rl or {}),
            "anchor": config.anchor.model_copy(update=anchor or {}),
        }
        config = config.model_copy(update=sections)
        inputs = RlInputs(*self.policy(), self.tokenizer, self.prompts, grade)
        trainer = build_trainer(config, inputs, Run(self.folder), self.records.append)
        for callback in callbacks:
            trainer.add_callback(callback)
        return trainer

    def bare(self, steps: int, *callbacks: TrainerCallback) -> Any:
        """TRL's trainer with the same arguments, model and reward."""

        def reward(completions: list[str], gold: list[str], **_: Any) -> list[float]:
            return [float(graded.status == "right") for graded in grade(gold, completions)]

        config, rows = self.config(steps), prompt_rows(self.prompts)
        trainer = GRPOTrainer(
            model=self.policy()[0],
            reward_funcs=[reward],
            args=grpo_arguments(config, self.folder / "bare"),
            train_dataset=rows.select(training_order(len(rows), config.rl)),
            processing_class=self.tokenizer,
            callbacks=list(callbacks),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer


def alternating_seconds(
    bench: Bench, pairs: int, even: Change, odd: Change
) -> tuple[list[float], list[float]]:
    """Step times of one trainer that is changed from step to step."""
    clock, alternate = Clock(bench.clock), Alternate(even, odd)
    trainer = bench.sage(2 * pairs + 3, clock, alternate)
    alternate.trainer = trainer
    trainer.train()
    steps_s = clock.steps_s[2:]  # the first two warm up, and the last one is left out
    return steps_s[0::2], steps_s[1::2]


def guided(guide: Guide) -> Change:
    """The anchor shaped by `guide`."""
    return lambda trainer: setattr(trainer, "guide", guide)


def sampled_by(sample: SampleRollouts | None) -> Change:
    """Rollouts by `sample`; None: by Transformers' `generate`."""
    return lambda trainer: setattr(trainer, "sample_rollouts", sample)


def timed_by(phases: Phases) -> Change:
    """Phases that are timed, or not."""
    return lambda trainer: setattr(trainer, "phases", phases)


def trainer_seconds(
    bench: Bench, pairs: int, *makes: Callable[..., Any], block_steps: int = BLOCK_STEPS
) -> tuple[list[float], ...]:
    """Step times of the trainers that `makes` make, in alternating blocks of `block_steps`.

    A block's first step warms up, and its last one is left out.
    """
    seconds: tuple[list[float], ...] = tuple([] for _ in makes)
    while len(seconds[0]) < pairs:
        for make, times in zip(makes, seconds, strict=True):
            clock = Clock(bench.clock)
            make(block_steps, clock).train()
            times.extend(clock.steps_s[1:])
    return seconds


def peak_of(guide: str, sizes: argparse.Namespace) -> float:
    """Peak memory of a process that trains with `guide`."""
    command = [sys.executable, __file__, "--peak-of", guide, "--pairs", "5"]
    for name in ("prompts", "rollouts", "tokens", *(["model"] if sizes.model else [])):
        command += [f"--{name}", str(getattr(sizes, name))]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(finished.stdout.splitlines()[-1])["peak_mb"])


def train_and_measure(bench: Bench, guide: str, steps: int) -> dict[str, float]:
    """Train; the median of its steps after the first, and the device's or process's peak memory."""
    clock = Clock(bench.clock)
    trainer = bench.sage(steps, clock)
    trainer.guide = BRANCH if guide == "branch" else NoGuide()
    trainer.train()
    peak = peak_mb()
    if torch.cuda.is_available():  # each record begins the device's count anew
        peak = 1024 * max(record["memory/peak_gib"] for record in bench.records)
    return {"peak_mb": peak, "step_s": statistics.median(clock.steps_s[1:])}


def report(name: str, base_s: list[float], other_s: list[float]) -> dict[str, Any]:
    """Ratio of the medians, and the median of the pairs' ratios."""
    medians = statistics.median(base_s), statistics.median(other_s)
    paired = [b / a for a, b in zip(base_s, other_s, strict=False)]
    return {
        "ratio": name,
        "of_medians": medians[1] / medians[0],
        "median_of_pairs": statistics.median(paired),
        "median_s": medians,
        "pairs": len(paired),
    }


def sizes_parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every measurement with a `Bench` has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    return parser


def main() -> None:
    """Measure and print one JSON object per ratio."""
    parser = sizes_parser(__doc__)
    parser.add_argument("--peak-of", choices=["none", "branch"])
    parser.add_argument("--timing", action="store_true")
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), sizes)
        if sizes.peak_of:
            print(json.dumps(train_and_measure(bench, sizes.peak_of, sizes.pairs)))
            return
        if sizes.timing:
            seconds = alternating_seconds(
                bench, sizes.pairs, timed_by(Untimed()), timed_by(Phases())
            )
            print(json.dumps(report("timed / untimed", *seconds)))
            return
        changes = (guided(NoGuide()), guided(BRANCH))
        seconds = alternating_seconds(bench, sizes.pairs, *changes)
        print(json.dumps(report("branch / none", *seconds)))
        parameters = SamplingParameters.from_section(bench.config(1).rollout)
        changes = (sampled_by(None), sampled_by(sampled_rollouts(parameters, 1, bench.tokenizer)))
        seconds = alternating_seconds(bench, sizes.pairs, *changes)
        print(json.dumps(report("sampler / generate", *seconds)))
        seconds = trainer_seconds(bench, sizes.pairs, bench.bare, bench.sage)
        print(json.dumps(report("sage / TRL", *seconds)))
        peaks = [peak_of(guide, sizes) for guide in ("none", "branch")]
        print(json.dumps({"ratio": "memory", "of_peaks": peaks[1] / peaks[0], "peak_mb": peaks}))


if __name__ == "__main__":
    main()
