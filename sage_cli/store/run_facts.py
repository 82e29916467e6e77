"""What is known of runs, by the names that people use: settings, manifest, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from sage_cli.config.fields import settings
from sage_cli.config.layers import leaves
from sage_cli.errors import ConfigurationError
from sage_cli.store.evaluations import evaluation_figures
from sage_cli.store.run import Run

ABOUT = ("id", "kind", "status", "parent", "seed", "started", "seconds", "host", "commit",
         "command", "template", "sweep", "reason")  # fmt: skip
"""What a manifest says that may be a column."""

OF_RL = ("rl", "rollout", "anchor", "guide")
"""Sections that a base's configuration holds too, because RL asked for it, and that it didn't read.
"""


OF_THE_METHOD = {
    "sft": ("data.sft.name", "sft.learning_rate", "sft.steps", "sft.epochs"),
    "rl": ("rl.algo", "rl.advantage", "guide", "anchor.kl", "anchor.estimator", "anchor.beta",
           "rl.learning_rate", "rl.steps"),
}  # fmt: skip
"""By kind of run, the settings that say how it was trained; a section stands for all of its own."""


@dataclass(frozen=True)
class RunFacts:
    """A run's settings by dotted name, its manifest's `about`, and its figures.

    Figures are the last step's metrics and, as `pass@1 on arithmetic`, what evaluations found.
    """

    run: Run
    settings: Mapping[str, Any]
    about: Mapping[str, Any]
    figures: Mapping[str, Any]

    @classmethod
    def of(cls, run: Run) -> RunFacts:
        """Read a run's files. Raises StoreError where one of them is torn."""
        manifest = {**run.manifest, "id": run.id, "status": run.status}
        unread = OF_RL if manifest.get("kind") == "sft" else ()
        records = run.metrics.read()
        found = {_of_benchmark(key): value for key, value in evaluation_figures(run).items()}
        return cls(
            run,
            dict(leaves({k: v for k, v in run.config.items() if k not in unread})),
            {key: manifest.get(key) for key in ABOUT},
            {**(records[-1] if records else {}), **found},
        )

    @classmethod
    def listed(cls, run: Run) -> RunFacts:
        """The same; of a torn run its id and status, and what the manifest says where it can."""
        torn = run.torn
        if torn is None:
            return cls.of(run)
        manifest = {**run.known, "id": run.id, "status": run.status, "reason": torn.cause}
        return cls(run, {}, {key: manifest.get(key) for key in ABOUT}, {})

    @property
    def method(self) -> dict[str, Any]:
        """The settings that say how it was trained: algorithm, guide, anchor, learning rate."""
        named = OF_THE_METHOD.get(str(self.about["kind"]), ())
        return {
            key: value
            for name in named
            for key, value in self.settings.items()
            if f"{key}.".startswith(f"{name}.") and value is not None
        }

    def value(self, column: str) -> Any:
        """A setting, a part of the manifest or a figure; None where the run has none of it."""
        for group in (self.settings, self.about, self.figures):
            if column in group:
                return group[column]
        return None


def expanded(columns: str, runs: Sequence[RunFacts]) -> list[str]:
    """`guide.tau,pass@1` -> the columns that are meant: `pass@1` is one for each benchmark.

    Raises ConfigurationError for a column that neither the schema nor any run knows.
    """
    found: list[str] = []
    for typed in filter(None, map(str.strip, columns.split(","))):
        measured = [key for one in runs for key in one.figures if key.startswith(f"{typed} on ")]
        found += list(dict.fromkeys(measured)) or [_known(typed, runs, "column")]
    return found


def chosen(runs: Sequence[RunFacts], where: Sequence[str]) -> list[RunFacts]:
    """The runs for which every `key=value` of `where` holds.

    Raises ConfigurationError for a key that neither the schema nor any run knows.
    """
    asked = []
    for text in where:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(
                f"--where takes setting=value, not '{text}'",
                "for example --where guide.name=branch",
            )
        asked.append((_known(key.strip(), runs, "setting"), value.strip()))
    return [one for one in runs if all(_is(one.value(key), value) for key, value in asked)]


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What two runs say differently, by name; what only one has is None in the other."""
    return {
        key: (a.get(key), b.get(key)) for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)
    }


def _of_benchmark(key: str) -> str:
    """`eval/arithmetic/pass@1` -> `pass@1 on arithmetic`."""
    _, benchmark, name = key.split("/", 2)
    return f"{name} on {benchmark}"


def _known(name: str, runs: Sequence[RunFacts], what: str) -> str:
    known = {*settings(), *ABOUT, *(key for one in runs for key in (*one.settings, *one.figures))}
    if name in known or name.startswith("pass@"):  # not measured yet: an empty column
        return name
    close = get_close_matches(name, known, n=1)
    raise ConfigurationError(
        f"no run has a {what} '{name}'",
        f"did you mean {close[0]}?" if close else "`sage config show` prints every setting",
    )


def _is(value: Any, asked: str) -> bool:
    """Whether a value is what was typed: as a number where it is one, 1e-5 and 0.00001 alike."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(asked) == value
        except ValueError:
            return False
    return str(value) == asked or bool(value == yaml.safe_load(asked))
