"""The options that commands share, and how they become a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sage_cli.config.load import Loaded

METHOD, TRAINING, MEASUREMENT = "Method", "Training", "Measurement"
CONFIGURATION, OUTPUT = "Configuration", "Plan and output"
"""The groups of options that a command's help shows."""

Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        "-p",
        help="A preset's name or YAML file; repeatable, later ones win.",
        rich_help_panel=CONFIGURATION,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A stored configuration, as runs/ID/config.json.",
        rich_help_panel=CONFIGURATION,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="A setting as section.key=value, over all others; repeatable.",
        rich_help_panel=CONFIGURATION,
    ),
]
Algo = Annotated[
    str | None,
    typer.Option(
        "--algo", help="grpo, dapo, ...: `sage algos` lists them.", rich_help_panel=METHOD
    ),
]
Guide = Annotated[
    str | None,
    typer.Option(
        "--guide",
        help="none, branch, ...: `sage config explain guide.name` lists them.",
        rich_help_panel=METHOD,
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option("--lr", help="Peak learning rate.", rich_help_panel=TRAINING),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="One JSON object on stdout, nothing else.", rich_help_panel=OUTPUT),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the plan and touch nothing.", rich_help_panel=OUTPUT),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        help="With --dry-run: compare the memory needed with a GPU's, as h100-80g.",
        rich_help_panel=OUTPUT,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Start over; what is there stays until the new run is finished.",
        rich_help_panel=TRAINING,
    ),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="Then measure the model on evaluation.benchmark, and keep the figures.",
        rich_help_panel=OUTPUT,
    ),
]
ReplaceParent = Annotated[
    bool,
    typer.Option(
        "--replace-parent",
        help="With --fresh: replace a run that others grew from.",
        rich_help_panel=TRAINING,
    ),
]
RunName = Annotated[str, typer.Argument(help="A run's id, or an unambiguous part of one.")]
RunRoot = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        help="Folder of runs (default: $SAGE_RUNS or runs).",
        rich_help_panel=CONFIGURATION,
    ),
]
Benchmark = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        "-b",
        help="Benchmarks, comma-separated, or a file of problems.",
        rich_help_panel=MEASUREMENT,
    ),
]
Samples = Annotated[
    int | None, typer.Option("--n", help="Samples per problem.", rich_help_panel=MEASUREMENT)
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", help="How many evaluation seeds.", rich_help_panel=MEASUREMENT),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Runs by id or part of one, RUN@step, RUN@all, model folders, or ORG/MODEL of the Hub."
    ),
]
OtherTemplate = Annotated[
    bool,
    typer.Option(
        "--allow-template-mismatch",
        help="Prompt a run in another way than it was trained with.",
        rich_help_panel=CONFIGURATION,
    ),
]
Compat = Annotated[
    str | None,
    typer.Option(
        "--compat",
        help="official: the authors' settings, where they differ from ours.",
        rich_help_panel=MEASUREMENT,
    ),
]
Train = Annotated[
    bool | None,
    typer.Option(
        help="Where there is no run to measure, train the preset's base. Default: ask; without a "
        "terminal only the built-in tiny base is trained.",
        rich_help_panel=MEASUREMENT,
    ),
]
Tau = Annotated[
    float | None,
    typer.Option(help="Branch guide: entropy in nats above which q rises.", rich_help_panel=METHOD),
]
Rho = Annotated[
    float | None,
    typer.Option(help="Branch guide: how steeply q rises above tau.", rich_help_panel=METHOD),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", help="Only so many problems of each.", rich_help_panel=MEASUREMENT),
]
Ks = Annotated[
    str | None,
    typer.Option(
        "--k", help="Values of k: 1..256, 1,8,64 or 1..256:pow2.", rich_help_panel=MEASUREMENT
    ),
]


def load_config(
    presets: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    **flags: dict[str, Any],
) -> Loaded:
    """Resolve presets, flags (nested by section) and `--set` into a checked configuration."""
    from sage_cli.config.load import load
    from sage_cli.config.presets import read_layer

    stored = read_layer(config) if config is not None else None
    return load(presets or (), flags, sets or (), stored)
