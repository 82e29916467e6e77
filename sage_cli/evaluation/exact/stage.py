"""Reading a policy's exact chances as a stage: what is stored is not read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sage_cli.evaluation.evaluate import Evaluation, EvaluationStage
from sage_cli.evaluation.exact.chances import Chances, ExactReader, exact_reader
from sage_cli.models.policies.policy import Policy
from sage_cli.planning.dry_run import Described, Gpu, Stage
from sage_cli.planning.stages import sampling_memory
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Run

if TYPE_CHECKING:
    from sage_cli.store.mirrors import Follower


def measuring(evaluation: Evaluation, run: Run) -> EvaluationStage | ChancesStage:
    """Return the stage that measures the final model of `run`: by samples, or by exact chances."""
    stage = evaluation.of_run(run)
    if not evaluation.spec.evaluation.chances:
        return stage
    (policy,) = stage.policies
    return ChancesStage(evaluation, policy)


@dataclass(frozen=True)
class ChancesStage(Stage):
    """The exact chances of right texts under one policy, in the place of samples."""

    evaluation: Evaluation
    policy: Policy

    @property
    def readers(self) -> Mapping[str, ExactReader]:
        """Return the reader of each benchmark. Raises DataError where no right texts are listed."""
        spec, own = self.evaluation.spec, self.evaluation.samples(self.policy)
        return {
            one.name: exact_reader(own, one, spec.data, spec.temperatures)
            for one in self.evaluation.benchmarks
        }

    def describe(self) -> Described:
        """Describe how many right texts have to be read."""
        spec = self.evaluation.spec
        temperatures = ", ".join(f"{t:g}" for t in spec.temperatures)
        facts = {"of": self.policy.label, "temperatures": temperatures}
        if self.policy.is_here:
            counts = {name: reader.missing() for name, reader in self.readers.items()}
            facts |= {
                f"on {name}": f"{left:,} of {of:,} right texts to read"
                for name, (left, of) in counts.items()
            }
        return Described("exact chances", facts)

    def memory(self, gpu: Gpu) -> Described:
        """Describe the memory that reading takes: at most what sampling does."""
        return sampling_memory(self.evaluation.spec, gpu)

    def carry_out(
        self,
        progress: Progress,
        mirrors: Sequence[Follower] = (),  # noqa: ARG002
    ) -> dict[str, Chances]:
        """Read what isn't stored; return the chances by benchmark."""
        return {name: reader.read(progress) for name, reader in self.readers.items()}
