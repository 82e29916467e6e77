"""The commands as `sage --help` lists them, without an import of their files."""

from __future__ import annotations

from typing import NamedTuple


class _Entry(NamedTuple):
    """A command as `sage --help` lists it, without an import of its file, which has its name."""

    help: str
    """The first sentence of the command's own help; a test compares both."""

    example: str
    """A command line that the help page ends with."""

    needs: str = ""
    """What the example needs, if an empty folder isn't enough."""

    @property
    def epilog(self) -> str:
        """Return the end of the help page: the example, below what it needs."""
        needs = f"The example needs {self.needs}.\n\n" if self.needs else ""
        return f"{needs}Example: {self.example}"


_GUIDED, _BASELINE = "`sage rl --algo dapo --guide branch`", "`sage rl --algo dapo --kl reverse`"
_SAMPLED = "`sage passk sft-arithmetic rl-dapo-branch`"


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
            f"the run of {_GUIDED}",
        ),
    },
    "Measure": {
        "eval": _Entry(
            "Tabulate pass@k of runs or models over benchmarks and seeds.",
            "sage eval rl-dapo-branch --k 1,64",
            f"the run of {_GUIDED}",
        ),
        "passk": _Entry(
            "Measure pass@k of runs, models or files (default: the latest run).",
            "sage passk rl-dapo-branch --n 64 --k 1..64",
            f"the run of {_GUIDED}",
        ),
        "compare": _Entry(
            "Compare pass@k of two models, or of two methods over their training seeds.",
            "sage compare rl-dapo-branch rl-dapo-kl --k 1,64",
            f"the runs of {_GUIDED} and {_BASELINE}",
        ),
        "analyze": _Entry(
            "Analyse stored samples and records, for example their patterns, support or diversity.",
            "sage analyze support rl-dapo-branch --base sft-arithmetic",
            f"the run of {_GUIDED}, and the samples of {_SAMPLED}",
        ),
        "power": _Entry(
            "Estimate the smallest difference of pass@k that problems, samples and seeds "
            "can detect.",
            "sage power rl-dapo-branch --problems 500 --k 1,64",
            f"the run of {_GUIDED}, and the samples of `sage passk rl-dapo-branch`",
        ),
        "grade": _Entry(
            "Grade the completions in a file; --mode both shows where sage and Math-Verify "
            "disagree.",
            "sage grade completions.jsonl --mode both",
            "a file whose rows have a question, a gold and a completion",
        ),
    },
    "Search": {
        "sweep": _Entry(
            "Search for settings with Optuna: train and measure the trials of a search space.",
            "sage sweep --space tau=0.2:0.8,rho=0.3:1.2 --sampler tpe --trials 30",
        ),
        "suite": _Entry(
            "Run a table or a figure of the paper, or your own study, and write its report.",
            "sage suite run table1 --preset tiny --seeds 3",
        ),
    },
    "Look": {
        "runs": _Entry(
            "List, show and remove runs.",
            "sage runs show rl-dapo-branch",
            f"the run of {_GUIDED}",
        ),
        "samples": _Entry(
            "Read completions, whole or token by token, or import those of another program.",
            "sage samples show rl-dapo-branch --grade wrong",
            f"the run of {_GUIDED}, and the samples of `sage passk rl-dapo-branch`",
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
            "sage data show arithmetic",
        ),
        "config": _Entry(
            "Show and explain configurations, and list methods and presets.",
            "sage config show --preset smollm2-135m --origin",
        ),
        "doctor": _Entry(
            "Check whether a preset, a model and data can be used on this machine; exit "
            "with 1 if not.",
            "sage doctor --preset tiny",
        ),
    },
}
"""The panels of `sage --help` with their commands."""

COMMANDS = {name: entry for entries in PANELS.values() for name, entry in entries.items()}
"""Every command, in the order of `sage --help`."""
