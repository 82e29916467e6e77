"""Facts of runs, by the names that people use: settings, manifest, numbers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice
from pathlib import Path
from statistics import median
from sys import intern
from typing import Any

import yaml

from sage_cli.errors import ConfigurationError, StoreError, did_you_mean
from sage_cli.json_value import json_value
from sage_cli.settings.former_names import today
from sage_cli.settings.yaml_files import yaml_value
from sage_cli.store.evaluations import evaluations
from sage_cli.store.run import CORRUPT, METRICS, Run

ABOUT = (
    "id",
    "kind",
    "status",
    "parent",
    "seed",
    "created",
    "started",
    "seconds",
    "host",
    "commit",
    "command",
    "template",
    "sweep",
    "reason",
)
"""The keys of a manifest that may be columns."""
OF_RL = ("rl", "rollout", "anchor", "guide")
"""Sections in the configuration of an initial policy that only RL reads."""
SEEDS = ("rl.seed", "sft.seed")
OF_NO_RESULT = ("run", "tracking", "executor")
_OF_NO_TRAINING = (*OF_NO_RESULT, "evaluation", "sampling", "sweep")
"""Sections that decide no result, and those that decide no training."""
CHOICES = ("rl.algo", "guide.name", "model.kind")
"""Settings by which others get their defaults."""
OF_THE_METHOD = {
    "sft": ("data.sft.name", "sft.learning_rate", "sft.steps", "sft.epochs"),
    "rl": (
        "rl.algo",
        "rl.advantage",
        "guide",
        "anchor.kl",
        "anchor.estimator",
        "anchor.beta",
        "rl.learning_rate",
        "rl.steps",
    ),
}
"""By kind of run, the settings or sections that say how it was trained."""
_TYPICAL = ("time/step_s", "time/generated_tokens_per_s", "time/trained_tokens_per_s")
PHASES = ("generate", "sync", "grade", "reference", "loss")
"""Sampling completions, handing weights to the engine, grading, log-probabilities of frozen and
earlier policies, and the loss with its gradients. What is left of a step is mostly the optimiser's.
"""
_NOTHING: Mapping[str, Any] = {}


@lru_cache(maxsize=4096)
def _section(text: str) -> Mapping[str, Any]:
    """Return the settings of a section, of which `text` is name and JSON, by dotted name."""
    from sage_cli.json_value import leaves

    section = today(json_value(f"{{{text}}}"))
    return {intern(key): value for key, value in leaves(section)}


def _written_sections(path: Path) -> dict[str, str]:
    """Return the text of each section of a configuration, by name; the whole isn't parsed.

    Of 20,000 runs nearly all have nearly all sections of another's. Raises ValueError where the
    file isn't as sage writes it.
    """
    text = path.read_bytes().decode()
    if not (text.startswith('{\n  "') and text.endswith("\n}\n")):
        raise ValueError
    return {part.partition('"')[0]: f'"{part}' for part in text[5:-3].split(',\n  "')}


@dataclass(frozen=True)
class RunFacts:
    """A run's configuration as far as its kind reads it, its manifest's `about`, and its figures.

    Figures are the last step's metrics and those of evaluations, such as `pass@1 on arithmetic`.
    The configuration is read when it is asked for, which raises StoreError if it is corrupt.
    """

    run: Run
    about: Mapping[str, Any]
    figures: Mapping[str, Any]

    @classmethod
    def from_run(cls, run: Run) -> RunFacts:
        """Return the facts in a run's files. Raises StoreError if its manifest is corrupt."""
        state = run.read(manifest_alone=True)
        if state.corruption is not None:
            raise state.corruption
        read = state.manifest
        manifest = {**read, "id": run.id, "status": state.status}
        # of 20,000 runs only the ends of their records are read, so that is what is compared;
        # those that ended before ends were noted are read whole
        ends = read.get("ends")
        is_older = ends is None and read.get("files") is not None
        end = (ends or {}).get(METRICS)
        figures = dict(run.metrics.latest(compared=is_older, end=end))
        for benchmark, measured in evaluations(run).items():
            figures |= {f"{name} on {benchmark}": value for name, value in measured.items()}
        return cls(run, {key: manifest.get(key) for key in ABOUT}, figures)

    @classmethod
    def listed(cls, run: Run) -> RunFacts:
        """Return the facts of a run; for a corrupt one id, status and the manifest if it is whole.

        What is whole, as nearly all are, is read once.
        """
        try:
            facts = cls.from_run(run)
            facts.sections  # noqa: B018  read with the rest, and corrupt with it
            return facts
        except StoreError:
            state = run.read()
            if state.corruption is None:
                raise
        reason = state.corruption.cause
        manifest = {**state.manifest, "id": run.id, "status": state.status, "reason": reason}
        return cls(run, {key: manifest.get(key) for key in ABOUT}, {})

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration, as far as its kind reads it; empty if it is corrupt or absent."""
        if self.about["status"] == CORRUPT or not (self.run.folder / "config.json").is_file():
            return {}
        unread = OF_RL if self.about["kind"] == "sft" else ()
        return {key: part for key, part in self.run.read_config().items() if key not in unread}

    @cached_property
    def sections(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings by dotted name of each section, which runs share that have them alike."""
        if self.about["status"] == CORRUPT:
            return {}
        unread = OF_RL if self.about["kind"] == "sft" else ()
        try:
            texts = _written_sections(self.run.folder / "config.json")
            return {name: _section(text) for name, text in texts.items() if name not in unread}
        except (FileNotFoundError, ValueError):  # of another form, corrupt, or none
            parts = self.config.items()
        return {name: _section(json.dumps({name: part})[1:-1]) for name, part in parts}

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its settings by dotted name."""
        return {name: value for part in self.sections.values() for name, value in part.items()}

    def setting(self, name: str) -> Any:
        """Return a setting; None if the run has none of that name."""
        return self.sections.get(name.partition(".")[0], _NOTHING).get(name)

    @property
    def method(self) -> dict[str, Any]:
        """The settings of its method: algorithm, guide, anchor, learning rate."""
        prefixes = OF_THE_METHOD.get(str(self.about["kind"]), ())
        return {
            key: value
            for name in prefixes
            for key, value in self.settings.items()
            if f"{key}.".startswith(f"{name}.") and value is not None
        }

    def value(self, column: str) -> Any:
        """Return a setting, a part of the manifest or a figure; None if the run has none."""
        for group in (self.about, self.figures):
            if column in group:
                return group[column]
        return self.config.get(column) if column in self.sections else self.setting(column)


def expanded(columns: str, runs: Sequence[RunFacts]) -> list[str]:
    """Return the columns of `guide.tau,pass@1`, with a column of pass@1 for each benchmark.

    Raises ConfigurationError for a column that is in neither the schema nor a run.
    """
    names: list[str] = []
    for typed in filter(None, map(str.strip, columns.split(","))):
        measured = [key for run in runs for key in run.figures if key.startswith(f"{typed} on ")]
        names += list(dict.fromkeys(measured)) or [_known_name(typed, runs, "column")]
    return names


def selected(runs: Sequence[RunFacts], where: Sequence[str]) -> list[RunFacts]:
    """Return the runs for which every `key=value` of `where` holds.

    Raises ConfigurationError for a key that is in neither the schema nor a run.
    """
    conditions = []
    for text in where:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(
                f"--where '{text}' does not have the form setting=value",
                "for example --where guide.name=branch",
            )
        conditions.append((_known_name(key.strip(), runs, "setting"), value.strip()))
    return [run for run in runs if all(_is(run.value(key), value) for key, value in conditions)]


def replicated(runs: Sequence[RunFacts]) -> list[list[RunFacts]]:
    """Return the runs in groups that differ in their seeds alone, in the order of first runs."""
    groups: dict[Any, list[RunFacts]] = {}
    key_by_section: dict[int, str] = {}

    def key(section: Mapping[str, Any]) -> str:
        if id(section) not in key_by_section:
            trained = {name: value for name, value in section.items() if name not in SEEDS}
            key_by_section[id(section)] = json.dumps(trained, default=str)
        return key_by_section[id(section)]

    for run in runs:
        trained = [key(part) for name, part in run.sections.items() if name not in _OF_NO_TRAINING]
        groups.setdefault((run.about["kind"], *(trained or [run.run.id])), []).append(run)
    return list(groups.values())


def telling_apart(runs: Sequence[RunFacts], most: int = 6) -> list[str]:
    """Return settings that differ among runs of one kind, first the choices of method and guide.

    Others differ among runs of the same choices, and are not a choice's defaults.
    """
    by_choice = defaultdict(list)
    sections = {(run.about["kind"], *map(id, run.sections.values())): run for run in runs}
    for run in sections.values():  # runs share a section that they have alike
        chosen = (str(run.setting(name)) for name in CHOICES)  # an edited one may be a list
        by_choice[run.about["kind"], *chosen].append(run.sections)
    parts = {
        section: [
            list({id(part): part for part in (s.get(section, _NOTHING) for s in group)}.values())
            for group in by_choice.values()
        ]
        for section in dict.fromkeys(chain(*chain(*by_choice.values())))
    }

    def differs(name: str) -> bool:
        return any(
            any(part.get(name) != group[0].get(name) for part in group)
            for group in parts.get(name.partition(".")[0], ())
        )

    trained = (parts[section] for section in parts if section not in _OF_NO_TRAINING)
    names = dict.fromkeys(chain.from_iterable(chain(*chain(*trained))))
    others = filter(differs, (name for name in names if name not in (*CHOICES, *SEEDS)))
    kinds = len({kind for kind, *_ in by_choice})
    chosen_apart = (
        name
        for number, name in enumerate(CHOICES, start=1)
        if len({(key[0], key[number]) for key in by_choice}) > kinds
    )
    return [*islice(chain(chosen_apart, others), most), *filter(differs, SEEDS)]


def last_and_validated(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the last step's metrics, and step and figures of the last validation."""
    records = run.metrics.read()
    validations = [record for record in records if any(key.startswith("eval/") for key in record)]
    validated = {"validated at step": validations[-1]["step"]} if validations else {}
    last = validations[-1] if validations else {}
    figures = {key: value for key, value in last.items() if key.startswith("eval/")}
    return (records or [{}])[-1], {**validated, **figures}


def speed_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return median seconds and tokens per second of a step, each phase's share, peak memory.

    Figures that the records lack are left out, such as those of phases in supervised training.
    """
    figures = {}
    for name in _TYPICAL:
        if values := [float(record[name]) for record in records if name in record]:
            figures[name.replace("time/", "speed/")] = median(values)
    timed = [record for record in records if {"time/loss_s", "time/step_s"} <= record.keys()]
    if total_s := sum(record["time/step_s"] for record in timed):
        for phase in PHASES:
            share = sum(record.get(f"time/{phase}_s", 0.0) for record in timed) / total_s
            figures[f"speed/share/{phase}"] = share
    if peaks := [float(r["memory/peak_gib"]) for r in records if "memory/peak_gib" in r]:
        figures["memory/peak_gib"] = max(peaks)
    return figures


def _known_name(name: str, runs: Sequence[RunFacts], kind: str) -> str:
    """Return the name if it may be a column. Raises ConfigurationError with the nearest name."""
    from sage_cli.config.schema import settings

    names = {*settings(), *ABOUT, *(key for run in runs for key in (*run.settings, *run.figures))}
    if name in names or name.startswith("pass@"):  # not measured yet: the column is empty
        return name
    raise ConfigurationError(
        f"no run has a {kind} '{name}'",
        did_you_mean(name, names) or "`sage config show` prints every setting",
    )


def _is(value: Any, asked: str) -> bool:
    """Return True if a value is the typed one; numbers are compared as such (1e-5 is 0.00001)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(asked) == value
        except ValueError:
            return False
    try:
        return str(value) == asked or bool(value == yaml_value(asked))
    except yaml.YAMLError:
        return False
