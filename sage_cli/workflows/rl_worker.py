"""One of several processes that train together: python -m sage_cli.workflows.rl_worker RUN."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sage_cli.config.model import PretrainedModel
from sage_cli.config.schema import SageConfig
from sage_cli.errors import TrainingError
from sage_cli.policies.policy import Policy
from sage_cli.problems.training import load_training_problems
from sage_cli.store.atomic import write_json
from sage_cli.store.run import Run
from sage_cli.training.launch import (
    accelerate_configuration,
    launch_command,
    run_together,
    world_size,
)
from sage_cli.training.rl import prepare_resume
from sage_cli.training.step_writer import OnStep
from sage_cli.workflows.rl_training import train_policy

BASE_FILE = "base.json"


def train_in_processes(config: SageConfig, base: Policy, run: Run, on_step: OnStep) -> None:
    """Train `run` in `rl.processes` processes of this machine, hearing their steps."""
    section = base.section.model_dump(mode="json") if base.section else None
    write_json(run.folder / BASE_FILE, {"path": base.path, "section": section})
    prepare_resume(run)
    module = ["sage_cli.workflows.rl_worker", str(run.folder)]
    by = accelerate_configuration(config.rl.accelerate) if config.rl.accelerate else None
    command = launch_command(config.rl.processes, module, by)
    run_together(command, run.metrics.path, run.folder / "processes.log", on_step)


def main(folder: Path) -> None:
    """Train what `folder`'s config.json and base.json say, together with the other processes."""
    run = Run(folder)
    config = SageConfig.model_validate(run.config)
    if world_size() != config.rl.processes:
        raise TrainingError(
            f"the launcher started {world_size()} of {config.rl.processes} processes: alone, they "
            "would train another run than the one asked for"
        )
    order = json.loads((folder / BASE_FILE).read_text(encoding="utf-8"))
    section = PretrainedModel.model_validate(order["section"]) if order["section"] else None
    base = Policy(order["path"], section=section)
    train_policy(config, base, load_training_problems(config), run, lambda _: None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
