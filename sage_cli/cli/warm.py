"""`python -m sage_cli.cli.warm`: a process with loaded libraries, from which tasks are forked.

The executor of this machine starts it (trials/executors/warm_process.py); nobody types it.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

import sage_cli.cli.app  # noqa: F401 (sets the environment of the libraries)
from sage_cli.trials.executors.fork_server import execute, serve

MODULES = (
    "torch", "transformers", "accelerate", "datasets", "peft", "trl", "wandb",
    "transformers.models.qwen2.modeling_qwen2",
    "sage_cli.training.rl", "sage_cli.training.sft", "sage_cli.training.reward_training",
    "sage_cli.training.rollouts.policy_rollouts", "sage_cli.training.validation",
    "sage_cli.sampling.decoder.transformers_sampler",
    "sage_cli.cli.train.rl", "sage_cli.cli.train.sft", "sage_cli.cli.measure.evaluate",
    "sage_cli.commands.train.rl", "sage_cli.commands.train.sft",
)  # fmt: skip
"""What a task of training or measuring loads. Between two of them the server looks whether its
owner lives, so the large libraries stand by themselves."""


def run(words: Sequence[str]) -> None:
    """Run a command line in this process: one of `sage` as `python -m sage_cli` would."""
    if tuple(words[:3]) != (sys.executable, "-m", "sage_cli"):
        execute(words)
    sys.argv[:], sys.orig_argv[:] = words[2:], words
    runpy.run_module("sage_cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if (line := serve(MODULES)) is not None:
        run(line)
