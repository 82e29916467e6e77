"""Every method, with its own steps a generation batch, ends as undisturbed if it is interrupted."""

import os
import signal
from dataclasses import dataclass
from functools import wraps

import pytest
from toy_policy import (
    SETTINGS,
    TAGS,
    Bench,
    KilledError,
    adapted,
    configuration,
    killing,
    reference_completions,
    same_ends,
)
from trl import GRPOTrainer

from sage_cli.errors import Interrupted
from sage_cli.methods.loop import Method
from sage_cli.settings.official import WARM_UP, official_settings
from sage_cli.settings.section import built_in
from sage_cli.store.run import Run
from sage_cli.training import interruption
from sage_cli.training.checkpoints import saved_step
from sage_cli.training.guided_retries import Pair, train_preferences

pytestmark = pytest.mark.slow
OFFICIAL, MOVING, MOVING_LORA = "official", "moving reference", "moving reference, LoRA"
CASES = (*built_in(Method), OFFICIAL, MOVING, MOVING_LORA)
"""Every method, GRPO by `--compat official`, and with a reference that follows the policy."""
NO_TIME = 1e-9
"""Minutes from save to save with which the clock saves wherever it may."""

PAIRS = [Pair(f"{a}*{b}=?", f"{a * b}", f"{a}+{b}={a + b}") for a in (3, 40) for b in (5, 61, 700)]


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


def stopping(step):
    """Hears steps, and asks to stop in the one after `step`."""

    def on_step(record):
        if record["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_step


@pytest.fixture(autouse=True)
def _tags_and_saves(monkeypatch):
    """Let answers have tags, and no save be left out."""
    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", formed())
    # otherwise a slow disk leaves saves out: they may take 5 % of the time
    monkeypatch.setattr(interruption, "SAVING_SHARE", 1.0)


@pytest.mark.parametrize("case", CASES)
def test_killed_it_ends_as_undisturbed(bench, case):
    # what has a memory of its own is killed twice: a resumed training has to write it, too
    kills = 2 if case in ("rlpr", "dph-rl", MOVING, MOVING_LORA) else 1
    training = Training(bench, case, 1 + kills)
    if training.period == 1:
        training = Training(bench, case, 2 + kills)
    whole, first = training.run("whole"), max(training.period, 2)
    # the clock saves at the end of a batch, and the kill comes after the next one's first step
    for saved in (first, first + training.period)[:kills]:
        with pytest.raises(KilledError):
            training.run("torn", killing(saved + 1), save_minutes=NO_TIME)
        assert saved_step(bench.folder / "torn/checkpoints") == saved
    same_ends(whole, training.run("torn"))


@pytest.mark.skipif("EVERY_STEP" not in os.environ, reason="an hour: make test-resume")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES)
def test_stopped_or_killed_after_every_step_it_ends_as_undisturbed(bench, case):
    training = Training(bench, case, 2)
    if training.period == 1:
        training = Training(bench, case, 4)
    whole, period = training.run("whole"), training.period
    for step in range(1, training.steps):
        with pytest.raises(Interrupted):
            training.run(f"stopped-{step}", stopping(step))
        boundary = -(-(step + 1) // period) * period
        assert saved_step(bench.folder / f"stopped-{step}/checkpoints") == boundary
        same_ends(whole, training.run(f"stopped-{step}"))
        with pytest.raises(KilledError):
            training.run(f"killed-{step}", killing(step), save_minutes=NO_TIME)
        boundary = (step - 1) // period * period  # a step is written down before it is saved
        assert saved_step(bench.folder / f"killed-{step}/checkpoints") == boundary
        same_ends(whole, training.run(f"killed-{step}"))
