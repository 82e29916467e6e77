"""The sample sets of a policy, named by weights, prompt and sampling before they exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades
from sage_cli.models.policy import Policy, refuse_other_template
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.reports.document import SeedCounts
from sage_cli.sampling.sampler import SamplingParameters
from sage_cli.settings.inputs import PromptSection, sampled_dtype
from sage_cli.settings.sampling import DecodingSection
from sage_cli.solution_text import IMPORTED_JUDGE
from sage_cli.store.annotations import GradeStore
from sage_cli.store.run import IMPORTED
from sage_cli.store.sample_parts import Completion, Tally
from sage_cli.store.sample_set import SampleIdentity, SampleSet


@dataclass(frozen=True)
class PolicySamples:
    """A policy under a prompt and sampling parameters: its sample sets, one for each seed.

    `dtype` is the configured type of the weights; "auto" is the stored one. `served` is what a
    server decides of the samples (`SamplingSection.served`).
    """

    policy: Policy
    prompt: PromptSection
    parameters: SamplingParameters
    dtype: str
    root: Path
    served: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_config(cls, policy: Policy, config: SageConfig, root: Path) -> PolicySamples:
        """The samples that an evaluation counts.

        Raises ConfigurationError for a run that was trained under another prompt, unless that is
        allowed.
        """
        sampling = config.sampling
        if policy.imported:
            return ImportedSamples._under(policy, config, root, sampling, {})
        if config.grading.judge == IMPORTED_JUDGE:
            raise ConfigurationError(
                f"{policy.label} has no verdicts of another program (grading.judge=imported)",
                "grade both with one judge: --set grading.judge=math",
            )
        samples = cls._under(
            policy, config, root, sampling, sampling.served, stops=sampling.stop_at_answer
        )
        allowed = config.evaluation.allow_template_mismatch
        refuse_other_template(policy, samples.template, allowed=allowed, use="this evaluation")
        return samples

    @classmethod
    def for_rollouts(cls, policy: Policy, config: SageConfig, root: Path) -> PolicySamples:
        """The samples that a training takes beforehand, as it would sample rollouts."""
        return cls._under(policy, config, root, config.rollout, {}, stops=True)

    @classmethod
    def _under(
        cls, policy: Policy, config: SageConfig, root: Path, section: DecodingSection,
        served: Mapping[str, str], *, stops: bool = False,
    ) -> Self:  # fmt: skip
        """Return the samples under a section; with `stops` they end at the template's stop text."""
        parameters, dtype = SamplingParameters.from_section(section), sampled_dtype(config.model)
        samples = cls(policy, config.prompt, parameters, dtype, root, served)
        if not stops:
            return samples
        ended = SamplingParameters.from_section(section, samples.template)
        return replace(samples, parameters=ended)

    @property
    def in_chat(self) -> bool:
        """Return True if a server is sent messages and applies its own template to them."""
        return self.served.get("server_form") == "chat"

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt's template as far as it is known without loading the tokenizer."""
        if self.in_chat:
            return PromptTemplate(self.prompt)
        return PromptTemplate.from_section(self.prompt, self.policy.tokenizer_facts)

    def model(self, progress: Progress) -> Any:
        """Load the policy to read texts, in the type in which it is sampled from."""
        import torch

        progress.say(f"loading {self.policy.label}")
        model = self.policy.model(dtype=self.policy.dtype(self.dtype))
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def require_sampling(self, missing: int) -> None:
        """Raise StoreError if `missing` samples are not stored and can't be sampled."""

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of one evaluation seed."""
        policy = self.policy
        sampling = {
            **{key: value for key, value in asdict(self.parameters).items() if key != "opened"},
            # without it a completion was ended inside its thought
            **({"thought": "whole"} if self.parameters.engine_stop != self.parameters.stop else {}),
            "dtype": policy.dtype(self.dtype),
            # the ends that the model's own files name are part of its fingerprint
            "eos": None if self.in_chat else policy.tokenizer_facts.eos_token,
            **self.served,
        }
        identity = SampleIdentity(policy.fingerprint, self.template.hash, sampling, seed)
        return SampleSet(self.root, identity, read_only=read_only)


@dataclass(frozen=True)
class ImportedSamples(PolicySamples):
    """Samples that another program took: one set, whatever the settings of sampling are."""

    @cached_property
    def template(self) -> PromptTemplate:
        """A stand-in: the other program's prompt is part of the stored question or unknown."""
        return PromptTemplate(self.prompt)

    def require_sampling(self, missing: int) -> None:
        """Raise StoreError: there is no model to sample from."""
        label = self.policy.label
        raise StoreError(
            f"{label} was imported, and {missing:,} of the samples asked for are not in it",
            f"take its own problems and samples (drop --benchmark, --n, --seeds; `sage runs show "
            f"{label}` says what there is), or name {label} first",
        )

    def at(self, seed: int, *, read_only: bool = False) -> SampleSet:
        """The set of the samples, whose one evaluation seed is 0."""
        return imported_set(self.root, self.policy.fingerprint, seed, read_only=read_only)


def imported_set(
    root: Path, fingerprint: str, seed: int = 0, *, read_only: bool = False
) -> SampleSet:
    """The sample set of imported samples, which are named by their content alone."""
    return SampleSet(root, SampleIdentity(fingerprint, IMPORTED, {}, seed), read_only=read_only)


@dataclass(frozen=True)
class Missing:
    """One policy on one benchmark, over all evaluation seeds: samples needed, stored, graded.

    `sample_sets` are the keys of the sets, none for a policy that isn't trained yet.
    """

    policy: str
    benchmark: str
    needed: int
    stored: int
    graded: int
    sample_sets: tuple[str, ...] = ()


def missing(
    policies: Sequence[Policy], benchmarks: Sequence[Benchmark], config: SageConfig, root: Path
) -> list[Missing]:
    """Count which samples of a measurement are stored, for each policy and benchmark."""
    evaluation, n = config.evaluation, config.evaluation.samples
    rows = []
    for policy in policies:
        samples = PolicySamples.from_config(policy, config, root) if policy.exists else None
        for benchmark in benchmarks:
            per_seed = n * len(benchmark.problems)
            needed = per_seed * evaluation.seeds
            if samples is None:
                rows.append(Missing(policy.label, benchmark.name, needed, 0, 0))
                continue
            stored_n, graded, keys = 0, 0, []
            for stored, grades in stored_grades(samples, benchmark, config):
                tally = grades.tally(list(benchmark.golds), n)
                stored_n += per_seed - stored.inventory().count_missing(list(benchmark.golds), n)
                graded += per_seed - tally.lacking
                keys.append(stored.identity.key)
            rows.append(
                Missing(policy.label, benchmark.name, needed, stored_n, graded, tuple(keys))
            )
    return rows


def counts_of(tally: Tally, seed: int) -> Counts:
    """The counts of one evaluation seed, with each grade where none is missing."""
    grades = None if tally.lacking else SampleGrades((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, grades)


def seed_counts(label: str, benchmark: Benchmark, samples: SampleSet, tally: Tally) -> SeedCounts:
    """A tally of a policy's samples as the measurement of their evaluation seed."""
    identity = samples.identity
    return SeedCounts(
        label, benchmark.name, identity.seed, counts_of(tally, identity.seed), tally.statuses,
        tally.truncated, identity.key, tally.right_truncated,
    )  # fmt: skip


def stored_grades(
    samples: PolicySamples, benchmark: Benchmark, config: SageConfig
) -> Iterator[tuple[SampleSet, GradeStore]]:
    """For each evaluation seed its sample set, and the grades of the configured grader on it."""
    evaluation = config.evaluation
    with benchmark.grader(config.grading, config.prompt) as grader:
        for seed in range(evaluation.seed, evaluation.seed + evaluation.seeds):
            stored = samples.at(seed, read_only=True)
            yield stored, GradeStore(stored, grader.identity.mapping())


def stored_measurements(
    samples: PolicySamples, benchmarks: Sequence[Benchmark], config: SageConfig
) -> dict[str, tuple[SeedCounts, ...]] | None:
    """The measurements by benchmark, one for each evaluation seed; None if a sample is missing."""
    n, label = config.evaluation.samples, samples.policy.label
    measured: dict[str, tuple[SeedCounts, ...]] = {}
    for benchmark in benchmarks:
        ids, seeds = tuple(benchmark.golds), []
        for stored, grades in stored_grades(samples, benchmark, config):
            tally = grades.tally(ids, n)
            if tally.lacking:
                return None
            seeds.append(seed_counts(label, benchmark, stored, tally))
        measured[benchmark.name] = tuple(seeds)
    return measured


def stored_counts(
    policy: Policy, benchmark: Benchmark, config: SageConfig, root: Path, ns: Sequence[int]
) -> dict[int, list[Counts]]:
    """For each n of `ns`, the right ones among each problem's first n samples, a Counts per seed.

    Only samples with a grade are counted, so that `n_P` is below n where some are missing.
    `root` is the folder of runs.
    """
    samples = PolicySamples.from_config(policy, config, root)
    ids = tuple(benchmark.golds)
    counts: dict[int, list[Counts]] = {n: [] for n in ns}
    for _, grades in stored_grades(samples, benchmark, config):
        for n, by_seed in counts.items():
            by_seed.append(counts_of(grades.tally(ids, n), grades.seed))
    return counts


@dataclass(frozen=True)
class StoredAnswer:
    """A problem, a completion, and what a grader found of it."""

    problem: Problem
    completion: Completion
    status: str
    extracted: str | None
    seed: int


def stored_answers(
    samples: PolicySamples,
    benchmark: Benchmark,
    config: SageConfig,
    problem_ids: Sequence[str],
    n: int,
) -> Iterator[StoredAnswer]:
    """The graded ones among the first `n` samples of these problems, seed after seed."""
    problems = {problem.id: problem for problem in benchmark.problems}
    for stored, grades in stored_grades(samples, benchmark, config):
        for completion, status, extracted in grades.stream(problem_ids, n):
            yield StoredAnswer(
                problems[completion.problem_id], completion, status, extracted, stored.identity.seed
            )
