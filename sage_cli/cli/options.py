"""The options that commands share, and how they become a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_cli.cli import completions

if TYPE_CHECKING:
    from sage_cli.config.load import Loaded

METHOD, TRAINING, MEASUREMENT = "Method", "Training", "Measurement"
CONFIGURATION, OUTPUT = "Configuration", "Plan and output"
"""The groups of options that a command's help shows."""


def option(
    panel: str, description: str, *names: str, completed: Callable[..., list[str]] | None = None
) -> Any:
    """An option in a group of a command's help; without `names` it is called as its parameter.

    `completed` gives a shell the values that begin with what is typed.
    """
    return typer.Option(*names, help=description, rich_help_panel=panel, autocompletion=completed)


Presets = Annotated[
    list[str] | None,
    option(
        CONFIGURATION,
        "A preset's name or YAML file; repeatable, later ones win.",
        "--preset",
        "-p",
        completed=completions.presets,
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(CONFIGURATION, "A stored configuration, as runs/ID/config.json.", "--config"),
]
Sets = Annotated[
    list[str] | None,
    option(
        CONFIGURATION,
        "A setting as section.key=value, over all others; repeatable.",
        "--set",
        completed=completions.settings,
    ),
]
Algo = Annotated[
    str | None,
    option(
        METHOD,
        "grpo, dapo, ...: `sage config algos` lists them.",
        "--algo",
        completed=completions.methods,
    ),
]
Guide = Annotated[
    str | None,
    option(
        METHOD,
        "none, branch, ...: `sage config explain guide.name` lists them.",
        "--guide",
        completed=completions.guides,
    ),
]
LearningRate = Annotated[float | None, option(TRAINING, "Peak learning rate.", "--lr")]
Json = Annotated[bool, option(OUTPUT, "One JSON object on stdout, nothing else.", "--json")]
DryRun = Annotated[bool, option(OUTPUT, "Print the plan and touch nothing.", "--dry-run")]
Gpu = Annotated[
    str | None,
    option(OUTPUT, "With --dry-run: compare the memory needed with a GPU's, as h100-80g.", "--gpu"),
]
Fresh = Annotated[
    bool,
    option(TRAINING, "Start over; what is there stays until the new run is finished.", "--fresh"),
]
Measure = Annotated[
    bool,
    option(
        OUTPUT, "Then measure the model on evaluation.benchmark, and keep the figures.", "--measure"
    ),
]
ReplaceParent = Annotated[
    bool, option(TRAINING, "With --fresh: replace a run that others grew from.", "--replace-parent")
]
RunName = Annotated[
    str,
    typer.Argument(
        help="A run's id, or an unambiguous part of one.", autocompletion=completions.runs
    ),
]
RunRoot = Annotated[
    Path | None, option(CONFIGURATION, "Folder of runs (default: $SAGE_RUNS or runs).", "--runs")
]
Benchmark = Annotated[
    str | None,
    option(
        MEASUREMENT,
        "Benchmarks, comma-separated, or a file of problems.",
        "--benchmark",
        "-b",
        completed=completions.benchmarks,
    ),
]
Samples = Annotated[int | None, option(MEASUREMENT, "Samples per problem.", "--n")]
Seeds = Annotated[int | None, option(MEASUREMENT, "How many evaluation seeds.", "--seeds")]
Data = Annotated[
    str | None,
    option(
        TRAINING,
        "Problems of RL: a name of `sage data list`, or a JSONL, CSV or Parquet file.",
        completed=completions.benchmarks,
    ),
]
Init = Annotated[
    str | None,
    option(
        TRAINING,
        "Start from this run or model, not from the preset's initial policy.",
        completed=completions.runs,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Runs by id or part of one, RUN@step, RUN@all, model folders, ORG/MODEL of the Hub.",
        autocompletion=completions.runs,
    ),
]
OtherTemplate = Annotated[
    bool,
    option(
        CONFIGURATION,
        "Prompt a run in another way than it was trained with.",
        "--allow-template-mismatch",
    ),
]
Compat = Annotated[
    str | None,
    option(
        MEASUREMENT, "official: the authors' settings, where they differ from ours.", "--compat"
    ),
]
Train = Annotated[
    bool | None,
    option(
        MEASUREMENT,
        "Where there is no run to measure, train the preset's initial policy. Default: "
        "ask; without a terminal only the built-in tiny one is trained.",
    ),
]
Tau = Annotated[float | None, option(METHOD, "Branch guide: entropy in nats above which q rises.")]
Rho = Annotated[float | None, option(METHOD, "Branch guide: how steeply q rises above tau.")]
Limit = Annotated[int | None, option(MEASUREMENT, "Only so many problems of each.", "--limit")]
Ks = Annotated[
    str | None, option(MEASUREMENT, "Values of k: 1..256, 1,8,64 or 1..256:pow2.", "--k")
]


def load_config(
    presets: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    **flags: dict[str, Any],
) -> Loaded:
    """Resolve presets, flags (nested by section) and `--set` into a checked configuration."""
    from sage_cli.config.load import load
    from sage_cli.settings.presets import read_layer

    stored = read_layer(config) if config is not None else None
    return load(presets or (), flags, sets or (), stored)
