"""Trainings of every method with its own steps a generation batch, stopped and resumed."""

from dataclasses import dataclass
from functools import wraps
from typing import Any

from toy_policy import Bench, adapted, configuration, reference_completions, timeless, weights
from toy_run import TAGS
from trl import GRPOTrainer

from sage_cli.methods.loop import Method
from sage_cli.settings.official import WARM_UP, official_settings
from sage_cli.settings.section import built_in
from sage_cli.store.run import Run
from sage_cli.training.guided_retries import Pair, train_preferences

OFFICIAL, MOVING, MOVING_LORA = "official", "moving reference", "moving reference, LoRA"
CASES = (*built_in(Method), OFFICIAL, MOVING, MOVING_LORA)
"""Every method, GRPO by `--compat official`, and with a reference that follows the policy."""
NO_TIME = 1e-9
"""Minutes from save to save with which the clock saves wherever it may."""

PAIRS = [Pair(f"{a}*{b}=?", f"{a * b}", f"{a}+{b}={a + b}") for a in (3, 40) for b in (5, 61, 700)]
SETTINGS: dict[str, dict[str, Any]] = {
    "pass-at-k": {"k": 2},
    "pkpo": {"k": 2},
    "clip-cov": {"share": 0.1, "covariance_low": 0.1},
    "kl-cov": {"share": 0.1},
    "adaptive-entropy": {"entropy_target": 50.0},  # far above, so that the bonus acts
    "rlpr": {"reward_filter": 1.0},
    "dph-rl": {"weight": 3.0},
    "dars": {"most_rollouts": 8},
    "guided-dpo": {"prompts_per_step": 3, "preference_beta": 0.5},
}


@dataclass(frozen=True)
class Training:
    """A method's training on the toy policy, of `batches` generation batches."""

    bench: Bench
    case: str
    batches: int

    @property
    def period(self):
        """Optimiser steps of a generation batch."""
        return self.configuration().rl.steps_per_batch

    @property
    def steps(self):
        """Optimiser steps of the whole training."""
        return self.period * self.batches

    def configuration(self, **rl):
        """As `--algo` fills it in, with a guide that has random numbers."""
        if self.case == OFFICIAL:
            return configuration(**_official(rl))
        if self.case in (MOVING, MOVING_LORA):
            return configuration(**_moving(self.case), rl={"stop_when_stuck": False, **rl})
        unguided = not built_in(Method)[self.case].takes_a_guide
        own = {"algo": self.case, "stop_when_stuck": False, **SETTINGS.get(self.case, {})}
        anchor = dict(built_in(Method)[self.case].anchored) | ({"kl": "none"} if unguided else {})
        guide = {"name": "none" if unguided else "random"}
        kept = {"tracking": {"rollouts": "all"}, "model": {"lora": {"targets": ["q_proj"]}}}
        return configuration(rl=own | rl, anchor=anchor, guide=guide, **kept)

    def run(self, name, on_step=lambda _: None, **rl):
        """Train or resume it in the folder `name`."""
        config = self.configuration(**{"steps": self.steps, "save_every": 999, **rl})
        run = Run(self.bench.folder / name)
        if config.rl.algo == "guided-dpo":
            model, reference = self.bench.policy(), self.bench.policy()
            tokenizer = self.bench.tokenizer
            train_preferences(config, model, reference, tokenizer, PAIRS, run, on_step, {})
        else:
            lora = config.model.tuning == "lora"
            model = adapted(self.bench, config) if lora else self.bench.policy()
            drawn = reference_completions() if config.rl.samples_beforehand else None
            given = {"model": model, "reference_completions": drawn}
            self.bench.run(config, name, on_step=on_step, **given)
        return run


def _moving(case):
    """Averages and a reset between them, so that every checkpoint has another reference."""
    anchor = {"ema": 0.6, "reset_every": 3, "rows": "informative"}
    model = {"tuning": "lora" if case == MOVING_LORA else "full"}
    return {"anchor": anchor, "guide": {"name": "random"}, "model": model}


def _official(rl):
    """What the authors' values make of a training with an adapter and the guide `random`."""
    sections = {"rl": {"micro_batch": 2}, "anchor": {}}
    sections |= {"guide": {"name": "random"}, "model": {"tuning": "lora", "lora": {"dropout": 0.0}}}
    for name, value in official_settings(["lora", "random", WARM_UP]).items():
        section, setting = name.split(".", 1)
        if section in ("rl", "anchor", "guide"):
            sections[section][setting] = value
    sections["rl"] |= rl
    return sections


def formed(generate=GRPOTrainer._generate_single_turn):
    """TRL's rollouts, with the answer's tags in every other one: RLPR pays nothing without them."""

    @wraps(generate)
    def generated(self, *arguments, **named):
        rows, logps = generate(self, *arguments, **named)
        opening, closing = self.processing_class.convert_tokens_to_ids(TAGS)
        end = self.eos_token_ids[0]
        tagged = [[opening, *row[:6], closing, end] if i % 2 else row for i, row in enumerate(rows)]
        return tagged, logps

    return generated


def same_ends(one, other):
    """Both runs learned the same: records but for clocks and memory, weights, completions."""
    assert any(record["grad_norm"] > 0 for record in one.metrics.read())
    assert timeless(other.metrics.read()) == timeless(one.metrics.read())
    assert weights(other.model) == weights(one.model)
    assert other.ledger.read().equals(one.ledger.read())
    assert _completions(other) == _completions(one)


def _completions(run):
    """Return what is kept of every completion; the values of None and NaN are never equal."""
    return [
        {key: str(value) for key, value in row.items()}
        for row in run.completions().read().to_pylist()
    ]
