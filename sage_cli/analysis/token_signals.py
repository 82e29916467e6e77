"""The models that read a policy's tokens for guides: itself, its reference and teachers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.scoring import ModelScorer
from sage_cli.analysis.token_table import TokenRow, TokenTable, token_table
from sage_cli.config.consent import without_consent
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec, RlSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.guides import Guide
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.reference import reference_of, teacher_policy
from sage_cli.progress import Progress
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples.annotations import Annotations

Stores = tuple[Annotations, ...]
UNKNOWN = frozenset({"rewards_B", "group_right_B"})
"""What stored samples don't tell: it belongs to a generation batch of a training."""


def refuse_unknown_signals(guides: Sequence[Guide]) -> None:
    """Raise ConfigurationError for guides that read what only a training knows."""
    for guide in guides:
        if lacking := sorted(UNKNOWN & guide.needs):
            raise ConfigurationError(
                f"guide '{guide.name}' reads {', '.join(lacking)}, which stored samples don't tell",
                f"leave {guide.name} out of --guides",
            )


@dataclass(frozen=True, eq=False)
class TokenReaders:
    """`own` reads its samples; `references` by exponent of the tilt, `teachers` by guide."""

    own: ModelScorer
    references: Mapping[float, ModelScorer]
    teachers: Mapping[str, ModelScorer]

    @classmethod
    def of(
        cls,
        own_samples: PolicySamples,
        spec: EvaluationSpec,
        guides: Sequence[Guide],
        temperature: float,
        progress: Progress,
    ) -> TokenReaders:
        """Return those that `guides` need, at the `temperature` of their training.

        Raises ConfigurationError if a guide reads a reference, and the policy has none.
        """
        own = ModelScorer(own_samples, temperature, spec, progress)
        runs = Runs(own_samples.root)

        def reading(policy: Policy, exponent: float = 1.0) -> ModelScorer:
            read_by = replace(own_samples, policy=policy)
            return replace(own, own=read_by, temperature=tilted(temperature, exponent))

        exponents = {
            phi for guide in guides if guide.reads_reference for phi in (1.0, *guide.tilts)
        }
        frozen = _reference(own_samples.policy, runs) if exponents else own_samples.policy
        named = {guide.name: teacher_policy(guide, runs, spec.model) for guide in guides}
        return cls(
            own,
            {phi: reading(frozen, phi) for phi in sorted(exponents)},
            {name: reading(teacher) for name, teacher in named.items() if teacher is not None},
        )

    @property
    def all(self) -> list[ModelScorer]:
        """Return every reader."""
        return [self.own, *self.references.values(), *self.teachers.values()]

    def table(self, answers: Answers, guides: Sequence[Guide]) -> TokenTable:
        """Return the tokens of the answers; what no model has read yet is read and stored."""
        writer = self.own.own
        stores = [reader.signals(answers, writer) for reader in self.all]
        whole = answers.n * len(answers.problems) * len(answers.grades)
        progress = self.own.progress
        progress.begin(f"{answers.policy} on {answers.benchmark.name}", whole, "completions")
        table = token_table(
            self._rows(answers, stores), answers, self.own.token_text, guides, progress
        )
        progress.end()
        return table

    def _rows(self, answers: Answers, stores: Sequence[Stores]) -> Iterator[TokenRow]:
        for sample, own, *others in answers.annotated(*stores):
            ids, *pair = own
            read = [tuple(values[1:]) for values in others]
            references = dict(zip(self.references, read, strict=False))
            teachers = dict(zip(self.teachers, read[len(references) :], strict=True))
            yield TokenRow(sample, ids, tuple(pair), references, teachers)


def tilted(temperature: float, exponent: float) -> float:
    """Return the temperature at which a model is p^exponent, normalised, p at `temperature`."""
    if exponent == 1:
        return temperature
    from sage_cli.models.signals import tilted_temperature  # loads torch

    return tilted_temperature(temperature, exponent)


def _reference(policy: Policy, runs: Runs) -> Policy:
    """Return the model that the run of `policy` was anchored to."""
    if policy.run is None or policy.run.manifest.get("kind") != "rl":
        raise ConfigurationError(
            f"a guide reads the reference, and {policy.label} was trained without a reference",
            "name a run of RL, or leave that guide out of --guides",
        )
    config = load(stored=without_consent(policy.run.config)).config
    return reference_of(policy, RlSpec.of(config), runs)
