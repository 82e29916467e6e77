"""Trials, which are trained and measured: a point, and a replicate for each seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sage_cli.config.consent import consents
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import RlSpec, SftSpec
from sage_cli.evaluation.training_pool import pool_identity
from sage_cli.models.policies.planned import planned_base, rl_run
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Runs


@dataclass(frozen=True)
class Words:
    """The words of a command line that make a configuration: presets, flags and `--set`."""

    presets: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    sets: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """The words of a training."""
        flags = [part for name, value in self.flags.items() for part in (f"--{name}", value)]
        return (*self.about(""), *flags)

    def about(self, *sections: str) -> tuple[str, ...]:
        """The presets, and each `--set` whose key begins with one of these sections."""
        sets = [one for one in self.sets if one.startswith(sections)]
        options = [*(("--preset", one) for one in self.presets), *(("--set", one) for one in sets)]
        return tuple(part for option in options for part in option)


@dataclass(frozen=True, eq=False)
class Replicate:
    """One training of a trial, the `seed`-th from 0, or the initial policy itself.

    Its parent, its run and its policy are known before anything runs.
    """

    title: str
    seed: int
    config: SageConfig
    words: Words = Words()
    is_initial: bool = False

    @cached_property
    def initial(self) -> Policy:
        """The initial policy, from which RL starts."""
        return planned_base(SftSpec.of(self.config), Runs(self.config.run.root))

    @property
    def of_initial(self) -> Replicate:
        """The initial policy, measured as this replicate is."""
        title = f"initial policy {self.initial.label}"
        return Replicate(title, 0, self.config, self.words, is_initial=True)

    @cached_property
    def policy(self) -> Policy:
        """The policy that is measured, trained or not yet."""
        if self.is_initial:
            return self.initial
        recipe, runs = RlSpec.of(self.config), Runs(self.config.run.root)
        pool = pool_identity(recipe, runs.root)
        run = rl_run(recipe, self.initial, runs, recipe.rl.processes, pool)
        return Policy.of_run(run, consent=consents(recipe.model))


@dataclass(frozen=True, eq=False)
class Trial:
    """A point, by setting or by what a suite says of it, and its replicates over seeds."""

    label: str
    point: Mapping[str, Any]
    replicates: tuple[Replicate, ...]

    @property
    def config(self) -> SageConfig:
        """The configuration of the first replicate."""
        return self.replicates[0].config

    @property
    def is_initial(self) -> bool:
        """Return True if it is the initial policy, which RL does not train."""
        return self.replicates[0].is_initial
