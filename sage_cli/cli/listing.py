"""The commands as `sage --help` lists them, without an import of their files."""

from __future__ import annotations

from typing import NamedTuple


class _Entry(NamedTuple):
    """A command as `sage --help` lists it, without an import of its file, which has its name."""

    help: str
    """The first sentence of the command's own help; a test compares both."""

    example: str
    """A command line that the help page ends with."""


PANELS = {
    "Train": {
        "sft": _Entry(
            "Train the initial policy by supervised fine-tuning (SFT), or reuse its finished run.",
            "sage sft --preset smollm2-135m",
        ),
        "rl": _Entry(
            "Train a model with RL, optionally with a guide that reshapes the KL anchor.",
            "sage rl --algo dapo --guide branch --steps 100",
        ),
        "export": _Entry(
            "Export a run as a Hugging Face folder, with adapters merged and a model card.",
            "sage export rl-dapo-branch ./my-policy --dtype bfloat16",
        ),
    },
    "Measure": {
        "eval": _Entry(
            "Tabulate pass@k of runs or models over benchmarks and seeds.",
            "sage eval rl-dapo-branch --benchmark aime,amc23 --k 1,64",
        ),
        "passk": _Entry(
            "Measure pass@k of runs, models or files (default: the latest run).",
            "sage passk rl-dapo-branch --benchmark math500 --n 64 --k 1..64",
        ),
        "compare": _Entry(
            "Compare pass@k of two models, or of two methods over their training seeds.",
            "sage compare rl-dapo-branch rl-dapo --k 1,64,256",
        ),
        "analyze": _Entry(
            "Analyse stored samples and records, for example their patterns, support or diversity.",
            "sage analyze support rl-dapo-branch --base sft-arithmetic",
        ),
        "power": _Entry(
            "Estimate the smallest difference of pass@k that problems, samples and seeds "
            "can detect.",
            "sage power sft-arithmetic --problems 500 --k 1,64",
        ),
        "grade": _Entry(
            "Grade the completions in a file; --mode both shows where sage and Math-Verify "
            "disagree.",
            "sage grade completions.jsonl --mode both",
        ),
    },
    "Search": {
        "sweep": _Entry(
            "Search for settings with Optuna: train and measure the trials of a search space.",
            "sage sweep --space tau,rho --sampler tpe --trials 30",
        ),
        "suite": _Entry(
            "Run a table or a figure of the paper, or your own study, and write its report.",
            "sage suite run table1 --preset tiny --seeds 3",
        ),
    },
    "Look": {
        "runs": _Entry("List, show and remove runs.", "sage runs show rl-dapo-branch"),
        "samples": _Entry(
            "Read completions, whole or token by token, or import those of another program.",
            "sage samples show rl-dapo-branch --grade wrong",
        ),
        "view": _Entry(
            "Browse runs, samples, sweeps and suites in a browser, without changing anything.",
            "sage view",
        ),
    },
    "Set up": {
        "demo": _Entry(
            "Train with DAPO without a KL term and with the branch guide, and compare pass@k.",
            "sage demo",
        ),
        "init": _Entry(
            "Create a small study with a preset, problems, a suite, and a README with its "
            "commands.",
            "sage init my-study",
        ),
        "data": _Entry(
            "List data sets, show their problems, and look for overlaps or memorised problems.",
            "sage data show aime24",
        ),
        "config": _Entry(
            "Show and explain configurations, and list methods and presets.",
            "sage config show --preset smollm2-135m --origin",
        ),
        "doctor": _Entry(
            "Check whether a preset, a model and data can be used on this machine; exit "
            "with 1 if not.",
            "sage doctor --preset qwen2.5-math-7b",
        ),
    },
}
"""The panels of `sage --help` with their commands."""

COMMANDS = {name: entry for entries in PANELS.values() for name, entry in entries.items()}
"""Every command, in the order of `sage --help`."""
