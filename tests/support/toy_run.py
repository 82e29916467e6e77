"""A training of the toy policy as a process of its own: python toy_run.py JSON, a list of orders.

To be launched in several processes, or killed: `signal` is a number, a step and a moment of it, at
which the process sends itself that signal. With `fixed` the completions are a function of the
prompt and of the row within its group, so that any number of processes sees the same.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import torch
from toy_policy import Bench, configuration, reference_completions
from transformers import AutoTokenizer
from trl import GRPOTrainer

from sage_cli.methods.dars import SecondStage
from sage_cli.methods.formulas import group_advantages
from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.settings import own_code
from sage_cli.training.safeguards import Safeguards
from sage_cli.training.validation import Validator

TAGS = ["<SOLUTION>", "</SOLUTION>"]


def fixed_completions(
    self,
    prompt_ids,
    images,
    multimodal_fields,
    num_generations,
    has_tool_images=False,
):
    """Between 1 and 9 tokens, seeded by the prompt and by how often it came before.

    In a second stage by the prompt alone, whose rows any process may draw. `formed` trainings have
    the tags around every other one.
    """
    seen = Counter()
    drawn = []
    for ids in prompt_ids:
        turn = 500 if getattr(self, "in_second_stage", False) else seen[tuple(ids)]
        generator = torch.Generator().manual_seed(sum(ids) * 1000 + turn)
        seen[tuple(ids)] += 1
        length = int(torch.randint(1, 10, (1,), generator=generator))
        tokens = torch.randint(0, 90, (length,), generator=generator).tolist()
        if getattr(self, "formed", False) and turn % 2:
            opening, closing = self.processing_class.convert_tokens_to_ids(TAGS)
            tokens = [opening, *tokens[:8], closing]
        drawn.append([*tokens, self.eos_token_ids[0]])
    return drawn, None


def second_stage(self, trainer, *given, draw=SecondStage._sample):
    """The second stage's rollouts, which `fixed_completions` is told of."""
    trainer.in_second_stage = True
    try:
        return draw(self, trainer, *given)
    finally:
        trainer.in_second_stage = False


class PerToken(PolicyGradient):
    """Reads everything that an advantage can: the tokens' entropies decide how a group's is spread.

    Sums over rows, so that it would tell other rows, masks or signals from its own.
    """

    algo: Literal["per-token"] = "per-token"

    def advantages(self, inputs):
        advantage_B1 = group_advantages(inputs.rewards_PN).reshape(-1, 1)
        entropy_BT = inputs.entropy_BT * inputs.mask_BT
        share_BT = entropy_BT / entropy_BT.sum() * inputs.mask_BT.sum() + inputs.logps_BT / 10
        return advantage_B1 * share_BT * inputs.mask_BT


def registered(group, **_):
    """The method above, as if a package had registered it."""
    found = EntryPoint("per-token", "toy_run:PerToken", group)
    return (found,) if group == Method.package else ()


MOMENTS: dict[str, tuple[Any, str, Callable[..., int]]] = {
    "computing": (GRPOTrainer, "training_step", lambda self, *_: _done(self) + 1),
    "recorded": (Safeguards, "check", lambda _, record: record["step"]),
    "saving": (GRPOTrainer, "_save_optimizer_and_scheduler", lambda self, *_: _done(self)),
}
"""A method that is about to be called at a moment, and how its arguments tell the step: before its
loss, after its record was written, in the middle of its checkpoint."""


def _done(trainer):
    return int(trainer.state.global_step)


def signal_at(number, step, moment):
    """Have this process send itself a signal at that moment of a step."""
    owner, name, step_of = MOMENTS[moment]
    method = getattr(owner, name)

    def signalling(self, *arguments, **named):
        if step_of(self, *arguments) == step:
            os.kill(os.getpid(), number)
        return method(self, *arguments, **named)

    setattr(owner, name, signalling)


def main(*orders):
    for order in orders:
        train(order)


def train(order):
    own_code.entry_points = registered
    if order.get("fixed"):
        GRPOTrainer._generate_single_turn = fixed_completions
        GRPOTrainer.formed = order.get("formed", False)
        SecondStage._sample = second_stage
    if "signal" in order:
        signal_at(*order["signal"])
    base = Path(order["base"])
    bench = Bench(base, AutoTokenizer.from_pretrained(base), Path(order["folder"]))
    validator = Validator(2, lambda _: {"eval/pass@1": 0.5}) if order.get("validates") else None
    config = configuration(**order["sections"])
    others = {}
    if config.rl.samples_beforehand:
        others["reference_completions"] = reference_completions()
    bench.run(config, order["name"], validator=validator, **others)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
