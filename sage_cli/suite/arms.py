"""From a suite, presets and `--set` to arms: each method's trainings, fully configured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from sage_cli.config.command_line import typed
from sage_cli.config.consent import consents
from sage_cli.config.ks import capped_ks
from sage_cli.config.layers import leaves
from sage_cli.config.load import changed, load
from sage_cli.config.model import PretrainedModel
from sage_cli.config.recipe import RlSpec, SftSpec
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.policies.planned import planned_base, rl_run
from sage_cli.policies.policy import Policy
from sage_cli.reports.series import seeded
from sage_cli.store.run import Runs
from sage_cli.suite.declaration import PAPERS_PRESET, Method, Suite


@dataclass(frozen=True)
class Overrides:
    """What the user typed over a suite: presets, `--set`, how many seeds, where the runs are."""

    presets: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    seeds: int | None = None
    flags: Mapping[str, Mapping[str, Any]] | None = None
    """Flags by section, as where tasks run."""

    def config(
        self,
        own_preset: str | None = None,
        flags: Mapping[str, Any] | None = None,
        sets: Sequence[str] = (),
    ) -> SageConfig:
        """The configuration of these settings; `sets` lie below what was typed with `--set`."""
        every = {**(self.flags or {}), **(flags or {})}
        written = json.dumps(every, default=str, sort_keys=True)
        return _loaded(self.presets_with(own_preset), written, (*sets, *self.sets))

    def presets_with(self, own: str | None) -> tuple[str, ...]:
        """The presets, with `own` in the place of the paper's main one."""
        return tuple(own if own and one == PAPERS_PRESET else one for one in self.presets)


@dataclass(frozen=True, eq=False)
class Arm:
    """One training of a method, or the base: its configuration, and the options that make it.

    It is the `seed`-th of so many `trainings`, counted from 0.
    """

    label: str
    seed: int
    trainings: int
    config: SageConfig
    presets: tuple[str, ...]
    choices: Mapping[str, str]
    sets: tuple[str, ...]

    @property
    def is_base(self) -> bool:
        """Whether it is what RL begins with."""
        return not self.choices

    @property
    def title(self) -> str:
        """`grpo-branch, seed 2`; the label alone where the method is trained once."""
        return seeded(self.label, self.seed + 1) if self.trainings > 1 else self.label

    @property
    def options(self) -> tuple[str, ...]:
        """What `sage rl` is to be told."""
        flags = [part for name, value in self.choices.items() for part in (f"--{name}", value)]
        return (*self.options_about(""), *flags)

    def options_about(self, *sections: str) -> tuple[str, ...]:
        """The presets, and `--set` as far as it is about one of these sections."""
        sets = [one for one in self.sets if one.startswith(sections)]
        options = [*(("--preset", one) for one in self.presets), *(("--set", one) for one in sets)]
        return tuple(part for option in options for part in option)

    @cached_property
    def base(self) -> Policy:
        """What RL begins with."""
        return planned_base(SftSpec.of(self.config), Runs(self.config.run.root))

    @cached_property
    def policy(self) -> Policy:
        """What is measured, trained or not yet."""
        if self.is_base:
            return self.base
        recipe, runs = RlSpec.of(self.config), Runs(self.config.run.root)
        run = rl_run(recipe, self.base, runs, recipe.rl.processes)
        return Policy.of_run(run, consent=consents(recipe.model))


@cache
def _loaded(presets: tuple[str, ...], flags_json: str, sets: tuple[str, ...]) -> SageConfig:
    """The suites of one plan ask for the same few configurations again and again."""
    return load(presets, json.loads(flags_json), sets).config


def arms_of(suite: Suite, overrides: Overrides) -> list[Arm]:
    """Every training of every method, the base of all once.

    Raises ConfigurationError for a method that can't be configured, by its label.
    """
    arms = []
    for label, method in suite.methods.items():
        try:
            arms += _arms(suite, label, method, overrides)
        except ConfigurationError as error:
            cause = f"suite {suite.name}, method {label}: {error.cause}"
            raise ConfigurationError(cause, error.next_step) from None
    return arms


def _arms(suite: Suite, label: str, method: Method, overrides: Overrides) -> list[Arm]:
    own, choices = method.preset or suite.preset, method.choices
    flags = {
        "rl": {"algo": choices.get("algo")},
        "guide": {"name": choices.get("guide")},
        "anchor": {"kl": choices.get("kl")},
    }
    sets = [_assignment(key, value) for key, value in method.settings.items()]
    plain = overrides.config(own, flags, sets)
    papers = isinstance(plain.model, PretrainedModel)
    measurement = _measurement(suite, plain, overrides, papers=papers) if suite.measured else {}
    sets += [_assignment(key, value) for key, value in measurement.items()]
    # what those words make of it on a command line, without reading presets once more
    first = changed(plain, measurement) if measurement else plain
    presets, every = overrides.presets_with(own), (*sets, *overrides.sets)
    wanted = overrides.seeds or (suite.protocol.seeds if papers else suite.seeds)
    trainings = 1 if method.is_base else wanted
    arms = [Arm(label, 0, trainings, first, presets, choices, every)]
    for seed in range(1, trainings):
        changes = {"rl.seed": first.rl.seed + seed}
        further = _assignment("rl.seed", changes["rl.seed"])
        config = changed(first, changes)
        arms.append(Arm(label, seed, trainings, config, presets, choices, (*every, further)))
    return arms


def _measurement(
    suite: Suite, plain: SageConfig, overrides: Overrides, *, papers: bool
) -> dict[str, Any]:
    """The settings of a suite's measurement that neither `plain` nor the user says.

    The paper's protocol where its models are measured; everywhere its ks, as far as there are
    samples.
    """
    now = dict(leaves(plain.model_dump(mode="json", include={"evaluation", "sampling"})))
    said = {text.partition("=")[0].strip() for text in overrides.sets}
    wanted = dict(suite.protocol.settings if papers else {})
    samples = now if "evaluation.samples" in said else {**now, **wanted}
    wanted["evaluation.k"] = capped_ks(suite.k, samples["evaluation.samples"])
    return {key: value for key, value in wanted.items() if key not in said and now[key] != value}


def _assignment(key: str, value: Any) -> str:
    """`key=value` so that `--set` reads the value back."""
    return f"{key}={typed(value)}"
