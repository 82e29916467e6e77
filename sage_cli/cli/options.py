"""The options that commands share, and how they become a configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_cli.cli.console import console
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.config.load import Loaded
    from sage_cli.config.schema import SageConfig
    from sage_cli.evaluation.logs.log import ReadOptions

METHOD, TRAINING, MEASUREMENT = "Method", "Training", "Measurement"
CONFIGURATION, OUTPUT = "Configuration", "Plan and output"
"""The groups of options that a command's help shows."""


def option(panel: str, description: str, *names: str) -> Any:
    """An option in a group of a command's help; without `names` it is called as its parameter."""
    return typer.Option(*names, help=description, rich_help_panel=panel)


Presets = Annotated[
    list[str] | None,
    option(
        CONFIGURATION,
        "Preset: a name or a YAML file. Repeat it to combine presets; later ones override "
        "earlier ones.",
        "--preset",
        "-p",
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(
        CONFIGURATION,
        "File of a stored configuration, for example runs/ID/config.json.",
        "--config",
    ),
]
Sets = Annotated[
    list[str] | None,
    option(
        CONFIGURATION,
        "Override a setting, for example rl.steps=100; repeatable. `sage config show` lists "
        "all settings with their values.",
        "--set",
    ),
]
Algo = Annotated[
    str | None,
    option(
        METHOD,
        "Method of RL: grpo (default), bnpo, dapo, dr-grpo, ... `sage config algos` lists all.",
        "--algo",
    ),
]
GuideName = Annotated[
    str | None,
    option(
        METHOD,
        "Guide, which multiplies the reference of the KL term by q: none (default), random, "
        "token, branch, shuffled, rapo, or your own. It adds a KL term to a method without one.",
        "--guide",
    ),
]
LearningRate = Annotated[float | None, option(TRAINING, "Peak learning rate.", "--lr")]
Json = Annotated[
    bool, option(OUTPUT, "Print one JSON object on stdout and nothing else.", "--json")
]
DryRun = Annotated[
    bool, option(OUTPUT, "Print the plan without running or writing anything.", "--dry-run")
]


def _gpu_gb(text: str) -> int:
    """Return the GB in `80`, or at the end of a name as `h100-80g`."""
    size = re.fullmatch(r"(?:[\w-]+-)?(\d+)g?", text, re.IGNORECASE)
    if size is None:
        raise typer.BadParameter(
            "give the GPU's memory in GB, for example 80, or a name that ends with it, for "
            "example h100-80g"
        )
    return int(size[1])


Gpu = Annotated[
    int | None,
    typer.Option(
        "--gpu",
        parser=_gpu_gb,
        metavar="GB",
        help=(
            "With --dry-run: check whether the plan fits a GPU with this much memory in GB, for "
            "example 80 or h100-80g."
        ),
        rich_help_panel=OUTPUT,
    ),
]
Fresh = Annotated[bool, option(TRAINING, "Delete the stored run and train it again.", "--fresh")]
MeasureToo = Annotated[
    bool,
    option(
        OUTPUT,
        "Measure the trained model on evaluation.benchmark and store its pass@k.",
        "--measure",
    ),
]
RunName = Annotated[str, typer.Argument(help="ID of a run, or an unambiguous part of it.")]
RunRoot = Annotated[
    Path | None, option(CONFIGURATION, "Folder of runs (default: $SAGE_RUNS or runs).", "--runs")
]
BenchmarkNames = Annotated[
    str | None,
    option(
        MEASUREMENT,
        "Comma-separated benchmarks, or a file of problems (default: the preset's "
        "evaluation.benchmark).",
        "--benchmark",
        "-b",
    ),
]
Samples = Annotated[int | None, option(MEASUREMENT, "Number of samples per problem.", "--n")]
Seeds = Annotated[int | None, option(MEASUREMENT, "Number of evaluation seeds.", "--seeds")]
Data = Annotated[
    str | None,
    option(
        TRAINING,
        "Training problems: a name from `sage data list`, a Hub data set ORG/NAME, or a file.",
    ),
]
QuestionField = Annotated[
    str | None, option(TRAINING, "Column with the questions in a file.", "--question-field")
]
GoldField = Annotated[
    str | None, option(TRAINING, "Column with the reference answers in a file.", "--gold-field")
]
Init = Annotated[
    str | None,
    option(TRAINING, "Run or model to start RL from, instead of the preset's initial policy."),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "Runs (an ID or a part of it), checkpoints (RUN@step, RUN@all), model folders, or "
            "Hub models (ORG/MODEL)."
        )
    ),
]
OtherTemplate = Annotated[
    bool,
    option(
        CONFIGURATION,
        "Allow another prompt template than the run was trained with.",
        "--allow-template-mismatch",
    ),
]
Compat = Annotated[
    str | None,
    option(
        MEASUREMENT,
        "official: use the settings of the authors' code where they differ from the paper.",
        "--compat",
    ),
]
Tau = Annotated[
    float | None,
    option(METHOD, "Threshold of the branch guide: the entropy in nats above which q rises."),
]
Rho = Annotated[
    float | None,
    option(METHOD, "Slope of the branch guide: the amount by which q rises per nat above tau."),
]
Limit = Annotated[
    int | None, option(MEASUREMENT, "Use only the first N problems of each benchmark.", "--limit")
]
SecondJudge = Annotated[
    str | None,
    typer.Option(
        "--second-judge",
        "--grade",
        help=(
            "Count a sample only if a second judge accepts it, too: `working` (the worked "
            "solution, on arithmetic), a Python function (FILE.py:FUNCTION of question, "
            "completion and gold), or a served model (MODEL@http://HOST:PORT)."
        ),
    ),
]
Guess = Annotated[
    str | None,
    typer.Option(
        help="Add the pass@k of a guess: FILE.py:FUNCTION of question and gold returns the "
        "probability that one guess is correct; another FILE has a baseline's samples."
    ),
]
ScoreNames = Annotated[
    list[str] | None,
    option(
        MEASUREMENT,
        "Score in a log that marks a sample as correct; repeat it once per log.",
        "--score",
    ),
]
Fields = Annotated[
    str | None,
    option(
        MEASUREMENT,
        "Columns of a file: problem=task,correct=is_correct names two. Also question, "
        "choices, gold, completion, n and c; a dotted path reaches inside.",
        "--fields",
    ),
]
Golds = Annotated[
    list[Path] | None,
    option(
        MEASUREMENT,
        "A file with the questions or golds that a log lacks, by id: the input of an OpenAI "
        "batch, or rows with id, question and gold; repeatable.",
        "--golds",
    ),
]
DropInvalidated = Annotated[
    bool,
    option(
        MEASUREMENT,
        "Leave out samples that are marked as invalid in a log of Inspect.",
        "--drop-invalidated",
    ),
]
Ks = Annotated[
    str | None,
    option(MEASUREMENT, "Values of k, for example 1..256, 1,8,64 or 1..256:pow2.", "--k"),
]


def load_config(
    presets: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    command: str | None = None,
    **flags: dict[str, Any],
) -> SageConfig:
    """Return the checked configuration of presets, flags (nested by section) and `--set`.

    Raises ConfigurationError for a value that `command` never reads.
    """
    from sage_cli.config.unread_settings import check_settings_read

    loaded = load_typed(presets, config, sets, **flags)
    if command is not None:
        check_settings_read(loaded, command)
    return loaded.config


def load_typed(
    presets: list[str] | None, config: Path | None, sets: list[str] | None, **flags: dict[str, Any]
) -> Loaded:
    """Return the configuration of what is typed, with the origins of its values."""
    from sage_cli.config.load import load
    from sage_cli.settings.presets import read_layer

    stored = read_layer(config) if config is not None else None
    return load(presets or (), flags, sets or (), stored)


def load_for_measuring(
    names: Sequence[str],
    preset: list[str] | None,
    config: Path | None,
    sets: list[str] | None,
    runs: Path | None,
    command: str | None = None,
    **flags: dict[str, Any],
) -> SageConfig:
    """Return the configuration that the named models are measured with, and print its note."""
    from sage_cli.models.measured_settings import load_measured_settings

    settings, note = load_measured_settings(
        names, preset or (), config, sets or (), runs, command, flags
    )
    if note is not None:
        console.print(note, soft_wrap=True)
    return settings


def with_training_seeds(
    names: Sequence[str], preset: list[str] | None, sets: list[str] | None, runs: Path | None
) -> list[str]:
    """Return `names`, with each `NAME@seeds` replaced by the method's finished runs."""
    from sage_cli.config.load import runs_root
    from sage_cli.models.compatibility import named_training_seeds
    from sage_cli.store.run import Runs

    root = runs_root(preset or (), runs, sets or ())
    return named_training_seeds([name.strip() for name in names], Runs(root))


def file_reading(
    fields: str | None, golds: list[Path] | None, drop_invalidated: bool, score: str | None = None
) -> ReadOptions:
    """Return how files are read, by the options that commands on files share."""
    from sage_cli.evaluation.logs.log import ReadOptions
    from sage_cli.evaluation.logs.row_fields import parse_fields

    return ReadOptions(score, parse_fields(fields), tuple(golds or ()), drop_invalidated)


def are_files(names: Sequence[str] | None, **typed: object) -> bool:
    """Return True if files of samples or counts are named; `typed` are options by name.

    Raises ConfigurationError for an option that only samples taken here could follow.
    """
    from sage_cli.evaluation.logs.registry import is_file

    if not any(map(is_file, names or ())):
        return False
    if idle := [f"--{name.replace('_', '-')}" for name, value in typed.items() if value]:
        raise ConfigurationError(
            f"{idle[0]} has no effect on samples that are in files", "leave it out"
        )
    return True


def labelled_names(typed: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """`RUN=Label` as the run's name, and the labels by name; a path that exists has none."""
    from sage_cli.config.explain import typed_as_setting
    from sage_cli.models.policy import split_label

    for text in typed:
        if "." in text.partition("=")[0] and (line := typed_as_setting(text)):
            raise ConfigurationError(f"{text} would name a run", f"write {line}")
    pairs = [split_label(text) for text in typed]
    return [name for name, _ in pairs], {name: label for name, label in pairs if label}


def evaluation_flags(
    benchmark: str | None,
    k: str | None,
    n: int | None,
    seeds: int | None,
    limit: int | None,
    allow_template_mismatch: bool,
    compat: str | None = None,
) -> dict[str, Any]:
    """The flags that measuring commands share, as settings of `evaluation`."""
    return {
        "benchmark": benchmark,
        "k": k,
        "samples": n,
        "seeds": seeds,
        "limit": limit,
        "allow_template_mismatch": allow_template_mismatch or None,
        "compat": compat,
    }


def check_gpu_option(gpu: int | None, dry_run: bool) -> None:
    """Raise ConfigurationError for a GPU that is named where nothing would read it."""
    if gpu is not None and not dry_run:
        raise ConfigurationError(
            f"--gpu {gpu} only has an effect on a plan, and --dry-run is missing",
            "add --dry-run, or leave out --gpu",
        )
