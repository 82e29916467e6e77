"""Commands that measure: policies by name are evaluated; without a run, the initial policy is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.evaluate import Evaluated, Evaluation
from sage_cli.planning.dry_run import Stage
from sage_cli.policies.names import NO_LABELS, Labels, NoRunsError
from sage_cli.policies.policy import Policy
from sage_cli.progress import Progress
from sage_cli.workflows.initial_policy import InitialPolicy


@dataclass(frozen=True)
class Measuring:
    """An evaluation of the models called `names`; without names of the latest run.

    `labels` are what tables and figures call a model, by the name that was typed. `start` is
    measured where there is no run.
    """

    evaluation: Evaluation
    start: InitialPolicy
    names: Sequence[str]
    labels: Labels

    @classmethod
    def of(cls, config: SageConfig, names: Sequence[str], labels: Labels = NO_LABELS) -> Measuring:
        """The evaluation that `config` describes, of the models called `names`."""
        return cls(Evaluation.of_config(config), InitialPolicy.of(config), names, labels)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command: an evaluation, of policies trained or not yet."""
        try:
            policies = self.evaluation.policies(self.names, self.labels)
        except NoRunsError:
            policies = [self.start.policy]
        return [self.evaluation.of(policies)]

    def carry_out(self, progress: Progress, *, train: bool) -> Evaluated:
        """Measure the policies. With `train` the initial policy is trained where there is no run.

        What is wrong with benchmarks or ks is raised before that.
        """
        _ = self.evaluation.ks
        with progress.doing(f"reading {self.evaluation.spec.evaluation.benchmark}"):
            _ = self.evaluation.benchmarks
        return self.evaluation.of(self._policies(progress, train=train)).carry_out(progress)

    def _policies(self, progress: Progress, *, train: bool) -> list[Policy]:
        try:
            policies = self.evaluation.policies(self.names, self.labels)
        except NoRunsError:
            if not train:
                raise
            root = self.evaluation.root.resolve()
            progress.say(
                f"{root} holds no finished run: the preset's initial policy is trained first"
            )
            return [self.start.carry_out(progress)]
        if not self.names:
            progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
        return policies
