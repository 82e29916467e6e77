"""A trial of a sweep or an arm of a suite: what is trained and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sage_cli.config.consent import consents
from sage_cli.config.schema import SageConfig
from sage_cli.config.unread_settings import not_read
from sage_cli.models.planned import planned_base, rl_run
from sage_cli.models.policy import Policy
from sage_cli.store.run import Runs


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
        sets = [assignment for assignment in self.sets if assignment.startswith(sections)]
        options = [
            *(("--preset", word) for word in self.presets),
            *(("--set", word) for word in sets),
        ]
        return tuple(part for option in options for part in option)

    def read_by(self, command: str, config: SageConfig) -> Words:
        """Return the words without each `--set` that `sage command` would refuse as idle."""
        names = {text: text.partition("=")[0] for text in self.sets}
        sets = [text for text, name in names.items() if not not_read(command, name, config)]
        return replace(self, sets=tuple(sets))


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
        return planned_base(self.config, Runs(self.config.run.root))

    @cached_property
    def policy(self) -> Policy:
        """The policy that is measured, trained or not yet."""
        if self.is_initial:
            return self.initial
        config, runs = self.config, Runs(self.config.run.root)
        pool = None
        if config.data.rl.solved_by is not None:
            # reads stored counts, whose libraries no other plan loads
            from sage_cli.training.pass_rates import pool_identity

            pool = pool_identity(config, runs.root)
        run = rl_run(config, self.initial, runs, config.rl.processes, pool)
        return Policy.of_run(run, consent=consents(config.model))


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
