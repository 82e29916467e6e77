"""The sample sets of a policy, named by weights, prompt and sampling before they exist.

What they lack is sampled with one engine for all benchmarks and seeds, graded and counted.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.markup import escape

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, RefusedPromptsError, SamplingError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.final_answers import count_answers
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades, SeedCounts
from sage_cli.models.policy import Policy, check_same_template
from sage_cli.models.verification import require_verified
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.sampler import Sampler, SampleRequest, SamplerSetup, SamplingParameters
from sage_cli.settings.decoding import DecodingSection
from sage_cli.settings.judge_names import IMPORTED_JUDGE
from sage_cli.settings.model import sampled_dtype
from sage_cli.settings.own_code import named
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import FINISH_REASONS, Completion, encodable
from sage_cli.store.inventory import Tally
from sage_cli.store.run import IMPORTED
from sage_cli.store.sample_set import SampleIdentity, SampleSet

if TYPE_CHECKING:
    from sage_cli.grading.grader import Grader
    from sage_cli.grading.grades import Grade


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
        check_same_template(policy, samples.template, allowed=allowed, use="this evaluation")
        return samples

    @classmethod
    def for_rollouts(cls, policy: Policy, config: SageConfig, root: Path) -> PolicySamples:
        """The samples that a training takes beforehand, as it would sample rollouts."""
        return cls._under(policy, config, root, config.rollout, {}, stops=True)

    @classmethod
    def _under(
        cls,
        policy: Policy,
        config: SageConfig,
        root: Path,
        section: DecodingSection,
        served: Mapping[str, str],
        *,
        stops: bool = False,
    ) -> Self:
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
            f"{label} was imported, and {missing:,} of the requested samples are not in it",
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


def counts_of(tally: Tally, seed: int | None) -> Counts:
    """The counts of one evaluation seed, with each grade where none is missing.

    The seed of samples that another program took is unknown: None.
    """
    grades = None if tally.lacking else SampleGrades((seed,), tally.right_PN)
    return Counts(tally.problem_ids, tally.n_P, tally.right_P, grades)


def with_votes(
    seeds: Sequence[Counts], samples: PolicySamples, benchmark: Benchmark, config: SageConfig
) -> list[Counts]:
    """Return the counts of each evaluation seed with the final answers of each problem.

    Raises ConfigurationError where samples were graded without an answer.
    """
    ids, n = tuple(benchmark.golds), config.evaluation.samples
    return [
        replace(counts.ordered(ids), votes=count_answers(grades, ids, n))
        for counts, (_, grades) in zip(
            seeds, stored_grades(samples, benchmark, config), strict=True
        )
    ]


def known_seed(identity: SampleIdentity) -> int | None:
    """The seed that a set's samples were drawn with; None for those of another program."""
    return None if identity.template == IMPORTED else identity.seed


def seed_counts(label: str, benchmark: str, samples: SampleSet, tally: Tally) -> SeedCounts:
    """A tally of a policy's samples as the measurement of their evaluation seed."""
    identity = samples.identity
    counts = counts_of(tally, known_seed(identity))
    return SeedCounts(
        label,
        benchmark,
        identity.seed,
        counts,
        tally.statuses,
        tally.truncated,
        identity.key,
        tally.right_truncated,
    )


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
            seeds.append(seed_counts(label, benchmark.name, stored, tally))
        measured[benchmark.name] = tuple(seeds)
    return measured


def stored_counts(
    policy: Policy, benchmark: Benchmark, config: SageConfig, root: Path, ns: Sequence[int]
) -> dict[int, list[Counts]]:
    """For each n of `ns`, the correct ones among each problem's first n samples, a Counts per seed.

    Only samples with a grade are counted, so that `n_P` is below n where some are missing.
    `root` is the folder of runs.
    """
    samples = PolicySamples.from_config(policy, config, root)
    ids = tuple(benchmark.golds)
    counts: dict[int, list[Counts]] = {n: [] for n in ns}
    for stored, grades in stored_grades(samples, benchmark, config):
        seed = known_seed(stored.identity)
        for n, by_seed in counts.items():
            by_seed.append(counts_of(grades.tally(ids, n), seed))
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


OnStored = Callable[[list[Completion]], None]


class PolicySampler:
    """A policy's sampler, loaded when the first sample is missing.

    Use it as a context manager: the sampler is closed at the end of the block.
    """

    def __init__(
        self, samples: PolicySamples, sampling: SamplingSection, progress: Progress
    ) -> None:
        self.samples, self._section, self.progress = samples, sampling, progress
        self._engine: Sampler | None = None

    def __enter__(self) -> PolicySampler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._engine is not None:
            self._engine.close()

    @property
    def label(self) -> str:
        """The policy's label."""
        return self.samples.policy.label

    def sample(
        self, seed: int, problems: Sequence[Problem], n: int, on_stored: OnStored = lambda _: None
    ) -> SampleSet:
        """The set of `seed`, holding samples 0 to n - 1 of each problem.

        `on_stored` is called with fresh completions once they are on disk.
        """
        samples = self.samples.at(seed)
        inventory = samples.inventory()
        missing = inventory.count_missing([problem.id for problem in problems], n)
        if not missing:
            return samples
        self.samples.require_sampling(missing)
        engine, template = self._loaded(), self._template()
        text = template.user_turn if self.samples.in_chat else template.render
        prompts = {problem.id: text(problem.question) for problem in problems}
        total = n * len(prompts)
        self.progress.begin(f"sample {self.label}", total, "samples", total - missing)

        def stored(rows: list[Completion]) -> None:
            self.progress.advance(len(rows))
            on_stored(rows)

        fill(samples, prompts, n, engine, stored)
        self.progress.end()
        return samples

    def draw(self, problems: Sequence[Problem], seed: int, first: int = 0) -> list[Completion]:
        """Sample a completion of each problem, in order, and store nothing.

        A problem may come several times. The completions are the ones of number `first` and above.
        """
        engine, template = self._loaded(), self._template()
        text = template.user_turn if self.samples.in_chat else template.render
        requests = [
            SampleRequest(str(number), text(problem.question), (number,), seed)
            for number, problem in enumerate(problems, first)
        ]
        drawn = {completion.index: completion for completion in engine.sample(requests)}
        require_verified()
        return [drawn[number] for number in sorted(drawn)]

    def _loaded(self) -> Sampler:
        if self._engine is None:
            setup = self._setup()
            servers = ", ".join(self._section.servers) if self._section.asks_servers else ""
            sampled = f"{self.label} is sampled by {servers}"
            self.progress.say(escape(sampled if servers else f"loading {self.label}"))
            with self.progress.doing(f"starting the engine that samples {self.label}"):
                self._engine = build_sampler(setup)
        return self._engine

    def _setup(self) -> SamplerSetup:
        policy = self.samples.policy
        # `served` is part of the sample set's identity, so it wins over the section's settings
        defaults = {"server_model": None, "server_form": "completions"}
        return SamplerSetup(
            policy.path,
            self.samples.parameters,
            self._section.model_copy(update={**defaults, **self.samples.served}),
            dtype=self.samples.dtype,
            prompt=self.samples.prompt,
            bos=self.samples.template.bos,
            **policy.loading,
        )

    def _template(self) -> PromptTemplate:
        """A chat template is rendered by the tokenizer itself."""
        if self.samples.prompt.format != "chat" or self.samples.in_chat:
            return self.samples.template
        return PromptTemplate.from_section(self.samples.prompt, self.samples.policy.tokenizer)


MOST_TOKENS = 2**31 - 1
log = logging.getLogger(__name__)


def fill(
    samples: SampleSet,
    prompts: Mapping[str, str],
    n: int,
    sampler: Sampler,
    on_stored: OnStored = lambda _: None,
) -> int:
    """Sample completions 0 to n - 1 of each problem that `samples` lacks; return how many.

    `prompts` maps problem ids to prompt texts. `on_stored` is called with new completions once they
    are on disk. Several processes may fill a set at the same time, each its share; this returns
    when all samples are stored. Raises StoreError if the set cannot be written, or the model isn't
    what was recorded of it, SamplingError if the sampler fails, RefusedPromptsError if only samples
    of prompts that the sampler cannot answer are missing. Stored samples stay in any case.
    """
    sampled = 0
    refused: dict[str, str] = {}

    def stored(rows: list[Completion]) -> None:
        nonlocal sampled
        sampled += len(rows)
        on_stored(rows)

    problem_ids = list(prompts)
    with named("sampler", type(sampler)):
        provenance = dict(sampler.provenance)
    with samples.writing(provenance, stored) as writer:
        while share := writer.claim(problem_ids, n):
            requests = [
                SampleRequest(problem, prompts[problem], indices, samples.identity.seed)
                for problem, indices in share.items()
            ]
            try:
                for completion in _sampled(sampler, requests):
                    require_verified()  # before the first one; afterwards it costs nothing
                    writer.add(completion)
            except RefusedPromptsError as error:
                refused |= error.reasons
                problem_ids = [problem for problem in problem_ids if problem not in refused]
        lacking = writer.inventory.count_missing(problem_ids, n)
    if refused:
        raise RefusedPromptsError(refused)
    if lacking:
        raise SamplingError(
            f"the sampler left out {lacking} of the requested samples",
            "run the same command again: stored samples are kept",
        )
    return sampled


def _sampled(sampler: Sampler, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
    """Yield the sampler's completions; errors name a sampler of another package."""
    with named("sampler", type(sampler)):
        for sample in sampler.sample(requests):
            if not (isinstance(sample, Completion) and _is_whole(sample)):
                raise TypeError(
                    f"sample() gives {str(sample)[:200]}, and not a Completion that ended by "
                    + " or ".join(FINISH_REASONS)
                )
            yield _storable(sample)


def _is_whole(sample: Completion) -> bool:
    counted = isinstance(sample.tokens, int) and 0 <= sample.tokens <= MOST_TOKENS
    return isinstance(sample.text, str) and counted and sample.finish_reason in FINISH_REASONS


def _storable(sample: Completion) -> Completion:
    """Return a sample whose text can be encoded: else its whole part could not be written."""
    text = encodable(sample.text)
    if text == sample.text:
        return sample
    log.warning(
        "problem %s, sample %d, seed %d: lone surrogates were replaced by U+FFFD",
        sample.problem_id,
        sample.index,
        sample.seed,
    )
    return replace(sample, text=text)


Measurements = Mapping[tuple[str, str], tuple[SeedCounts, ...]]
"""(benchmark, policy's label) -> one measurement per evaluation seed."""


def measure(
    policies: Sequence[PolicySamples],
    benchmarks: Sequence[Benchmark],
    config: SageConfig,
    progress: Progress,
) -> Measurements:
    """Measure every policy on every benchmark with every seed; a policy is loaded at most once.

    What is stored among its samples is neither sampled nor graded again. Raises
    RefusedPromptsError where prompts could not be answered, after all others.
    """
    measured: dict[tuple[str, str], tuple[SeedCounts, ...]] = {}
    refused: dict[str, str] = {}
    evaluation = config.evaluation
    seeds = range(evaluation.seed, evaluation.seed + evaluation.seeds)
    with ExitStack() as open_graders:
        graders = [  # kept for all policies: their workers take a second to start
            open_graders.enter_context(benchmark.grader(config.grading, config.prompt))
            for benchmark in benchmarks
        ]
        for samples in policies:
            with PolicySampler(samples, config.sampling, progress) as sampler:
                for benchmark, grader in zip(benchmarks, graders, strict=True):
                    by_seed = []
                    for seed in seeds:
                        try:
                            by_seed.append(
                                _measure_seed(sampler, benchmark, grader, seed, evaluation.samples)
                            )
                        except RefusedPromptsError as error:
                            refused |= error.reasons
                    measured[benchmark.name, sampler.label] = tuple(by_seed)
    if refused:
        raise RefusedPromptsError(refused)
    labels = [samples.policy.label for samples in policies]
    return {(b.name, label): measured[b.name, label] for b in benchmarks for label in labels}


def _measure_seed(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> SeedCounts:
    """Fill a sample set, grade it as far as it isn't, and count it."""
    samples = sampler.samples.at(seed)
    grades = sample_and_grade(sampler, benchmark, grader, seed, n)
    tally = grades.tally(list(benchmark.golds), n)
    if tally.lacking:
        raise StoreError(
            f"{tally.lacking} samples of {samples.folder} have no grade: another process is "
            "changing the set",
            "run the same command again",
        )
    return seed_counts(sampler.label, benchmark.name, samples, tally)


def sample_and_grade(
    sampler: PolicySampler, benchmark: Benchmark, grader: Grader, seed: int, n: int
) -> GradeStore:
    """Sample and grade what a sample set lacks, and return its grades."""
    grades = GradeStore(sampler.samples.at(seed), grader.identity.mapping())
    opened = sampler.samples.template.opened
    graded = partial(grade_rows, benchmark=benchmark, grader=grader, opened=opened)
    with ExitStack() as grading:
        with _BackgroundGrading(grades, graded) as background:
            sampler.sample(seed, benchmark.problems, n, background.submit)
            doing = sampler.progress.doing(f"grading {sampler.label} on {benchmark.name}")
            grading.enter_context(doing)
        for rows in grades.missing(benchmark.golds, n):
            _store(grades, rows, graded(rows))
        grades.flush()
    return grades


def grade_rows(
    rows: Sequence[Completion], benchmark: Benchmark, grader: Grader, opened: str | None
) -> list[Grade]:
    """The grades of a benchmark's completions; `opened` is the template's."""
    return grader.grade_many(
        [(benchmark.golds[row.problem_id], f"{opened or ''}{row.text}") for row in rows],
        [benchmark.questions[row.problem_id] for row in rows],
    )


def _store(store: GradeStore, rows: Sequence[Completion], grades: Sequence[Grade]) -> None:
    graded = zip(rows, grades, strict=True)
    store.add([(row, grade.status, grade.extracted) for row, grade in graded])


class _BackgroundGrading:
    """Grades completions in a thread while others are sampled, and stores the grades."""

    def __init__(
        self, grades: GradeStore, graded: Callable[[list[Completion]], list[Grade]]
    ) -> None:
        self._grades, self._graded = grades, graded
        self._pending: deque[tuple[list[Completion], Future[list[Grade]]]] = deque()
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> _BackgroundGrading:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        while self._pending:
            self._store_first()
        self._grades.flush()

    def submit(self, rows: list[Completion]) -> None:
        """Grade `rows` too. An error in the thread is raised by a later call or at the end."""
        future = self._thread.submit(self._graded, rows)
        self._pending.append((rows, future))
        while self._pending and self._pending[0][1].done():
            self._store_first()

    def _store_first(self) -> None:
        rows, future = self._pending.popleft()
        _store(self._grades, rows, future.result())
