"""A policy of a few thousand parameters, and tasks that it can learn or fail."""

import inspect
import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from accelerate.utils import imports, memory, other
from datasets import arrow_dataset
from datasets.fingerprint import generate_random_fingerprint
from peft import PeftModel
from random_model import random_model
from transformers import AutoTokenizer
from transformers.trainer_utils import SaveStrategy
from trl.trainer import grpo_trainer

from sage_cli.config.schema import SageConfig
from sage_cli.grading import Grade
from sage_cli.models.loading import attach_lora, load_model
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.problems.problem import Problem
from sage_cli.store.completion import Completion
from sage_cli.store.run import Run
from sage_cli.training.rl import RlInputs, build_trainer, train_rl

# a third of a small training's time: accelerate looks in every step for PEFT and compiled layers
# and collects garbage at the end, PEFT writes a card beside every adapter, TRL loads the same
# reference again, its source is parsed for every trainer, rows are hashed for a cache that nobody
# reads, and devices that aren't there note who seeds them
imports._is_package_available = cache(imports._is_package_available)
other.has_compiled_regions = lambda _: False
memory.clear_device_cache = lambda **_: None
PeftModel.create_or_update_model_card = lambda *_: None
_reference = cache(grpo_trainer.create_model_from_path)
grpo_trainer.create_model_from_path = lambda *path, **how: deepcopy(_reference(*path, **how))
inspect.getsource = cache(inspect.getsource)
arrow_dataset.generate_fingerprint = lambda _: generate_random_fingerprint()
if not torch.accelerator.is_available():
    torch.cuda.manual_seed_all = torch.xpu.manual_seed_all = lambda _: None
    torch.mtia.manual_seed_all = lambda _: None


TAGS = ["<SOLUTION>", "</SOLUTION>"]


def parity_grader(golds, completions):
    """Right when the first character's code is even: half right at first, easy to learn."""
    even = [bool(text) and ord(text[0]) % 2 == 0 for text in completions]
    return [Grade("right" if right else "wrong", None) for right in even]


@pytest.fixture(scope="session")
def tokenizer():
    return character_tokenizer(TAGS)


@pytest.fixture(scope="session")
def base(tmp_path_factory, tokenizer):
    """A random policy's folder."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = random_model(tokenizer, seed=5, std=None, tie_word_embeddings=False, **sizes, **heads)
    folder = tmp_path_factory.mktemp("base")
    with torch.no_grad():  # so that entropies range from nearly 0 to nearly log(vocabulary)
        model.lm_head.weight.mul_(60)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


PROMPTS = [
    (f"{a}*{b}=?", Problem(f"{a}x{b}", "toy", f"{a}*{b}=?", str(a * b), working=f"{a};{b};{a * b}"))
    for a in range(2, 7)
    for b in range(2, 5)
]


def configuration(**sections):
    rl = {
        "steps": 4,
        "prompts_per_step": 4,
        "rollouts_per_prompt": 4,
        "learning_rate": 1e-3,
        "gradient_checkpointing": False,
        "optimizer": "adamw",
        "save_every": 2,
        "seed": 7,
    }
    rollout = {"backend": "transformers", "max_tokens": 12, "min_p": 0.0}
    changed = {
        name: {**usual, **sections.pop(name, {})}
        for name, usual in (("rl", rl), ("rollout", rollout))
    }
    return SageConfig.model_validate({**changed, **sections})


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
"""What a method sets for a small training."""


@cache
def _loaded(base):
    return load_model(base, trainable=True)


@dataclass
class Bench:
    """Runs `train_rl` on the toy policy and keeps what the display would have heard."""

    base: Path
    tokenizer: Any
    folder: Path
    grader: Callable[..., Any] = parity_grader

    @classmethod
    def at(cls, base, folder):
        """In a process of its own, with the tokenizer that is saved beside the policy."""
        return cls(Path(base), AutoTokenizer.from_pretrained(base), Path(folder))

    def run(self, config, name="run", **changed):
        """`changed`: another `on_step`, or other fields of RlInputs."""
        heard = []
        on_step = changed.pop("on_step", lambda record: heard.append(dict(record)))
        train_rl(config, self.inputs(**changed), Run(self.folder / name), on_step)
        return heard

    def records(self, config, **changed):
        """What `run` hears, of a training that leaves neither checkpoints nor a policy."""
        heard, alone = [], replace(self, folder=Path(mkdtemp(dir=self.folder)))
        trainer = alone.trainer(config, lambda record: heard.append(dict(record)), **changed)
        trainer.args.save_strategy = SaveStrategy.NO
        trainer.train()
        return heard

    def resumed(self, config, name, *steps, **changed):
        """Die at each of these steps in turn, as a kill does, and then train to the end."""
        for step in steps:
            with pytest.raises(KilledError):
                self.run(config, name, on_step=killing(step), **changed)
        return self.run(config, name, **changed)

    def trainer(self, config, on_step=lambda _: None, **changed):
        """The trainer of `run`, not yet trained."""
        return build_trainer(config, self.inputs(**changed), Run(self.folder), on_step)

    def inputs(self, **changed):
        given = {"reference": self.base, "tokenizer": self.tokenizer, "prompts": PROMPTS}
        if "model" not in changed:
            changed["model"] = self.policy()
        return RlInputs(**{**given, "grader": self.grader, **changed})

    def policy(self):
        """The toy policy, to be trained."""
        return deepcopy(_loaded(self.base))


@pytest.fixture
def bench(base, tokenizer, tmp_path):
    return Bench(base, tokenizer, tmp_path)


@pytest.fixture
def configure():
    return configuration


@pytest.fixture(scope="session")
def start(warm):
    """Start a program on orders, with one thread: sums depend on how many there are.

    Its output ends when it is dead.
    """

    def begin(program, *orders):
        return subprocess.Popen(
            [warm.python, program, json.dumps(orders)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return begin


class KilledError(Exception):
    """What ends a training as a kill does: nothing is saved."""


def killing(step):
    """Hears steps, and dies at one of them."""

    def on_step(record):
        if record["step"] == step:
            raise KilledError

    return on_step


def defined(value):
    """A number of a record as a float: what is undefined there is NaN here."""
    return math.nan if value is None else value


def same(value, **tolerance):
    """A number of another record, within a tolerance; undefined equals undefined."""
    return pytest.approx(defined(value), nan_ok=True, **tolerance)


def timeless(records, *also):
    """Records without what clocks say, what is undefined, and what begins with one of `also`."""
    skipped = ("time/", "memory/", *also)
    return [
        {k: v for k, v in r.items() if v is not None and not k.startswith(skipped)} for r in records
    ]


def weights(folder):
    """The content of the folder's only file of weights."""
    (file,) = folder.glob("*.safetensors")
    return file.read_bytes()


def adapted(bench, config):
    """The toy policy with an adapter that already says something, as after supervised warm-up."""
    torch.manual_seed(0)
    model = attach_lora(bench.policy(), config.model.lora)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=1.0)
    return model


def reference_completions(of=2):
    """What a reference may have drawn: some finished, some cut off."""
    return {
        problem.id: [
            Completion(problem.id, i, 0, f"{problem.gold}{'x' * i}", 3, ("stop", "length")[i % 2])
            for i in range(of)
        ]
        for _, problem in PROMPTS
    }


def fixed_completions(
    self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False
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
