"""The initial policy of RL: a named model, a published one as it is, or the one that SFT leaves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from sage_cli.commands.train.sft import SftTraining
from sage_cli.config.consent import consents
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import RecordSpec, SftSpec
from sage_cli.errors import BusyError
from sage_cli.models.policies.names import named_policy, named_run
from sage_cli.models.policies.planned import base_facts, planned_base
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.dry_run import Described, Gpu, Stage
from sage_cli.progress import Progress
from sage_cli.settings.sections.model import ScratchModel
from sage_cli.store.lock import wait_for_writer
from sage_cli.store.runs.replacement import current
from sage_cli.store.runs.run import Runs


@dataclass(frozen=True)
class InitialPolicy(Stage):
    """The policy that RL starts from: the model called `init`, or else the one of `spec`."""

    spec: SftSpec
    record: RecordSpec
    init: str | None = None

    @classmethod
    def of(cls, config: SageConfig, init: str | None = None) -> InitialPolicy:
        """The initial policy of RL under `config`."""
        return cls(SftSpec.of(config), RecordSpec.of(config), init)

    @cached_property
    def policy(self) -> Policy:
        """The policy, trained or not yet."""
        runs = Runs(self.record.root)
        if self.init is not None:
            policy = named_policy(self.init, runs, self.spec.model)
            policy.require_weights()
            return policy
        return planned_base(self.spec, runs)

    @property
    def is_trained_here(self) -> bool:
        """Return True if SFT under this configuration leaves it."""
        return self.init is None and self.spec.sft.enabled

    def describe(self) -> Described:
        """Describe where the policy is from, and how far its training is."""
        if self.is_trained_here:
            return self._training.describe()
        if self.init is not None:
            return Described("start", {"policy": self.policy.label})
        return Described("base", base_facts(self.policy))

    def memory(self, gpu: Gpu) -> Described | None:
        """Describe the GPU memory that SFT takes on `gpu`, where there is one."""
        return self._training.memory(gpu) if self.is_trained_here else None

    def carry_out(self, progress: Progress) -> Policy:
        """Return the policy, trained first where that is needed and not yet done.

        One that another process trains is waited for, and taken over if that process dies.
        """
        if self.init is not None:
            return self.policy
        base = planned_base(self.spec, Runs(self.record.root))
        while not base.exists:  # a fresh one that is trained beside it changes nothing yet
            if base.run is not None:
                wait_for_writer(current(base.run).folder, progress.say)
            if not base.exists:
                with suppress(BusyError):  # another process took the lock since
                    run = self._training.carry_out(progress)
                    return Policy.of_run(run, consent=consents(self.spec.model))
        if base.run is not None:
            progress.say(f"initial policy [bold]{base.label}[/] is trained already")
        return base

    @cached_property
    def _training(self) -> SftTraining:
        return SftTraining(spec=self.spec, record=self.record)


def with_model_of(init: str | None, config: SageConfig) -> SageConfig:
    """Return `config` with the model called `init` in the place of one from scratch.

    A folder or a model of the Hub that no run made describes itself. What `sage export` wrote is a
    run's, and stays with the run's settings.
    """
    if init is None or not isinstance(config.model, ScratchModel):
        return config
    runs = Runs(config.run.root)
    if named_run(init, runs) is not None or named_policy(init, runs).own_settings:
        return config
    return changed(config, {"model.kind": "pretrained", "model.path": init})
